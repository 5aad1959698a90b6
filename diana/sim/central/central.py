"""Central policies, in the simulator only. All but the last have perfect information: what could be reached if one
scheduler knew every machine, every true run time and every free processor, and nothing took time but jobs and data.

- min-min, sufferage (`mapping.py`): a submission is mapped when it comes, on top of what was mapped before; since run
  times are known nothing new is known until the next one. When a quarter as many jobs have come as have not begun, all
  of the latter are mapped anew ("fixed count strategy"), but for those that data were sent for.
- first-start: a copy of each job waits at every site, first come first served; the first to start wins and the others
  are withdrawn, as in a federation of Slurm clusters. That is one queue for all: a site whose head of the queue fits
  starts it; of several idle ones the submitter's, then the first listed. Its data are sent for when it was chosen and
  holds its processors.
- egee (`broker.py`): no such bound but a rival: one broker for all, by old information, at a cost for each job.

A job that has not ended at the scenario's `limit_s` is not done, as with the engine.

Data come at the rate of the link as if nothing else moved there, and stay at the site. Faults, migration and the
limits of queues are none of their business. Outputs are counted in the bytes, not in the time, as for the engine.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import groupby
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from diana.sim.central.broker import brokered
from diana.sim.central.jobs import Jobs, jobs_of
from diana.sim.central.mapping import JobMapper, Mapped
from diana.sim.report.outcome import JobTimes
from diana.sim.specs.compare_spec import BrokerSpec
from diana.sim.specs.scenario_spec import Scenario

Policy = Literal["min-min", "sufferage", "first-start", "egee"]
EGEE = BrokerSpec()
REMAPPED = 4
"""All waiting jobs are mapped anew when a quarter as many jobs have come."""


def run(scenario: Scenario, seed: int, policy: Policy) -> JobTimes:
    """Run the scenario's jobs under the policy: the same jobs at the same times as the engine gets under this seed.
    UsageError: the scenario has something that no central policy here knows."""
    return scheduled(jobs_of(scenario, seed), policy, scenario.limit_s)[0]


def scheduled(jobs: Jobs, policy: Policy, limit_s: float, broker: BrokerSpec = EGEE) -> tuple[JobTimes, int]:
    """The outcome of the jobs, and how many had not ended at the limit. Bytes fetched for those count. `broker`: of
    `egee`; the others have none."""
    if policy == "egee":
        machine, start_s, end_s, moved = brokered(jobs, broker)
    else:
        machine, start_s, end_s, moved = _first_start(jobs) if policy == "first-start" else _batch(jobs, policy)
    in_time = np.array(end_s, np.float64) <= limit_s
    return _outcome(jobs, jobs.done & in_time, machine, start_s, end_s, moved), int((~in_time).sum())


_Ends = tuple[list[int], list[float], list[float], float]
"""Machine, start and end of every job, and the bytes that moved for their inputs."""


def _outcome(
    jobs: Jobs,
    done: NDArray[np.bool_],
    machine: list[int],
    start_s: list[float],
    end_s: list[float],
    moved: float,
) -> JobTimes:
    users = {name: place for place, name in enumerate(jobs.users)}
    sites = {name: place for place, name in enumerate(jobs.machines.sites)}
    its = jobs.submission[done]
    home = np.array([sites[s.site] for s in jobs.submissions], np.int32)[its]
    site = jobs.machines.site[np.array(machine, np.int32)[done]]
    output = np.array([s.work.output_bytes for s in jobs.submissions], np.float64)[its]
    return JobTimes(
        user=np.array([users[s.principal.name] for s in jobs.submissions], np.int32)[its],
        home=home,
        site=site,
        processors=np.array([s.spec.resources.processors for s in jobs.submissions], np.int32)[its],
        submit_s=jobs.submit_s[its],
        start_s=np.array(start_s)[done],
        end_s=np.array(end_s)[done],
        run_s=jobs.work_s[done],
        users=jobs.users,
        sites=jobs.machines.sites,
        bytes_moved=moved + float(output[home != site].sum()),
    )


# --- min-min, sufferage --------------------------------------------------------------------------------------


class _Book:
    """Mappings that may yet be made anew, and the machine, start and end of every job."""

    def __init__(self, jobs: Jobs, mapper: JobMapper) -> None:
        count = len(jobs.kind)
        self.machine, self.start_s, self.end_s = [0] * count, [0.0] * count, [0.0] * count
        self.plan: list[Mapped] = []
        """Mappings since the last time all was mapped anew, in the order they were made."""
        self._starts: list[float] = []
        self._jobs, self._mapper = jobs, mapper

    def add(self, mapped: list[Mapped]) -> None:
        self.plan += mapped
        for one in mapped:
            self._set(one.job, one.machine, one.start_s, one.end_s)
            if not one.fetched:
                heappush(self._starts, one.start_s)

    def waiting(self, now_s: float) -> int:
        """Number of jobs that have not begun and that no data were sent for."""
        while self._starts and self._starts[0] < now_s:
            heappop(self._starts)
        return len(self._starts)

    def withdraw(self, now_s: float) -> list[int]:
        """Take those back and return them; a job that stays keeps its machine, and may start earlier if it has not
        begun."""
        stays = [one for one in self.plan if one.fetched or one.start_s < now_s]
        goes = [one.job for one in self.plan if not one.fetched and one.start_s >= now_s]
        if goes:
            touched = {one.machine for one in self.plan if not one.fetched and one.start_s >= now_s}
            for machine in sorted(touched):
                self._mapper.free.restore(machine)
            for one in stays:
                if one.machine in touched:
                    self._again(one, now_s)
        self._mapper.free.settle()
        self.plan, self._starts = [], []
        return goes

    def _again(self, one: Mapped, now_s: float) -> None:
        kind = self._jobs.kinds[self._jobs.kind[one.job]]
        run_s = one.end_s - one.start_s
        ready_s = one.ready_s if one.start_s < now_s else max(now_s, one.ready_s)
        self._set(one.job, one.machine, *self._mapper.free.take(one.machine, kind.processors, ready_s, run_s))

    def _set(self, job: int, machine: int, start_s: float, end_s: float) -> None:
        self.machine[job], self.start_s[job], self.end_s[job] = machine, start_s, end_s


def _batch(jobs: Jobs, policy: Policy) -> _Ends:
    mapper = JobMapper(jobs.machines, jobs.kinds, jobs.items, jobs.kind.tolist(), jobs.work_s.tolist())
    maps = mapper.min_min if policy == "min-min" else mapper.sufferage
    book, came = _Book(jobs, mapper), 0
    for now_s, new in _arrivals(jobs):
        came += len(new)
        if came * REMAPPED >= book.waiting(now_s):
            new, came = sorted([*book.withdraw(now_s), *new]), 0
        book.add(maps(new, now_s))
    return book.machine, book.start_s, book.end_s, mapper.bytes_moved


def _arrivals(jobs: Jobs) -> list[tuple[float, list[int]]]:
    """Jobs by the time they come."""
    times = jobs.submit_s[jobs.submission].tolist()
    return [(now_s, list(some)) for now_s, some in groupby(range(len(times)), key=times.__getitem__)]


# --- first start wins ----------------------------------------------------------------------------------------


class _Copies:
    """Each site's queue holds all that may run there, in order of submission, so kinds by (processors, where) suffice:
    the head of a site's queue is the oldest head among the kinds that may run there."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs, self.moved = jobs, 0.0
        count = len(jobs.kind)
        self.machine, self.start_s, self.end_s = [0] * count, [0.0] * count, [0.0] * count
        self.idle = jobs.machines.slots.astype(np.int64)
        self._ends: list[tuple[float, int, int]] = []
        """Heap of (end, machine, processors)."""
        alike: dict[tuple[int, bytes], int] = {}
        may = [(kind.processors, np.isfinite(kind.pace)) for kind in jobs.kinds]
        self._queue = [alike.setdefault((p, fits.tobytes()), len(alike)) for p, fits in may]
        """Place in `_queues`, by kind."""
        self._queues: list[deque[int]] = [deque() for _ in alike]
        self._fits = [np.frombuffer(fits, np.bool_) for _, fits in alike]
        self._wide = [processors for processors, _ in alike]
        site = {name: place for place, name in enumerate(jobs.machines.sites)}
        self._home = [jobs.machines.site == site[s.site] for s in jobs.submissions]

    def run(self) -> None:
        for now_s, new in _arrivals(self.jobs):
            self._until(now_s)
            for job in new:
                self._queues[self._queue[self.jobs.kind[job]]].append(job)
            for job in new:
                self._offer(job, now_s)
        self._until(inf)

    def _until(self, now_s: float) -> None:
        """Let jobs end up to then, those of one time together, and start others in their place."""
        while self._ends and self._ends[0][0] <= now_s:
            at_s, freed = self._ends[0][0], set[int]()
            while self._ends and self._ends[0][0] == at_s:
                _, machine, processors = heappop(self._ends)
                self.idle[machine] += processors
                freed.add(machine)
            self._start(freed, at_s)

    def _start(self, freed: set[int], now_s: float) -> None:
        """The oldest job that some of these machines can start goes first."""
        while freed:
            heads = [(job, machine) for machine in freed if (job := self._head(machine)) >= 0]
            if not heads:
                return
            job = min(heads)[0]
            some = [machine for one, machine in heads if one == job]
            home = self._home[self.jobs.submission[job]]
            self._begin(job, min(some, key=lambda machine: (not home[machine], machine)), now_s)
            freed = {machine for _, machine in heads}
            queue = self._queue[self.jobs.kind[job]]
            if self._wide[queue] > 1:
                # It may have held up machines that were too small for it just then.
                freed.update(np.flatnonzero(self._fits[queue] & (self.idle > 0)).tolist())

    def _head(self, machine: int) -> int:
        """The head of that machine's queue if it can start; else -1."""
        oldest, queue = -1, -1
        for number, waiting in enumerate(self._queues):
            if waiting and self._fits[number][machine] and (oldest < 0 or waiting[0] < oldest):
                oldest, queue = waiting[0], number
        return oldest if oldest >= 0 and self._wide[queue] <= self.idle[machine] else -1

    def _offer(self, job: int, now_s: float) -> None:
        """Offer a job that has come: some idle machine may start it, unless older ones wait there."""
        queue = self._queue[self.jobs.kind[job]]
        waiting = self._queues[queue]
        if not waiting or waiting[0] != job:
            return
        can = self._fits[queue] & (self.idle >= self._wide[queue])
        for number, others in enumerate(self._queues):
            if others and others[0] < job:
                can = can & ~self._fits[number]
        at_home = can & self._home[self.jobs.submission[job]]
        if at_home.any():
            self._begin(job, int(at_home.argmax()), now_s)
        elif can.any():
            self._begin(job, int(can.argmax()), now_s)

    def _begin(self, job: int, machine: int, now_s: float) -> None:
        kind = self.jobs.kinds[self.jobs.kind[job]]
        self._queues[self._queue[self.jobs.kind[job]]].popleft()
        ready = self.jobs.items.ready_s(kind, now_s)
        start_s = now_s if ready is None else max(now_s, float(ready[machine]))
        self.moved += self.jobs.items.send_for(kind, machine, now_s)
        end_s = start_s + float(self.jobs.work_s[job] * kind.pace[machine])
        self.machine[job], self.start_s[job], self.end_s[job] = machine, start_s, end_s
        self.idle[machine] -= kind.processors
        heappush(self._ends, (end_s, machine, kind.processors))


def _first_start(jobs: Jobs) -> _Ends:
    copies = _Copies(jobs)
    copies.run()
    return copies.machine, copies.start_s, copies.end_s, copies.moved
