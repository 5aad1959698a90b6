"""The turnaround cost model (SPEC D1, default): when the last job of a group would have ended at each site, in seconds.

papers/diana-bulk-scheduling section IV names the three costs, network, computation and data transfer; here they are
times, and overlapping times count once: data move while the group waits, jobs start as their own data come, outputs
leave as jobs end.
"""

from __future__ import annotations

import msgspec

from diana.model.arrays import Floats, np
from diana.model.indexset import IndexSet
from diana.policy.pricing.demand import Demand
from diana.policy.pricing.grid import Data, Grid, completion, stage_out_s

_NOTHING = 1e-9
"""Bytes in place of 0, so that even an empty file takes for ever where it cannot be brought, and else no time."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Terms of the whole group at each of S sites; arrays (S,)."""

    wait_s: Floats
    lead_s: Floats
    """Seconds until the data that the first jobs need are there."""
    stage_in_s: Floats
    """Seconds until all data are there."""
    run_s: Floats
    stage_out_s: Floats
    """Seconds that outputs add after the last job has ended."""
    network_s: Floats
    total_s: Floats
    """Turnaround; infinite where the group cannot run at all, or its data cannot be brought."""
    bytes_in: Floats


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the terms; 1: unweighted. ValueError names a weight out of range."""

    wait: float = 1.0
    stage_in: float = 1.0
    run: float = 1.0
    stage_out: float = 1.0
    network_s: float = 1.0
    """This and the four before: weights of the turnaround model's terms."""
    queue: float = 1.0
    """W5 of the paper, the weight of Qi/Pi."""
    all_queues: float = 1.0
    """W6, the weight of Q/Pi."""
    load: float = 1.0
    """W7, the weight of SiteLoad."""
    network: float = 1.0
    computation: float = 1.0
    transfer: float = 1.0
    """This and the two before: weights of the paper model's three costs in their sum."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            seconds = name in _SECONDS
            if not (0 < value < 1e9 or (value == 0 and not seconds)):
                least = "more than 0" if seconds else "at least 0"
                raise ValueError(f"weight {name} = {value!r}: want a number of {least}, below 1e9")

    def changed(self) -> dict[str, float]:
        """Return the weights that are not 1, by term."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if getattr(self, name) != 1.0}

    def seconds(self) -> list[tuple[str, float]]:
        return [(name, weight) for name, weight in self.changed().items() if name in _SECONDS]


_SECONDS = ("wait", "stage_in", "run", "stage_out", "network_s")


def price(grid: Grid, waves: bool = False) -> Terms:
    """Price the whole group at every site, as a fluid (jobs can be cut), but no run is shorter than one job's. `waves`:
    in whole waves, since jobs cannot be cut."""
    jobs = float(grid.jobs)
    with np.errstate(divide="ignore", invalid="ignore"):
        run = np.ceil(jobs / grid.lanes) * grid.job_s if waves else np.maximum(jobs / grid.rate, grid.job_s)
        lead, stage, tail, bytes_in = _data(grid, run)
    if grid.program_s is not None:
        lead, stage = lead + grid.program_s, stage + grid.program_s
    start, end = completion(grid.wait_s, lead, stage, run, tail)
    out = np.zeros(len(run))
    if grid.out_s is not None:
        with np.errstate(invalid="ignore"):
            out = stage_out_s(jobs, grid.lanes, grid.out_s, end - start, grid.job_s)
    return Terms(
        wait_s=grid.wait_s,
        lead_s=lead,
        stage_in_s=stage,
        run_s=run,
        stage_out_s=out,
        network_s=grid.network_s,
        total_s=end + out + grid.network_s,
        bytes_in=bytes_in,
    )


def _data(grid: Grid, run_s: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """(lead, stage in, run of the jobs whose data come last, bytes), each (S,)."""
    data, none = grid.data, np.zeros(len(grid.table))
    if data is None:
        return none, none, none, none
    pace = own_pace(grid.demand, data)
    own_tail = none if pace.tail_jobs == 0 else _tail(grid, run_s, pace)
    lead, stage = none, none
    several = len(data.holders) > 1
    if several:
        lead, stage = np.zeros((2, len(data.holders), len(none)))
        here = np.arange(len(none))
    bytes_in = none
    for k, (shared, own) in enumerate(zip(data.shared.tolist(), data.own.tolist(), strict=True)):
        via, s_per_byte = data.via[k], data.s_per_byte[k]
        if data.uplinks:
            s_per_byte = np.maximum(s_per_byte, data.uplink_s_per_byte[via] * data.missing[k])
        first = shared + own * pace.first
        total_s = data.start_s[k] + max(shared + own, _NOTHING) * s_per_byte
        first_s = total_s if not own else data.start_s[k] + max(first, _NOTHING) * s_per_byte if first else none
        bytes_in = bytes_in + (shared + own) * data.missing[k]
        if not several:
            return first_s, total_s, own_tail, bytes_in
        lead[via, here] += first_s
        stage[via, here] += total_s
    return lead.max(axis=0), stage.max(axis=0), own_tail, bytes_in


class TailArrival(msgspec.Struct, frozen=True):
    """Arrival of the data that only some jobs read."""

    first: float
    """Fraction of them that the first jobs wait for; 0: some jobs need none of them."""
    tail_jobs: int
    """Largest number of jobs that read the same data, which may come last."""


def own_pace(demand: Demand, data: Data) -> TailArrival:
    if data.everyones.all():
        return TailArrival(0.0, 0)
    own = [need for need, all_read in zip(demand.needs, data.everyones, strict=True) if not all_read]
    covered = demand.indices.issubset(IndexSet.union(n.readers for n in own))
    return TailArrival(1.0 / len(own) if covered else 0.0, min(len(demand.indices), max(len(n.readers) for n in own)))


def _tail(grid: Grid, run_s: Floats, pace: TailArrival) -> Floats:
    out: Floats = np.minimum(run_s, np.maximum(pace.tail_jobs / grid.rate, grid.job_s))
    return out
