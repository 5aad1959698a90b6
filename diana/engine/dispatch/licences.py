"""The licences of a site: how many more jobs that want them may start (SPEC U7).

All machines of a site share the licences its operator says it has; a cluster counts its own and tells how many there
are. A job that was given and has not ended holds its licences, whatever became of its machine or of this node
meanwhile: the journal knows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import NamedTuple

from diana.engine.machines.requirements import Kind
from diana.engine.site.context import Context
from diana.model.job.resources import LICENCE, Amounts, ResourceRequest, how_many, shared

Promised = Counter[tuple[str, str]]
"""(`Pool.of`, licence) -> how many are promised to jobs that stand before, while the queue is gone through."""
NOBODY = Promised()


class Pool(NamedTuple):
    """Machines that share licences."""

    of: str
    """The machine that counts its own; empty: the site."""
    machines: frozenset[str]
    """Machines in touch that can run such jobs."""
    jobs: int
    """Jobs that may start there now, by the licences alone."""
    lacks: str
    """The licence of which too few are free for one job; empty: there are enough."""


def pools(core: Context, kind: Kind, promised: Promised = NOBODY) -> list[Pool]:
    """Return the pools for jobs of a kind that wants licences: the site's own first, then by name."""
    counts, workers = shared(kind.amounts), core.workers
    together, apart = workers.offers.parted(workers.crew(kind))
    found = []
    if together:
        had = _held_by_the_site(core, counts)
        found.append(_pool("", together, counts, workers.offers.licences, had, promised))
    for w in apart:
        found.append(_pool(w.name, frozenset((w.name,)), counts, workers.offers.of(w).most, w.lane.held, promised))
    return found


def _pool(
    of: str,
    machines: frozenset[str],
    counts: Amounts,
    there: Mapping[str, int],
    held: Mapping[str, int],
    promised: Promised,
) -> Pool:
    free = {name: there.get(name, 0) - held.get(name, 0) - promised.get((of, name), 0) for name, _ in counts}
    lacks = next((name.removeprefix(LICENCE) for name, count in counts if free[name] < count), "")
    return Pool(of, machines, how_many(free, counts), lacks)


def promise(promised: Promised, pool: Pool, counts: Amounts, jobs: int) -> None:
    for name, count in counts:
        promised[pool.of, name] += jobs * count


def some_for(core: Context, kind: Kind, jobs: int, promised: Promised) -> list[Pool]:
    """Return the pools with licences for some of so many jobs. Licences they want beyond these are promised to them in
    each pool where they may run: jobs behind do not take those, else a job that wants several would wait for ever."""
    every, counts = pools(core, kind, promised), shared(kind.amounts)
    short = jobs - sum(pool.jobs for pool in every)
    for pool in every if short > 0 else ():
        promise(promised, pool, counts, short)
    return [pool for pool in every if pool.jobs]


def await_room(promised: Promised, some: list[Pool], counts: Amounts, machines: Container[str]) -> None:
    """Promise its licences to a job that waits for nothing but room on these machines; else it would lack licences
    whenever there is room."""
    for pool in some:
        if any(name in machines for name in pool.machines):
            promise(promised, pool, counts, 1)


def _held_by_the_site(core: Context, counts: Amounts) -> dict[str, int]:
    """Return the site's licences that are held, also by machines that are away."""
    runs, apart = core.totals.runs, core.workers.offers.apart()
    return {name: runs.shared[name] - sum(worker.lane.held[name] for worker in apart) for name, _ in counts}


def short(core: Context, kind: Kind) -> str:
    """Return why no job of the kind can start just now, by the licences; empty: one can, or wants none."""
    if not shared(kind.amounts):
        return ""
    found = pools(core, kind)
    if not found or any(pool.jobs for pool in found):
        return ""
    name = found[0].lacks
    return f"waits for a licence: too few of {name} are free at {core.site}"


def at_once(core: Context, request: ResourceRequest) -> int:
    """Return how many such jobs may run at once, by the licences there are."""
    counts, offers = shared(request.amounts), core.workers.offers
    some = offers.those(request._replace(amounts=counts))
    there: list[Mapping[str, int]] = [offers.of(worker).most for worker in some if offers.counts_its_own(worker)]
    there += [offers.licences] if len(there) < len(some) else []
    return sum(min(total.get(name, 0) // count for name, count in counts) for total in there)
