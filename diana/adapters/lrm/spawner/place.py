"""Whether the data directory still lies where this spawner was started for it. One that was moved or deleted under it
must not be made anew at its old path: whoever moved it starts a node at the new one, whose spawner adopts what runs.
"""

from __future__ import annotations

import os
from pathlib import Path


class NotInPlace(OSError):
    """One line: which directory, and what became of it."""


class Place:
    """Of the spawner's own folder, looked at before anything is made by its path."""

    def __init__(self, folder: Path) -> None:
        self._path = os.fspath(folder)
        self._fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        there = os.fstat(self._fd)
        self._identity = there.st_dev, there.st_ino

    def check(self) -> None:
        """NotInPlace. Costs one look at the path."""
        try:
            there = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            raise NotInPlace(f"{self._path}: {self._fate()}") from None
        if (there.st_dev, there.st_ino) != self._identity:
            raise NotInPlace(f"{self._path}: {self._fate()}, and another lies in its place")

    @property
    def deleted(self) -> bool:
        """Nobody will ever start a spawner on it again."""
        return os.fstat(self._fd).st_nlink == 0

    def _fate(self) -> str:
        return "the data directory was deleted" if self.deleted else "the data directory was moved"
