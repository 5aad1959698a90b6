"""Which running jobs a site ends for the components of a gang that wait there: pre-emptible ones alone, as few as will
do, the newest start first (SPEC D4, K5; Mohamed & Epema, section 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from diana.model.ids import SubgroupId
from diana.model.words import counted
from diana.policy.gang.queues import GangLevel


class EndableJob(NamedTuple):
    """A running job that may be ended for a gang."""

    part: SubgroupId
    epoch: int
    number: int
    """Its index."""
    processors: int
    gpus: int
    started_s: float


class MachineRoom(NamedTuple):
    """A machine that may take such components."""

    name: str
    processors: int
    """Those that are idle, or will be since jobs there are being ended; fewer than none where others wait there."""
    gpus: int
    most: int
    """Components that it may be given, however much room there is."""
    jobs: tuple[EndableJob, ...]


class WayMade(NamedTuple):
    ended: Mapping[str, tuple[EndableJob, ...]]
    """Machine -> jobs that end there."""
    rooms: Mapping[str, int]
    """Machine -> components that will have room there; empty: they wait."""
    reason: str


class _Machine:
    """A machine while jobs of it are chosen."""

    def __init__(self, room: MachineRoom, processors: int, gpus: int) -> None:
        self.name = room.name
        self._each, self._each_gpus = processors, gpus
        self._processors, self._gpus = room.processors, room.gpus
        self._left = sorted(room.jobs, key=_newest)
        self._most = room.most
        self.chosen: list[EndableJob] = []
        self.components = 0

    def takes_idle(self, at_most: int) -> int:
        """Take room for components that need nobody's end; return how many."""
        fits = self._processors // self._each
        if self._each_gpus:
            fits = min(fits, self._gpus // self._each_gpus)
        some = max(0, min(fits, at_most, self._most))
        self._take(some)
        return some

    def next_ended(self) -> list[EndableJob] | None:
        """Return the jobs whose end makes room for one more component, none that could be spared; None: there are no
        such."""
        if self.components >= self._most:
            return None
        some: list[EndableJob] = []
        processors, gpus = self._processors, self._gpus
        for job in self._left:
            if processors >= self._each and gpus >= self._each_gpus:
                break
            if processors < self._each or job.gpus:
                some.append(job)
                processors, gpus = processors + job.processors, gpus + job.gpus
        if processors < self._each or gpus < self._each_gpus:
            return None
        for job in reversed(some.copy()):
            if processors - job.processors >= self._each and gpus - job.gpus >= self._each_gpus:
                some.remove(job)
                processors, gpus = processors - job.processors, gpus - job.gpus
        return some

    def ends(self, some: list[EndableJob]) -> None:
        gone = set(some)
        self._left = [job for job in self._left if job not in gone]
        self.chosen += some
        self._processors += sum(job.processors for job in some)
        self._gpus += sum(job.gpus for job in some)
        self._take(1)

    def spare(self) -> None:
        """Let those run on that later choices made needless, the one with the longest run first."""
        for job in sorted(self.chosen, key=_newest, reverse=True):
            if job.processors <= self._processors and job.gpus <= self._gpus:
                self.chosen.remove(job)
                self._processors, self._gpus = self._processors - job.processors, self._gpus - job.gpus

    def _take(self, components: int) -> None:
        self.components += components
        self._processors -= components * self._each
        self._gpus -= components * self._each_gpus


def make_way(
    components: int,
    processors: int,
    gpus: int,
    level: GangLevel,
    machines: Sequence[MachineRoom],
    now_s: float,
) -> WayMade:
    """Choose for so many alike components, each with its processors and GPUs on one machine. Nobody is ended where all
    that may be would not do: the gang would wait all the same. Super-low gangs end nobody's work."""
    some = [_Machine(room, processors, gpus) for room in sorted(machines)]
    left = components
    for machine in some:
        left -= machine.takes_idle(left)
    if left > 0 and level is GangLevel.SUPER_LOW:
        return WayMade({}, {}, "gangs of the level super-low end nobody's work")
    heap = [_candidate(machine, at, now_s) for at, machine in enumerate(some)]
    ready = [one for one in heap if one is not None]
    heapify(ready)
    while left > 0 and ready:
        at, ended = heappop(ready)[2:]
        some[at].ends(list(ended))
        left -= 1
        following = _candidate(some[at], at, now_s)
        if following is not None:
            heappush(ready, following)
    if left > 0:
        others = sum(len(room.jobs) for room in machines)
        told = f"the {others} preemptible jobs that run here" if others else "no preemptible job that runs here"
        why = "would not make room for all of it" if others else "could make way"
        return WayMade({}, {}, f"{told} {why}")
    for machine in some:
        machine.spare()
    ended_by = {machine.name: tuple(machine.chosen) for machine in some if machine.chosen}
    jobs = [job for these in ended_by.values() for job in these]
    lost_s = sum(max(0.0, now_s - job.started_s) for job in jobs)
    freed = sum(job.processors for job in jobs)
    those = "1 preemptible job ends" if len(jobs) == 1 else f"{len(jobs)} preemptible jobs end"
    told = f"{those}, of {counted(freed, 'processor')}, the newest first; they had run for {lost_s:.0f} s together"
    rooms = {machine.name: machine.components for machine in some if machine.components}
    return WayMade(ended_by, rooms, told if jobs else "there is room")


def _newest(job: EndableJob) -> tuple[float, str, int, int]:
    return -job.started_s, job.part, job.epoch, job.number


def _candidate(machine: _Machine, at: int, now_s: float) -> tuple[int, float, int, tuple[EndableJob, ...]] | None:
    """Return (jobs, seconds of their runs, number of the machine, these) for one more component there."""
    some = machine.next_ended()
    return None if some is None else (len(some), _lost_s(some, now_s), at, tuple(some))


def _lost_s(some: Iterable[EndableJob], now_s: float) -> float:
    return sum((max(0.0, now_s - job.started_s) for job in some), 0.0)
