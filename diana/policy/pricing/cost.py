"""The price of a group at every site, by either cost model (SPEC D1), and the rows that show it.

Prices are arrays over sites; a row is made only for a site somebody looks at.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from diana.model.arrays import Floats, Ints, np
from diana.model.ids import SiteId
from diana.model.views.decision import SiteCost
from diana.policy.pricing.demand import Candidate, Demand
from diana.policy.pricing.grid import Grid
from diana.policy.pricing.paper_cost import PaperTerms
from diana.policy.pricing.sites import SiteTable, in_order
from diana.policy.pricing.turnaround import Terms, price

MAX_ROWS = 64


def table_of(demand: Demand, candidates: Sequence[Candidate]) -> SiteTable:
    """The candidates that are not rejected, in the order given, with the links their data would take."""
    holders = {holder for need in demand.needs for holder in need.holders}
    return SiteTable.of([c for c in candidates if not refusal(c)], holders)


def refusal(candidate: Candidate) -> str:
    return candidate.rejected or ("" if candidate.alive else "does not answer")


def short_list(table: SiteTable, demand: Demand, count: int) -> list[SiteId]:
    """Return at most `count` sites where the whole group would end first, best first; ties by the table's rank. Sites
    that cannot take it are left out."""
    total_s = price(Grid(demand, table)).total_s
    if len(total_s) > count:
        edge = np.partition(total_s, count - 1)[count - 1]
        some = np.flatnonzero(total_s <= edge)
    else:
        some = np.arange(len(total_s))
    order = some[np.lexsort((table.ranks()[some], total_s[some]))][:count]
    return [table.sites[row] for row in order if total_s[row] < inf]


def whole(demand: Demand, candidates: Sequence[Candidate]) -> list[SiteCost]:
    """The whole group priced at every candidate by the turnaround model: feasible ones by rising total (ties by the
    order given), then the rejected ones by site id."""
    grid = Grid(demand, table_of(demand, candidates))
    terms = price(grid)
    order = in_order([terms.total_s], grid.table)
    return rows(grid, terms, None, order, terms.total_s, ranges(grid, terms)) + rejected_rows(candidates)


def rejected_rows(candidates: Sequence[Candidate]) -> list[SiteCost]:
    some = sorted((c for c in candidates if refusal(c)), key=lambda c: c.site)
    return [SiteCost(site=c.site, rejected=refusal(c), age_s=c.age_s) for c in some]


def rows(
    grid: Grid, terms: Terms, paper: PaperTerms | None, order: Ints, cost: Floats, between: tuple[Terms, Terms]
) -> list[SiteCost]:
    """Make one row per site of `order`. `cost`: (S,) the key of that order; `between`: as `ranges` gives it."""
    table = grid.table
    low, high = between
    shown = {
        name: getattr(terms, name).tolist()
        for name in ("wait_s", "stage_in_s", "run_s", "stage_out_s", "network_s", "total_s")
    }
    link = _link(grid)
    out = []
    for s in order.tolist():
        out.append(
            SiteCost(
                site=table.sites[s],
                **{name: values[s] for name, values in shown.items()},
                bytes_in=int(terms.bytes_in[s]),
                slots=int(table.slots[s]),
                work_ahead_s=float(table.work_ahead_s[s]),
                rtt_s=float(table.rtt_s[s]),
                bytes_per_s=float(link[0][s]),
                age_s=float(table.age_s[s]),
                wait_low_s=float(low.wait_s[s]),
                wait_high_s=float(high.wait_s[s]),
                stage_in_low_s=float(low.stage_in_s[s]),
                stage_in_high_s=float(high.stage_in_s[s]),
                run_low_s=float(low.run_s[s]),
                run_high_s=float(high.run_s[s]),
                total_low_s=float(low.total_s[s]),
                total_high_s=float(high.total_s[s]),
                bytes_out=int(bytes_out(grid, s, grid.jobs)),
                max_jobs=0 if table.max_jobs[s] == inf else int(table.max_jobs[s]),
                runs_seen=int(table.runs_seen[s]),
                jobs_ahead=int(table.jobs_ahead[s]),
                queued_jobs=int(table.queued_jobs[s]),
                busy_fraction=float(table.busy_fraction[s]),
                loss=float(link[1][s]),
                network=float(paper.network[s]) if paper else 0.0,
                computation=float(paper.computation[s]) if paper else 0.0,
                transfer=float(paper.transfer[s]) if paper else 0.0,
                cost=float(cost[s]),
            )
        )
    return out


def bytes_out(grid: Grid, s: int, jobs: int) -> float:
    return jobs * grid.demand.output_bytes if grid.table.out_s_per_byte[s] > 0 else 0.0


def ranges(grid: Grid, terms: Terms) -> tuple[Terms, Terms]:
    """(lowest, highest) terms, by the bounds the sites told for waits and run times, and by the links' past errors."""
    if not uncertain(grid):
        return terms, terms
    return price(bounded(grid, high=False)), price(bounded(grid, high=True))


def uncertain(grid: Grid) -> bool:
    """True if any bound differs from the expected value."""
    table = grid.table
    return bool(
        (table.wait_low_s != grid.wait_s).any()
        or (table.wait_high_s != grid.wait_s).any()
        or (table.run_low_s > 0).any()
        or (table.run_high_s > grid.job_s).any()
        or (grid.data is not None and grid.data.of_link("error", table).any())
    )


def bounded(grid: Grid, high: bool) -> Grid:
    """The same grid with every wait, run time and link at its lower or upper bound."""
    table = grid.table
    out = Grid.__new__(Grid)
    out.__dict__.update(grid.__dict__)
    out.wait_s = table.wait_high_s if high else table.wait_low_s
    learned = table.run_high_s if high else table.run_low_s
    sane = learned >= grid.job_s if high else (learned > 0) & (learned <= grid.job_s)
    out.job_s = np.where(sane, learned, grid.job_s)
    out.rate = grid.lanes / out.job_s
    if grid.data is not None:
        spread = 1.0 + grid.data.of_link("error", table)
        out.data = grid.data.scaled(spread if high else 1.0 / spread)
    return out


def _link(grid: Grid) -> tuple[Floats, Floats]:
    """(bytes per second, loss) of the link the data would take, (S,): its slowest; else (0, that to the origin)."""
    data, table = grid.data, grid.table
    if data is None:
        return np.zeros(len(table)), table.link.loss
    with np.errstate(divide="ignore"):
        slowest = data.s_per_byte.max(axis=0)
        rate = np.where(slowest > 0, 1.0 / slowest, 0.0)
    away = data.missing.any(axis=0)
    return rate, np.where(away, data.of_link("loss", table).max(axis=0), table.link.loss)
