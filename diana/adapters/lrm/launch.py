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
_AGAIN_S = 3.0
_POLL_S = 0.01
_LEAST_BYTES = 64 << 10
"""Free bytes of the disk below which it counts as full: a spawner then cannot even say what it lacks, and its last
words are of another time."""


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


def ensure(data: DataDir, *, anew: bool = True) -> socket.socket:
    """A socket to the spawner, started if none lives. Blocks up to 15 s; DianaError says why there is none. `anew`:
    its folder may be made; a running node's was there, and one that is gone was deleted."""
    found = connect(data)
    if found is not None:
        return found
    # Its folder alone: a data directory that was moved or deleted is not made anew.
    if anew:
        data.spawner.mkdir(mode=0o700, exist_ok=True)
    elif not data.spawner.is_dir():
        raise DianaError(f"{data.spawner}: is gone; no spawner is started in another")
    _start(data)
    begun_s = started_s = time.monotonic()
    while (now_s := time.monotonic()) < begun_s + _START_WAIT_S:
        found = connect(data)
        if found is not None:
            return found
        if now_s > started_s + _AGAIN_S:
            # It may have been killed, or have found no room for its log.
            started_s = now_s
            _start(data)
        time.sleep(_POLL_S)
    raise DianaError(f"{data.spawner}: the spawner does not come up: {_last_words(data.spawner)}")


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


def _is_full(folder: Path) -> bool:
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < _LEAST_BYTES


def _last_words(folder: Path) -> str:
    if _is_full(folder):
        return "the disk is full; free space there"
    try:
        lines = (folder / "spawner.log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it left no message; is it stopped, or is this Python not able to import diana?"
