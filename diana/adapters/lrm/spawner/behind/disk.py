"""Room that running jobs take of the disk, of those that asked for some: what their scratch directories hold, and what
was written in their own directories since they began. Who took more than it asked for is told.

Directories are walked a little at a time, so that a job with a million files costs no more than one with a few; it is
known later.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import islice

from diana.adapters.lrm.spawner.identity import boot_s
from diana.adapters.lrm.spawner.jobs import Job

_LOOK_S = 0.005
"""Seconds of one look, for all jobs together."""
_STEP = 50
"""Files between two looks at the clock."""
_MOST_GIVEN = 20_000
"""Names that are looked at before a job begins."""
_BLOCK_BYTES = 512


class DiskWatch:
    def __init__(self, folders: Callable[[Job], tuple[str, str]]) -> None:
        """`folders`: the scratch directory of a job and its own, which may be the same."""
        self._folders = folders
        self._walks: dict[Job, Iterator[int]] = {}
        """Job -> walk that is under way; the one that waits longest is first."""

    def begins(self, job: Job) -> None:
        """Note what lies in the job's own directory before it begins, or as it is taken over."""
        scratch, own = self._folders(job)
        if not job.claim.record.scratch_bytes or own == scratch:
            return
        given: set[int] = set()
        left = [own]
        while left and len(given) < _MOST_GIVEN:
            with suppress(OSError), os.scandir(left.pop()) as entries:
                for entry in islice(entries, _MOST_GIVEN):
                    given.add(entry.inode())
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
        job.given = frozenset(given)

    def over(self, running: Collection[Job]) -> list[Job]:
        """Go on looking for a moment; return the jobs that hold more than they asked for. It notes how much."""
        asked = [job for job in running if job.claim.record.scratch_bytes and not job.over_disk_bytes]
        if not asked:
            self._walks.clear()
            return []
        self._walks = {job: walk for job, walk in self._walks.items() if job in asked}
        for job in asked:
            if job not in self._walks:
                self._walks[job] = self._walk(job)
        over: list[Job] = []
        by_s = boot_s() + _LOOK_S
        for job, walk in list(self._walks.items()):
            del self._walks[job]
            for size in walk:
                if size > job.claim.record.scratch_bytes:
                    job.over_disk_bytes = size
                    over.append(job)
                    break
                if boot_s() >= by_s:
                    self._walks[job] = walk
                    return over
        return over

    def _walk(self, job: Job) -> Iterator[int]:
        """Yield what was found so far, in bytes. What a job has several names for counts once."""
        scratch, own = self._folders(job)
        began_s = time.time() - (boot_s() - job.started_s)
        total = seen = 0
        left = [(scratch, 0.0)] + ([(own, began_s)] if own != scratch else [])
        while left:
            at, since_s = left.pop()
            try:
                with os.scandir(at) as entries:
                    for entry in entries:
                        seen += 1
                        if seen % _STEP == 0:
                            yield total
                        try:
                            found = entry.stat(follow_symlinks=False)
                        except OSError:
                            continue
                        if stat.S_ISDIR(found.st_mode):
                            left.append((entry.path, since_s))
                        elif found.st_ctime >= since_s and not (found.st_mtime < since_s and found.st_ino in job.given):
                            # Inputs were put there before it began; it may have given them other names or modes.
                            total += found.st_blocks * _BLOCK_BYTES // max(1, found.st_nlink)
            except OSError:
                # It was deleted, or is another account's.
                continue
        yield total
