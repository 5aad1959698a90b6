"""The disk on which the jobs of this machine have their scratch directories."""

from __future__ import annotations

import os
from pathlib import Path

WORTH_A_WORD = 64
"""A change by this part of the disk is told: a machine says so rarely, however busy its jobs write."""


class ScratchDisk:
    """`folder` may come to be later than this; the disk it will lie on is looked at until then."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told_bytes = -1

    def look(self) -> tuple[int, int]:
        """Return (bytes that accounts like this one can use, free ones of these); (0, -1) where nobody can say."""
        for folder in (self._folder, self._folder.parent):
            try:
                disk = os.statvfs(folder)
            except OSError:
                continue
            free = disk.f_bavail * disk.f_frsize
            # Blocks that are kept for root count for nobody.
            size = (disk.f_blocks - disk.f_bfree + disk.f_bavail) * disk.f_frsize
            if size > 0:
                self._told_bytes = free
                return size, free
        self._told_bytes = -1
        return 0, -1

    def news(self) -> int | None:
        """Return the free bytes if they changed by enough since they were told last; None: they did not."""
        told = self._told_bytes
        size, free = self.look()
        if told < 0 or size <= 0:
            # How large it is was not known when the machine came, or is not any more: its next inventory says it.
            return None
        if abs(free - told) * WORTH_A_WORD < size:
            self._told_bytes = told
            return None
        return free
