"""`diana node --detach`: the node as a process of its own, and the wait until it answers."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from diana.cli.shared import output
from diana.errors import DianaError, Unreachable, UsageError

WAIT_S = 60.0
"""Seconds until a node that neither ends nor answers is given up; it goes on."""
_LOOK_S = 0.1


def start(data: Path, words: Sequence[str]) -> int:
    """Start `diana node` with these words; return 0 once it answers, or its exit code with its last line."""
    if answers(data):
        raise UsageError(f"{data}: its node runs already; diana stop --data {data} ends it")
    out = data / "node.out"
    try:
        _put_aside(out)
        fd = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        mend = "make room there" if full else "name a data directory this account can write"
        raise UsageError(f"{out}: {error.strerror}; {mend}") from None
    with os.fdopen(fd, "wb") as file:
        before = file.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "diana.cli", "node", "--data", str(data.absolute()), *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    until_s = time.monotonic() + WAIT_S
    while time.monotonic() < until_s:
        code = process.poll()
        if code is not None:
            said = _last_line(out, before)
            print(said or f"diana: the node ended with exit code {code}; see {out}", file=sys.stderr)
            return code or 1
        if answers(data):
            output.say(f"the node runs, process {process.pid}; what it says is in {out}, diana stop ends it")
            return 0
        time.sleep(_LOOK_S)
    raise Unreachable(f"the node, process {process.pid}, does not answer yet; see {out}")


def _put_aside(out: Path) -> None:
    """Begin another file where what earlier nodes said has grown large."""
    from diana.node.node_log import MOST_BYTES

    with suppress(FileNotFoundError):
        if out.stat().st_size > MOST_BYTES:
            os.replace(out, out.with_name(f"{out.name}.1"))


def answers(data: Path) -> bool:
    """True where the node of this directory runs."""
    from diana.client import Client

    try:
        with Client(data=str(data)) as node:
            node.info()
    except (DianaError, OSError):
        return False
    return True


def _last_line(path: Path, start: int) -> str:
    with path.open("rb") as file:
        file.seek(start)
        lines = file.read(1 << 16).decode(errors="replace").strip().splitlines()
    return output.clean(lines[-1]) if lines else ""
