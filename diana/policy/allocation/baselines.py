"""Placements for comparison (SPEC D13 and section 7), as brokers make them that do not plan.

Each chooses among the candidates the planner chooses among, by the same information, and gives the same `Plan`: the
prices in it are those of the turnaround model, which these policies do not look at, `greedy` excepted.

- random, round-robin: the jobs are dealt out one by one over the sites, as brokers for single jobs do. Jobs are alike,
  so what is dealt is how many each site gets; like jobs lie side by side.
- fastest (FLOP): the most powerful available site: one with idle processors before one without, then by speed, then by
  idle processors, then by the queue.
- least-queue: fewest jobs waiting per processor, then the smallest busy share.
- two-choices: of two sites drawn by their processors the one with fewer jobs, waiting and running, per processor (M.
  Mitzenmacher, "The power of two choices in randomized load balancing", IEEE TPDS 12, 2001). There two servers are
  drawn, and a server is a processor here: with sites drawn alike, small ones would be asked as often as large ones.
- data-local: the site that lacks the fewest bytes, ties as least-queue; what it lacks decides, however long its queue.
- greedy: minimum completion time: where the whole would end first.

The others place a group as a whole; in parts of `max_subgroup` or `division`, one after the other, where those ask
for it; data-local places jobs apart whose data lie at different sites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from diana.model.arrays import Floats, Ints, np
from diana.model.durations import seconds
from diana.model.ids import SiteId
from diana.policy.allocation import chance
from diana.policy.allocation.deal import Deal
from diana.policy.allocation.heuristics import MANY_BLOCKS, MOST_PLACES, MOST_UNITS, ends_with
from diana.policy.allocation.models import MODELS
from diana.policy.allocation.splitting import Choice, Plan
from diana.policy.pricing import cost
from diana.policy.pricing.demand import Block, Candidate, Demand, blocks, by_holders
from diana.policy.pricing.grid import Grid
from diana.policy.pricing.sites import SiteTable, in_order
from diana.policy.pricing.turnaround import Weights

Baseline = Literal["random", "round-robin", "fastest", "least-queue", "two-choices", "data-local", "greedy"]
DEALT = ("random", "round-robin")
"""The policies that deal jobs one by one."""
LOOKED_UP = (*DEALT, "two-choices")
"""The policies for which it is drawn, or their turn, which sites they look at."""

Pieces = list[tuple[int, int]]
"""(block, jobs) placed as one."""


def decide(
    demand: Demand,
    candidates: Sequence[Candidate],
    now: float,
    *,
    policy: Baseline,
    turns: Sequence[SiteId] = (),
    lot: str = "",
) -> Plan:
    """Place the demand by one of the baseline policies. `candidates`: home first, then by site id; ties go to the
    first. `turns`, for `LOOKED_UP`: the sites in the order of their turns; other sites get the jobs these cannot take.
    `lot`: the name of the draw."""
    grid = Grid(demand, cost.table_of(demand, candidates))
    elsewhere = sum(c.queued_jobs for c in candidates if cost.refusal(c))
    choice = Choice(grid, MODELS["turnaround"](grid, Weights(), False, elsewhere), candidates)
    deal = _dealt(choice, policy, turns, lot) if len(grid.table) and demand.indices else None
    how: dict[str, object] = dict(model="turnaround", subgroup_jobs=demand.subgroup_jobs())
    if deal is None:
        return choice.nowhere(now, how)
    deal.limit()
    return choice.given(deal, _why(choice, policy, deal), now, how)


def standing(policy: Baseline, table: SiteTable, processors: int, dealt: Floats | float = 0.0) -> list[Floats]:
    """Keys (S,) that rank sites, lowest first, where the group itself does not matter. `dealt`: jobs each site was
    given already."""
    with np.errstate(divide="ignore", invalid="ignore"):
        queue = np.where(table.slots > 0, (table.queued_jobs + dealt) / table.slots, np.inf)
    if policy == "two-choices":
        return [queue + table.busy_fraction, queue]
    if policy != "fastest":
        return [queue, table.busy_fraction]
    idle = np.maximum(0.0, table.slots * (1.0 - table.busy_fraction) - dealt * processors)
    taken = (idle < processors) | (table.queued_jobs > 0)
    return [taken.astype(np.float64), -table.speed, -np.where(taken, 0.0, idle), queue]


# --- dealing -------------------------------------------------------------------------------------------------


def _dealt(choice: Choice, policy: Baseline, turns: Sequence[SiteId], lot: str) -> Deal | None:
    """Deal the jobs by the policy; None: the sites cannot take them all."""
    grid, demand = choice.grid, choice.grid.demand
    room = np.where(np.isfinite(choice.terms.total_s), np.minimum(grid.table.max_jobs, grid.jobs), 0.0)
    fine = blocks(demand)
    if len(fine) > MANY_BLOCKS or policy == "data-local":
        fine = by_holders(demand, fine, MOST_PLACES)
    deal = Deal(grid, fine)
    if policy in DEALT:
        order = _in_turns(grid.table, turns, room)
        return _one_by_one(deal, policy, order, room, lot)
    looked_up = _in_turns(grid.table, turns, room) if policy == "two-choices" else []
    for number, pieces in enumerate(_units(policy, demand, fine)):
        rows = _ranked(policy, choice, deal, pieces)
        if policy == "two-choices":
            rows = _two_first(rows, [row for row in looked_up if room[row] >= 1], grid.table, f"{lot}/{number}")
        if demand.max_parallel:
            rows = _few(rows, deal, room, sum(jobs for _, jobs in pieces))
        if not _pour(deal, pieces, rows, room):
            return None
    return deal


def _two_first(rows: Ints, drawn_of: list[int], table: SiteTable, lot: str) -> Ints:
    """Return the rows with two of `drawn_of` before all others, each pair of processors as likely to be met."""
    slots, two = table.slots[drawn_of].astype(np.float64), list[int]()
    for number in range(min(2, len(drawn_of))):
        edges = np.cumsum(slots)
        place = int(np.searchsorted(edges, chance.fraction(lot, number) * edges[-1], side="right"))
        two.append(drawn_of[place])
        slots[place] = 0.0
    first = np.isin(rows, two)
    return np.concatenate([rows[first], rows[~first]])


def _few(rows: Ints, deal: Deal, room: Floats, jobs: int) -> Ints:
    """Return the rows, in their order, that such jobs may use so that no more sites than `max_parallel` have any: those
    in use, and of the others the best, or the roomiest where these cannot take them."""
    used = deal.jobs[rows] > 0
    left = max(0, deal.grid.demand.max_parallel - np.count_nonzero(deal.jobs))
    fresh = rows[~used]
    if room[rows[used]].sum() + room[fresh[:left]].sum() < jobs:
        fresh = fresh[np.argsort(-room[fresh], kind="stable")]
    return rows[used | np.isin(rows, fresh[:left])]


def _in_turns(table: SiteTable, turns: Sequence[SiteId], room: Floats) -> list[int]:
    known = [table.row[site] for site in turns if site in table.row]
    rows = known if room[known].any() else [*known, *(row for row in range(len(table)) if row not in set(known))]
    return [row for row in rows if room[row] > 0]


def _one_by_one(deal: Deal, policy: Baseline, order: list[int], room: Floats, lot: str) -> Deal | None:
    demand = deal.grid.demand
    order = order[: demand.max_parallel] if demand.max_parallel else order
    if not order:
        return None
    turn, rows = 0, np.array(order)
    for number, block in enumerate(deal.blocks):
        jobs = len(block.indices)
        if policy == "random":
            counts = np.array(chance.shares(f"{lot}/{number}", jobs, len(rows)), dtype=np.int64)
        else:
            counts = np.full(len(rows), jobs // len(rows), dtype=np.int64)
            counts[(turn + np.arange(jobs % len(rows))) % len(rows)] += 1
            turn = (turn + jobs) % len(rows)
        counts = np.minimum(counts, room[rows].astype(np.int64))
        wide: Ints = np.zeros(len(room), dtype=np.int64)
        wide[rows] = counts
        deal.give_all(number, wide)
        room -= wide
        if not _pour(deal, [(number, jobs - int(counts.sum()))], rows, room):
            return _anywhere(deal, number, room) if not demand.max_parallel else None
    return deal


def _anywhere(deal: Deal, number: int, room: Floats) -> Deal | None:
    """Deal the remaining jobs over all sites in order of rank, once the sites whose turn it is are full."""
    every = np.argsort(deal.grid.table.ranks())
    for later in range(number, len(deal.blocks)):
        left = len(deal.blocks[later].indices) - int(deal.counts[later].sum())
        if not _pour(deal, [(later, left)], every, room):
            return None
    return deal


def _units(policy: Baseline, demand: Demand, fine: Sequence[Block]) -> Iterator[Pieces]:
    unit = demand.subgroup_jobs()
    if not unit and policy != "data-local":
        yield [(number, len(block.indices)) for number, block in enumerate(fine)]
        return
    unit = unit or len(demand.indices)
    unit *= -(-len(demand.indices) // (unit * MOST_UNITS))
    for number, block in enumerate(fine):
        left = len(block.indices)
        while left:
            yield [(number, min(unit, left))]
            left -= min(unit, left)


def _ranked(policy: Baseline, choice: Choice, deal: Deal, pieces: Pieces) -> Ints:
    """Rows of the sites, the best first."""
    table = choice.grid.table
    keys: list[Floats] = []
    if policy == "greedy":
        whole = len(pieces) == len(deal.blocks) and not deal.jobs.any()
        keys = [choice.terms.total_s if whole else ends_with(deal.lines(pieces[0][0]), pieces[0][1])]
    elif policy == "data-local":
        lacking: Floats = np.zeros(len(table))
        for number, jobs in pieces:
            lacking = lacking + deal.bytes_to_come(number, jobs).sum(axis=0)
        keys = [lacking]
    return in_order([*keys, *standing(policy, table, choice.grid.demand.processors, deal.jobs)], table)


def _pour(deal: Deal, pieces: Pieces, rows: Ints, room: Floats) -> bool:
    """To the first site that takes all of it, else each in order takes what it can; False: they cannot take it all."""
    jobs = sum(some for _, some in pieces)
    if not jobs:
        return True
    fits = rows[room[rows] >= jobs]
    if len(fits):
        rows = fits[:1]
    if room[rows].sum() < jobs:
        return False
    left = list(pieces)
    for row in rows.tolist():
        while left and room[row] >= 1:
            number, some = left.pop(0)
            taken = int(min(some, room[row]))
            if taken:
                deal.give(number, taken, row)
                room[row] -= taken
            if taken < some:
                left.insert(0, (number, some - taken))
    return not any(some for _, some in left)


# --- reasons -------------------------------------------------------------------------------------------------


def _why(choice: Choice, policy: Baseline, deal: Deal) -> str:
    used = np.flatnonzero(deal.jobs)
    if len(used) > 1:
        return f"{_SEVERAL[policy]} {len(used)} sites; ends after {seconds(deal.makespan_s())}"
    row = int(used[0])
    return f"{_ONE[policy](choice, row)}; ends after {seconds(float(choice.terms.total_s[row]))}"


def _fastest(choice: Choice, row: int) -> str:
    table = choice.grid.table
    free = standing("fastest", table, choice.grid.demand.processors)[0][row] == 0
    which = "fastest site with idle processors" if free else "fastest site, none has idle processors"
    return f"{which}: {table.sites[row]} (speed {table.speed[row]:g})"


def _least_queue(choice: Choice, row: int) -> str:
    table = choice.grid.table
    queue = table.queued_jobs[row] / table.slots[row]
    return f"least queue: {table.sites[row]} ({queue:.3g} jobs wait per processor)"


def _two_choices(choice: Choice, row: int) -> str:
    table = choice.grid.table
    jobs = table.queued_jobs[row] / table.slots[row] + table.busy_fraction[row]
    return f"of two sites drawn {table.sites[row]} has fewer jobs ({jobs:.3g} per processor)"


def _data_local(choice: Choice, row: int) -> str:
    return f"data-local: {choice.grid.table.sites[row]} lacks the fewest bytes ({choice.terms.bytes_in[row]:.0f})"


_ONE: dict[Baseline, Callable[[Choice, int], str]] = {
    "random": lambda choice, row: f"drawn at random: {choice.grid.table.sites[row]}",
    "round-robin": lambda choice, row: f"round robin: the turn of {choice.grid.table.sites[row]}",
    "fastest": _fastest,
    "least-queue": _least_queue,
    "two-choices": _two_choices,
    "data-local": _data_local,
    "greedy": lambda choice, row: f"greedy: whole at {choice.grid.table.sites[row]} is done first",
}
_SEVERAL: dict[Baseline, str] = {
    "random": "drawn at random over",
    "round-robin": "dealt round robin over",
    "fastest": "by speed and idle processors over",
    "least-queue": "by the least queue over",
    "two-choices": "each to the better of two sites drawn, over",
    "data-local": "to their data over",
    "greedy": "greedily, part by part, over",
}
