"""Which running jobs a site ends for the components of a gang that wait there: pre-emptible ones alone, as few as will
do, the newest start first (SPEC D4, K5; Mohamed & Epema, section 6.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from diana.model.ids import SubgroupId
from diana.model.job.resources import PROCESSORS, Amounts, give_back, how_many, take
from diana.model.words import counted
from diana.policy.gang.queues import GangLevel


class EndableJob(NamedTuple):
    """A running job that may be ended for a gang."""

    part: SubgroupId
    epoch: int
    number: int
    """Its index."""
    processors: int
    held: Amounts
    """Beside processors."""
    started_s: float


class MachineRoom(NamedTuple):
    """A machine that may take such components."""

    name: str
    processors: int
    """Those that are idle, or will be since jobs there are being ended; fewer than none where others wait there."""
    left: Amounts
    """The same of each resource that a component asks for; those of which there is none may be left out."""
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

    def __init__(self, room: MachineRoom, each: Amounts) -> None:
        self.name = room.name
        self._each = each
        none = dict.fromkeys((name for name, _ in each), 0)
        self._left_over = {**none, **dict(room.left), PROCESSORS: room.processors}
        self._left = sorted(room.jobs, key=_newest)
        self._most = room.most
        self.chosen: list[EndableJob] = []
        self.components = 0

    def takes_idle(self, at_most: int) -> int:
        """Take room for components that need nobody's end; return how many."""
        some = max(0, min(how_many(self._left_over, self._each), at_most, self._most))
        self._take(some)
        return some

    def next_ended(self) -> list[EndableJob] | None:
        """Return the jobs whose end makes room for one more component, none that could be spared; None: there are no
        such."""
        if self.components >= self._most:
            return None
        some: list[EndableJob] = []
        left = dict(self._left_over)
        for job in self._left:
            lacks = {name for name, count in self._each if left[name] < count}
            if not lacks:
                break
            if any(name in lacks for name, _ in _all_of(job)):
                some.append(job)
                give_back(left, _all_of(job))
        if not how_many(left, self._each):
            return None
        for job in reversed(some.copy()):
            take(left, _all_of(job))
            if how_many(left, self._each):
                some.remove(job)
            else:
                give_back(left, _all_of(job))
        return some

    def ends(self, some: list[EndableJob]) -> None:
        gone = set(some)
        self._left = [job for job in self._left if job not in gone]
        self.chosen += some
        for job in some:
            give_back(self._left_over, _all_of(job))
        self._take(1)

    def spare(self) -> None:
        """Let those run on that later choices made needless, the one with the longest run first."""
        for job in sorted(self.chosen, key=_newest, reverse=True):
            if how_many(self._left_over, _all_of(job)):
                self.chosen.remove(job)
                take(self._left_over, _all_of(job))

    def _take(self, components: int) -> None:
        self.components += components
        take(self._left_over, self._each, components)


def make_way(
    components: int,
    processors: int,
    amounts: Amounts,
    level: GangLevel,
    machines: Sequence[MachineRoom],
    now_s: float,
) -> WayMade:
    """Choose for so many alike components, each with its processors and amounts on one machine. Nobody is ended where
    all that may be would not do: the gang would wait all the same. Super-low gangs end nobody's work."""
    each = ((PROCESSORS, processors), *amounts)
    some = [_Machine(room, each) for room in sorted(machines)]
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


def _all_of(job: EndableJob) -> Amounts:
    return ((PROCESSORS, job.processors), *job.held)


def _newest(job: EndableJob) -> tuple[float, str, int, int]:
    return -job.started_s, job.part, job.epoch, job.number


def _candidate(machine: _Machine, at: int, now_s: float) -> tuple[int, float, int, tuple[EndableJob, ...]] | None:
    """Return (jobs, seconds of their runs, number of the machine, these) for one more component there."""
    some = machine.next_ended()
    return None if some is None else (len(some), _lost_s(some, now_s), at, tuple(some))


def _lost_s(some: Iterable[EndableJob], now_s: float) -> float:
    return sum((max(0.0, now_s - job.started_s) for job in some), 0.0)
