"""Predicted starts of what waits here, and of what might come."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from diana.engine.dispatch import capacity, gang_quota, maintenance, use
from diana.engine.dispatch.capacity import PromisedCapacity
from diana.engine.dispatch.predictions import Predictions
from diana.engine.journal.state import CustodyKey
from diana.engine.messages.messages import MOST_COMPONENT_KINDS, ComingRoom, QuoteRequest
from diana.engine.messages.wanted import Wanted
from diana.engine.queue.entries import QueueEntry
from diana.engine.queue.queues import Prospect, QueuePlace
from diana.engine.site.context import Context
from diana.model.job import resources
from diana.model.job.resources import GPUS, SIZES
from diana.model.sketch import Quantiles
from diana.policy.migration.plan import RAISE
from diana.policy.queueing import forecast
from diana.policy.queueing.heavy import GroupLoad

LEAST_RUN_S = 0.001
MADE_WAY_S = 10.0
"""Seconds in which jobs that make way for a gang have ended."""
MOST_STEPS = 16
"""Steps in which a quote tells how room grows."""


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
    place = place_of(core, asked)
    slots, given_s = capacity.slots_of(core)
    ahead_s = given_s + place.work_ahead_s
    jobs_ahead = place.jobs_ahead
    if is_behind(core, asked):
        promised = core.book(PromisedCapacity).rooms.total(core.now)
        ahead_s += promised * run_s
        jobs_ahead += promised // asked.processors
    # Processors left over beside the last lane serve nobody of this group.
    work_s = asked.jobs * run_s * core.workers.slots() / lanes
    first_s = slots.starts_s(asked.processors, ahead_s)
    end_s = max(first_s + run_s, slots.starts_s(1, ahead_s + work_s))
    for name, count in resources.countable(asked.request.amounts):
        used = use.of(core, name)
        before_s = used.given_s + core.queues.weighed_ahead_s(place, name, capacity.untaken(core))
        work_s = asked.jobs * run_s * used.total / lanes
        first_s = max(first_s, used.slots.starts_s(count, before_s))
        end_s = max(end_s, first_s + run_s, used.slots.starts_s(1, before_s + work_s))
    end_s = maintenance.around(core, first_s, end_s, run_s, holds_s(asked, run_s))[1]
    lost_s = max(0.0, end_s - max(run_s, asked.jobs * run_s / lanes))
    if lost_s == inf:
        return Wait(inf, inf, inf, jobs_ahead, place.priority)
    low_s, high_s = core.book(Predictions).spread().around(lost_s)
    return Wait(lost_s, low_s, high_s, jobs_ahead, place.priority)


def coming(core: Context, asked: QuoteRequest) -> tuple[ComingRoom, ...]:
    """Return the room that components of a gang would find here as it grows, behind all that stands before them and
    what was promised to others, within the quota for gangs, and not where they would not end before the site closes; of
    many steps a few, so that none is told too early. What runs and may be ended for them counts as ended soon."""
    place, run_s = place_of(core, asked), each_s(core, asked)
    slots, given_s = capacity.slots_of(core)
    promised = core.book(PromisedCapacity).rooms.total(core.now)
    steps = slots.steps(given_s + place.work_ahead_s)
    if make_way := _make_way(core):
        room = min(core.workers.slots(), _by(steps, MADE_WAY_S) + make_way)
        steps = sorted([*steps, (MADE_WAY_S, room)])
    quota = gang_quota.steps(core)
    beside: dict[str, list[tuple[float, int]]] = {}
    for name in asked_by_name(core, asked):
        used = use.of(core, name)
        ahead_s = used.given_s + core.queues.weighed_ahead_s(place, name, capacity.untaken(core))
        beside[name] = used.slots.steps(ahead_s)
    times = sorted({at_s for some in (steps, quota or (), *beside.values()) for at_s, _ in some})
    if len(times) > MOST_STEPS:
        times = [times[at * (len(times) - 1) // (MOST_STEPS - 1)] for at in range(MOST_STEPS)]
    gpus, named = beside.get(GPUS, []), [name for name in beside if name != GPUS]

    def processors(at_s: float) -> int:
        free = max(0, _by(steps, at_s) - promised)
        return free if quota is None else min(free, _by(quota, at_s))

    rooms = (
        ComingRoom(
            opens_s(core, asked, run_s, at_s),
            processors(at_s),
            _by(gpus, at_s),
            {name: _by(beside[name], at_s) for name in named},
        )
        for at_s in times
    )
    return tuple(room for room in rooms if room.processors)


def opens_s(core: Context, asked: Wanted, run_s: float, at_s: float = 0.0) -> float:
    """Return the seconds from now in which such jobs start, which run `run_s` each and would start in `at_s` if the
    site never closed."""
    return maintenance.around(core, at_s, at_s + run_s, run_s, holds_s(asked, run_s))[0]


def asked_by_name(core: Context, asked: QuoteRequest) -> list[str]:
    """Return the devices and licences that such jobs ask for, and of those that only some components of a gang ask the
    ones that there are here."""
    every = [name for name, _ in resources.countable(asked.request.amounts)]
    some = {name for one in asked.components[:MOST_COMPONENT_KINDS] for name in one.amounts if name not in SIZES}
    return [*every, *(name for name in sorted(some.difference(every)) if use.counts(core, name)[1] > 0)]


def _make_way(core: Context) -> int:
    """Return the processors of the jobs on slots that may be ended for a gang."""
    some = ((core.state.custodies.get(key), jobs) for key, jobs in core.totals.runs.on_slots().items())
    return sum(
        jobs * one.spec.resources.processors
        for one, jobs in some
        if one is not None and one.spec.preemptible and not one.spec.is_gang
    )


def _by(steps: list[tuple[float, int]], at_s: float) -> int:
    return max((count for from_s, count in steps if from_s <= at_s), default=0)


def place_of(core: Context, asked: QuoteRequest) -> Prospect:
    """Return the place that the jobs would have here: with the raise of the paper's mode, behind all that waits, or at
    the priority of a submission."""
    behind = is_behind(core, asked)
    offset = RAISE if asked.raised and not behind else 0.0
    whose = (asked.owner, asked.processors, asked.jobs)
    load = GroupLoad(asked.group_work_s, asked.group_bytes)
    return core.queues.prospect(*whose, offset, capacity.untaken(core), behind=behind, load=load)


def is_behind(core: Context, asked: QuoteRequest) -> bool:
    """True if the jobs would come by a move and get no raise."""
    return asked.behind or (asked.raised and not raises(core))


def raises(core: Context) -> bool:
    """True if work that moves here may stand a level higher: this site goes by the paper's mode itself. A peer's word
    alone lets nothing pass."""
    return core.state.settings.migration == "paper"


def next_starts(core: Context, standing: Iterable[QueuePlace]) -> dict[tuple[CustodyKey, bool], float]:
    """(custody, demoted) -> seconds until its next job starts, by the order in which jobs would start if nothing more
    came; inf: not foreseen. Predictions are kept, to be compared with what happens."""
    out: dict[tuple[CustodyKey, bool], float] = {}
    slots, ahead_s = capacity.slots_of(core)
    used: dict[str, tuple[forecast.Slots, float]] = {}
    """Device or licence -> (its units as they come free, seconds of the jobs before, times their units)."""
    there = core.workers.there()
    untaken = capacity.untaken(core)
    for one in sorted(standing, key=lambda s: (-s.priority, not s.key.bound, s.entry.order, s.key.demoted)):
        entry = one.entry
        nobody = one.entry.kind in untaken
        first_s = slots.starts_s(entry.processors, ahead_s)
        for name, count in resources.countable(entry.kind.amounts):
            if name not in used:
                found = use.of(core, name)
                used[name] = (found.slots, found.given_s)
            units, before_s = used[name]
            first_s = max(first_s, units.starts_s(count, before_s))
            used[name] = (
                units,
                before_s + (0.0 if nobody else entry.counted_s(one.jobs) * count / entry.processors),
            )
        wait_s = _open_s(core, entry, first_s) if there and not nobody else inf
        out[(entry.key, one.key.demoted)] = wait_s
        if entry.ready and (not one.key.demoted or not entry.plain):
            core.book(Predictions).predicted(entry.key, wait_s, core.now)
        ahead_s += 0.0 if nobody else entry.counted_s(one.jobs)
    return out


def learn(core: Context, arrived: CustodyKey) -> None:
    """Predict now and then when a custody that just came starts: behind all that has no lower priority."""
    entry = core.queues.entries.get(arrived)
    if entry is None or not entry.ready or not core.workers.there():
        return
    if not core.book(Predictions).sample_due(arrived, core.now):
        return
    untaken = capacity.untaken(core)
    if entry.kind in untaken:
        # When it starts nobody can say.
        return
    if resources.shared(entry.kind.amounts):
        # It says little of how well others are foreseen.
        return
    slots, given_s = capacity.slots_of(core)
    own_s = entry.jobs * entry.processors * entry.run_s
    ahead_s = max(0.0, given_s + core.queues.work_before_s(entry, untaken) - own_s)
    first_s = slots.starts_s(entry.processors, ahead_s)
    for name, count in resources.devices(entry.kind.amounts):
        used = use.of(core, name)
        own_s = entry.jobs * count * entry.run_s
        before_s = max(0.0, used.given_s + core.queues.weighed_before_s(entry, name, untaken) - own_s)
        first_s = max(first_s, used.slots.starts_s(count, before_s))
    core.book(Predictions).predicted(arrived, _open_s(core, entry, first_s), core.now)


def _open_s(core: Context, entry: QueueEntry, first_s: float) -> float:
    """Return the seconds until its next job starts, which would start at `first_s` if the site never closed."""
    if not core.calendar.closings:
        return first_s
    takes_s = entry.run_s
    if not entry.reserved:
        custody = core.state.custodies[entry.key]
        takes_s = maintenance.least_s(custody, maintenance.takes_s(core, custody))
    return maintenance.around(core, first_s, first_s + entry.run_s, entry.run_s, takes_s)[0]


def learned(core: Context, asked: Wanted) -> Quantiles:
    """Return run times of the asker's template here; all zero: none seen."""
    found = core.state.run_times.find(asked.template, asked.owner) if asked.template else None
    return found or Quantiles(0.0, 0.0, 0.0, 0.0, 0)


def guessed_s(core: Context, asked: Wanted) -> float:
    """Return the run time of a job nobody has seen here: as declared, else the default."""
    settings = core.state.settings
    return (asked.work_s or settings.default_work_s) / settings.speed


def holds_s(asked: Wanted, run_s: float) -> float:
    """Return how many seconds before a window these jobs begin at the latest. `run_s`: the run time of one."""
    takes_s = asked.time_limit_s or run_s
    return min(takes_s, asked.begins_before_s or takes_s)


def each_s(core: Context, asked: Wanted) -> float:
    """Return the run time of one of the asked jobs here: learned, else guessed; never 0."""
    run = learned(core, asked)
    return max(LEAST_RUN_S, run.mean_s if run.seen else guessed_s(core, asked))
