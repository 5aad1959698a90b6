"""Log segments: one growing file per (group, slot) instead of a file per job, which would cost more than the job.

A slot runs one job at a time, so a job's output is one stretch of its slot's segment. A segment that has reached
its size takes no further job; the next one gets a new segment.
"""

from __future__ import annotations

import os
from pathlib import Path

from diana.adapters.lrm.spawner.capped import close_up
from diana.model.ids import MAIN_MACHINE

SEGMENT_BYTES = 64 << 20
_OPEN_MOST = 256


class Segment:
    """`name` is relative to the logs root. Every descriptor appends, so the file may be cut back while a job writes."""

    __slots__ = ("actions", "fd", "lent_to", "name", "size_bytes", "users")

    def __init__(self, name: str, fd: int, null_fd: int) -> None:
        self.name = name
        self.fd = fd
        self.size_bytes = os.fstat(fd).st_size
        self.users = 0
        self.lent_to = ""
        """Account besides ours that may open it."""
        self.actions = (
            (os.POSIX_SPAWN_DUP2, null_fd, 0),
            (os.POSIX_SPAWN_DUP2, fd, 1),
            (os.POSIX_SPAWN_DUP2, fd, 2),
        )
        """Actions of posix_spawn on descriptors for a job that logs here."""

    def close_stretch(self, offset: int, limit: int) -> tuple[int, bool]:
        """Close the log of a job that ended; return its length and True if something of it was left out, which a line
        in it says. OSError."""
        length, cut = close_up(self.fd, offset, limit)
        self.size_bytes = offset + length
        return length, cut


class Segments:
    def __init__(self, logs_root: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._root = logs_root
        self._segment_bytes = segment_bytes
        self._null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._open: dict[tuple[str, int], Segment] = {}
        self._prefix = ""

    def of_machine(self, machine: str) -> None:
        """Begin this machine's segments from now on under its name. Facts outlive the machine that leads the site,
        and no two of its machines may call different files the same."""
        self._prefix = "" if machine in ("", MAIN_MACHINE) else f"{machine}."

    def at(self, group: str, slot: int) -> Segment:
        """Return the segment that the next job of `group` in `slot` writes to; OSError when it cannot be made."""
        found = self._open.get((group, slot))
        # Its file goes with the last part of the group here, and another part may come.
        if found is not None and found.size_bytes < self._segment_bytes and os.fstat(found.fd).st_nlink:
            return found
        folder = self._root / group
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = self._last(folder, slot)
        if number and (folder / f"{self._prefix}{slot}-{number}.log").stat().st_size >= self._segment_bytes:
            number += 1
        if found is not None:
            os.close(found.fd)
        return self._keep(group, slot, f"{group}/{self._prefix}{slot}-{number or 1}.log")

    def named(self, name: str, group: str, slot: int) -> Segment:
        """Return the very segment that an earlier spawner gave to a job that still runs."""
        return self._keep(group, slot, name)

    def _keep(self, group: str, slot: int, name: str) -> Segment:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        segment = Segment(name, os.open(self._root / name, flags, 0o600), self._null)
        self._open.pop((group, slot), None)
        self._open[group, slot] = segment
        if len(self._open) > _OPEN_MOST:
            self._close_idle()
        return segment

    def _close_idle(self) -> None:
        for key, segment in list(self._open.items())[:-1]:
            if len(self._open) <= _OPEN_MOST // 2:
                break
            if segment.users == 0:
                del self._open[key]
                os.close(segment.fd)

    def _last(self, folder: Path, slot: int) -> int:
        numbers = [0]
        for name in os.listdir(folder):
            head, _, tail = name.rpartition("-")
            number, _, kind = tail.partition(".")
            if head == f"{self._prefix}{slot}" and kind == "log" and number.isdecimal():
                numbers.append(int(number))
        return max(numbers)

    @property
    def null(self) -> int:
        return self._null
