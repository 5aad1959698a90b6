"""Which waiting jobs the LRM is given, and when (SPEC D3, D4; paper sections VI and X)."""

from __future__ import annotations

from diana.engine import forecast, load
from diana.engine.context import Context
from diana.engine.effects import GATHERED, Start
from diana.engine.entries import Entry
from diana.engine.records import RunsStarted
from diana.engine.state import Custody
from diana.model.ids import group_of
from diana.policy import limits
from diana.policy.backfill import Reservation, reserve

LOOK_PAST = 500
"""Entries looked at for work that may pass a reservation; deeper ones wait, so that a look's cost is bounded."""


def recount(core: Context) -> None:
    """Custodies whose waiting jobs changed stand in the queues with their new numbers; what came re-prioritises all
    now, with the numbers as they are, and not only when there is room."""
    for key in sorted(core.requeue):
        custody = core.state.custodies.get(key)
        if custody is None or not custody.runnable or custody.on_hold:
            core.queues.remove(key)
            core.line.note(key, 0, core.now)
            core.predictions.forget(key)
            continue
        waiting, blocked = custody.startable(), core.staging.blocked(key)
        core.queues.put(
            Entry(
                key,
                user=custody.owner,
                origin=custody.origin,
                processors=custody.spec.resources.processors,
                submitted_s=custody.submitted_s,
                jobs=len(waiting),
                ready=len(waiting - blocked) if blocked else len(waiting),
                bound=_is_bound(core, custody),
                run_s=load.expected_s(core, custody),
            ),
            core.now,
        )
        core.line.note(key, len(waiting), core.now)
    some = max(core.requeue, default=None)
    core.requeue.clear()
    core.queues.settle(core.now)
    if some is not None:
        forecast.learn(core, some)


def _is_bound(core: Context, custody: Custody) -> bool:
    """In the local queue: submitted for this site only, or with its inputs here already. Else it may still move."""
    spec = custody.spec
    return spec.sites == (core.site,) or bool(custody.files and not core.staging.blocked(custody.key))


def dispatch(core: Context) -> None:
    """Give the LRM what it has room for, best first.

    Jobs of one processor are also fed ahead of free slots, so that a slot that comes free has its next job there.
    Wider ones are given when they fit; the best one that does not fit gets a reservation, and from then on only what
    does not delay it may pass (EASY backfilling).
    """
    recount(core)
    settings = core.state.settings
    if core.lrm_session is None or not len(core.queues):
        return
    room, free = settings.feed() - core.lrm_load, settings.slots - core.lrm_load
    # Refilling in batches, not one by one, is what keeps the cost of a start low.
    if room <= 0 or (free <= 0 and room < (settings.feed() - settings.slots + 1) // 2):
        return
    kept: Reservation | None = None
    looks = LOOK_PAST
    running = load.running_of(core) if settings.user_max_running else {}
    for entry, jobs in core.queues.order(core.now):
        custody = core.state.custodies[entry.key]
        width = entry.processors
        jobs = min(jobs, _parallel(core, custody), limits.startable(settings, running.get(entry.user, 0)))
        if kept is None:
            fits = room if width == 1 else max(0, free) // width
        else:
            fits = kept.lets_pass(width, load.expected_s(core, custody), max(0, free), core.now)
        starting = min(jobs, fits)
        if starting > 0:
            running[entry.user] = running.get(entry.user, 0) + starting
            taken = _start(core, custody, starting) * width
            room, free = room - taken, free - taken
            if kept is not None:
                kept.passed(taken, load.expected_s(core, custody), core.now)
        if kept is None and jobs > starting and 1 < width <= settings.slots:
            ends = sorted((core.now + left_s, running) for _, _, left_s, running in load.given(core))
            kept = reserve(width, free, ends, core.now)
        looks -= kept is not None
        if room <= 0 or looks == 0 or (kept is not None and free <= 0):
            return


def _parallel(core: Context, custody: Custody) -> int:
    """How many more of its jobs may run at once: by the group's `max_parallel`."""
    return custody.max_parallel - len(custody.running) if custody.max_parallel else len(custody.pending)


def _start(core: Context, custody: Custody, jobs: int) -> int:
    """Start that many ready jobs of the custody; how many there were."""
    blocked = core.staging.blocked(custody.key)
    waiting = custody.startable()
    indices, _ = (waiting - blocked if blocked else waiting).take(jobs)
    core.persist(RunsStarted(subgroup=custody.subgroup, epoch=custody.epoch, indices=indices))
    core.queues.took(custody.key, len(indices))
    core.line.note(custody.key, len(custody.startable()), core.now)
    core.predictions.given(custody.key, next(iter(indices)))
    core.started_s.setdefault(custody.key, {}).update(dict.fromkeys(indices, core.now))
    again = tuple((i, custody.running[i]) for i in indices if custody.running[i] > 1)
    assert core.lrm_session is not None
    core.emit(
        Start(
            session=core.lrm_session,
            subgroup=custody.subgroup,
            epoch=custody.epoch,
            owner=custody.owner,
            spec=custody.spec,
            indices=indices,
            attempts=again,
            directory=_merge_directory(core, custody),
        )
    )
    core.lrm_load += len(indices) * custody.spec.resources.processors
    if custody.origin != core.site:
        core.moved.add(custody.key)
    else:
        core.notify(group_of(custody.subgroup))
    return len(indices)


def _merge_directory(core: Context, custody: Custody) -> str:
    """Where the merge command runs; empty for ordinary jobs."""
    group = core.state.groups.get(group_of(custody.subgroup)) if custody.origin == core.site else None
    if group is None or custody.indices.bounds[:1] != (group.jobs,):
        return ""
    return group.spec.outputs.folder or GATHERED
