"""Dealing the jobs of a split group out over sites: several ways, each looked at as a whole; the best is taken.

Jobs without data are water-filled, which is exact. With data a small group's best deal is found exactly too
(`diana.policy.allocation.exact`); beyond that the ways differ in what they try first, and each is evened out
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from diana.model.arrays import Floats, np
from diana.policy.allocation import exact
from diana.policy.allocation.deal import Deal
from diana.policy.allocation.water_filling import Lines, fill
from diana.policy.pricing.demand import Block, by_holders
from diana.policy.pricing.grid import Grid

CHUNKS_PER_SITE = 16
MOST_CHUNKS = 128
"""Most chunks that blocks with data are dealt out in; more is closer to the fluid optimum and slower. A chunk is of one
block, so there are at most this many in all and one more per block, however many jobs."""
MANY_SITES = 32
"""Number of sites beyond which a chunk is water-filled over all instead of given to one, so that fewer, larger chunks
suffice."""
LARGE_CHUNKS = 16
MANY_BLOCKS = 64
"""Number of blocks beyond which they are joined by the sites where their data lie."""
MOST_PLACES = 256
"""Number of blocks beyond which, once joined so, only one of the places of each need counts."""
MOST_UNITS = 1024
"""Most units of one block placed one by one; more are water-filled, which without data is the same."""
MOST_MOVES = 96
"""Most moves made while evening out."""
LEAST_GAIN = 1e-4
"""Least gain of a move, as a share of the end."""
_SAME_S = 1e-9


def split(grid: Grid, blocks: Sequence[Block], unit: int = 0) -> Deal | None:
    """Return the best deal found: the one that ends first, ties by fewer bytes moved; None when the sites cannot take
    all jobs.

    `unit`: jobs placed as one (SPEC D6); only a block's last piece may be smaller. 0: as finely as pays.
    """
    some = blocks if len(blocks) <= MANY_BLOCKS else by_holders(grid.demand, blocks, MOST_PLACES)
    deals: list[Deal | None]
    if unit:
        deals = [deal_in_units(Deal(grid, some), unit)]
    elif len(some) == 1:
        deals = [_spread(Deal(grid, some), 0, len(some[0].indices), 1)]
        deals += [exact.deal(grid, some)] if grid.out_s is not None or some[0].needs else []
    else:
        deals = [exact.deal(grid, some), deal_in_turns(Deal(grid, some)), deal_to_the_data(Deal(grid, some))]
    whole = [deal for deal in deals if deal is not None and deal.jobs.sum() == grid.jobs]
    for deal in whole:
        deal.limit()
    return min(whole, key=lambda d: (round(d.makespan_s(), 9), float(d.bytes_in.sum())), default=None)


def ends_with(lines: Lines, jobs: int, least_s: Floats | None = None) -> Floats:
    """(S,) end at each site if it were dealt `jobs` more; infinite where it has no room. `least_s`: shortest run,
    whatever the lines say."""
    with np.errstate(divide="ignore", invalid="ignore"):
        least_s = lines.least_s if least_s is None else np.maximum(lines.least_s, least_s)
        total = lines.had + jobs
        run = np.where(total > lines.first, np.maximum(total / lines.rate, least_s), least_s)
        tail = np.maximum((lines.tail_had + jobs) / lines.tail_rate, lines.tail_least_s)
    out: Floats = np.where(lines.room >= jobs, np.maximum(lines.start_s + run, lines.tail_start_s + tail), np.inf)
    return out


def deal_in_units(deal: Deal, unit: int) -> Deal:
    """Deal in units of `unit` jobs, each placed like one job at the site where it ends first given those placed before,
    blocks with data first (papers/diana-bulk-scheduling section VIII)."""
    for number in _data_first(deal):
        jobs = len(deal.blocks[number].indices)
        whole = jobs // unit * unit
        if jobs // unit > MOST_UNITS or not deal.blocks[number].needs:
            _spread(deal, number, whole, unit)
        else:
            for _ in range(jobs // unit):
                _give_one(deal, number, unit)
        if jobs > whole:
            _give_one(deal, number, jobs - whole)
    return deal


def deal_in_turns(deal: Deal) -> Deal:
    """Deal each chunk to the site where it ends first given those dealt before. Blocks with data come first, and blocks
    whose data lie at different sites take turns, so that every site fills with its own data before it is offered
    another's."""
    needs = deal.grid.demand.needs
    where = [tuple(sorted({tuple(sorted(needs[n].holders)) for n in b.needs})) for b in deal.blocks]
    totals: dict[object, int] = {}
    for block, at in zip(deal.blocks, where, strict=True):
        totals[at] = totals.get(at, 0) + len(block.indices)
    before = dict.fromkeys(totals, 0)
    order, step = [], _step(deal)
    for number, (block, at) in enumerate(zip(deal.blocks, where, strict=True)):
        for jobs in _chunks(block, step):
            order.append((not _has_data(deal, number), before[at] / totals[at], number, jobs))
            before[at] += jobs
    for _, _, number, jobs in sorted(order):
        _give_chunk(deal, number, jobs)
    return _even_out(deal, step)


def deal_to_the_data(deal: Deal) -> Deal:
    """Deal each block with data to the site that can have its data soonest, the others where they end first."""
    step = _step(deal)
    for number in _data_first(deal):
        jobs = len(deal.blocks[number].indices)
        if _has_data(deal, number):
            fetch_s = _fetch_s(deal, number)
            lines = deal.lines(number)
            near = np.where(fetch_s <= fetch_s.min(), ends_with(lines, jobs), np.inf)
            if np.isfinite(near).any():
                deal.give(number, jobs, int(np.argmin(near)))
                continue
        for some in _chunks(deal.blocks[number], step):
            _give_chunk(deal, number, some)
    return _even_out(deal, step)


def _spread(deal: Deal, number: int, jobs: int, unit: int) -> Deal:
    deal.give_all(number, fill(deal.lines(number), jobs, unit))
    return deal


def _give_one(deal: Deal, number: int, jobs: int) -> None:
    ends = ends_with(deal.lines(number), jobs)
    s = int(np.argmin(ends))
    if ends[s] < np.inf:
        deal.give(number, jobs, s)
    else:
        _spread(deal, number, jobs, 1)


def _give_chunk(deal: Deal, number: int, jobs: int) -> None:
    if jobs > 1 and len(deal.grid.table) > MANY_SITES:
        _spread(deal, number, jobs, 1)
    else:
        _give_one(deal, number, jobs)


def _step(deal: Deal) -> int:
    sites = len(deal.grid.table)
    return max(
        1, ceil(deal.grid.jobs / (LARGE_CHUNKS if sites > MANY_SITES else min(CHUNKS_PER_SITE * sites, MOST_CHUNKS)))
    )


def _chunks(block: Block, step: int) -> Iterator[int]:
    left = len(block.indices)
    while left:
        yield min(step, left)
        left -= min(step, left)


def _has_data(deal: Deal, number: int) -> bool:
    data = deal.grid.data
    return data is not None and any(data.size[n] for n in deal.blocks[number].needs)


def _fetch_s(deal: Deal, number: int) -> Floats:
    """(S,) seconds to bring all data of a block to each site."""
    data = deal.grid.data
    assert data is not None
    needs = list(deal.blocks[number].needs)
    sizes = np.bincount(data.kind[needs], data.size[needs], len(data.kinds))
    out = np.zeros(len(deal.grid.table))
    for k in np.unique(data.kind[needs]):
        out = out + data.start_s[k] + max(sizes[k], 1e-9) * data.s_per_byte[k]
    return out


def _data_first(deal: Deal) -> list[int]:
    return sorted(range(len(deal.blocks)), key=lambda n: (not _has_data(deal, n), n))


def _even_out(deal: Deal, step: int) -> Deal:
    """Move chunks from the site that ends last to where they end first, lightest data first, as long as that lowers the
    end; then smaller ones, down to a single job."""
    numbers = _data_first(deal)[::-1]
    moves = MOST_MOVES
    while step:
        while moves and _move_one(deal, numbers, step):
            moves -= 1
        step //= 2
    while moves and _empty_one(deal, numbers):
        moves -= 1
        while moves and _move_one(deal, numbers, 1):
            moves -= 1
    return deal


def _move_one(deal: Deal, numbers: Sequence[int], step: int) -> bool:
    """Move one chunk away from the site that ends last, if some site takes it and still ends earlier."""
    ends = deal.ends()
    last = int(np.argmax(ends))
    enough_s = ends[last] * (1.0 - LEAST_GAIN)
    here = [number for number in numbers if deal.counts[number, last]]
    for number in here[:4]:
        jobs = min(int(deal.counts[number, last]), step)
        there = ends_with(deal.lines(number), jobs, deal.grid.job_s)
        there[last] = np.inf
        s = int(np.argmin(there))
        if there[s] < enough_s:
            deal.give(number, -jobs, last)
            deal.give(number, jobs, s)
            if deal.ends()[[last, s]].max() < enough_s:
                return True
            deal.give(number, -jobs, s)
            deal.give(number, jobs, last)
    return False


def _empty_one(deal: Deal, numbers: Sequence[int]) -> bool:
    """Move all jobs away from the site that ends last, if every site then ends earlier. Where its jobs fit into its
    lanes, taking only some away would not make it end earlier."""
    ends = deal.ends()
    last = int(np.argmax(ends))
    if not 0 < deal.jobs[last] <= deal.lanes[last]:
        return False
    moved: list[tuple[int, int, int]] = []
    for number in numbers:
        while jobs := min(int(deal.counts[number, last]), max(1, int(deal.jobs[last]) // 8)):
            there = ends_with(deal.lines(number), jobs, deal.grid.job_s)
            there[last] = np.inf
            s = int(np.argmin(there))
            if there[s] >= ends[last] - _SAME_S:
                break
            deal.give(number, -jobs, last)
            deal.give(number, jobs, s)
            moved.append((number, jobs, s))
    if deal.makespan_s() < ends[last] - _SAME_S:
        return True
    for number, jobs, s in reversed(moved):
        deal.give(number, -jobs, s)
        deal.give(number, jobs, last)
    return False
