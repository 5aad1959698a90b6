"""Predicted starts of what waits here, and of what might come."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from diana.engine.dispatch import capacity, licences, maintenance
from diana.engine.dispatch.predictions import Predictions
from diana.engine.journal.state import CustodyKey
from diana.engine.messages.messages import QuoteRequest
from diana.engine.queue.entries import Entry
from diana.engine.queue.queues import Standing
from diana.engine.site.context import Context
from diana.model.job.licences import among
from diana.policy.migration.plan import RAISE
from diana.policy.queueing import forecast


class Wait(NamedTuple):
    """The seconds jobs would lose here to those before them: their predicted end less their own run."""

    wait_s: float
    low_s: float
    high_s: float
    """`low_s` to `high_s` spans nine of ten past predictions of starts by their factors; before there are any, a
    guess."""
    jobs_ahead: int
    priority: float
    """DIANA's number that the jobs would get."""


NO_WAIT = Wait(0.0, 0.0, 0.0, 0, 0.0)


def wait(core: Context, asked: QuoteRequest, run_s: float, lanes: int) -> Wait:
    """Return the wait of `asked.jobs` jobs that run `run_s` each, of which the machines here can run `lanes` at once.

    Before them stand the running jobs (for the rest of their expected time), those given to the LRM, and those that
    would have no lower priority if the group came now. Work counts as a fluid: poured over the slots as they come free,
    the group ends when its own work is through, and its first job starts when there is room for it.
    """
    offset = RAISE if asked.raised else 0.0
    place = core.queues.prospect(asked.owner, asked.processors, asked.jobs, offset, capacity.untaken(core))
    slots, given_s = slots_of(core)
    ahead_s = given_s + place.work_ahead_s
    # Processors left over beside the last lane serve nobody of this group.
    work_s = asked.jobs * run_s * core.workers.slots() / lanes
    first_s = slots.starts_s(asked.processors, ahead_s)
    end_s = max(first_s + run_s, slots.starts_s(1, ahead_s + work_s))
    if asked.gpus:
        gpus, before_s = gpus_of(core)
        before_s += place.gpus_ahead_s
        work_s = asked.jobs * run_s * core.workers.all_gpus() / lanes
        first_s = max(first_s, gpus.starts_s(asked.gpus, before_s))
        end_s = max(end_s, first_s + run_s, gpus.starts_s(1, before_s + work_s))
    for name, count in among(asked.software):
        use, weights = licences.use(core, name), licences.weights(core, name)
        whose = (asked.owner, asked.processors, asked.jobs)
        before_s = core.queues.weighed_ahead_s(place, whose, weights, capacity.untaken(core))
        first_s = max(first_s, use.slots.starts_s(count, before_s))
        work_s = asked.jobs * run_s * use.total / lanes
        end_s = max(end_s, first_s + run_s, use.slots.starts_s(1, before_s + work_s))
    end_s = maintenance.around(core, first_s, end_s, run_s, asked.time_limit_s or run_s)[1]
    lost_s = max(0.0, end_s - max(run_s, asked.jobs * run_s / lanes))
    if lost_s == inf:
        return Wait(inf, inf, inf, place.jobs_ahead, place.priority)
    low_s, high_s = core.book(Predictions).spread().around(lost_s)
    return Wait(lost_s, low_s, high_s, place.jobs_ahead, place.priority)


def next_starts(core: Context, standing: Iterable[Standing]) -> dict[tuple[CustodyKey, bool], float]:
    """(custody, demoted) -> seconds until its next job starts, by the order in which jobs would start if nothing more
    came; inf: not foreseen. Predictions are kept, to be compared with what happens."""
    out: dict[tuple[CustodyKey, bool], float] = {}
    slots, ahead_s = slots_of(core)
    gpus, gpus_ahead_s = gpus_of(core)
    used: dict[str, tuple[forecast.Slots, float]] = {}
    """Licence -> (its units as they come free, licence-seconds of the jobs before)."""
    there = core.workers.there()
    untaken = capacity.untaken(core)
    for one in sorted(standing, key=lambda s: (-s.priority, not s.key.bound, s.entry.order, s.key.demoted)):
        entry = one.entry
        nobody = one.key.kind() in untaken
        first_s = slots.starts_s(entry.processors, ahead_s)
        if wanted := entry.needs.gpus:
            first_s = max(first_s, gpus.starts_s(wanted, gpus_ahead_s))
            gpus_ahead_s += 0.0 if nobody else one.jobs * wanted * entry.run_s
        for name, count in among(entry.needs.software):
            if name not in used:
                used[name] = (licences.use(core, name).slots, 0.0)
            licensed, before_s = used[name]
            first_s = max(first_s, licensed.starts_s(count, before_s))
            used[name] = (licensed, before_s + (0.0 if nobody else one.jobs * count * entry.run_s))
        wait_s = _open_s(core, entry, first_s) if there and not nobody else inf
        out[(entry.key, one.key.demoted)] = wait_s
        if entry.ready and (not one.key.demoted or not entry.plain):
            core.book(Predictions).predicted(entry.key, wait_s, core.now)
        ahead_s += 0.0 if nobody else one.jobs * entry.processors * entry.run_s
    return out


def learn(core: Context, arrived: CustodyKey) -> None:
    """Predict now and then when a custody that just came starts: behind all that has no lower priority."""
    entry = core.queues.entries.get(arrived)
    if entry is None or not entry.ready or not core.workers.there():
        return
    if not core.book(Predictions).sample_due(arrived, core.now):
        return
    untaken = capacity.untaken(core)
    if (entry.processors, entry.needs) in untaken:
        # When it starts nobody can say.
        return
    if among(entry.needs.software):
        # It says little of how well others are foreseen.
        return
    slots, given_s = slots_of(core)
    own_s = entry.jobs * entry.processors * entry.run_s
    ahead_s = max(0.0, given_s + core.queues.work_before_s(entry, untaken) - own_s)
    first_s = slots.starts_s(entry.processors, ahead_s)
    if wanted := entry.needs.gpus:
        gpus, given_s = gpus_of(core)
        own_s = entry.jobs * wanted * entry.run_s
        before_s = max(0.0, given_s + core.queues.gpus_before_s(entry, untaken) - own_s)
        first_s = max(first_s, gpus.starts_s(wanted, before_s))
    core.book(Predictions).predicted(arrived, _open_s(core, entry, first_s), core.now)


def _open_s(core: Context, entry: Entry, first_s: float) -> float:
    """Return the seconds until its next job starts, which would start at `first_s` if the site never closed."""
    if not core.calendar.closings:
        return first_s
    takes_s = maintenance.takes_s(core, core.state.custodies[entry.key])
    return maintenance.around(core, first_s, first_s + entry.run_s, entry.run_s, takes_s)[0]


def slots_of(core: Context) -> tuple[forecast.Slots, float]:
    """The site's processors as they come free, and the work given to the LRM ahead of them (processor-seconds)."""
    held, late = capacity.held(core), core.workers.late()
    ends = [*held.ends, *late]
    free = core.workers.slots() - sum(width for _, width in ends)
    return forecast.Slots(max(0, free), ends), held.ahead_s


def gpus_of(core: Context) -> tuple[forecast.Slots, float]:
    """As `slots_of`, of GPUs."""
    held = capacity.held(core)
    free = core.workers.all_gpus() - sum(count for _, count in held.gpu_ends)
    return forecast.Slots(max(0, free), held.gpu_ends), held.gpus_ahead_s
