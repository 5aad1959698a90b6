"""The check that the data directory still lies where this spawner was started for it. One that was moved or deleted
must not be made anew at its old path: whoever moved it starts a node at the new one, whose spawner adopts what runs.

A disk says many things for a moment (a parent that is mounted anew, a server that fails over), and a spawner that
goes costs the exit codes of all that runs. So a directory counts as gone only after it was looked for several times.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from diana.adapters.lrm.spawner.identity import boot_s

LOOKS = 5
CERTAIN_S = 2.0
"""Seconds over which a directory must be missed, at `LOOKS` looks on end, to count as moved or deleted."""
_AGAIN_S = 0.25


class NotInPlace(OSError):
    """The loss of the directory, on one line: which directory, and what became of it."""


class Place:
    """The place of the spawner's own folder, looked at before anything is made by its path."""

    def __init__(self, folder: Path, clock_s: Callable[[], float] = boot_s) -> None:
        self._path = os.fspath(folder)
        self._fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        there = os.fstat(self._fd)
        self._identity = there.st_dev, there.st_ino
        self._counts_links = there.st_nlink > 0
        self._clock_s = clock_s
        self._missed = 0
        self._missed_since_s = 0.0
        self.again_s = 0.0
        """Time of the next look, by the clock, while in doubt; else 0."""

    def look(self) -> bool:
        """True: it is in its place. False: nobody knows just now, and nothing may be made by its path. NotInPlace
        when it is certainly gone. Costs one look at the path, in doubt one every quarter of a second."""
        now_s = self._clock_s()
        if now_s < self.again_s:
            return False
        try:
            there = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self._miss(now_s, "")
        except OSError as fault:
            # Such an error does not say where it lies.
            self._doubt(now_s, fault.strerror or str(fault))
            self._missed = 0
        else:
            if (there.st_dev, there.st_ino) == self._identity:
                if self.again_s:
                    self._say("in its place again")
                self._missed, self.again_s = 0, 0.0
                return True
            self._miss(now_s, ", and another lies in its place")
        return False

    @property
    def deleted(self) -> bool:
        """True if the folder was deleted, so that nobody will ever start a spawner on it again. Never where the file
        system counts no links."""
        try:
            return self._counts_links and os.fstat(self._fd).st_nlink == 0
        except OSError:
            return False

    def _miss(self, now_s: float, besides: str) -> None:
        if not self._missed:
            self._missed_since_s = now_s
        self._missed += 1
        if self._missed >= LOOKS and now_s - self._missed_since_s >= CERTAIN_S:
            fate = "deleted" if self.deleted else "moved"
            raise NotInPlace(f"{self._path}: the data directory was {fate}{besides}")
        self._doubt(now_s, f"not there{besides}")

    def _doubt(self, now_s: float, what: str) -> None:
        if not self.again_s:
            self._say(f"{what}; nothing is started until it is seen again")
        self.again_s = now_s + _AGAIN_S

    def _say(self, what: str) -> None:
        print(f"{self._path}: {what}", file=sys.stderr, flush=True)
