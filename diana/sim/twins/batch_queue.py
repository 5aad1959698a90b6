"""The queue of a batch system: in order of submission, with a quick answer to "who behind the head may go now?".

Columns instead of objects, in blocks: each block keeps a lower bound of its narrowest and of its shortest job, so that
a search passes over blocks in which nobody fits. A bound is only ever too low (who leaves does not raise it), which
costs a look and is mended by it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Kind = TypeVar("Kind", np.int64, np.float64)

BLOCK = 256
_GONE = int(np.iinfo(np.int64).max)
"""Width of a place whose job has left: fits nowhere."""


class BatchJob(NamedTuple):
    job: int
    width: int
    """Processors."""
    run_s: float
    estimate_s: float


class Gap(NamedTuple):
    """Room that others may take without delaying the head: `free` processors until `shadow_s`, `extra` for longer."""

    free: int
    shadow_s: float
    extra: int


class WaitingJobs:
    __slots__ = (
        "_count",
        "_end",
        "_estimates_s",
        "_head",
        "_jobs",
        "_narrowest",
        "_runs_s",
        "_seen",
        "_shortest_s",
        "_widths",
    )

    def __init__(self) -> None:
        self._head = self._end = self._seen = self._count = 0
        self._jobs = np.empty(4 * BLOCK, np.int64)
        self._widths = np.full(4 * BLOCK, _GONE, np.int64)
        self._runs_s = np.empty(4 * BLOCK)
        self._estimates_s = np.empty(4 * BLOCK)
        self._narrowest = np.full(4, _GONE, np.int64)
        self._shortest_s = np.full(4, math.inf)

    def __len__(self) -> int:
        return self._count

    def append(self, job: BatchJob) -> None:
        if self._end == len(self._jobs):
            self._make_room()
        at = self._end
        self._jobs[at], self._widths[at], self._runs_s[at], self._estimates_s[at] = job
        block = at // BLOCK
        if job.width < self._narrowest.item(block):
            self._narrowest[block] = job.width
        if job.estimate_s < self._shortest_s.item(block):
            self._shortest_s[block] = job.estimate_s
        self._end = at + 1
        self._count += 1

    def head_width(self) -> int:
        return self._widths.item(self._head)

    def pop(self) -> BatchJob:
        """The head leaves; the next in order becomes it."""
        job = self._leave(self._head)
        self._pass_the_gone()
        return job

    def withdraw(self, jobs: Collection[int]) -> list[int]:
        """Take those of these jobs that wait out of the queue, from any place; returns them in the order in which they
        stood. One look at the queue for all of them together."""
        named = np.fromiter(jobs, np.int64, len(jobs))
        waits = self._widths[self._head : self._end] != _GONE
        at = np.flatnonzero(waits & np.isin(self._jobs[self._head : self._end], named)) + self._head
        self._widths[at] = _GONE
        self._count -= len(at)
        self._pass_the_gone()
        left: list[int] = self._jobs[at].tolist()
        return left

    def backfill(self, now_s: float, gap: Gap, only_new: bool) -> tuple[list[BatchJob], Gap]:
        """Take out, in order, each job behind the head that fits into what those before it have left of the gap: until
        its shadow, or on extra processors. `only_new`: look only at jobs that came after the last look. Returns the
        jobs, and the gap that is left."""
        begin = self._seen if only_new else self._head + 1
        begin = max(begin, self._head + 1)
        taken: list[BatchJob] = []
        for block in self._promising(begin, now_s, gap):
            if not gap.free:
                break
            low, high = max(begin, block * BLOCK), min(self._end, (block + 1) * BLOCK)
            gap = self._from_block(low, high, now_s, gap, taken)
        self._seen = self._end
        return taken, gap

    def pass_over(self) -> None:
        """Take the new jobs as looked at, without a look, as nothing is free."""
        self._seen = self._end

    def _promising(self, begin: int, now_s: float, gap: Gap) -> list[int]:
        first, last = begin // BLOCK, (self._end - 1) // BLOCK
        if last <= first:
            return [first] if begin < self._end else []
        narrowest, shortest_s = self._narrowest[first : last + 1], self._shortest_s[first : last + 1]
        fits = (narrowest <= gap.free) & ((narrowest <= gap.extra) | (now_s + shortest_s <= gap.shadow_s))
        blocks: list[int] = (np.flatnonzero(fits) + first).tolist()
        return blocks

    def _from_block(self, low: int, high: int, now_s: float, gap: Gap, taken: list[BatchJob]) -> Gap:
        free, shadow_s, extra = gap
        widths, ends_s = self._widths[low:high], now_s + self._estimates_s[low:high]
        fits = np.flatnonzero((widths <= free) & ((widths <= extra) | (ends_s <= shadow_s)))
        if not fits.size:
            self._mend(low // BLOCK)
        for place in fits.tolist():
            width = widths.item(place)
            if width > free:
                continue
            if ends_s.item(place) > shadow_s:
                if width > extra:
                    continue
                extra -= width
            free -= width
            taken.append(self._leave(low + place))
            if not free:
                break
        return Gap(free, shadow_s, extra)

    def _mend(self, block: int) -> None:
        begin, end = block * BLOCK, (block + 1) * BLOCK
        self._narrowest[block] = self._widths[begin:end].min()
        there = self._widths[begin:end] != _GONE
        self._shortest_s[block] = self._estimates_s[begin:end].min(initial=math.inf, where=there)

    def _leave(self, at: int) -> BatchJob:
        job = BatchJob(self._jobs.item(at), self._widths.item(at), self._runs_s.item(at), self._estimates_s.item(at))
        self._widths[at] = _GONE
        self._count -= 1
        return job

    def _pass_the_gone(self) -> None:
        while self._head < self._end and self._widths.item(self._head) == _GONE:
            self._head += 1
        self._seen = max(self._seen, self._head)

    def _make_room(self) -> None:
        """Move the jobs that still wait to the front, into twice the room if that is little."""
        stay = np.flatnonzero(self._widths[: self._end] != _GONE)
        self._seen = int(np.searchsorted(stay, self._seen))
        size = len(self._jobs) * (2 if 2 * len(stay) > len(self._jobs) else 1)
        self._jobs = _moved(self._jobs, stay, size, 0)
        self._widths = _moved(self._widths, stay, size, _GONE)
        self._runs_s = _moved(self._runs_s, stay, size, 0.0)
        self._estimates_s = _moved(self._estimates_s, stay, size, math.inf)
        self._head, self._end = 0, len(stay)
        self._narrowest = self._widths.reshape(-1, BLOCK).min(axis=1)
        self._shortest_s = self._estimates_s.reshape(-1, BLOCK).min(axis=1)


def _moved(column: NDArray[Kind], stay: NDArray[np.int64], size: int, fill: float) -> NDArray[Kind]:
    moved = np.full(size, fill, column.dtype)
    moved[: len(stay)] = column[stay]
    return moved
