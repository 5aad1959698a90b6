"""The two cost models behind one interface (SPEC D1, D2): how each ranks sites and how it deals a split.

Another model is another class here and a name in `MODELS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from diana.model.arrays import Floats, Ints, np
from diana.model.views.decision import JobClass, Model
from diana.policy.allocation import heuristics
from diana.policy.allocation.deal import Deal
from diana.policy.pricing import work_class
from diana.policy.pricing.demand import Block, by_holders
from diana.policy.pricing.grid import Grid
from diana.policy.pricing.paper_cost import PaperCost, PaperTerms
from diana.policy.pricing.sites import in_order
from diana.policy.pricing.turnaround import Terms, Weights, price

PAPER_SUBGROUPS = 100
"""Subgroups of a split in the paper's model where neither VO nor job file says how many. The paper divides its 10,000
jobs by ten; a hundred let equal sites end within a few per cent of each other, and price a split as often only."""

MOST_UNITS = 4096
"""Most units placed one by one; more are joined into larger ones."""


class CostModel(Protocol):
    """Interface of a cost model to a decision. Arrays are over the S sites of the grid."""

    grid: Grid
    """Grid in whose seconds plans are compared."""
    terms: Terms
    """Terms of the whole group in those seconds."""
    true_terms: Terms
    """The same terms in unweighted seconds."""
    paper: PaperTerms
    job_class: JobClass
    unit: int
    """Jobs of a split that are placed as one; 0: as finely as pays."""

    def cost(self) -> Floats:
        """Return the (S,) figures that rank the sites when they take the whole group."""
        ...

    def order(self) -> Ints:
        """Return rows in rising cost, those that cannot take the whole group last."""
        ...

    def split(self, blocks: Sequence[Block]) -> Deal | None:
        """Deal the jobs out, `unit` of them placed as one; None: not all find room."""
        ...


def soonest_s(grid: Grid, terms: Terms) -> Floats:
    """(S,) earliest end of a site in any plan that gives it a job; infinite where it can take none. `terms`: the whole
    group on this grid."""
    lead_s: Floats | float = 0.0
    if grid.data is None or grid.data.everyones.all():
        lead_s = terms.lead_s
    elif grid.program_s is not None:
        lead_s = grid.program_s
    ends = np.maximum(grid.wait_s, lead_s) + grid.job_s + grid.network_s
    if grid.out_s is not None:
        ends = ends + grid.out_s
    out: Floats = np.where(grid.rate > 0, ends, np.inf)
    return out


def takes_whole(grid: Grid, terms: Terms) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """(S,) True where the site can take the whole group: a site whose limit the group exceeds is no candidate (SPEC
    D6)."""
    return np.isfinite(terms.total_s) & (grid.table.max_jobs >= grid.jobs)


class _Base:
    def __init__(self, grid: Grid, weights: Weights, raw: bool, waiting_elsewhere: int) -> None:
        self.grid = grid
        self.terms = self.true_terms = price(grid)
        self.job_class = grid.demand.job_class or work_class.derived(self.terms)
        self._fresh = (grid, weights, raw, waiting_elsewhere)
        costs = PaperCost(*self._fresh)
        coming = np.zeros((0, len(grid.table)))
        if grid.data is not None:
            coming = (grid.data.shared + grid.data.own)[:, None] * grid.data.missing
        self.paper = costs.price(grid.jobs, coming)
        self.unit = grid.demand.subgroup_jobs()

    def _last(self) -> Floats:
        return (~takes_whole(self.grid, self.terms)).astype(np.float64)


class Turnaround(_Base):
    """Ranks by completion time, whatever the class."""

    def __init__(self, grid: Grid, weights: Weights, raw: bool, waiting_elsewhere: int) -> None:
        super().__init__(grid, weights, raw, waiting_elsewhere)
        if weights.seconds():
            self.grid = grid.scaled(weights.seconds())
            self.terms = price(self.grid)

    def cost(self) -> Floats:
        return self.terms.total_s

    def order(self) -> Ints:
        return in_order([self._last(), self.terms.total_s], self.grid.table)

    def split(self, blocks: Sequence[Block]) -> Deal | None:
        return heuristics.split(self.grid, blocks, self.unit)


class Paper(_Base):
    """Ranks by class; places subgroups one by one, each on the first site in rising cost that has room, and recomputes
    the costs after each (papers/diana-bulk-scheduling section V). The paper's cost does not say how fine a split pays
    (section VIII leaves its size to the VO's administrator), so there is a size by default."""

    def __init__(self, grid: Grid, weights: Weights, raw: bool, waiting_elsewhere: int) -> None:
        super().__init__(grid, weights, raw, waiting_elsewhere)
        self.by_default = not self.unit and not grid.demand.division
        if self.by_default:
            self.unit = max(1, -(-grid.jobs // PAPER_SUBGROUPS))

    def cost(self) -> Floats:
        return work_class.key_term(self.paper, self.job_class)

    def order(self) -> Ints:
        return in_order([self._last(), *work_class.keys(self.paper, self.job_class)], self.grid.table)

    def split(self, blocks: Sequence[Block]) -> Deal | None:
        grid, costs, unit = self.grid, PaperCost(*self._fresh), self.unit
        if self.by_default:
            blocks = blocks if len(blocks) <= PAPER_SUBGROUPS else by_holders(grid.demand, blocks, PAPER_SUBGROUPS)
        deal = Deal(grid, blocks)
        room = np.where(np.isfinite(self.terms.run_s) & ~costs.unreachable, grid.table.max_jobs, 0.0)
        if not unit and room.max(initial=0.0) >= grid.jobs:
            return None
        unit = unit or int(room.max(initial=0.0))
        if unit < 1:
            return None
        unit *= -(-grid.jobs // (unit * MOST_UNITS))
        for number, block in enumerate(blocks):
            left = len(block.indices)
            while left:
                jobs = min(unit, left)
                terms = costs.price(jobs, deal.bytes_to_come(number, jobs))
                order = work_class.ranked(terms, self.job_class, grid.table)
                open_rows = order[room[order] >= jobs]
                if not len(open_rows):
                    return None
                row = int(open_rows[0])
                deal.give(number, jobs, row)
                costs.placed(jobs, row)
                room[row] -= jobs
                left -= jobs
        deal.limit()
        return deal


MODELS: dict[Model, Callable[[Grid, Weights, bool, int], CostModel]] = {"turnaround": Turnaround, "paper": Paper}
