"""Joining with real nodes: invite, join, renew (SPEC U1)."""

from __future__ import annotations

import os
import shutil
import time

import msgspec
import pytest

from diana.adapters.trust import certificates
from diana.node.config.site_file import Trust, load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Starts, outcomes, until
from tests.real.joining import audited, first, invited, joined, shorten


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
        assert set(outcomes(client, group).values()) == {"done"}
    assert any(line["action"] == "sign" and line["target"] == "site delta" for line in audited(beta) + audited(gamma))


def test_a_signer_renews_for_itself_also_after_it_was_off_for_too_long(grid: Grid) -> None:
    alpha = grid.add("alpha", own_vo=True)
    config = load_config(alpha.paths.config)
    write_config(alpha.paths.config, msgspec.structs.replace(config, trust=Trust(leaf_days=9.0 / 86_400.0)))
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

    credential = grid.root / "ann"
    done = grid.run(alpha, "join", invited(grid, alpha, "--user", "ann"), "--out", str(credential))
    assert done.returncode == 0, done.stderr
    seen = grid.run(alpha, "status", "--credential", str(credential))
    assert seen.returncode == 0, seen.stderr
    assert os.stat(credential).st_mode & 0o777 == 0o700


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
