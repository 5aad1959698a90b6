"""Finds the files below a folder that others filled: by a pattern, no link followed, and not without bounds."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager
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


class _Search:
    def __init__(self, pattern: Pattern, most: int, without: Container[str]) -> None:
        self._pattern = pattern
        self._most = most
        self._without = without
        self._seen = 0
        self.found = FoundFiles([], [])

    def walk(self, at: int, above: str, state: State, depth: int) -> None:
        if depth > MOST_DEEP:
            raise TooMuch(f"{MOST_DEEP} folders within each other")
        with os.scandir(at) as entries:
            for entry in entries:
                self._seen += 1
                if self._seen > MOST_SEEN:
                    raise TooMuch(f"{MOST_SEEN} files and folders")
                below, path = self._pattern.step(state, entry.name), f"{above}{entry.name}"
                if not below or path in self._without:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    with _opened(at, entry.name) as folder:
                        self.walk(folder, f"{path}/", below, depth + 1)
                elif self._pattern.finds(below):
                    self._add(path, entry)

    def _add(self, path: str, entry: os.DirEntry[str]) -> None:
        is_file = stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode)
        (self.found.paths if is_file else self.found.others).append(path)
        if len(self.found.paths) > self._most:
            raise TooMuch(f"{self._most} files")


@contextmanager
def _opened(at: int, name: str) -> Iterator[int]:
    folder = os.open(name, _FOLDER, dir_fd=at)
    try:
        yield folder
    finally:
        os.close(folder)


def find(root: Path, pattern: Pattern, most: int, without: Container[str] = ()) -> FoundFiles:
    """Return what the pattern finds below `root`, sorted, but for these paths and what lies below them. TooMuch,
    OSError; FileNotFoundError: there is no `root`."""
    search = _Search(pattern, most, without)
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        search.walk(at, "", pattern.start(), 0)
    finally:
        os.close(at)
    return FoundFiles(*map(sorted, search.found))
