"""A deal: how many jobs of each block each site gets, what that costs, and when each site would end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from diana.policy.allotment import allot
from diana.policy.demand import Block
from diana.policy.filling import Lines
from diana.policy.grid import Grid, completion, stage_out_s, sums_by
from diana.policy.sites import Floats, Ints

_NOTHING = 1e-9


class Times(msgspec.Struct, frozen=True):
    """(S,) terms of what each site was dealt; meaningless where that is nothing."""

    stage_in_s: Floats
    run_s: Floats
    stage_out_s: Floats
    end_s: Floats


class Deal:
    """Filled by `give`. Bytes come once per site, links of one plan that leave the same holder share its uplink."""

    def __init__(self, grid: Grid, blocks: Sequence[Block]) -> None:
        self.grid, self.blocks = grid, blocks
        sites, data = len(grid.table), grid.data
        self.counts: Ints = np.zeros((len(blocks), sites), dtype=np.int64)
        """(B, S) jobs of each block at each site."""
        self.jobs: Floats = np.zeros(sites)
        self.lanes, self.rate = grid.lanes, grid.rate
        # A group that fits into the lanes at hand is dealt in whole jobs, so that home fills first. A larger one is
        # dealt as a fluid: whole jobs would fill every first wave alike and carry data past its own site.
        fits = grid.jobs <= grid.lanes.sum()
        self.floor_s: Floats = grid.job_s if fits or len(blocks) == 1 else np.zeros(sites)
        links = len(data.holders) if data else 0
        self.shared_s: Floats = np.zeros((links, sites))
        """(H, S) on each link: data the site's first job waits for."""
        self.own_s: Floats = np.zeros((links, sites))
        """(H, S) data of some of the site's jobs."""
        self.linked = np.zeros((links, sites), dtype=bool)
        self.sent: Floats = np.zeros(links)
        """(H,) bytes that leave each holder."""
        self.units: Floats = np.zeros(sites)
        """Loads of data that arrive one after the other at each site."""
        self.plain: Floats = np.zeros(sites)
        """Jobs that need none of those."""
        self.bytes_in: Floats = np.zeros(sites)
        self.readers: Floats = np.zeros((len(grid.demand.needs) if data else 0, sites))
        self.parted = [b.parted() for b in blocks]
        self.all_read = [_of_everyone(grid, b) for b in blocks]
        self.divided = [_bytes_by_kind(grid, divided) for _, divided in self.parted]
        """(K,) of each block: bytes of which each job has its share."""

    def give(self, number: int, jobs: int, s: int) -> None:
        """`jobs` jobs of block `number` to site `s`; a negative number takes them back."""
        had = int(self.counts[number, s])
        self.counts[number, s] += jobs
        self.jobs[s] += jobs
        data = self.grid.data
        if data is None:
            return
        block, (whole, divided) = self.blocks[number], self.parted[number]
        for n in whole:
            before = self.readers[n, s]
            self.readers[n, s] += jobs
            share = float(self.readers[n, s] > 0) - float(before > 0)
            if share:
                self._move(int(data.kind[n]), s, float(data.size[n]) * share, data.everyones[n])
        for k in np.flatnonzero(self.divided[number]):
            self._move(int(k), s, self.divided[number][k] * jobs / len(block.indices), False)
        if self.all_read[number]:
            self.plain[s] += jobs
        elif divided:
            self.units[s] += jobs
        else:
            self.units[s] += float(had + jobs > 0) - float(had > 0)

    def give_all(self, number: int, counts: Ints) -> None:
        """(S,) so many jobs of block `number` to each site."""
        if self.grid.data is None:
            self.counts[number] += counts
            self.jobs += counts
            return
        for s in np.flatnonzero(counts):
            self.give(number, int(counts[s]), int(s))

    def on(self, grid: Grid) -> Deal:
        """The same jobs dealt, at other prices."""
        out = Deal(grid, self.blocks)
        for number, counts in enumerate(self.counts):
            out.give_all(number, counts)
        out.limit()
        return out

    def _move(self, k: int, s: int, size_bytes: float, everyones: bool) -> None:
        data = self.grid.data
        if data is None or not data.missing[k, s]:
            return
        via = data.via[k, s]
        if not self.linked[via, s]:
            self.linked[via, s] = True
            self.shared_s[via, s] += data.start_s[k, s]
        into = self.shared_s if everyones else self.own_s
        into[via, s] += size_bytes * data.s_per_byte[k, s]
        self.sent[via] += size_bytes
        self.bytes_in[s] += size_bytes

    def loads(self) -> tuple[Floats, Floats]:
        """(lead, stage in), (S,)."""
        data = self.grid.data
        if data is None or not self.linked.any():
            none = np.zeros(len(self.jobs)) if self.grid.program_s is None else self.grid.program_s
            return none, none
        first = np.where(self.plain > 0, 0.0, 1.0 / np.maximum(self.units, 1.0))
        with np.errstate(invalid="ignore"):
            leads = self.shared_s + np.where(self.own_s > 0, self.own_s * first, 0.0)
        stages = self.shared_s + self.own_s
        if data.uplinks:
            shared_out = (self.sent * data.uplink_s_per_byte)[:, None]
            stages = np.where(stages > 0, np.maximum(stages, shared_out), stages)
            part = np.divide(leads, self.shared_s + self.own_s, out=np.zeros_like(leads), where=stages > 0)
            leads = np.maximum(leads, stages * np.nan_to_num(part))
        lead, stage = leads.max(axis=0), stages.max(axis=0)
        if self.grid.program_s is not None:
            lead, stage = lead + self.grid.program_s, stage + self.grid.program_s
        return lead, stage

    def tail_jobs(self) -> Floats:
        """(S,) jobs whose data may come last: the largest block's there."""
        own = [n for n, all_read in enumerate(self.all_read) if not all_read]
        if not own:
            return np.zeros(len(self.jobs))
        out: Floats = np.max(
            [np.minimum(self.counts[n], 1) if self.parted[n][1] else self.counts[n] for n in own], axis=0
        ).astype(np.float64)
        return out

    def times(self, waves: bool = False) -> Times:
        """`waves`: with jobs that cannot be cut; else fluid."""
        grid = self.grid
        with np.errstate(divide="ignore", invalid="ignore"):
            lead, stage = self.loads()
            tail = self.tail_jobs()
            if waves:
                run = np.ceil(self.jobs / self.lanes) * grid.job_s
                tail_s = np.ceil(tail / self.lanes) * grid.job_s
            else:
                run = np.maximum(self.jobs / self.rate, grid.job_s)
                tail_s = np.where(tail > 0, np.maximum(tail / self.rate, grid.job_s), 0.0)
            start, end = completion(grid.wait_s, lead, stage, run, tail_s)
            out = np.zeros_like(run)
            if grid.out_s is not None:
                out = stage_out_s(self.jobs, self.lanes, grid.out_s, end - start, grid.job_s)
        ends = end + out + grid.network_s
        return Times(stage_in_s=stage, run_s=run, stage_out_s=out, end_s=ends)

    def ends(self) -> Floats:
        """(S,) when each site ends; 0 where nothing was dealt."""
        out: Floats = np.where(self.jobs > 0, self.times().end_s, 0.0)
        return out

    def makespan_s(self) -> float:
        return float(self.ends().max(initial=0.0))

    def lines(self, number: int) -> Lines:
        """How the sites could take jobs of this block beside those they have, for water-filling."""
        grid, sites = self.grid, len(self.jobs)
        lead, stage = self.loads()
        none: Floats = np.zeros(sites)
        always: Floats = np.full(sites, np.inf)
        tail_start, tail_rate, tail_had, tail_least = none, always, none, none
        whole, divided = self.parted[number]
        if grid.data is not None and self.blocks[number].needs:
            new, per_job = self._to_come(number, whole, divided)
            stage = stage + new
            if self.all_read[number]:
                lead = lead + new
            else:
                lead = np.where(self.plain > 0, lead, np.maximum(lead, (lead + new) / (self.units + 1)))
                tail_start = stage + grid.network_s
                if divided:
                    tail_start, tail_rate = tail_start + self.floor_s, 1.0 / np.maximum(per_job, 1e-300)
                else:
                    tail_rate, tail_had = self.rate, self.counts[number].astype(np.float64)
                    tail_least = self.floor_s
        start, least, first = np.maximum(grid.wait_s, lead) + grid.network_s, self.floor_s, none
        if grid.out_s is not None:
            per_job_rate = 1.0 / np.maximum(grid.out_s, 1e-300)
            if np.isinf(tail_rate).all():
                tail_start, tail_rate, tail_had = start + self.floor_s, per_job_rate, self.jobs
                first = np.minimum(self.lanes, grid.jobs)
            wave_s = np.minimum(self.lanes, grid.jobs) * grid.out_s
            start, least = start + wave_s, least - wave_s if first.any() else least
        return Lines(
            start_s=start,
            rate=self.rate,
            had=self.jobs,
            least_s=least,
            first=first,
            tail_start_s=tail_start,
            tail_rate=tail_rate,
            tail_had=tail_had,
            tail_least_s=tail_least,
            room=grid.table.max_jobs - self.jobs,
        )

    def bytes_to_come(self, number: int, jobs: int) -> Floats:
        """(K, S) that each site lacks for so many jobs of a block; (0, S) without data."""
        data = self.grid.data
        if data is None:
            return np.zeros((0, len(self.jobs)))
        out = np.zeros(data.missing.shape)
        for n in self.parted[number][0]:
            out[data.kind[n]] += np.where(self.readers[n] == 0, data.size[n], 0.0)
        if self.parted[number][1]:
            out += (self.divided[number] * (jobs / len(self.blocks[number].indices)))[:, None]
        return out * data.missing

    def _to_come(self, number: int, whole: tuple[int, ...], divided: tuple[int, ...]) -> tuple[Floats, Floats]:
        """(S,) seconds until the undivided data of a block come that are not there yet, and per job of the divided."""
        data = self.grid.data
        assert data is not None
        new, per_job = np.zeros((2, len(self.jobs)))
        for n in whole:
            k = data.kind[n]
            absent = (self.readers[n] == 0) & (data.missing[k] > 0)
            new = new + np.where(absent, data.start_s[k] + max(data.size[n], _NOTHING) * data.s_per_byte[k], 0.0)
        if divided:
            for k in np.flatnonzero(self.divided[number]):
                per_job = per_job + self.divided[number][k] / len(self.blocks[number].indices) * data.s_per_byte[k]
            new = np.where(np.isinf(per_job), np.inf, new)
        return new, per_job

    def limit(self) -> None:
        """The sites share the group's `max_parallel`: each runs what it is allotted, not the whole of it."""
        used = [int(s) for s in np.flatnonzero(self.jobs)]
        most = self.grid.demand.max_parallel
        if most and len(used) <= most:
            shares = allot(most, [round(self.jobs[s]) for s in used])
            self.lanes = self.lanes.copy()
            self.lanes[used] = np.minimum(self.lanes[used], shares)
            self.rate = self.lanes / self.grid.job_s


def _of_everyone(grid: Grid, block: Block) -> bool:
    """Whether its jobs need nothing but what every job of the group reads."""
    return grid.data is None or all(grid.data.everyones[n] for n in block.needs)


def _bytes_by_kind(grid: Grid, needs: Sequence[int]) -> Floats:
    data = grid.data
    if data is None or not needs:
        return np.zeros(0)
    some = list(needs)
    return sums_by(data.kind[some], np.maximum(data.size[some], _NOTHING), len(data.kinds))
