"""Finds the spawner of a data directory or starts one. Used before the node imports grpc, and again if it dies."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

import diana
from diana.adapters.lrm.spawner.server import reachable
from diana.errors import DianaError
from diana.model.layout import DataDir

_START_WAIT_S = 15.0
_POLL_S = 0.01


def connect(data: DataDir) -> socket.socket | None:
    """A socket to the living spawner, None if there is none. Blocks for no longer than a local connect."""
    if not data.spawner.is_dir():
        return None
    address, fd = reachable(data.spawner)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(address)
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        return None
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(fd)
    return sock


def ensure(data: DataDir) -> socket.socket:
    """A socket to the spawner, started if none lives. Blocks up to 15 s; DianaError says why there is none."""
    found = connect(data)
    if found is not None:
        return found
    # Its folder alone: a data directory that was moved or deleted is not made anew.
    data.spawner.mkdir(mode=0o700, exist_ok=True)
    _start(data)
    by_s = time.monotonic() + _START_WAIT_S
    while time.monotonic() < by_s:
        found = connect(data)
        if found is not None:
            return found
        time.sleep(_POLL_S)
    raise DianaError(f"{data.spawner}: the spawner does not come up: {_last_line(data.spawner / 'spawner.log')}")


def _start(data: DataDir) -> None:
    """Starts a process that detaches itself; if another spawner holds the lock, it goes away again."""
    root = str(Path(diana.__file__).resolve().parent.parent)
    environment = dict(os.environ)
    environment["PYTHONPATH"] = root
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", "diana.adapters.lrm.spawner", str(data.root.resolve())],
        environment,
        setsid=True,
    )
    os.waitpid(pid, 0)


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it left no message; is this Python able to import diana?"
