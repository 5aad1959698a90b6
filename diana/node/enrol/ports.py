"""The port that a new site is to have, where nobody names one: free now, and not that of another site of this account,
whose node may be stopped, or has not begun."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from diana.bounds import MOST_NOTE_BYTES, MOST_TOML_BYTES, text_of
from diana.errors import UsageError
from diana.model.layout import DataDir

FIRST_PORT = 7400
_PORTS_TRIED = 100
KEPT_S = 120.0
"""Seconds for which a chosen port is kept for a site that is not made yet; then for as long as its site.toml names it.
"""


def free_port(host: str, data: Path) -> int:
    """Return the first port from `FIRST_PORT` on that nobody listens on, and that was not chosen for a site of this
    account in another folder than `data`; where all were, the first that nobody listens on. UsageError."""
    kept = _folder()
    free = [port for port in range(FIRST_PORT, FIRST_PORT + _PORTS_TRIED) if _can_bind(host, port)]
    for port in free:
        if kept is None or _keep(kept / f"{_network()}-{host}-{port}", data):
            return port
    if free:
        return free[0]
    shown = f"[{host}]" if ":" in host else host
    raise UsageError(f"no free port from {FIRST_PORT} on; choose one with --listen {shown}:PORT")


def _can_bind(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError:
            return False
    return True


def _folder() -> Path | None:
    """The folder of ports that are kept; None: there is none that is ours alone, and nothing is kept."""
    folder = Path(tempfile.gettempdir(), f"diana-ports-{os.getuid()}")
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
            return folder
    return None


def _network() -> int:
    """Number of the network namespace: each has all ports."""
    with suppress(OSError):
        return os.stat("/proc/self/ns/net").st_ino
    return 0


def _keep(note: Path, data: Path) -> bool:
    """Keep a port for the site in `data`; False: it is kept for another."""
    for _ in range(2):
        try:
            with note.open("x", encoding="utf-8") as file:
                file.write(str(data.absolute()))
            return True
        except FileExistsError:
            if _is_kept(note, data):
                return False
            note.unlink(missing_ok=True)
        except OSError:
            return True
    return False


def _is_kept(note: Path, data: Path) -> bool:
    try:
        other, age_s = Path(text_of(note, MOST_NOTE_BYTES)), time.time() - note.stat().st_mtime
    except (OSError, ValueError):
        return False
    if other == data.absolute():
        return False
    try:
        return f':{note.name.rpartition("-")[2]}"' in text_of(DataDir(other).config, MOST_TOML_BYTES)
    except (OSError, ValueError):
        return 0 <= age_s < KEPT_S and not os.path.exists(DataDir(other).journal)
