"""Devices and licences in use at this site, each by its name: how many there are, and when those in use come free."""

from __future__ import annotations

from typing import NamedTuple

from diana.engine.dispatch import capacity
from diana.engine.machines.requirements import Kind
from diana.engine.site.context import Context
from diana.model.job.resources import LICENCE, devices, people
from diana.policy.queueing.forecast import Slots


class Use(NamedTuple):
    """The use of one resource, over all machines of the site."""

    slots: Slots
    """Its units as they come free."""
    given_s: float
    """Seconds expected of the jobs given to machines ahead of free slots, times their units."""
    total: int


def of(core: Context, name: str) -> Use:
    if name.startswith(LICENCE):
        return _of_licence(core, name)
    held, total = capacity.held(core), core.workers.whole(name)
    ends = held.ends.get(name, [])
    free = total - sum(count for _, count in ends)
    return Use(Slots(max(0, free), ends), held.devices_ahead_s.get(name, 0.0), total)


def counts(core: Context, name: str) -> tuple[int, int]:
    """(units that no job asked for, units in all)."""
    if not name.startswith(LICENCE):
        return core.workers.idle(name), core.workers.whole(name)
    total = _licences(core, name)
    return max(0, total - core.totals.runs.shared[name]), total


def _of_licence(core: Context, name: str) -> Use:
    """All pools of the site together. What machines hold ahead of slots is among the ends."""
    free, total = counts(core, name)
    return Use(Slots(free, capacity.licence_ends(core, name)), 0.0, total)


def _licences(core: Context, name: str) -> int:
    offers = core.workers.offers
    return offers.licences.get(name, 0) + sum(offers.of(worker).most.get(name, 0) for worker in offers.apart())


def short(core: Context, kind: Kind) -> str:
    """Return why no job of the kind can start just now, by what machines have in whole pieces; empty: one can, or wants
    none."""
    pieces, workers = devices(kind.amounts), core.workers
    crew = workers.crew(kind).here if pieces else ()
    if not crew or any(workers.fit_beside(worker, pieces) for worker in crew):
        return ""
    lacks = (name for name, each in pieces if all(workers.free_of(worker, name) < each for worker in crew))
    return f"waits for {people(next(lacks, pieces[0][0]))}: too few are free at {core.site}"
