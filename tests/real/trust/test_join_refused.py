"""Invitations that are worth nothing any more, or never were: what the joiner is told in one line (SPEC U1)."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from diana.node.enrol import tokens
from tests.e2e.grid import Grid, Site, free_port, timely
from tests.real.joining import audited, first, invited, planned, refused


def test_a_token_is_good_once_and_for_its_time_and_kind(grid: Grid) -> None:
    alpha = first(grid)
    token = invited(grid, alpha, "--site", "beta")
    assert "this invitation is for site beta, not gamma" in refused(grid, alpha, "join", token, "gamma")
    # A slip here costs no invitation.
    assert "listens there" in refused(grid, alpha, "join", token, "beta", "--listen", alpha.address)
    beta = planned(grid, "beta")
    done = grid.run(alpha, "join", token, "--data", str(beta.data), "--listen", beta.address)
    assert done.returncode == 0, done.stderr
    assert "used already" in refused(grid, alpha, "join", token, "beta")

    short = invited(grid, alpha, "--for", "1s")
    time.sleep(1.1)
    assert "expired" in refused(grid, alpha, "join", short, "gamma")

    assert "that name is taken" in refused(grid, alpha, "join", invited(grid, alpha), "alpha")
    assert "that name is taken" in refused(grid, alpha, "join", invited(grid, alpha), "beta")
    assert "name it: diana join - NAME" in refused(grid, alpha, "join", invited(grid, alpha))
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
        took_s = time.monotonic() - began
        assert took_s >= 5.0
        timely(took_s, 15, "the refusal")
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
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


def test_what_cannot_be_invited_is_refused_at_once(grid: Grid) -> None:
    alpha = first(grid)
    for words in (("--site", "Beta!"), ("--member", "main"), ("--user", "-"), ("--for", "99d"), ("--at", "nowhere")):
        done = grid.run(alpha, "invite", "--data", str(alpha.data), *words)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    done = grid.run(alpha, "invite", "--data", str(alpha.data), "--list", "--json")
    assert done.stdout.strip() == "[]", done
