"""A deal: the jobs of each block that each site gets, their cost, and the end at each site."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from diana.model.arrays import Floats, Ints, NDArray, np
from diana.policy.allocation.allotment import allot
from diana.policy.allocation.cargo import NOTHING, Cargo
from diana.policy.allocation.water_filling import Lines
from diana.policy.pricing.demand import Block
from diana.policy.pricing.grid import Grid, completion, stage_out_s


class Times(msgspec.Struct, frozen=True):
    """(S,) terms of the jobs dealt to each site; meaningless where it was dealt none."""

    stage_in_s: Floats
    run_s: Floats
    stage_out_s: Floats
    end_s: Floats


class _Held(NamedTuple):
    """(S,) loads of the jobs dealt to each site; never changed in place once handed out."""

    lead_s: Floats
    stage_s: Floats
    tail: Floats


class Deal:
    """Jobs dealt out to sites, filled by `give`. Bytes come once per site; links of one plan that leave the same holder
    share its uplink."""

    def __init__(self, grid: Grid, blocks: Sequence[Block], cargo: Cargo | None = None) -> None:
        """Begin with nothing dealt. `cargo`: the data of these blocks, if it was worked out before."""
        self.grid, self.blocks = grid, blocks
        self.cargo = cargo = cargo or Cargo(grid, blocks)
        sites, data = grid.sites, grid.data
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
        """(H, S) seconds on each link for data that the site's first job waits for."""
        self.own_s: Floats = np.zeros((links, sites))
        """(H, S) seconds on each link for data that only some of the site's jobs read."""
        self.linked = np.zeros((links, sites), dtype=bool)
        self.start_s: Floats = np.zeros((links, sites))
        """(H, S) part of `shared_s` before the first byte."""
        self.sent: Floats = np.zeros(links)
        """(H,) bytes that leave each holder."""
        self.units: Floats = np.zeros(sites)
        """(S,) loads of data that arrive one after the other at each site."""
        self.plain: Floats = np.zeros(sites)
        """(S,) jobs that need none of those loads."""
        self.bytes_in: Floats = np.zeros(sites)
        self.readers: Floats = np.zeros((len(cargo.size), sites))
        """(L, S) jobs at each site that read each lot."""
        self._stale: set[int] = set()
        """Sites whose part of `_held` does not yet count what is dealt now."""
        self._held = _Held(*np.zeros((3, sites)))
        self._own = [n for n, all_read in enumerate(cargo.all_read) if not all_read]
        self._most = np.array([1 if cargo.divisible[n] else sys.maxsize for n in self._own])[:, None]
        self._times: Times | None = None
        """Fluid terms of what is dealt now; None: not worked out."""

    def give(self, number: int, jobs: int, s: int) -> None:
        """Give `jobs` jobs of block `number` to site `s`; a negative number takes them back."""
        self._give(number, np.array([jobs]), np.array([s]))

    def give_all(self, number: int, counts: Ints) -> None:
        """Give `counts` (S,) jobs of block `number`, one number per site."""
        at = np.flatnonzero(counts)
        self._give(number, counts[at], at)

    def _give(self, number: int, jobs: Ints, at: Ints) -> None:
        """Give `jobs[i]` jobs of block `number` to site `at[i]`; no site twice."""
        self._times = None
        self._stale.update(at.tolist())
        had = self.counts[number, at]
        self.counts[number, at] = had + jobs
        self.jobs[at] += jobs
        if self.grid.data is None:
            return
        cargo = self.cargo
        for lot in cargo.lots[number]:
            before = self.readers[lot, at]
            after = self.readers[lot, at] = before + jobs
            share: Floats = (after > 0).astype(np.float64) - (before > 0).astype(np.float64)
            if share.any():
                self._move(cargo.kind[lot], at, cargo.size[lot] * share, cargo.everyones[lot], share != 0)
        for k, size_bytes in cargo.per_job[number]:
            self._move(k, at, size_bytes * jobs.astype(np.float64), False, jobs != 0)
        if cargo.all_read[number]:
            self.plain[at] += jobs
        elif cargo.divisible[number]:
            self.units[at] += jobs
        else:
            self.units[at] += np.subtract(had + jobs > 0, had > 0, dtype=np.float64)

    def on(self, grid: Grid) -> Deal:
        """Return the same deal at the prices of another grid."""
        out = Deal(grid, self.blocks, self.cargo)
        for number, counts in enumerate(self.counts):
            out.give_all(number, counts)
        out.limit()
        return out

    def _move(self, k: int, at: Ints, size_bytes: Floats, everyones: bool, moves: NDArray[np.bool_]) -> None:
        """Count `size_bytes[i]` of kind `k` towards site `at[i]`, where `moves[i]`; negative ones are taken back."""
        data = self.grid.data
        assert data is not None
        moves = moves & (data.missing[k, at] > 0)
        if not moves.any():
            return
        if not moves.all():
            at, size_bytes = at[moves], size_bytes[moves]
        via = data.via[k, at]
        new = ~self.linked[via, at]
        if new.any():
            self.linked[via[new], at[new]] = True
            self.start_s[via[new], at[new]] = data.start_s[k, at[new]]
            self.shared_s[via[new], at[new]] += data.start_s[k, at[new]]
        into = self.shared_s if everyones else self.own_s
        into[via, at] += size_bytes * data.s_per_byte[k, at]
        if data.uplinks:
            self.sent += np.bincount(via, size_bytes, len(self.sent))
        self.bytes_in[at] += size_bytes

    def loads(self) -> tuple[Floats, Floats]:
        """(seconds until the first jobs' data are there, seconds until all data are there), each (S,)."""
        lead, stage = self._settled().lead_s, self._held.stage_s
        if self.grid.program_s is not None:
            lead, stage = lead + self.grid.program_s, stage + self.grid.program_s
        return lead, stage

    def tail_jobs(self) -> Floats:
        """(S,) jobs whose data may come last: those of the largest block there."""
        return self._settled().tail

    def _settled(self) -> _Held:
        data = self.grid.data
        if not self._stale or data is None:
            return self._held
        # Where an uplink is known, a change at one site changes the times of all; else each site stands for itself.
        some: Ints | slice = slice(None) if data.uplinks else np.array(sorted(self._stale))
        self._stale.clear()
        held = self._held = _Held(*(values.copy() for values in self._held))
        held.lead_s[some], held.stage_s[some] = self._loads(some)
        if self._own:
            held.tail[some] = np.minimum(self.counts[:, some][self._own], self._most).max(axis=0)
        return held

    def _loads(self, some: Ints | slice) -> tuple[Floats, Floats]:
        data = self.grid.data
        assert data is not None
        shared_s, own_s = self.shared_s[:, some], self.own_s[:, some]
        first = np.where(self.plain[some] > 0, 0.0, 1.0 / np.maximum(self.units[some], 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            leads = shared_s + np.where(own_s > 0, own_s * first, 0.0)
            stages = shared_s + own_s
            if data.uplinks:
                shared_out = (self.sent * data.uplink_s_per_byte)[:, None] + self.start_s[:, some]
                stages = np.where(stages > 0, np.maximum(stages, shared_out), stages)
                part = np.divide(leads, shared_s + own_s, out=np.zeros_like(leads), where=stages > 0)
                leads = np.maximum(leads, stages * np.nan_to_num(part))
        return leads.max(axis=0, initial=0.0), stages.max(axis=0, initial=0.0)

    def times(self, waves: bool = False) -> Times:
        """Terms of the deal. `waves`: in whole waves, since jobs cannot be cut; else as a fluid."""
        if waves:
            return self._worked_out(waves)
        if self._times is None:
            self._times = self._worked_out(waves)
        return self._times

    def _worked_out(self, waves: bool) -> Times:
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
        """(S,) end at each site, in seconds; 0 where nothing was dealt."""
        out: Floats = np.where(self.jobs > 0, self.times().end_s, 0.0)
        return out

    def makespan_s(self) -> float:
        return float(self.ends().max(initial=0.0))

    def lines(self, number: int) -> Lines:
        """Return the lines for water-filling: how the sites could take jobs of this block in addition to those they
        have."""
        grid, sites = self.grid, len(self.jobs)
        lead, stage = self.loads()
        none: Floats = np.zeros(sites)
        always: Floats = np.full(sites, np.inf)
        tail_start, tail_rate, tail_had, tail_least = none, always, none, none
        divided = self.cargo.divisible[number]
        if grid.data is not None and self.blocks[number].needs:
            new, per_job = self._to_come(number)
            stage = stage + new
            if self.cargo.all_read[number]:
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
        """(K, S) bytes that each site lacks for `jobs` jobs of a block; (0, S) without data."""
        data = self.grid.data
        if data is None:
            return np.zeros((0, len(self.jobs)))
        out, cargo = np.zeros(data.missing.shape), self.cargo
        for lot in cargo.lots[number]:
            out[cargo.kind[lot]] += np.where(self.readers[lot] == 0, cargo.size[lot], 0.0)
        for k, size_bytes in cargo.per_job[number]:
            out[k] += size_bytes * jobs
        return out * data.missing

    def _to_come(self, number: int) -> tuple[Floats, Floats]:
        """(S,) seconds to bring the undivided data of a block that are not there yet, and (S,) seconds per job for its
        divided data."""
        data, cargo = self.grid.data, self.cargo
        assert data is not None
        new, per_job = np.zeros((2, len(self.jobs)))
        for lot in cargo.lots[number]:
            k = cargo.kind[lot]
            absent = (self.readers[lot] == 0) & (data.missing[k] > 0)
            new = new + np.where(absent, data.start_s[k] + max(cargo.size[lot], NOTHING) * data.s_per_byte[k], 0.0)
        if cargo.divisible[number]:
            for k, size_bytes in cargo.per_job[number]:
                per_job = per_job + size_bytes * data.s_per_byte[k]
            new = np.where(np.isinf(per_job), np.inf, new)
        return new, per_job

    def limit(self) -> None:
        """Share the group's `max_parallel` over the sites used: each runs the part allotted to it, not the whole."""
        used = [int(s) for s in np.flatnonzero(self.jobs)]
        most = self.grid.demand.max_parallel
        if most and len(used) <= most:
            shares = allot(most, [round(self.jobs[s]) for s in used])
            self.lanes = self.lanes.copy()
            self.lanes[used] = np.minimum(self.lanes[used], shares)
            self.rate = self.lanes / self.grid.job_s
            self._times = None
