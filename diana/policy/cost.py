"""The price of a group at a site: network + computation + data transfer, in seconds (SPEC D1, turnaround model;
papers/diana-bulk-scheduling section IV names the three terms)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from diana.model.decision import SiteCost
from diana.policy.demand import Candidate, Demand

Floats = NDArray[np.float64]


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """Feasible candidates as arrays over sites (S), and needs (N) by sites."""

    sites: tuple[Candidate, ...]
    wait_s: Floats
    """(S,) until the work ahead is through."""
    lanes: Floats
    """(S,) jobs of this group that run at once."""
    speed: Floats
    """(S,)"""
    network_s: Floats
    """(S,) control messages: two round trips."""
    missing_bytes: Floats
    """(N, S)"""
    fetch_s: Floats
    """(N, S) to bring what is missing from its best holder."""


def grid(demand: Demand, candidates: Sequence[Candidate]) -> Grid:
    """Arrays for the candidates that are not rejected, in the order given."""
    sites = tuple(c for c in candidates if not c.rejected)
    slots = np.array([c.slots for c in sites], dtype=np.float64)
    speed = np.array([c.speed for c in sites], dtype=np.float64)
    ahead = np.array([c.work_ahead_s for c in sites], dtype=np.float64)
    lanes = np.floor(slots / demand.processors)
    if demand.max_parallel:
        lanes = np.minimum(lanes, demand.max_parallel)
    missing = np.zeros((len(demand.needs), len(sites)))
    fetch = np.zeros_like(missing)
    for n, need in enumerate(demand.needs):
        size = need.size_bytes()
        for s, candidate in enumerate(sites):
            if candidate.site not in need.holders:
                missing[n, s] = size
                rate = max((candidate.fetch_bytes_per_s.get(h, 0.0) for h in need.holders), default=0.0)
                fetch[n, s] = size / rate if rate > 0 else np.inf
    return Grid(
        sites=sites,
        wait_s=ahead / (slots * speed),
        lanes=lanes,
        speed=speed,
        network_s=np.array([2.0 * c.rtt_s for c in sites]),
        missing_bytes=missing,
        fetch_s=fetch,
    )


def run_s(demand: Demand, table: Grid, jobs: Floats | float) -> Floats:
    """(S,) seconds to run `jobs` jobs at each site: fluid, but never less than one job takes."""
    fluid = jobs * demand.work_s / (table.lanes * table.speed)
    out: Floats = np.where(np.asarray(jobs) > 0, np.maximum(fluid, demand.work_s / table.speed), 0.0)
    return out


def whole(demand: Demand, candidates: Sequence[Candidate]) -> list[SiteCost]:
    """The whole group priced at every candidate: feasible ones by rising total (ties by the order given), then the
    rejected ones by site id."""
    table = grid(demand, candidates)
    stage = table.fetch_s.sum(axis=0)
    run = run_s(demand, table, float(len(demand.indices)))
    total = np.maximum(table.wait_s, stage) + run + table.network_s
    rows = [
        SiteCost(
            site=c.site,
            wait_s=float(table.wait_s[s]),
            stage_in_s=float(stage[s]),
            run_s=float(run[s]),
            network_s=float(table.network_s[s]),
            total_s=float(total[s]),
            bytes_in=int(table.missing_bytes[:, s].sum()),
            slots=c.slots,
            work_ahead_s=c.work_ahead_s,
            rtt_s=c.rtt_s,
            bytes_per_s=max(c.fetch_bytes_per_s.values(), default=0.0) if table.missing_bytes[:, s].any() else 0.0,
            age_s=c.age_s,
        )
        for s, c in enumerate(table.sites)
    ]
    order = np.argsort(total, kind="stable")
    rejected = sorted((c for c in candidates if c.rejected), key=lambda c: c.site)
    return [rows[s] for s in order] + [SiteCost(site=c.site, rejected=c.rejected, age_s=c.age_s) for c in rejected]
