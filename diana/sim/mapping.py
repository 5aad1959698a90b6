"""Min-min and sufferage: heuristics that map a set of independent jobs to machines, all run times known.

M. Maheswaran, S. Ali, H. J. Siegel, D. Hensgen, R. F. Freund, "Dynamic mapping of a class of independent tasks onto
heterogeneous computing systems", J. Parallel and Distributed Computing 59, 1999, in batch mode. A machine has several
processors here, and may want data before it starts. The sufferage of a job is what its second-best site costs it over
its best, since a site's processors are alike (H. Casanova et al., "Heuristics for scheduling parameter sweep
applications in grid environments", HCW 2000); one job is mapped at a time, the one that would suffer most.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

import numpy as np

from diana.sim.central_jobs import Floats, Items, Kind, Machines

SAMPLED = 16
"""Of the waiting jobs of one kind, the shortest, the longest and as many between are asked how they would suffer."""


class Mapped(NamedTuple):
    job: int
    machine: int
    at_s: float
    """When it was decided."""
    ready_s: float
    """When its data are there."""
    start_s: float
    end_s: float
    fetched: bool
    """Data were sent for on its account."""


class Free:
    """When each processor of each machine is free: sorted lists."""

    def __init__(self, machines: Machines) -> None:
        self.lists = [[0.0] * int(slots) for slots in machines.slots]
        self.before: dict[int, list[float]] = {}
        """The lists of machines that changed, as they were at `settle`."""
        self._first: dict[int, Floats] = {}

    def first_s(self, processors: int) -> Floats:
        """(M,) when so many are free at once; infinite where there are fewer."""
        out = self._first.get(processors)
        if out is None:
            every = [one[processors - 1] if len(one) >= processors else inf for one in self.lists]
            out = self._first[processors] = np.array(every)
        return out

    def take(self, machine: int, processors: int, ready_s: float, run_s: float) -> tuple[float, float]:
        """(start, end) of a job there, the earliest. Of the processors that are free by then it gets those that became
        free last, so that what waits for its data holds up nobody."""
        free = self.lists[machine]
        if machine not in self.before:
            self.before[machine] = free.copy()
        start_s = max(ready_s, free[processors - 1])
        last = bisect_right(free, start_s)
        end_s = start_s + run_s
        del free[last - processors : last]
        for _ in range(processors):
            insort(free, end_s)
        self._changed(machine)
        return start_s, end_s

    def settle(self) -> None:
        self.before.clear()

    def restore(self, machine: int) -> None:
        """As it was at the last `settle`."""
        self.lists[machine] = self.before[machine].copy()
        self._changed(machine)

    def _changed(self, machine: int) -> None:
        free = self.lists[machine]
        for processors, first in self._first.items():
            if len(free) >= processors:
                first[machine] = free[processors - 1]


class _Waiting:
    """The jobs of one kind that are to be mapped."""

    def __init__(self, kind: Kind, jobs: list[int]) -> None:
        self.kind, self.jobs = kind, jobs
        """In the order in which they are mapped, where the policy has one."""
        self.round = 0
        """Of what is known of it; older entries are void."""
        self.machines: frozenset[int] = frozenset()
        """Whose changes change what is known of it."""


class Mapper:
    """Maps sets of jobs on top of what was mapped before. `work_s`: of every job, by number."""

    def __init__(self, machines: Machines, kinds: Sequence[Kind], items: Items, kind: list[int], work_s: list[float]):
        self.free = Free(machines)
        self.bytes_moved = 0.0
        self._site = machines.site
        self._one_per_site = len(set(machines.site.tolist())) == len(machines.site)
        self._kinds, self._items, self._kind, self._work_s = kinds, items, kind, work_s

    def min_min(self, jobs: Sequence[int], now_s: float) -> list[Mapped]:
        """The job that would end first goes first, where it ends first. Ties: the first machine, the first job."""
        waiting = self._by_kind(jobs, lambda kind: lambda job: (self._work_s[job], job))
        for one in waiting:
            one.jobs.reverse()
        return self._run(waiting, now_s, self._ends_first)

    def sufferage(self, jobs: Sequence[int], now_s: float) -> list[Mapped]:
        """The job goes first that loses most if it does not get its best site. Ties: the first job."""
        waiting = self._by_kind(
            jobs, lambda kind: (lambda job: (0.0, job)) if kind.uniform else (lambda job: (self._work_s[job], job))
        )
        return self._run(waiting, now_s, self._suffers_most)

    def _by_kind(
        self, jobs: Sequence[int], order: Callable[[Kind], Callable[[int], tuple[float, int]]]
    ) -> list[_Waiting]:
        by: dict[int, list[int]] = {}
        for job in jobs:
            by.setdefault(self._kind[job], []).append(job)
        return [_Waiting(self._kinds[k], sorted(some, key=order(self._kinds[k]))) for k, some in sorted(by.items())]

    def _run(
        self,
        waiting: list[_Waiting],
        now_s: float,
        look: Callable[[_Waiting, float], tuple[float, int, int, int]],
    ) -> list[Mapped]:
        """`look`: (key, job, its place among the kind's, machine); the least key goes next."""
        reads: dict[int, list[int]] = {}
        for number, one in enumerate(waiting):
            for item in one.kind.items:
                reads.setdefault(item, []).append(number)
        watch: dict[int, set[int]] = {}
        heap: list[tuple[float, int, int, int, int, int]] = []

        def fresh(number: int) -> None:
            one = waiting[number]
            one.round += 1
            if one.jobs:
                key, job, place, machine = look(one, now_s)
                heappush(heap, (key, job, number, one.round, place, machine))
                for its in one.machines:
                    watch.setdefault(its, set()).add(number)

        for number in range(len(waiting)):
            fresh(number)
        out = []
        while heap:
            _, job, number, round_, place, machine = heappop(heap)
            one = waiting[number]
            if round_ != one.round:
                continue
            one.jobs.pop(place)
            mapped, came = self._map(one.kind, job, machine, now_s)
            out.append(mapped)
            stale = {number, *watch.pop(machine, ())}
            for item in came:
                stale.update(reads[item])
            for other in sorted(stale):
                if other == number or waiting[other].jobs:
                    fresh(other)
        return out

    def _map(self, kind: Kind, job: int, machine: int, now_s: float) -> tuple[Mapped, list[int]]:
        ready = self._items.ready_s(kind, now_s)
        ready_s = now_s if ready is None else max(now_s, float(ready[machine]))
        moved, came = self._items.send_for(kind, machine, now_s)
        self.bytes_moved += moved
        run_s = self._work_s[job] * float(kind.pace[machine])
        start_s, end_s = self.free.take(machine, kind.processors, ready_s, run_s)
        return Mapped(job, machine, now_s, ready_s, start_s, end_s, moved > 0), came

    def _starts(self, kind: Kind, now_s: float) -> Floats:
        starts = np.maximum(self.free.first_s(kind.processors), now_s)
        ready = self._items.ready_s(kind, now_s)
        return starts if ready is None else np.maximum(starts, ready)

    def _ends_first(self, one: _Waiting, now_s: float) -> tuple[float, int, int, int]:
        job = one.jobs[-1]
        ends = self._starts(one.kind, now_s) + self._work_s[job] * one.kind.pace
        machine = int(ends.argmin())
        one.machines = frozenset((machine,))
        return float(ends[machine]), job, len(one.jobs) - 1, machine

    def _suffers_most(self, one: _Waiting, now_s: float) -> tuple[float, int, int, int]:
        kind, count = one.kind, len(one.jobs)
        if kind.uniform or count == 1:
            places = np.zeros(1, np.int64)
        else:
            places = np.unique(np.linspace(0, count - 1, min(count, SAMPLED)).astype(np.int64))
        work = np.array([self._work_s[one.jobs[place]] for place in places.tolist()])
        with np.errstate(invalid="ignore"):
            ends = self._starts(kind, now_s) + work[:, None] * kind.pace
        rows = np.arange(len(places))
        best = ends.argmin(axis=1)
        first = ends[rows, best]
        if self._one_per_site:
            ends[rows, best] = inf
        else:
            ends[self._site == self._site[best][:, None]] = inf
        second = ends.argmin(axis=1)
        suffers = ends[rows, second] - first
        one.machines = frozenset((*best.tolist(), *second.tolist()))
        jobs = [one.jobs[place] for place in places.tolist()]
        at = min(range(len(jobs)), key=lambda k: (-suffers[k], jobs[k]))
        return -float(suffers[at]), jobs[at], int(places[at]), int(best[at])
