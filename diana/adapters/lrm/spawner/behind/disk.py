"""Room that running jobs take of the disk, of those that asked for some: what was written in their scratch directories
and in their own since they began. Who took more than it asked for is told.

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

LOOK_S = 0.005
"""Seconds of one look, for all jobs together."""
_STEP = 50
"""Files between two looks at the clock."""
_MOST_GIVEN = 20_000
"""Names that are looked at before a job begins."""
_BLOCK_BYTES = 512
_LARGE_PARTS = 100
"""A file that takes more than one part in so many of the scratch is looked at again before a job is ended for it."""


class DiskWatch:
    def __init__(
        self,
        folders: Callable[[Job], tuple[str, str]],
        wall_s: Callable[[], float] = time.time,
        look_s: float = LOOK_S,
    ) -> None:
        """`folders`: the scratch directory of a job and its own, which may be the same. `wall_s`: the clock by which
        files are dated."""
        self._folders = folders
        self._wall_s = wall_s
        self._look_s = look_s
        self._walks: dict[Job, Iterator[int]] = {}
        """Job -> walk that is under way; the one that waits longest is first."""
        self._began_s: dict[Job, float] = {}
        """Job -> its start by the wall clock as it was when the job was first seen here: that clock may be set."""

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
        asked = {job: None for job in running if job.claim.record.scratch_bytes and not job.over_disk_bytes}
        self._walks = {job: walk for job, walk in self._walks.items() if job in asked}
        self._began_s = {job: began_s for job, began_s in self._began_s.items() if job in asked}
        for job in asked:
            if job not in self._began_s:
                self._began_s[job] = self._wall_s() - (boot_s() - job.started_s)
            if job not in self._walks:
                self._walks[job] = self._walk(job)
        over: list[Job] = []
        by_s = boot_s() + self._look_s
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
        left = [*dict.fromkeys(self._folders(job))]
        most_bytes, began_s = job.claim.record.scratch_bytes, self._began_s[job]
        total = seen = 0
        large: dict[str, int] = {}
        while left:
            try:
                with os.scandir(left.pop()) as entries:
                    for entry in entries:
                        seen += 1
                        if seen % _STEP == 0:
                            yield (total := total - _given_back(large) if total > most_bytes else total)
                        try:
                            found = entry.stat(follow_symlinks=False)
                        except OSError:
                            continue
                        if stat.S_ISDIR(found.st_mode):
                            left.append(entry.path)
                        elif found.st_ctime >= began_s and not (found.st_mtime < began_s and found.st_ino in job.given):
                            # Inputs are older, whatever name or mode the job gives them, and so is what an earlier job
                            # left that cannot be deleted.
                            total += (size := _room(found))
                            if size * _LARGE_PARTS > most_bytes:
                                large[entry.path] = size
            except OSError:
                # It was deleted, or is another account's.
                continue
        yield total - _given_back(large) if total > most_bytes else total


def _room(found: os.stat_result) -> int:
    return found.st_blocks * _BLOCK_BYTES // max(1, found.st_nlink)


def _given_back(large: dict[str, int]) -> int:
    """Return the bytes by which these files have shrunk, which may be gone, since a walk came by; note what they have.
    A job that writes one after the other never had them all."""
    before = sum(large.values())
    for path, size in list(large.items()):
        try:
            large[path] = min(size, _room(os.lstat(path)))
        except OSError:
            del large[path]
    return before - sum(large.values())
