"""Splitting: place a group whole or split, whichever ends earlier (SPEC D6; papers/diana-bulk-scheduling section
VIII)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf

import msgspec

from diana.model.arrays import np
from diana.model.durations import seconds
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.views.decision import Decision, Model, PlannedPart, SiteCost
from diana.policy.allocation.deal import Deal
from diana.policy.allocation.models import MODELS, CostModel, soonest_s, takes_whole
from diana.policy.pricing import cost
from diana.policy.pricing.cost import MAX_ROWS
from diana.policy.pricing.demand import Candidate, Demand, blocks
from diana.policy.pricing.grid import Grid
from diana.policy.pricing.turnaround import Terms, Weights, price

_SAME_S = 1e-9
"""Difference in seconds below which two ends are equal: rounding is no reason to split."""


class PlacedPart(msgspec.Struct, frozen=True):
    site: SiteId
    indices: IndexSet


class Plan(msgspec.Struct, frozen=True):
    decision: Decision
    parts: tuple[PlacedPart, ...]
    """Parts in order of site, then index; none is larger than the demand's `max_subgroup`. Empty: no site can take the
    group."""

    def parts_by_site(self) -> tuple[tuple[SiteId, int], ...]:
        """Return the jobs of each site, by site."""
        return tuple((part.site, part.jobs) for part in self.decision.parts)


def decide(
    demand: Demand,
    candidates: Sequence[Candidate],
    now: float,
    *,
    model: Model = "turnaround",
    weights: Weights | None = None,
    raw: bool = False,
    split: bool = True,
) -> Plan:
    """Price the group whole at every candidate and split over all of them; take what ends first, whole on ties.

    `candidates`: home first, then by site id, so that home wins ties. `model`: how sites are ranked; `raw`: the paper's
    bare formula. The decision shows the terms of both models. `split` False: only a group that no site can take whole
    is split.
    """
    weights = weights or Weights()
    grid = Grid(demand, cost.table_of(demand, candidates))
    elsewhere = sum(c.queued_jobs for c in candidates if cost.refusal(c))
    chooser = MODELS[model](grid, weights, raw, elsewhere)
    return Choice(grid, chooser, candidates, split).plan(
        now, dict(model=model, raw=raw, weights=weights.changed(), subgroup_jobs=chooser.unit)
    )


class Choice:
    """One placement. `grid` has the true seconds, `chooser.grid` the ones it decides by."""

    def __init__(self, grid: Grid, chooser: CostModel, candidates: Sequence[Candidate], may_split: bool = True) -> None:
        self.grid, self.chooser, self.candidates, self.may_split = grid, chooser, candidates, may_split
        self.demand = grid.demand
        self.terms = chooser.true_terms
        self.between = cost.ranges(grid, self.terms)
        self.order = chooser.order()
        can = takes_whole(grid, self.terms)
        self.can = [int(s) for s in self.order if can[s]]
        self.unit = chooser.unit
        self._second_s = inf
        """Lower bound of a split's end: a split uses two sites at least, so it ends no earlier than the second soonest
        site."""
        if len(grid.table) > 1 and grid.jobs > 1:
            self._second_s = float(np.partition(soonest_s(chooser.grid, chooser.terms), 1)[1])

    def plan(self, now: float, how: dict[str, object]) -> Plan:
        best = self.can[0] if self.can else None
        dealt = self._split() if self._may_pay(best) else None
        whole_s = inf if best is None else float(self.terms.total_s[best])
        split = dealt
        if dealt is not None and self.chooser.grid is not self.grid:
            split = dealt.on(self.grid)
        split_s = inf if split is None else split.makespan_s()
        if dealt is not None and split is not None and self._splits(best, dealt):
            name, reason, planned, parts = "split", self._why_split(split, split_s, best), *self._dealt(split)
        elif best is not None:
            name, reason = "whole", self._why_whole(best, split_s if self._may_pay(best) else whole_s)
            planned = (self._whole_part(best),)
            parts = [(self.grid.table.sites[best], self.demand.indices)]
        else:
            name, reason, planned, parts = "whole", self._why_not(), (), []
        return self._plan(
            name == "split", reason, planned, parts, whole_s, split_s if split is not None else whole_s, now, how
        )

    def given(self, deal: Deal, reason: str, now: float, how: dict[str, object]) -> Plan:
        """Return the plan of a deal made elsewhere, at these prices; some site must have jobs."""
        used, whole_s = np.flatnonzero(deal.jobs), self._whole_s()
        if len(used) == 1:
            row = int(used[0])
            parts = [(self.grid.table.sites[row], self.demand.indices)]
            return self._plan(False, reason, (self._whole_part(row),), parts, whole_s, whole_s, now, how)
        return self._plan(True, reason, *self._dealt(deal), whole_s, deal.makespan_s(), now, how)

    def nowhere(self, now: float, how: dict[str, object]) -> Plan:
        return self._plan(False, self._why_not(), (), [], self._whole_s(), self._whole_s(), now, how)

    def _whole_s(self) -> float:
        return float(self.terms.total_s[self.can[0]]) if self.can else inf

    def _plan(
        self,
        splits: bool,
        reason: str,
        planned: tuple[PlannedPart, ...],
        parts: list[tuple[SiteId, IndexSet]],
        whole_s: float,
        split_s: float,
        now: float,
        how: dict[str, object],
    ) -> Plan:
        decision = Decision(
            plan="split" if splits else "whole",
            reason=reason,
            whole_s=whole_s,
            split_s=split_s,
            candidates=tuple(self._rows(bool(parts))),
            parts=planned,
            decided_at_s=now,
            job_class=self.chooser.job_class,
            declared_class=bool(self.demand.job_class),
            expected_s=max((p.expected_end_s for p in planned), default=0.0),
            low_s=max((p.predicted_low_s for p in planned), default=0.0),
            high_s=max((p.predicted_high_s for p in planned), default=0.0),
            rejected=sum(1 for c in self.candidates if cost.refusal(c)),
            **how,  # type: ignore[arg-type]
        )
        return Plan(decision, tuple(_within(parts, self.demand.max_subgroup)))

    def _may_pay(self, best: int | None) -> bool:
        """True if a split could end before the whole group does at `best`. Otherwise it is not worked out, which spares
        most small groups the dealing."""
        if best is not None and not self.may_split:
            return False
        return best is None or self._second_s < float(self.chooser.terms.total_s[best]) - _SAME_S

    def _split(self) -> Deal | None:
        """Deal the group out; None if it cannot be, or if the limit on parallel jobs leaves some site none."""
        if not len(self.grid.table) or not self.demand.indices:
            return None
        deal = self.chooser.split(blocks(self.demand))
        if deal is None:
            return None
        used, most = int(np.count_nonzero(deal.jobs)), self.demand.max_parallel
        return None if (most and used > most) or not np.isfinite(deal.makespan_s()) else deal

    def _splits(self, best: int | None, dealt: Deal) -> bool:
        """True if the deal is taken, judged in the seconds the model decides by."""
        if best is None:
            return True
        whole_s = float(self.chooser.terms.total_s[best])
        return int(np.count_nonzero(dealt.jobs)) > 1 and dealt.makespan_s() < whole_s - _SAME_S

    def _why_split(self, split: Deal, split_s: float, best: int | None) -> str:
        sites = np.count_nonzero(split.jobs)
        over = f"split over {sites} sites ends after {seconds(split_s)}"
        if best is None:
            return f"{over}; no single site can take it whole"
        return f"{over}, whole at {self.grid.table.sites[best]} after {seconds(float(self.terms.total_s[best]))}"

    def _why_whole(self, best: int, split_s: float) -> str:
        site, whole_s = self.grid.table.sites[best], float(self.terms.total_s[best])
        alone = split_s == inf or (self._second_s == inf and self.grid.jobs > 1)
        if len(self.grid.table) == 1 or (len(self.can) == 1 and alone):
            return f"{site} is the only site that can take it; ends after {seconds(whole_s)}"
        ends = f"whole at {site} ends after {seconds(whole_s)}"
        if not self.may_split and self.grid.jobs > 1:
            return f"{ends}; by the settings a group is not split"
        if self.grid.jobs > 1 and whole_s - _SAME_S <= split_s < inf:
            return f"{ends}; splitting it would not end earlier"
        return ends

    def _why_not(self) -> str:
        room = float(self.grid.table.max_jobs.sum())
        if 0 < room < self.grid.jobs:
            return f"the sites that can take this group take {room:.0f} of its {self.grid.jobs} jobs at most"
        return "no site can take this group"

    def _rows(self, placed: bool) -> list[SiteCost]:
        """Rows of the decision, at most `MAX_ROWS`. Where nothing could be placed, the row of a site whose limit is too
        low says so."""
        if not len(self.grid.table):
            return cost.rejected_rows(self.candidates)[:MAX_ROWS]
        costs = self.chooser.cost()
        rows = cost.rows(self.grid, self.terms, self.chooser.paper, self.order[:MAX_ROWS], costs, self.between)
        if not placed:
            rows = [
                msgspec.structs.replace(r, rejected=f"takes no more than {r.max_jobs} of its {self.grid.jobs} jobs")
                if r.max_jobs and r.max_jobs < self.grid.jobs and r.total_s < inf
                else r
                for r in rows
            ]
        return (rows + cost.rejected_rows(self.candidates)[: MAX_ROWS - len(rows)])[:MAX_ROWS]

    def _whole_part(self, s: int) -> PlannedPart:
        (low, high), terms = self.between, self.terms
        return PlannedPart(
            site=self.grid.table.sites[s],
            jobs=self.grid.jobs,
            bytes_in=int(terms.bytes_in[s]),
            predicted_end_s=float(terms.total_s[s]),
            expected_end_s=float(price(self.grid, waves=True).total_s[s]),
            predicted_low_s=float(low.total_s[s]),
            predicted_high_s=float(high.total_s[s]),
            wait_s=float(terms.wait_s[s]),
            stage_in_s=float(terms.stage_in_s[s]),
            run_s=float(terms.run_s[s]),
            stage_out_s=float(terms.stage_out_s[s]),
            bytes_out=int(cost.bytes_out(self.grid, s, self.grid.jobs)),
            subgroups=ceil(self.grid.jobs / whole) if (whole := self.demand.subgroup_jobs()) else 1,
            cost=float(self.chooser.cost()[s]),
        )

    def _dealt(self, split: Deal) -> tuple[tuple[PlannedPart, ...], list[tuple[SiteId, IndexSet]]]:
        """Planned parts and (site, indices) of a split, per site with jobs. Alike jobs lie side by side, so that a part
        has few ranges."""
        got: dict[int, list[IndexSet]] = {}
        for block, counts in zip(split.blocks, split.counts, strict=True):
            some = np.flatnonzero(counts)
            for s, span in zip(some.tolist(), _cut(block.indices, counts[some].tolist()), strict=True):
                got.setdefault(s, []).append(span)
        fluid, waves = split.times(), split.times(waves=True)
        low = high = fluid.end_s
        if cost.uncertain(self.grid):
            low = split.on(cost.bounded(self.grid, high=False)).times().end_s
            high = split.on(cost.bounded(self.grid, high=True)).times().end_s
        costs = self.chooser.cost()
        planned, parts = [], []
        for s, spans in sorted(got.items()):
            indices = IndexSet.union(spans)
            jobs = len(indices)
            parts.append((self.grid.table.sites[s], indices))
            planned.append(
                PlannedPart(
                    site=self.grid.table.sites[s],
                    jobs=jobs,
                    bytes_in=round(split.bytes_in[s]),
                    predicted_end_s=float(fluid.end_s[s]),
                    expected_end_s=float(waves.end_s[s]),
                    predicted_low_s=float(low[s]),
                    predicted_high_s=float(high[s]),
                    wait_s=float(self.grid.wait_s[s]),
                    stage_in_s=float(fluid.stage_in_s[s]),
                    run_s=float(fluid.run_s[s]),
                    stage_out_s=float(fluid.stage_out_s[s]),
                    bytes_out=int(cost.bytes_out(self.grid, s, jobs)),
                    subgroups=ceil(jobs / self.unit) if self.unit else 1,
                    cost=float(costs[s]),
                )
            )
        return tuple(planned), parts


def _cut(indices: IndexSet, counts: Sequence[int]) -> Iterator[IndexSet]:
    """Yield consecutive pieces of `counts` indices each, in one pass over the ranges."""
    ranges = iter(indices.ranges())
    start = stop = 0
    for count in counts:
        bounds: list[int] = []
        while count:
            if start == stop:
                start, stop = next(ranges)
            size = min(count, stop - start)
            bounds += (start, start + size)
            start, count = start + size, count - size
        yield IndexSet(tuple(bounds))


def _within(placed: Sequence[tuple[SiteId, IndexSet]], limit: int) -> list[PlacedPart]:
    out = []
    for site, indices in placed:
        while indices:
            head, indices = indices.take(limit)
            out.append(PlacedPart(site, head))
    return out


__all__ = ["Choice", "PlacedPart", "Plan", "Terms", "decide"]
