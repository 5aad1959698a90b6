"""Dealing the jobs of a split group out over sites: heuristics over one table of costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

import numpy as np

from diana.model.decision import PlannedPart
from diana.model.indexset import IndexSet
from diana.policy.allotment import allot
from diana.policy.cost import Floats, Grid
from diana.policy.demand import Block, Demand

CHUNKS_PER_SITE = 16
"""How finely a group is dealt out; more is closer to the fluid optimum and slower. A chunk is of one block, so there
are at most this many per site and one more per block, however many jobs."""


class Deal:
    """How many jobs of each block each site has been dealt, and what follows from it."""

    def __init__(self, demand: Demand, table: Grid, blocks: Sequence[Block]) -> None:
        self.demand = demand
        self.table = table
        self.blocks = blocks
        sites = len(table.sites)
        self.capacity = table.lanes * table.speed
        self.least_s = demand.work_s / table.speed
        # A group that fits into the lanes at hand is dealt in whole jobs, so that home fills first. A larger one is
        # dealt as a fluid: whole jobs would fill every first wave alike and carry data past its own site.
        self.floor_s = self.least_s if len(demand.indices) <= table.lanes.sum() else np.zeros(sites)
        self.work_s = np.zeros(sites)
        self.stage_s = np.zeros(sites)
        self.bytes_in = np.zeros(sites)
        self.readers = np.zeros((len(demand.needs), sites))
        self.dealt: list[dict[int, int]] = [{} for _ in blocks]

    def give(self, number: int, jobs: int, s: int) -> None:
        """`jobs` jobs of block `number` to site `s`; a negative number takes them back."""
        block, needs = self.blocks[number], list(self.blocks[number].needs)
        self.work_s[s] += jobs * self.demand.work_s
        if needs:
            share = self._share(block, jobs, s)
            self.stage_s[s] += _times(self.table.fetch_s[needs, s], share).sum()
            self.bytes_in[s] += (self.table.missing_bytes[needs, s] * share).sum()
            self.readers[needs, s] += jobs
        self.dealt[number][s] = self.dealt[number].get(s, 0) + jobs

    def _share(self, block: Block, jobs: int, s: int) -> Floats | float:
        """Which part of each need's bytes comes (or goes again) with these jobs."""
        if block.divisible:
            return jobs / len(block.indices)
        had = self.readers[list(block.needs), s]
        share: Floats = ((had + jobs) > 0).astype(float) - (had > 0)
        return share

    def ends_with(self, number: int, jobs: int, floor_s: Floats | None = None) -> Floats:
        """(S,) when each site would end if it were dealt these jobs too; `floor_s`: no run is shorter."""
        block, needs = self.blocks[number], list(self.blocks[number].needs)
        stage = self.stage_s
        if needs:
            new = jobs / len(block.indices) if block.divisible else (self.readers[needs] == 0)
            stage = stage + _times(self.table.fetch_s[needs], new).sum(axis=0)
        run = np.maximum(
            (self.work_s + jobs * self.demand.work_s) / self.capacity, self.floor_s if floor_s is None else floor_s
        )
        ends: Floats = np.maximum(self.table.wait_s, stage) + run + self.table.network_s
        return ends

    def limit(self) -> None:
        """The sites share the group's `max_parallel`: each runs what it is allotted, not the whole of it."""
        used = [int(s) for s in np.flatnonzero(self.work_s)]
        most = self.demand.max_parallel
        if most and len(used) <= most:
            jobs = [round(self.work_s[s] / self.demand.work_s) for s in used]
            lanes = np.minimum(self.table.lanes[used], allot(most, jobs))
            self.capacity[used] = lanes * self.table.speed[used]

    def ends(self) -> Floats:
        """(S,) when each site ends; 0 where nothing was dealt."""
        run = np.maximum(self.work_s / self.capacity, self.least_s)
        ends = np.maximum(self.table.wait_s, self.stage_s) + run + self.table.network_s
        out: Floats = np.where(self.work_s > 0, ends, 0.0)
        return out

    def makespan_s(self) -> float:
        return float(self.ends().max(initial=0.0))

    def moved_bytes(self) -> float:
        return float(self.bytes_in.sum())

    def parts(self) -> list[tuple[PlannedPart, IndexSet]]:
        """Per site with jobs; like jobs lie side by side, so that a part has few ranges."""
        got: dict[int, list[IndexSet]] = {}
        for block, counts in zip(self.blocks, self.dealt, strict=True):
            rest = block.indices
            for s, jobs in sorted(counts.items()):
                span, rest = rest.take(jobs)
                got.setdefault(s, []).append(span)
        ends = self.ends()
        out = []
        for s, spans in sorted(got.items()):
            indices = IndexSet.union(spans)
            if indices:
                part = PlannedPart(
                    site=self.table.sites[s].site,
                    jobs=len(indices),
                    bytes_in=round(self.bytes_in[s]),
                    predicted_end_s=float(ends[s]),
                )
                out.append((part, indices))
        return out


def _times(seconds: Floats, share: Floats | float) -> Floats:
    """Nothing of something that never arrives takes no time."""
    out: Floats = np.where(share, seconds, 0.0) * share
    return out


def _step(deal: Deal) -> int:
    return max(1, ceil(len(deal.demand.indices) / (CHUNKS_PER_SITE * len(deal.table.sites))))


def _chunks(block: Block, step: int) -> Iterator[int]:
    left = len(block.indices)
    while left:
        yield min(step, left)
        left -= min(step, left)


def _has_data(deal: Deal, number: int) -> bool:
    return any(deal.demand.needs[n].size_bytes() for n in deal.blocks[number].needs)


def deal_in_turns(deal: Deal) -> Deal:
    """Each chunk to where it ends first given those dealt before; blocks with data first, and blocks whose data lie at
    different sites in turns, so that every site fills with its own data before it is offered another's."""
    needs = deal.demand.needs
    where = [tuple(sorted({tuple(sorted(needs[n].holders)) for n in b.needs})) for b in deal.blocks]
    totals: dict[object, int] = {}
    for block, at in zip(deal.blocks, where, strict=True):
        totals[at] = totals.get(at, 0) + len(block.indices)
    before: dict[object, int] = dict.fromkeys(totals, 0)
    step = _step(deal)
    order: list[tuple[bool, float, int, int]] = []
    for number, (block, at) in enumerate(zip(deal.blocks, where, strict=True)):
        for jobs in _chunks(block, step):
            order.append((not _has_data(deal, number), before[at] / totals[at], number, jobs))
            before[at] += jobs
    for _, _, number, jobs in sorted(order):
        deal.give(number, jobs, int(np.argmin(deal.ends_with(number, jobs))))
    return _even_out(deal, step)


def deal_to_the_data(deal: Deal) -> Deal:
    """Each block with data to the site that has most of it, the others to where they end first."""
    step = _step(deal)
    for number in _data_first(deal):
        if _has_data(deal, number):
            fetch = deal.table.fetch_s[list(deal.blocks[number].needs)].sum(axis=0)
            near = np.where(fetch <= fetch.min(), deal.ends_with(number, len(deal.blocks[number].indices)), np.inf)
            deal.give(number, len(deal.blocks[number].indices), int(np.argmin(near)))
        else:
            for jobs in _chunks(deal.blocks[number], step):
                deal.give(number, jobs, int(np.argmin(deal.ends_with(number, jobs))))
    return _even_out(deal, step)


def _data_first(deal: Deal) -> list[int]:
    return sorted(range(len(deal.blocks)), key=lambda n: (not _has_data(deal, n), n))


def _even_out(deal: Deal, step: int) -> Deal:
    """Chunks move from the last site to end to where they end first, lightest data first, as long as that lowers the
    end; then smaller ones, down to a single job."""
    numbers = _data_first(deal)
    moves = sum(ceil(len(b.indices) / step) for b in deal.blocks)
    while step:
        while moves and _move_one(deal, numbers, step):
            moves -= 1
        step //= 2
        moves = len(deal.table.sites)
    return deal


def _move_one(deal: Deal, numbers: Sequence[int], step: int) -> bool:
    """Move one chunk away from the last site to end, if some site takes it and still ends earlier."""
    ends = deal.ends()
    last = int(np.argmax(ends))
    for number in reversed(numbers):
        jobs = min(deal.dealt[number].get(last, 0), step)
        if jobs:
            there = deal.ends_with(number, jobs, deal.least_s)
            there[last] = np.inf
            s = int(np.argmin(there))
            if there[s] < ends[last] - 1e-9:
                deal.give(number, -jobs, last)
                deal.give(number, jobs, s)
                return True
            return False
    return False
