"""Tokens of invitations that are given where `ps` does not show them: standard input, a file, the environment."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from diana.cli import main as cli
from diana.cli.sites import join as invites
from diana.cli.sites.given_tokens import MOST_BYTES
from diana.wire.client.enrol import InviteResponse
from tests.node.enrol.test_join_here import NOBODY, token

JOIN = [sys.executable, "-m", "diana.cli", "join"]


def test_a_token_comes_from_standard_input_a_file_or_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads it asks the inviter, who is away."""
    monkeypatch.setenv("THE_TOKEN", token())
    (tmp_path / "token").write_text(f"\n  {token()} \nsome more\n")
    data = ["--data", str(tmp_path / "b")]
    for word in (f"@{tmp_path}/token", "env:THE_TOKEN", token()):
        assert cli.main(["join", word, "beta", *data]) == 4, word
        assert f"{NOBODY}: nothing listens there" in capsys.readouterr().err
    done = subprocess.run(
        [*JOIN, "-", "beta", *data], input=f"{token()}\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 4 and f"{NOBODY}: nothing listens there" in done.stderr, done.stderr
    member = token("member")
    monkeypatch.setenv("OTHER", member)
    assert cli.main(["join", "env:OTHER", "m1", "--or", "env:THE_TOKEN", *data]) == 2
    assert "the invitation of alpha is for a site" in capsys.readouterr().err


def test_what_invite_prints_is_typed_without_the_token_in_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newcomer's terminal asks for it, and does not show it."""
    made = InviteResponse(token(), "site", "beta", "alpha-vo", "alpha", ("10.0.0.1:7400",), time.time() + 60)
    node = SimpleNamespace(invite=lambda *_, **__: made)
    monkeypatch.setattr(invites, "client", lambda _: nullcontext(node))
    assert cli.main(["invite", "--site", "beta"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    (typed,) = (line for line in lines if line.startswith("diana "))
    assert made.token in lines and made.token not in typed
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [*JOIN[:-1], *typed.split()[1:], "--data", str(tmp_path / "b")])
    asked = _until(terminal, b"token: ")
    os.write(terminal, f"{made.token}\n".encode())
    told = _until(terminal, b"nothing listens there")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4
    os.close(terminal)
    assert made.token.encode() not in asked + told


def _until(terminal: int, words: bytes) -> bytes:
    told = b""
    while words not in told:
        told += os.read(terminal, 4096)
    return told


@pytest.mark.parametrize(
    ("word", "content", "says"),
    [
        ("@{0}/none", b"", "No such file or directory; name the file that holds what diana invite printed"),
        ("@{0}", b"", "Is a directory"),
        ("@", b"", "name the file"),
        ("@a\0b", b"", "null byte"),
        ("@{0}/given", b" \n\n", "given holds none; put there what diana invite printed"),
        ("@{0}/given", b"\xff\0" * MOST_BYTES, "no token of diana's"),
        ("@/dev/zero", b"", "no token of diana's"),
        ("env:NO_SUCH", b"", "variable NO_SUCH holds none"),
        ("env:", b"", "variable ? holds none"),
        ("env:A=B", b"", "variable A=B holds none"),
    ],
)
def test_what_holds_no_token_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str, content: bytes, says: str
) -> None:
    (tmp_path / "given").write_bytes(content)
    assert cli.main(["join", word.replace("{0}", str(tmp_path)), "beta", "--data", str(tmp_path / "b")]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
    assert not (tmp_path / "b").exists()
