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

from diana.sim.central.jobs import Floats, Items, Kind, Machines

SAMPLED = 8
"""Number of waiting jobs of one kind that are asked how they would suffer: the shortest, the longest and others
between."""


class Mapped(NamedTuple):
    job: int
    machine: int
    at_s: float
    """Time when it was decided."""
    ready_s: float
    """Time when its data are there."""
    start_s: float
    end_s: float
    fetched: bool
    """True if data were sent for on its account."""


class Free:
    """Times when the processors of each machine get free, as sorted lists."""

    def __init__(self, machines: Machines) -> None:
        self.lists = [[0.0] * int(slots) for slots in machines.slots]
        self.before: dict[int, list[float]] = {}
        """The lists of machines that changed, as they were at `settle`."""
        self._first: dict[int, Floats] = {}

    def first_s(self, processors: int) -> Floats:
        """(M,) times when so many are free at once; infinite where there are fewer."""
        out = self._first.get(processors)
        if out is None:
            every = [one[processors - 1] if len(one) >= processors else inf for one in self.lists]
            out = self._first[processors] = np.array(every)
        return out

    def take(self, machine: int, processors: int, ready_s: float, run_s: float) -> tuple[float, float]:
        """(start, end) of a job there, the earliest. It gets those of the processors free by then that became free
        last, so that a job that waits for its data holds up nobody."""
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
        """Put a machine's processors back as they were at the last `settle`."""
        self.lists[machine] = self.before[machine].copy()
        self._changed(machine)

    def _changed(self, machine: int) -> None:
        free = self.lists[machine]
        for processors, first in self._first.items():
            if len(free) >= processors:
                first[machine] = free[processors - 1]

    def ahead_s(self, machine: int, now_s: float) -> list[float]:
        """Times when each number of processors that anybody asked for is free there; if equal before and after, nobody
        sees a difference."""
        return [max(now_s, float(first[machine])) for first in self._first.values()]


class _Waiting:
    """The jobs of one kind that are to be mapped."""

    def __init__(self, kind: Kind, jobs: list[int], ready_s: Floats | None) -> None:
        self.kind, self.jobs = kind, jobs
        """The kind and its jobs. Any of these may be next; they are in an order that the policy makes use of."""
        self.ready_s = ready_s
        self.round = 0
        """Round of its newest entry; older entries are void."""
        self.watches: tuple[int, ...] = ()
        """Machines whose changes may bring its turn forward; others only put it off."""


class _Next(NamedTuple):
    """The next job of one kind; the least of all kinds goes next."""

    key: float
    job: int
    place: int
    """Place among the kind's jobs."""
    machine: int


class JobMapper:
    """Maps sets of jobs on top of what was mapped before. `work_s`: of every job, by number."""

    def __init__(self, machines: Machines, kinds: Sequence[Kind], items: Items, kind: list[int], work_s: list[float]):
        self.free = Free(machines)
        self.bytes_moved = 0.0
        self._site = machines.site
        self._one_per_site = len(set(machines.site.tolist())) == len(machines.site)
        self._kinds, self._items, self._kind, self._work_s = kinds, items, kind, work_s

    def min_min(self, jobs: Sequence[int], now_s: float) -> list[Mapped]:
        """The job that would end first goes first, where it ends first. Ties: the first machine, the first job."""
        waiting = self._by_kind(jobs, now_s)
        for one in waiting:
            one.jobs.sort(key=lambda job: (-self._work_s[job], -job))
        return self._run(waiting, now_s, self._ends_first)

    def sufferage(self, jobs: Sequence[int], now_s: float) -> list[Mapped]:
        """The job goes first that loses most if it does not get its best site. Ties: the first job."""
        waiting = self._by_kind(jobs, now_s)
        for one in waiting:
            # Where all sites are as fast all jobs of a kind suffer alike.
            one.jobs.sort(
                key=None if one.kind.uniform else lambda job: (self._work_s[job], job), reverse=one.kind.uniform
            )
        return self._run(waiting, now_s, self._suffers_most)

    def _by_kind(self, jobs: Sequence[int], now_s: float) -> list[_Waiting]:
        by: dict[int, list[int]] = {}
        for job in jobs:
            by.setdefault(self._kind[job], []).append(job)
        kinds = ((self._kinds[k], some) for k, some in sorted(by.items()))
        return [_Waiting(kind, some, self._items.ready_s(kind, now_s)) for kind, some in kinds]

    def _run(self, waiting: list[_Waiting], now_s: float, look: Callable[[_Waiting, float], _Next]) -> list[Mapped]:
        """Map all jobs, in the order in which they are mapped. A kind's entry is worked out anew when a machine it
        watches has changed, or when it would be next and its machine has changed. Data sent for meanwhile change
        nothing: they come no sooner than if they were sent for once more."""
        watch: dict[int, set[int]] = {}
        heap: list[tuple[_Next, int, int, int]] = []
        changes: dict[int, int] = {}

        def fresh(number: int) -> None:
            one = waiting[number]
            one.round += 1
            if one.jobs:
                its_next = look(one, now_s)
                heappush(heap, (its_next, number, one.round, changes.get(its_next.machine, 0)))
                for its in one.watches:
                    watch.setdefault(its, set()).add(number)

        for number in range(len(waiting)):
            fresh(number)
        out = []
        while heap:
            (_, job, place, machine), number, round_, seen = heappop(heap)
            one = waiting[number]
            if round_ != one.round:
                continue
            if seen != changes.get(machine, 0):
                fresh(number)
                continue
            one.jobs.pop(place)
            before = self.free.ahead_s(machine, now_s)
            out.append(self._map(one, job, machine, now_s))
            stale = {number}
            if self.free.ahead_s(machine, now_s) != before:
                changes[machine] = seen + 1
                stale |= watch.pop(machine, set())
            for other in sorted(stale):
                fresh(other)
        return out

    def _map(self, one: _Waiting, job: int, machine: int, now_s: float) -> Mapped:
        kind = one.kind
        ready_s = now_s if one.ready_s is None else max(now_s, float(one.ready_s[machine]))
        moved = self._items.send_for(kind, machine, now_s)
        self.bytes_moved += moved
        run_s = self._work_s[job] * float(kind.pace[machine])
        start_s, end_s = self.free.take(machine, kind.processors, ready_s, run_s)
        return Mapped(job, machine, now_s, ready_s, start_s, end_s, moved > 0)

    def _starts(self, one: _Waiting, now_s: float) -> Floats:
        first = self.free.first_s(one.kind.processors)
        starts: Floats = np.maximum(first, now_s)
        return starts if one.ready_s is None else np.maximum(starts, one.ready_s, out=starts)

    def _ends_first(self, one: _Waiting, now_s: float) -> _Next:
        job = one.jobs[-1]
        ends = self._starts(one, now_s)
        ends += self._work_s[job] * one.kind.pace
        machine = int(ends.argmin())
        return _Next(float(ends[machine]), job, len(one.jobs) - 1, machine)

    def _suffers_most(self, one: _Waiting, now_s: float) -> _Next:
        starts, watches, found = self._starts(one, now_s), set[int](), list[_Next]()
        for place in _places(len(one.jobs), one.kind.uniform):
            job = one.jobs[place]
            ends = starts + self._work_s[job] * one.kind.pace
            best = int(ends.argmin())
            first = float(ends[best])
            if self._one_per_site:
                ends[best] = inf
            else:
                ends[self._site == self._site[best]] = inf
            second = int(ends.argmin())
            watches |= {best, second}
            found.append(_Next(first - float(ends[second]), job, place, best))
        one.watches = tuple(watches)
        return min(found)


def _places(count: int, alike: bool) -> Sequence[int]:
    """Places of the jobs that are asked: the oldest, which is the last, or `SAMPLED` of all run times."""
    if alike:
        return (count - 1,)
    if count <= SAMPLED:
        return range(count)
    return [place * (count - 1) // (SAMPLED - 1) for place in range(SAMPLED)]
