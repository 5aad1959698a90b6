"""Directories of jobs whose outputs were not all there: they stay for a while, so that their user can look.

Few at a time, and only while their disk has room: they are a help, and no promise."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from itertools import islice
from pathlib import Path

from diana.adapters.lrm.spawner.processes import remove
from diana.errors import quoted
from diana.model.durations import seconds
from diana.model.layout import DataDir

MOST_KEPT = 100
"""Directories; with more, new ones go as those of other jobs do."""
MOST_FULL = 0.9
"""Part of the disk that may be in use where one stays. Where it is fuller, the oldest go before their time."""
MOST_NAMED = 10
_MOST_READ = 1000
KEEP_FAILED_S = 86400.0


class KeptFolders:
    """`keep_s`: seconds that each stays; 0: none does."""

    def __init__(self, data: DataDir, keep_s: float = KEEP_FAILED_S) -> None:
        self._root = data.kept
        self._keep_s = keep_s
        self._moving = threading.Lock()
        """Jobs end side by side, each in a thread: one adds its own before the next counts those that stay."""

    def keep(self, folder: Path, name: str, without: Collection[str] = ()) -> str:
        """Have a job's directory stay under this name; return what lies in it but for the paths `without`, and where it
        is or why it has to go, in one line. Empty: there is none."""
        path = self.path(name)
        lay = _lay(path if path.is_dir() else folder, without)
        if lay is None:
            return ""
        with self._moving:
            why = "" if path.is_dir() else self._has_to_go() or self._move(folder, path)
        stays = f"its directory had to go: {why}" if why else f"its directory stays for {seconds(self._keep_s)}: {path}"
        return f"there lay {lay or 'nothing else'}; {stays}"

    def _move(self, folder: Path, path: Path) -> str:
        """Return why the directory could not be moved; empty: it was."""
        try:
            self._root.mkdir(mode=0o700, exist_ok=True)
            os.utime(folder)
            os.rename(folder, path)
        except OSError as fault:
            return fault.strerror or "it could not be moved"
        return ""

    def _has_to_go(self) -> str:
        """Return why no further directory may stay; empty: it may."""
        if not self._keep_s:
            return "keep_failed_s is 0"
        if self._is_full():
            return f"more than {MOST_FULL:.0%} of its disk is in use"
        if len(self._by_age()) >= MOST_KEPT:
            return f"{MOST_KEPT} others stay"
        return ""

    def path(self, name: str) -> Path:
        return self._root / name

    def look(self) -> None:
        """Remove those whose time is over, and while the disk is full the oldest."""
        for at_s, path in self._by_age():
            if at_s + self._keep_s > time.time() and not self._is_full():
                return
            with suppress(OSError):
                remove(str(path))

    def _by_age(self) -> list[tuple[float, Path]]:
        aged = []
        with suppress(FileNotFoundError), os.scandir(self._root) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    aged.append((entry.stat(follow_symlinks=False).st_mtime, Path(entry.path)))
        return sorted(aged)

    def _is_full(self) -> bool:
        disk = os.statvfs(self._root if self._root.is_dir() else self._root.parent)
        return disk.f_blocks > 0 and disk.f_bavail < (1.0 - MOST_FULL) * disk.f_blocks


def _lay(folder: Path, without: Collection[str]) -> str | None:
    """Return some names of what lies in a folder; None: it is not there."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in islice(entries, _MOST_READ + 1)
                if entry.name not in without
            )
    except OSError:
        return None
    shown = ", ".join(name if name.isprintable() else quoted(name) for name in names[:MOST_NAMED])
    left = len(names) - MOST_NAMED
    more = f"more than {_MOST_READ - MOST_NAMED}" if len(names) > _MOST_READ else str(left)
    return f"{shown} and {more} more" if left > 0 else shown
