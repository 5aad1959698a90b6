"""Processes that belong to one ground: found by a mark in their environment, ended by their ids."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from diana.errors import Unreachable

MARK = "DIANA_TRIAL"
GONE_S = 5.0


def marked(entry: str) -> list[int]:
    """Living processes that were given exactly this environment entry; one that ends in a colon is a beginning."""
    wanted = b"\0" + entry.encode() + (b"" if entry.endswith(":") else b"\0")
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                given = b"\0" + Path(f"/proc/{name}/environ").read_bytes() + b"\0"
                if wanted in given and is_alive(int(name)):
                    found.append(int(name))
    return sorted(found)


def of_data(data: Path) -> list[int]:
    """Jobs started from this data directory, by any of its spawners."""
    with suppress(FileNotFoundError):
        folder = os.stat(data / "spawner")
        return marked(f"DIANA_RUN={folder.st_dev}-{folder.st_ino}:")
    return []


def is_alive(pid: int) -> bool:
    """True if the process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_all(entries: Iterable[str], folders: Iterable[Path]) -> None:
    """SIGKILL to all of them, and to what they start meanwhile. Unreachable names what would not end."""
    entries, folders = list(entries), list(folders)
    end = time.monotonic() + GONE_S
    while True:
        living = [pid for entry in entries for pid in marked(entry)]
        living += [pid for folder in folders for pid in of_data(folder)]
        if not living:
            return
        if time.monotonic() > end:
            raise Unreachable(f"processes {', '.join(map(str, living))} do not end; end them by hand")
        send(living, signal.SIGKILL)
        time.sleep(0.02)
