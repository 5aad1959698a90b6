"""The best deal of a small group, found exactly: with few jobs or few large files, greedy dealing errs most."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from diana.model.arrays import Floats, Ints, np
from diana.policy.allocation.deal import Deal
from diana.policy.pricing.demand import Block
from diana.policy.pricing.grid import Grid

MOST_STATES = 128
"""Most ways to choose a number of jobs of each block: the search looks at each pair of ways once per site."""
MOST_ENDS = 1024
"""Most ends to work out before the search: one per site and way."""


def deal(grid: Grid, blocks: Sequence[Block]) -> Deal | None:
    """Return the best deal; None when the group is too large, or where one site's jobs affect another's times (a shared
    uplink, or `max_parallel`).

    best[s][v]: the earliest end when sites 0..s share v, v counting the jobs of each block; the ends of one site
    depend on what it gets alone.
    """
    sizes = [len(b.indices) for b in blocks]
    states = prod(size + 1 for size in sizes)
    sites = len(grid.table)
    if states > MOST_STATES or sites * states > MOST_ENDS or grid.demand.max_parallel:
        return None
    if grid.data is not None and grid.data.uplinks:
        return None
    vectors = np.array(list(product(*(range(size + 1) for size in sizes))))
    ends = site_ends(grid, blocks, vectors)
    rest = vectors[:, None, :] - vectors[None, :, :]
    fits = (rest >= 0).all(axis=2)
    place = np.array([prod(size + 1 for size in sizes[at + 1 :]) for at in range(len(sizes))])
    left = np.where(fits, (rest * place).sum(axis=2), 0)
    best = ends[:, 0]
    taken: list[Ints] = [np.arange(states)]
    for s in range(1, sites):
        # Rows: the jobs shared by sites 0..s; columns: those of them that go to site s. Ties go to the lowest index, so
        # to the fewest jobs of the first blocks: earlier sites, home among them, keep what they can.
        end = np.where(fits, np.maximum(ends[:, s][None, :], best[left]), np.inf)
        choice = np.argmin(np.round(end, 9), axis=1)
        taken.append(choice)
        best = end[np.arange(states), choice]
    if not np.isfinite(best[-1]):
        return None
    return _filled(Deal(grid, blocks), vectors, left, taken)


def site_ends(grid: Grid, blocks: Sequence[Block], vectors: Ints) -> Floats:
    """(V, S) end at each site if it gets these jobs of each block; infinite where it cannot take them. All are worked
    out as one deal, over the sites repeated side by side once per vector."""
    shape = (len(vectors), grid.sites)
    usable = np.broadcast_to(grid.rate > 0, shape)
    deal = Deal(grid.repeated(len(vectors)), blocks)
    for number in range(len(blocks)):
        deal.give_all(number, (vectors[:, number, None] * usable).reshape(-1))
    ends = deal.ends().reshape(shape)
    jobs = vectors.sum(axis=1)[:, None]
    can = (jobs <= grid.table.max_jobs) & usable & ~np.isnan(ends)
    out: Floats = np.where(jobs == 0, 0.0, np.where(can, ends, np.inf))
    return out


def _filled(out: Deal, vectors: Ints, left: Ints, taken: Sequence[Ints]) -> Deal:
    state = len(vectors) - 1
    for s in reversed(range(len(taken))):
        choice = int(taken[s][state])
        for number, jobs in enumerate(vectors[choice]):
            if jobs:
                out.give(number, int(jobs), s)
        state = int(left[state, choice])
    return out
