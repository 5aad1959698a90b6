"""The licences of a site: how many more jobs that want them may start (SPEC U7), and when the next would.

All machines of a site share the licences its operator says it has; a cluster counts its own and tells how many there
are. A job that was given and has not ended holds its licences, whatever became of its machine or of this node
meanwhile: the journal knows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import NamedTuple

from diana.engine.dispatch import capacity
from diana.engine.machines.machine import Worker
from diana.engine.machines.requirements import Kind, of_kind
from diana.engine.site.context import Context
from diana.model.job.licences import Counts, among
from diana.policy.queueing.forecast import Slots

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
    counts, workers = among(kind[1].software), core.workers
    shared, apart = workers.offers.parted(workers.crew(of_kind(kind)))
    found = []
    if shared:
        had = _held_by_the_site(core, counts)
        found.append(_pool("", shared, counts, _of_the_site(core), had, promised))
    for w in apart:
        found.append(_pool(w.name, frozenset((w.name,)), counts, _of(core, w), w.lane.licences, promised))
    return found


def _pool(
    of: str,
    machines: frozenset[str],
    counts: Counts,
    there: Mapping[str, int],
    held: Mapping[str, int],
    promised: Promised,
) -> Pool:
    free = {name: there.get(name, 0) - held.get(name, 0) - promised.get((of, name), 0) for name, _ in counts}
    jobs = min(free[name] // count for name, count in counts)
    return Pool(of, machines, max(0, jobs), next((name for name, count in counts if free[name] < count), ""))


def promise(promised: Promised, pool: Pool, counts: Counts, jobs: int) -> None:
    for name, count in counts:
        promised[pool.of, name] += jobs * count


def some_for(core: Context, kind: Kind, jobs: int, promised: Promised) -> list[Pool]:
    """Return the pools with licences for some of so many jobs. Licences they want beyond these are promised to them in
    each pool where they may run: jobs behind do not take those, else a job that wants several would wait for ever."""
    every, counts = pools(core, kind, promised), among(kind[1].software)
    short = jobs - sum(pool.jobs for pool in every)
    for pool in every if short > 0 else ():
        promise(promised, pool, counts, short)
    return [pool for pool in every if pool.jobs]


def await_room(promised: Promised, some: list[Pool], counts: Counts, machines: Container[str]) -> None:
    """Promise its licences to a job that waits for nothing but room on these machines; else it would lack licences
    whenever there is room."""
    for pool in some:
        if any(name in machines for name in pool.machines):
            promise(promised, pool, counts, 1)


def _of(core: Context, worker: Worker) -> dict[str, int]:
    return dict(among(core.workers.offers.of(worker)))


def _of_the_site(core: Context) -> Mapping[str, int]:
    return core.state.settings.licences


def _held_by_the_site(core: Context, counts: Counts) -> dict[str, int]:
    """Return the site's licences that are held, also by machines that are away."""
    runs, apart = core.totals.runs, core.workers.offers.apart()
    return {name: runs.licences[name] - sum(worker.lane.licences[name] for worker in apart) for name, _ in counts}


def short(core: Context, kind: Kind) -> str:
    """Return why no job of the kind can start just now, by the licences; empty: one can, or wants none."""
    if not among(kind[1].software):
        return ""
    found = pools(core, kind)
    if not found or any(pool.jobs for pool in found):
        return ""
    name = found[0].lacks
    return f"waits for a licence: too few of {name} are free at {core.site}"


def at_once(core: Context, software: tuple[str, ...]) -> int:
    """Return how many such jobs may run at once, by the licences there are."""
    counts, some = among(software), core.workers.offers.those(software)
    there = [_of(core, worker) for worker in some if core.workers.offers.counts_its_own(worker)]
    there += [dict(_of_the_site(core))] if len(there) < len(some) else []
    return sum(min(total.get(name, 0) // count for name, count in counts) for total in there)


class Use(NamedTuple):
    """The use of one licence, over all pools of the site."""

    slots: Slots
    """Its units as they come free."""
    total: int


def use(core: Context, name: str) -> Use:
    apart = core.workers.offers.apart()
    total = _of_the_site(core).get(name, 0) + sum(_of(core, worker).get(name, 0) for worker in apart)
    return Use(Slots(max(0, total - core.totals.runs.licences[name]), capacity.licence_ends(core, name)), total)


def weights(core: Context, name: str) -> dict[Kind, float]:
    """Return queued kinds of jobs that want it -> how many for each processor."""
    wanted = ((kind, dict(among(kind[1].software)).get(name, 0)) for kind in core.queues.classes.special())
    return {kind: count / kind[0] for kind, count in wanted if count}
