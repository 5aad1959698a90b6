"""Devices and licences in use at this site, each by its name: how many there are, and when those in use come free."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from diana.engine.dispatch import capacity
from diana.engine.machines.machine import MANY
from diana.engine.machines.requirements import Kind
from diana.engine.queue.entries import QueueEntry
from diana.engine.site.context import Context
from diana.model.job.resources import LICENCE, Amounts, countable, devices, people
from diana.policy.binding import horizon
from diana.policy.queueing.forecast import Slots


class Use(NamedTuple):
    """The use of one resource, over all machines of the site."""

    slots: Slots
    """Its units as they come free."""
    given_s: float
    """Seconds expected of the jobs given to machines ahead of free slots, times their units."""
    total: int


class Uses:
    """Uses as they were at one instant: a look at many waiting jobs asks for the same ones. Volatile."""

    def __init__(self) -> None:
        self.stamp: tuple[float, ...] = ()
        self.known: dict[str, Use] = {}


def of(core: Context, name: str) -> Use:
    book, workers = core.book(Uses), core.workers
    # What machines have is settled before its version is read.
    workers.slots()
    stamp = (core.now, core.totals.runs.changes, core.run_book.changes, workers.offers.changes)
    if book.stamp != stamp:
        book.stamp, book.known = stamp, {}
    if name not in book.known:
        book.known[name] = _of_licence(core, name) if name.startswith(LICENCE) else _of_device(core, name)
    return book.known[name]


def _of_device(core: Context, name: str) -> Use:
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


# --- jobs that wait for their turn ---------------------------------------------------------------------------


def due(core: Context, entry: QueueEntry, before_s: Mapping[str, float], until_s: float) -> int:
    """Return how many of a reservation's jobs are due by the devices and licences that they ask for. `before_s`:
    resource -> seconds of what stands before them, times its units."""
    counts = countable(entry.kind.amounts)
    jobs = fitting(core, counts, entry.run_s, before_s, until_s + horizon.batch_s(entry.run_s))
    if jobs or any(before_s.values()) or all(count == 1 for _, count in counts):
        return jobs
    # As with processors: jobs that ask for fewer do not pass it for ever.
    drains_s = max(of(core, name).slots.starts_s(count, 0.0) for name, count in counts)
    return int(horizon.is_worth_a_place(drains_s, core.now - entry.submitted_s))


def fitting(core: Context, amounts: Amounts, run_s: float, before_s: Mapping[str, float], until_s: float) -> int:
    """Return how many such jobs would start within `until_s` by the devices and licences that they ask for; `MANY`
    where they ask for none."""
    most = MANY
    for name, count in countable(amounts):
        used = of(core, name)
        ahead = horizon.Ahead(inf, used.given_s + before_s[name])
        most = min(most, horizon.fitting(used.slots, count, run_s, ahead, until_s))
    return most
