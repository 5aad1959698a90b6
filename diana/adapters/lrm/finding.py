"""Finds the files below a folder that others filled: by a pattern, no link followed, and not without bounds."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from diana.model.job.patterns import Pattern, State

MOST_SEEN = 200_000
"""Entries that are looked at for one pattern of one job."""
MOST_DEEP = 100
"""Folders within each other."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TooMuch(Exception):
    """What lies there is more than can be kept; text: what there is too much of."""


class FoundFiles(NamedTuple):
    paths: list[str]
    """Regular files, below the folder that was searched."""
    others: list[str]
    """Links, sockets, pipes and devices."""
    shut: list[str]
    """Folders that could not be read."""


PassedOver = Callable[[str, os.DirEntry[str]], bool]
"""True for a path that is not found, and is not searched if it is a folder."""


class _Search:
    def __init__(self, pattern: Pattern, most: int, passed_over: PassedOver) -> None:
        self._pattern = pattern
        self._most = most
        self._passed_over = passed_over
        self._seen = 0
        self.found = FoundFiles([], [], [])

    def walk(self, at: int, above: str, state: State, depth: int) -> None:
        if depth > MOST_DEEP:
            raise TooMuch(f"{MOST_DEEP} folders within each other")
        with os.scandir(at) as entries:
            for entry in entries:
                self._seen += 1
                if self._seen > MOST_SEEN:
                    raise TooMuch(f"{MOST_SEEN} files and folders")
                below, path = self._pattern.step(state, entry.name), f"{above}{entry.name}"
                # What goes while it is looked at is not there: whoever outlives the job may still be at work on it.
                with suppress(FileNotFoundError, NotADirectoryError):
                    if below and not self._passed_over(path, entry):
                        self._look(at, path, entry, below, depth)

    def _look(self, at: int, path: str, entry: os.DirEntry[str], below: State, depth: int) -> None:
        if entry.is_dir(follow_symlinks=False):
            try:
                folder = os.open(entry.name, _FOLDER, dir_fd=at)
            except PermissionError:
                self.found.shut.append(path)
                return
            try:
                self.walk(folder, f"{path}/", below, depth + 1)
            finally:
                os.close(folder)
        elif self._pattern.finds(below):
            self._add(path, entry)

    def _add(self, path: str, entry: os.DirEntry[str]) -> None:
        is_file = stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode)
        (self.found.paths if is_file else self.found.others).append(path)
        if len(self.found.paths) > self._most:
            raise TooMuch(f"{self._most} files")


def _all(path: str, entry: os.DirEntry[str]) -> bool:
    return False


def find(root: Path, pattern: Pattern, most: int, passed_over: PassedOver = _all) -> FoundFiles:
    """Return what the pattern finds below `root`, sorted, but for what is passed over. TooMuch, OSError;
    FileNotFoundError: there is no `root`."""
    search = _Search(pattern, most, passed_over)
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        search.walk(at, "", pattern.start(), 0)
    finally:
        os.close(at)
    return FoundFiles(*map(sorted, search.found))
