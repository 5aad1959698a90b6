"""Figures of gangs from the records that sites make durable (SPEC K9). What is not of a gang is passed over."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec

from diana.engine.journal import records as r
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.job import gang
from diana.model.job.spec import GroupSpec, decode_spec
from diana.sim.kernel.clock import Clock


class GangFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures over the gangs that were done; times are means in seconds. 0 where there is none of them."""

    gangs: int
    """Gangs submitted."""
    done: int
    """Those of which every component was done."""
    coallocated: float
    """Share of these that ran at several sites."""
    clusters: float
    """Sites that a gang ran at, the mean."""
    spread: float
    """Sites over components, the mean (Mohamed & Epema, section 7.8)."""
    ftt_s: float
    """File transfer time, as estimated when it was placed for the last time."""
    placement_s: float
    """From submission to the first place."""
    placement_total_s: float
    """From submission to the last place."""
    start_delay_s: float
    """From the last place, and the transfer that was estimated for it, to the start."""
    wait_s: float
    """From submission to the start."""
    execution_s: float
    """From the start to the last result."""
    response_s: float
    """From submission to the last result."""
    overhead_s: float
    """From the record that lets a gang go to the last of its components that is let go."""
    pwt_s: float
    """Processor wasted time of a gang: processor-seconds for which components held processors and waited, those of
    tries that came to nothing among them."""
    pgt_s: float
    """Processor gained time: processor-seconds between a place and its claim, left to others."""
    placements: float
    """Times that a gang was placed, the mean."""
    broken: int
    """Gangs that were let go and had to be placed anew."""
    yielded: int
    """Claims that came to nothing before their gang was let go, in components."""


class _Gang:
    def __init__(self, submitted_s: float, size: int) -> None:
        self.submitted_s, self.size = submitted_s, size
        self.placed_s: list[float] = []
        self.go_s: list[float] = []
        self.ftt_s = self.released_s = self.ended_s = self.pwt_s = self.pgt_s = 0.0
        self.sites: frozenset[SiteId] = frozenset()
        self.done: set[int] = set()

    @property
    def over(self) -> bool:
        return len(self.done) >= self.size and bool(self.go_s)


class _Claim:
    def __init__(self, key: tuple[GroupId, int], processors: int, placed_s: float) -> None:
        self.key, self.processors, self.placed_s = key, processors, placed_s
        self.held_s: dict[int, float] = {}
        """Index -> since when it holds its processors."""


class _GroupOf:
    def __init__(self, spec: bytes) -> None:
        self._bytes = spec

    @cached_property
    def spec(self) -> GroupSpec:
        return decode_spec(self._bytes)


class GangBook:
    """Follows the records of all sites."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[GroupId, _GroupOf] = {}
        self._gangs: dict[tuple[GroupId, int], _Gang] = {}
        self._claims: dict[tuple[SubgroupId, int], _Claim] = {}
        self._yielded = 0

    def committed(self, site: SiteId, record: r.Record) -> None:
        now_s = self._clock.now_s
        match record:
            case r.GroupSubmitted():
                self._submitted(record, now_s)
            case r.GroupPlaced() if record.group in self._groups:
                self._placed(record, now_s)
            case r.RunsStarted():
                claim = self._claims.get((record.subgroup, record.epoch))
                for index in record.indices if claim is not None else ():
                    assert claim is not None
                    claim.held_s[index] = now_s
                    self._gangs[claim.key].pgt_s += claim.processors * (now_s - claim.placed_s)
            case r.GangGo():
                for key in sorted({self._claims[(one.subgroup, one.epoch)].key for one in record.parts}):
                    self._gangs[key].go_s.append(now_s)
                    self._gangs[key].size -= len(record.unused) if len(self._gangs[key].go_s) == 1 else 0
            case r.CustodyRunnable():
                claim = self._claims.get((record.subgroup, record.epoch))
                if claim is not None:
                    self._wasted(claim, tuple(claim.held_s), now_s)
                    self._gangs[claim.key].released_s = now_s
            case r.RunsReturned():
                claim = self._claims.get((record.subgroup, record.epoch))
                if claim is not None:
                    some = [index for index in record.indices if index in claim.held_s]
                    self._yielded += len(some)
                    self._wasted(claim, some, now_s)
            case r.ResultAccepted():
                claim = self._claims.get((record.subgroup, record.epoch))
                if claim is not None:
                    one = self._gangs[claim.key]
                    one.done.update(record.done)
                    one.ended_s = now_s

    def _submitted(self, record: r.GroupSubmitted, now_s: float) -> None:
        group = _GroupOf(record.spec)
        if not group.spec.is_gang or record.returned:
            return
        self._groups[record.group] = group
        size = group.spec.gang_size
        for number in range(record.jobs // size):
            self._gangs[(record.group, number)] = _Gang(now_s, size)

    def _placed(self, record: r.GroupPlaced, now_s: float) -> None:
        spec, told = self._groups[record.group].spec, record.decision.gang
        for part in record.parts:
            key = (record.group, part.indices.bounds[0] // spec.gang_size)
            one = self._gangs[key]
            one.placed_s = [*one.placed_s, now_s] if one.placed_s[-1:] != [now_s] else one.placed_s
            one.ftt_s = told.transfer_s if told is not None else 0.0
            one.sites = frozenset(each.site for each in record.parts)
            each = gang.of_part(spec, part.indices, part.processors).resources.processors
            self._claims[(part.subgroup, part.epoch)] = _Claim(key, each, now_s)

    def _wasted(self, claim: _Claim, indices: Iterable[int], now_s: float) -> None:
        for index in list(indices):
            self._gangs[claim.key].pwt_s += claim.processors * (now_s - claim.held_s.pop(index))

    def report(self) -> GangFigures:
        every = list(self._gangs.values())
        over = [one for one in every if one.over]

        def mean(values: Iterable[float]) -> float:
            some = list(values)
            return sum(some) / len(some) if some else 0.0

        return GangFigures(
            gangs=len(every),
            done=len(over),
            coallocated=mean(float(len(one.sites) > 1) for one in over),
            clusters=mean(len(one.sites) for one in over),
            spread=mean(len(one.sites) / one.size for one in over),
            ftt_s=mean(one.ftt_s for one in over),
            placement_s=mean(one.placed_s[0] - one.submitted_s for one in over),
            placement_total_s=mean(one.placed_s[-1] - one.submitted_s for one in over),
            start_delay_s=mean(max(0.0, one.go_s[-1] - one.placed_s[-1] - one.ftt_s) for one in over),
            wait_s=mean(one.go_s[-1] - one.submitted_s for one in over),
            execution_s=mean(one.ended_s - one.go_s[-1] for one in over),
            response_s=mean(one.ended_s - one.submitted_s for one in over),
            overhead_s=mean(max(0.0, one.released_s - one.go_s[-1]) for one in over),
            pwt_s=mean(one.pwt_s for one in over),
            pgt_s=mean(one.pgt_s for one in over),
            placements=mean(len(one.placed_s) for one in over),
            broken=sum(max(0, len(one.go_s) - 1) for one in every),
            yielded=self._yielded,
        )
