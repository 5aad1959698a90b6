"""Joining with real nodes: invite, join, renew, and what is refused on the way (SPEC U1)."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from diana.adapters import certificates
from diana.model.layout import DataDir
from diana.node.config import Trust, load_config
from diana.node.config_text import write_config
from diana.node.enrol import tokens
from diana.node.enrol.machine import machine_renewal
from tests.e2e.grid import Grid, Site, Starts, free_port, outcomes, until


def planned(grid: Grid, name: str) -> Site:
    """A site that is yet to join."""
    site = Site(name, grid.root / name, free_port(), grid.mark)
    grid.sites[name] = site
    return site


def first(grid: Grid, name: str = "alpha", slots: int = 2) -> Site:
    site = grid.add(name, slots=slots, own_vo=True)
    site.start()
    return site


def invited(grid: Grid, inviter: Site, *words: str) -> str:
    done = grid.run(inviter, "invite", "--data", str(inviter.data), "--json", *words)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["token"])


def joined(grid: Grid, inviter: Site, name: str, slots: int = 2) -> Site:
    site = planned(grid, name)
    token = invited(grid, inviter)
    done = grid.run(
        inviter, "join", token, name, "--data", str(site.data), "--listen", site.address, "--slots", str(slots)
    )
    assert done.returncode == 0, done.stderr
    return site


def refused(grid: Grid, site: Site, *words: str, code: int = 2) -> str:
    """The one line on standard error; nothing was made."""
    data = grid.root / "refused"
    done = grid.run(site, *words, "--data", str(data))
    assert (done.returncode, done.stdout) == (code, ""), done.stdout + done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("diana: "), done.stderr
    assert not data.exists()
    return done.stderr


def audited(site: Site) -> list[dict[str, str]]:
    return [json.loads(line) for line in site.paths.audit.read_text().splitlines()]


def test_three_sites_join_and_a_fourth_and_renewals_do_without_the_first(grid: Grid, starts: Starts) -> None:
    """SPEC U1: the first three are signers, so that losing the first site loses nothing."""
    alpha = first(grid)
    beta = joined(grid, alpha, "beta")
    beta.start()
    gamma = joined(grid, alpha, "gamma")
    gamma.start()
    grid.meet()
    with alpha.client() as client:
        group = client.submit(starts.job(30, then=("sleep", "0.2"))).group
        assert client.wait(group, 60).done == 30
    assert starts.sites() == {"alpha", "beta", "gamma"}
    assert [(s.paths.keys / "signer.key").is_file() for s in (alpha, beta, gamma)] == [True] * 3

    assert alpha.terminate() == 0
    shutil.rmtree(alpha.data)
    del grid.sites["alpha"]
    delta = joined(grid, beta, "delta")
    assert not (delta.paths.keys / "signer.key").exists()
    shorten(delta, beta, life_s=16.0)
    before = certificates.dates_of_chain((delta.paths.keys / "site.pem").read_bytes())
    delta.start()
    grid.meet()

    def renewed() -> bool:
        dates = certificates.dates_of_chain((delta.paths.keys / "site.pem").read_bytes())
        return dates.until_s > before.until_s + 3600

    until(renewed, lambda: f"delta's certificate was renewed\n{delta.story()}", 20)
    with delta.client() as client:
        group = client.submit(starts.job(6)).group
        assert client.wait(group, 60).done == 6
        assert set(outcomes(client, group).values()) == {"DONE"}
    assert any(line["action"] == "sign" and line["target"] == "site delta" for line in audited(beta) + audited(gamma))


def shorten(site: Site, signer: Site, life_s: float) -> None:
    """Give a site a certificate of so short a life, with the key it has."""
    keys = DataDir(site.data).keys
    certificates.issue_site(signer.paths.keys, site.name, keys, valid_days=life_s / 86_400.0)


def test_a_signer_renews_for_itself_also_after_it_was_off_for_too_long(grid: Grid) -> None:
    alpha = grid.add("alpha", own_vo=True)
    config = load_config(alpha.paths.config)
    write_config(alpha.paths.config, msgspec.structs.replace(config, trust=Trust(leaf_days=12.0 / 86_400.0)))
    certificates.issue_site(
        alpha.paths.keys, "alpha", alpha.paths.keys, valid_days=1.0, wall_s=time.time() - 3 * 86_400.0
    )
    alpha.start()
    path = alpha.paths.keys / "site.pem"
    seen = {path.read_bytes()}

    def several() -> bool:
        seen.add(path.read_bytes())
        return len(seen) >= 3

    until(several, lambda: f"renewed twice\n{alpha.story()}", 25, 0.2)
    # Who learns its certificate from the port gets the newest.
    beta = joined(grid, alpha, "beta")
    assert beta.paths.config.is_file()


def test_a_site_whose_certificate_ran_out_is_invited_again_and_keeps_its_state(grid: Grid) -> None:
    alpha = first(grid)
    beta = joined(grid, alpha, "beta")
    beta.start()
    with beta.client() as client:
        uuid = client.info().db_uuid
    grid.meet()
    assert beta.terminate() == 0
    certificates.issue_site(
        alpha.paths.keys, "beta", beta.paths.keys, valid_days=1.0, wall_s=time.time() - 30 * 86_400.0
    )
    # The VO has three signers in the meantime, say: this one cannot help itself.
    for name in ("signer.key", "signer.pem"):
        (beta.paths.keys / name).unlink()
    done = grid.run(beta, "node", "--data", str(beta.data))
    assert (
        done.returncode == 2
        and "ran out 29.0 days ago; at a site of the VO say diana invite --site beta" in done.stderr
    )
    taken = grid.run(alpha, "invite", "--data", str(alpha.data), "--site", "beta")
    assert taken.returncode == 2 and "site beta: that name is taken" in taken.stderr
    token = invited(grid, alpha, "--site", "beta", "--again")
    done = grid.run(beta, "join", token, "--data", str(beta.data))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"new certificate for {beta.data}, signed by alpha")
    beta.start()
    grid.meet()
    with beta.client() as client:
        assert client.info().db_uuid == uuid


def test_members_standbys_and_users_join_with_tokens_of_their_kind(grid: Grid) -> None:
    alpha = first(grid)
    machine = grid.root / "m2"
    done = grid.run(alpha, "join", invited(grid, alpha, "--member", "m2"), "--data", str(machine), "--slots", "3")
    assert done.returncode == 0, done.stderr
    config = load_config(machine / "site.toml")
    assert (config.site, config.role, config.machine, config.root) == ("alpha", "member", "m2", (alpha.address,))
    chain = (machine / "keys" / "member.pem").read_bytes()
    root = (alpha.paths.keys / "vo.pem").read_bytes()
    assert certificates.verify_chain(chain, root) == ("member", "alpha/m2", "alpha-vo")

    standby = grid.root / "s1"
    done = grid.run(alpha, "join", invited(grid, alpha, "--standby"), "s1", "--data", str(standby))
    assert done.returncode == 0, done.stderr
    config = load_config(standby / "site.toml")
    assert (config.site, config.role, config.machine) == ("alpha", "standby", "s1")
    assert certificates.verify_chain((standby / "keys" / "site.pem").read_bytes(), root) == (
        "site",
        "alpha",
        "alpha-vo",
    )
    assert (standby / "keys" / "signer.key").is_file()
    # A standby that is no signer asks whoever leads its site.
    for name in ("signer.key", "signer.pem"):
        (standby / "keys" / name).unlink()
    before = (standby / "keys" / "site.pem").read_bytes()
    asyncio.run(machine_renewal(DataDir(standby), config).renew())
    after = (standby / "keys" / "site.pem").read_bytes()
    assert after != before and certificates.verify_chain(after, root) == ("site", "alpha", "alpha-vo")

    credential = grid.root / "ann"
    done = grid.run(alpha, "join", invited(grid, alpha, "--user", "ann"), "--out", str(credential))
    assert done.returncode == 0, done.stderr
    seen = grid.run(alpha, "status", "--credential", str(credential))
    assert seen.returncode == 0, seen.stderr
    assert os.stat(credential).st_mode & 0o777 == 0o700


def test_a_token_is_good_once_and_for_its_time_and_kind(grid: Grid) -> None:
    alpha = first(grid)
    token = invited(grid, alpha, "--site", "beta")
    assert "this invitation is for site beta, not gamma" in refused(grid, alpha, "join", token, "gamma")
    beta = planned(grid, "beta")
    done = grid.run(alpha, "join", token, "--data", str(beta.data), "--listen", beta.address)
    assert done.returncode == 0, done.stderr
    assert "used already" in refused(grid, alpha, "join", token, "beta")

    short = invited(grid, alpha, "--for", "1s")
    time.sleep(1.1)
    assert "expired" in refused(grid, alpha, "join", short, "gamma")

    assert "that name is taken" in refused(grid, alpha, "join", invited(grid, alpha), "alpha")
    assert "that name is taken" in refused(grid, alpha, "join", invited(grid, alpha), "beta")
    assert "name it: diana join TOKEN NAME" in refused(grid, alpha, "join", invited(grid, alpha))
    used = grid.run(alpha, "join", invited(grid, alpha), "gamma", "--data", str(beta.data))
    assert used.returncode == 2 and "initialised already" in used.stderr

    denied = [line for line in audited(alpha) if line["action"] == "join" and line["decision"] == "denied"]
    assert len(denied) == 6
    assert all(line["reason"] for line in denied)


def test_garbage_and_foreign_tokens_are_refused_in_one_line(grid: Grid) -> None:
    alpha = first(grid)
    other = grid.add("omega", own_vo=True)
    other.start()
    token = invited(grid, alpha)
    assert "no token of diana's" in refused(grid, alpha, "join", "what?", "beta")
    assert "incomplete or changed" in refused(grid, alpha, "join", token[:-7], "beta")
    assert "incomplete or changed" in refused(grid, alpha, "join", token[:40] + "AA" + token[42:], "beta")

    known = tokens.decode(token)
    elsewhere = tokens.encode(msgspec.structs.replace(known, addresses=(other.address,)))
    assert "a node of VO omega-vo answers" in refused(grid, alpha, "join", elsewhere, "beta")
    # The right names, but another secret: a token of a VO that was made anew under its old name, say.
    strange = tokens.encode(msgspec.structs.replace(known, seed=b"x" * 16))
    assert "knows no such invitation" in refused(grid, alpha, "join", strange, "beta")
    # Somebody in between with another root.
    wrong = tokens.encode(msgspec.structs.replace(known, fingerprint=b"y" * 16))
    assert "its root certificate is another" in refused(grid, alpha, "join", wrong, "beta")


@contextmanager
def web_server() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_what_is_not_diana_is_told_from_what_does_not_answer(grid: Grid) -> None:
    alpha = first(grid)
    known = tokens.decode(invited(grid, alpha))

    def pointing(address: str) -> str:
        return tokens.encode(msgspec.structs.replace(known, addresses=(address,)))

    with web_server() as address:
        assert "not diana" in refused(grid, alpha, "join", pointing(address), "beta")
    closed = f"127.0.0.1:{free_port()}"
    assert "nothing listens there" in refused(grid, alpha, "join", pointing(closed), "beta", code=4)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        assert "no answer within 5 s" in refused(grid, alpha, "join", pointing(address), "beta", code=4)
        assert time.monotonic() - began < 15
    # The second address of a token is tried when the first is dead.
    both = tokens.encode(msgspec.structs.replace(known, addresses=(closed, alpha.address)))
    beta = planned(grid, "beta")
    done = grid.run(alpha, "join", both, "beta", "--data", str(beta.data), "--listen", beta.address)
    assert done.returncode == 0, done.stderr


def test_a_clock_that_is_an_hour_off_is_said_and_the_invitation_stays_good(grid: Grid) -> None:
    alpha = first(grid)
    token = invited(grid, alpha)
    data = grid.root / "refused"
    for off_s, words in ((3600.0, "60 minutes ahead of"), (-3600.0, "set this machine's clock")):
        done = run_with_clock(grid, alpha, off_s, "join", token, "beta", "--data", str(data))
        assert done[0] == 2 and words in done[1], done
        assert not data.exists()
    beta = planned(grid, "beta")
    done_at_last = grid.run(alpha, "join", token, "beta", "--data", str(beta.data), "--listen", beta.address)
    assert done_at_last.returncode == 0, done_at_last.stderr


def run_with_clock(grid: Grid, site: Site, off_s: float, *words: str) -> tuple[int, str]:
    """A command in a process whose clock is off: Python's own, not that of gRPC's TLS library."""
    import subprocess
    import sys

    program = (
        "import datetime, sys, time\n"
        f"real = time.time\ntime.time = lambda: real() + {off_s}\n"
        "class Off(datetime.datetime):\n"
        "    @classmethod\n"
        "    def now(cls, tz=None):\n"
        "        return cls.fromtimestamp(time.time(), tz)\n"
        "datetime.datetime = Off\n"
        "from diana.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        env=site.environment(),
        text=True,
        capture_output=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stderr


def test_what_cannot_be_invited_is_refused_at_once(grid: Grid) -> None:
    alpha = first(grid)
    for words in (("--site", "Beta!"), ("--member", "main"), ("--user", "-"), ("--for", "99d"), ("--at", "nowhere")):
        done = grid.run(alpha, "invite", "--data", str(alpha.data), *words)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert not (alpha.data / "invitations.json").exists()


def test_a_site_that_is_no_signer_invites_members_and_names_who_invites_sites(grid: Grid) -> None:
    alpha = first(grid)
    for name in ("beta", "gamma", "delta"):
        joined(grid, alpha, name)
    for name in ("beta", "gamma"):
        grid.sites.pop(name)
    delta = grid.sites["delta"]
    delta.start()
    grid.meet()
    no = grid.run(delta, "invite", "--data", str(delta.data))
    assert no.returncode == 2 and "invite at a signer: alpha, beta, gamma" in no.stderr
    machine = grid.root / "m2"
    done = grid.run(delta, "join", invited(grid, delta, "--member"), "m2", "--data", str(machine))
    assert done.returncode == 0, done.stderr
    root = (alpha.paths.keys / "vo.pem").read_bytes()
    found = certificates.verify_chain((machine / "keys" / "member.pem").read_bytes(), root)
    assert found == ("member", "delta/m2", "alpha-vo")

    # A user's certificate is renewed by use, here through a site that has to pass it on.
    ann = grid.root / "ann"
    done = grid.run(alpha, "join", invited(grid, alpha, "--user", "ann"), "--out", str(ann))
    assert done.returncode == 0, done.stderr
    certificates.issue_user(alpha.paths.keys, "ann", ann, valid_days=90.0, wall_s=time.time() - 50 * 86_400.0)
    before = certificates.dates_of_chain((ann / "user.pem").read_bytes())
    table = (ann / "credential.toml").read_text().replace('alpha"', 'delta"').replace(alpha.address, delta.address)
    (ann / "credential.toml").write_text(table)
    done = grid.run(delta, "status", "--credential", str(ann))
    assert done.returncode == 0, done.stderr
    after = certificates.dates_of_chain((ann / "user.pem").read_bytes())
    assert after.until_s - before.until_s == pytest.approx(50 * 86_400.0, abs=60)
    assert grid.run(delta, "status", "--credential", str(ann)).returncode == 0
