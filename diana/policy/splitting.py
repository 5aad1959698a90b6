"""Whole or split: whichever ends earlier (SPEC D6; papers/diana-bulk-scheduling section VIII)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import msgspec

from diana.model.decision import Decision, PlannedPart, SiteCost
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.policy import cost
from diana.policy.dealing import Deal, deal_in_turns, deal_to_the_data
from diana.policy.demand import Candidate, Demand, blocks

MAX_ROWS = 64
_SAME_S = 1e-9
"""Ends closer than this are equal: sums of floats in another order are no reason to split."""


class PlacedPart(msgspec.Struct, frozen=True):
    site: SiteId
    indices: IndexSet


class Plan(msgspec.Struct, frozen=True):
    decision: Decision
    parts: tuple[PlacedPart, ...]
    """In order of site, then index; none is larger than the demand's `max_subgroup`. Empty: no site can take it."""


def decide(demand: Demand, candidates: Sequence[Candidate], now: float) -> Plan:
    """Price the group whole at every candidate and split over all of them; take what ends first, whole on ties.

    `candidates`: home first, then by site id, so that home wins ties.
    """
    rows = cost.whole(demand, candidates)
    feasible = [row for row in rows if not row.rejected and row.total_s < inf]
    if not feasible:
        return Plan(_decision("whole", "no site can take this group", inf, inf, rows, (), now), ())
    best = feasible[0]
    split = _split(demand, candidates)
    split_s = max(part.predicted_end_s for part, _ in split)
    allowed = not demand.max_parallel or len(split) <= demand.max_parallel
    if split_s < best.total_s - _SAME_S and len(split) > 1 and allowed:
        reason = (
            f"split over {len(split)} sites ends after {split_s:.3g} s, whole at {best.site} after {best.total_s:.3g} s"
        )
        decision = _decision("split", reason, best.total_s, split_s, rows, tuple(p for p, _ in split), now)
        placed = [(p.site, indices) for p, indices in split]
    else:
        part = PlannedPart(
            site=best.site, jobs=len(demand.indices), bytes_in=best.bytes_in, predicted_end_s=best.total_s
        )
        decision = _decision("whole", _why(feasible, split_s), best.total_s, split_s, rows, (part,), now)
        placed = [(best.site, demand.indices)]
    return Plan(decision, tuple(_within(placed, demand.max_subgroup)))


def _why(feasible: Sequence[SiteCost], split_s: float) -> str:
    best = feasible[0]
    if len(feasible) == 1:
        return f"{best.site} is the only site that can take it; ends after {best.total_s:.3g} s"
    if split_s < inf and split_s >= best.total_s - _SAME_S:
        return f"whole at {best.site} ends after {best.total_s:.3g} s; splitting it would not end earlier"
    return f"whole at {best.site} ends after {best.total_s:.3g} s"


def _decision(
    plan: str,
    reason: str,
    whole_s: float,
    split_s: float,
    rows: list[SiteCost],
    parts: tuple[PlannedPart, ...],
    now: float,
) -> Decision:
    return Decision(
        plan="split" if plan == "split" else "whole",
        reason=reason,
        whole_s=whole_s,
        split_s=split_s,
        candidates=tuple(rows[:MAX_ROWS]),
        parts=parts,
        decided_at_s=now,
    )


def _split(demand: Demand, candidates: Sequence[Candidate]) -> list[tuple[PlannedPart, IndexSet]]:
    """The better of two ways to deal the jobs out: to where each ends first given those dealt before, or to where
    their data lie and then away from the last site to end as long as that helps. Ties: fewer bytes moved."""
    table = cost.grid(demand, candidates)
    some = blocks(demand)
    deals = [deal_in_turns(Deal(demand, table, some)), deal_to_the_data(Deal(demand, table, some))]
    for deal in deals:
        deal.limit()
    return min(deals, key=lambda d: (round(d.makespan_s(), 9), d.moved_bytes())).parts()


def _within(placed: Sequence[tuple[SiteId, IndexSet]], limit: int) -> list[PlacedPart]:
    out = []
    for site, indices in placed:
        while indices:
            head, indices = indices.take(limit)
            out.append(PlacedPart(site, head))
    return out
