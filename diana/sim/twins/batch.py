"""A space-shared machine under a local batch system: strict FCFS, or EASY backfilling.

EASY as Lifka (1995) and Mu'alem and Feitelson (2001) have it: the job at the head of the queue is promised the
earliest time at which, by the estimates of what runs, enough processors are free (its shadow time); others may
overtake if they are expected to end by then, or run on processors the head will not need (extra). Nobody but the head
is promised anything. Processors are alike and any of them will do.

No clock of its own: whoever owns one submits, and calls `advance` whenever it submitted and at every `next_s`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Collection
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from diana.sim.twins.batch_queue import BatchJob, Gap, WaitingJobs


class Discipline(StrEnum):
    FCFS = "fcfs"
    """Jobs start in order of submission; nobody overtakes."""
    EASY = "easy"


class Told(NamedTuple):
    """Jobs that ended and jobs that started at one time, each in order."""

    ended: list[int]
    started: list[int]


class BatchMachine:
    """Jobs are the caller's numbers. At one time ends come before starts, and all that is submitted at it before both.

    A job runs for `run_s` whatever its estimate: nothing is killed at its request, only by `withdraw`. A job that runs
    longer than estimated is expected to end at once, and only then may a head start later than promised."""

    __slots__ = ("_backfills", "_free", "_gap", "_planned", "_running", "_starts", "_waiting", "processors")

    def __init__(self, processors: int, discipline: Discipline) -> None:
        if processors < 1:
            raise ValueError(f"processors = {processors}: a machine has at least 1")
        self.processors = processors
        self._free = processors
        self._backfills = discipline is Discipline.EASY
        self._waiting = WaitingJobs()
        self._starts = 0
        self._running: list[tuple[float, int, int, int, float]] = []
        """Heap of (end, order of start, job, width, expected end)."""
        self._planned: list[tuple[float, int, int]] = []
        """Sorted (expected end, order of start, width) of what runs; kept for EASY only."""
        self._gap: Gap | None = None
        """Room for backfilling now; None: to be worked out anew."""

    @property
    def free(self) -> int:
        """Idle processors."""
        return self._free

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    def submit(self, job: int, width: int, run_s: float, estimate_s: float) -> None:
        """Submit a job of `width` processors that runs for `run_s`; the machine knows only `estimate_s` of it. It
        starts at an `advance`."""
        if not 0 < width <= self.processors:
            raise ValueError(f"job {job}: {width} processors of {self.processors}")
        self._waiting.append(BatchJob(job, width, run_s, estimate_s))

    def withdraw(self, jobs: Collection[int]) -> list[int]:
        """Take these jobs out: those that wait leave the queue, those that run are killed; others are not known here,
        or over. Returns the jobs that went, those that waited first. Jobs that may start instead do so at an `advance`,
        which has to follow at this time: the promise to the head is worked out anew then, and can only have become
        better."""
        waited = self._waiting.withdraw(jobs) if self._waiting else []
        named = frozenset(jobs)
        killed = sorted((one for one in self._running if one[2] in named), key=lambda one: one[1])
        if killed:
            self._running = [one for one in self._running if one[2] not in named]
            heapify(self._running)
            self._free += sum(width for _, _, _, width, _ in killed)
            if self._backfills:
                self._planned = sorted((expected_s, order, width) for _, order, _, width, expected_s in self._running)
        if waited or killed:
            self._gap = None
        return waited + [job for _, _, job, _, _ in killed]

    def next_s(self) -> float:
        """Time when the next job ends; inf: nothing runs."""
        return self._running[0][0] if self._running else math.inf

    def advance(self, now_s: float) -> Told:
        """End and start the jobs that are due. Never pass over a `next_s`: a job that ended then would be taken to end
        now."""
        ended = self._end(now_s)
        started: list[int] = []
        while self._waiting and self._waiting.head_width() <= self._free:
            self._start(self._waiting.pop(), now_s, started)
            self._gap = None
        if self._backfills and len(self._waiting) > 1:
            self._backfill(now_s, started)
        return Told(ended, started)

    def promised_s(self, now_s: float) -> float:
        """Time by which the head of the queue starts as far as the estimates tell; nan: nobody waits, or nothing is
        promised (FCFS)."""
        if not self._waiting or not self._backfills:
            return math.nan
        return self._reserved(now_s).shadow_s

    def _end(self, now_s: float) -> list[int]:
        ended: list[int] = []
        while self._running and self._running[0][0] <= now_s:
            _, order, job, width, expected_s = heappop(self._running)
            self._free += width
            ended.append(job)
            if self._backfills:
                # (time, order) is unique, so what stands there is this job.
                del self._planned[bisect_left(self._planned, (expected_s, order, 0))]
        if ended:
            self._gap = None
        return ended

    def _start(self, job: BatchJob, now_s: float, started: list[int]) -> None:
        self._free -= job.width
        self._starts += 1
        expected_s = now_s + job.estimate_s
        heappush(self._running, (now_s + job.run_s, self._starts, job.job, job.width, expected_s))
        if self._backfills:
            insort(self._planned, (expected_s, self._starts, job.width))
        started.append(job.job)

    def _backfill(self, now_s: float, started: list[int]) -> None:
        if not self._free:
            self._waiting.pass_over()
            return
        # Until something ends or the head changes, a job that did not fit fits no better: only a new one can. A
        # shadow in the past (of jobs that run over their estimates) moves with the clock: nothing can be said of it.
        only_new = self._gap is not None and now_s < self._gap.shadow_s
        gap = self._gap if only_new and self._gap is not None else self._reserved(now_s)
        taken, self._gap = self._waiting.backfill(now_s, gap, only_new)
        for job in taken:
            self._start(job, now_s, started)

    def _reserved(self, now_s: float) -> Gap:
        """The head's shadow time and the processors that are extra then. All that ends at the shadow time is free
        then."""
        need, gathered, shadow_s = self._waiting.head_width(), self._free, math.inf
        for expected_s, _, width in self._planned:
            if gathered >= need and expected_s > shadow_s:
                break
            short = gathered < need
            gathered += width
            if short and gathered >= need:
                shadow_s = max(expected_s, now_s)
        return Gap(self._free, shadow_s, gathered - need)
