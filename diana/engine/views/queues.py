"""Views of this site's queues: classes, users, Little's law, and why each waiting part stands where it does."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor, inf

import msgspec

from diana.engine.dispatch import capacity, forecast, licences, use
from diana.engine.dispatch.predictions import Predictions
from diana.engine.handover import machine_events
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.machines import requirements
from diana.engine.queue.classes import ClassKey
from diana.engine.queue.littles import check
from diana.engine.queue.queues import QueuePlace
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.model.ids import SubgroupId
from diana.model.job.resources import ResourceRequest
from diana.model.trust.principal import Principal, Role
from diana.model.views.queue import QueueClass, QueueUser, QueueView, Waiting, unranked
from diana.model.words import counted
from diana.policy.queueing import heavy, limits, priority
from diana.policy.queueing.forecast import WaitFactors
from diana.policy.queueing.rising import demand_of, rise

MOST_CLASSES = 2000
MOST_USERS = 2000
MOST_PARTS = 20
"""Parts shown per class."""
CLAIMED = "with the local resource manager: they start as slots come free"
RESERVED = "wait at their origin for their turn here"
_ROUNDING = 1e-9

Starts = dict[tuple[CustodyKey, bool], float]


def look(core: Context) -> tuple[list[QueuePlace], Starts]:
    """Return everything that waits, as it stands now, and when it is predicted to start."""
    core.queues.settle(core.now)
    standing = core.queues.standing()
    return standing, forecast.next_starts(core, standing)


def view(core: Context) -> QueueView:
    standing, starts = look(core)
    settings, spread = core.state.settings, core.book(Predictions).spread()
    classes: dict[ClassKey, list[QueuePlace]] = {}
    for one in standing:
        # Jobs of different needs stand at the same place.
        classes.setdefault(one.key._replace(kind=ResourceRequest(one.key.processors)), []).append(one)
    rows = [_class(core, members, starts, spread) for members in classes.values()]
    rows.sort(key=lambda row: (-row.priority, row.queue != "local", row.user, row.processors))
    sizes = core.queues.classes.sizes
    holding = capacity.holding_jobs(core)
    return QueueView(
        site=core.site,
        mode=settings.priority_mode,
        slots=core.workers.slots(),
        running=capacity.running_jobs(core) - holding,
        claimed=capacity.claimed_jobs(core) + holding,
        queued=core.line.flow.queued,
        total_processors=round(sizes.total_processors),
        total_quota=sizes.total_quota(),
        classes=tuple(rows[:MOST_CLASSES]),
        classes_left_out=max(0, len(rows) - MOST_CLASSES),
        users=_users(core, standing),
        littles=check(core.line.flow.figures(core.now)),
        error_low=spread.low,
        error_high=spread.high,
        predictions=spread.samples,
        note=journal_doubt.waiting_for(core),
    )


def seen_by(queue: QueueView, who: Principal) -> QueueView:
    """Return as much of the view as `who` may see: anybody sees whose jobs wait, only an operator sees which groups of
    others do."""
    if who.role is Role.OPERATOR:
        return queue
    hidden = (c if c.user == who.name else msgspec.structs.replace(c, parts=()) for c in queue.classes)
    return msgspec.structs.replace(queue, classes=tuple(hidden))


def _class(core: Context, members: list[QueuePlace], starts: Starts, spread: WaitFactors) -> QueueClass:
    first = members[0]
    key = first.key
    # Slots that come free are not for parts of which as many run as their groups allow at once.
    waits_s = (starts[(one.entry.key, key.demoted)] for one in members if not _is_full(core, one))
    wait_s = min(waits_s, default=inf)
    low_s, high_s = spread.around(wait_s)
    return QueueClass(
        user=key.user,
        processors=key.processors,
        queue="local" if key.bound else "global",
        level=first.level.name,
        priority=first.priority,
        base=first.base,
        ageing=key.steps * priority.AGE_STEP,
        offset=key.offset,
        demoted=key.demoted,
        allowance=first.allowance,
        n=core.queues.jobs_of(key.user),
        jobs=sum(one.jobs for one in members),
        ready=sum(map(_ready, members)),
        parts=tuple(one.entry.key[0] for one in members[:MOST_PARTS]),
        low_s=low_s,
        high_s=high_s,
        heavy=key.heavy,
    )


def _is_full(core: Context, one: QueuePlace) -> bool:
    """Return whether as many of its jobs run here as its group lets run at once."""
    custody = core.state.custodies.get(one.entry.key)
    return custody is not None and 0 < custody.max_parallel <= len(custody.running)


def _ready(one: QueuePlace) -> int:
    within = min(one.entry.ready, one.entry.plain)
    return one.entry.ready - within if one.key.demoted else within


def _users(core: Context, standing: Iterable[QueuePlace]) -> tuple[QueueUser, ...]:
    wanted: dict[str, int] = {}
    for one in standing:
        wanted[one.entry.user] = wanted.get(one.entry.user, 0) + one.jobs * one.entry.processors
    running: dict[str, int] = {}
    for key in capacity.on_slots(core):
        custody = core.state.custodies[key]
        running[custody.owner] = running.get(custody.owner, 0) + capacity.running_here(core, custody)
    names = sorted({*wanted, *running}, key=lambda user: (-wanted.get(user, 0), user))[:MOST_USERS]
    settings, service = core.state.settings, core.state.service
    quotas = sum(settings.quota_of(user) for user in {*wanted, *running})
    total = sum(wanted.values())
    return tuple(
        QueueUser(
            user=user,
            quota=settings.quota_of(user),
            queued=core.queues.jobs_of(user),
            running=running.get(user, 0),
            queued_share=wanted.get(user, 0) / total if total else 0.0,
            quota_share=settings.quota_of(user) / quotas,
            served_share=service.jobs.get(user, 0.0) / service.started if service.started > 0 else 0.0,
        )
        for user in names
    )


# --- one group's parts -------------------------------------------------------------------------------------


def waiting(core: Context, parts: Iterable[SubgroupId]) -> list[Waiting]:
    """Return rows for the jobs of these parts that wait here, best first; two for a part that a job threshold
    divides."""
    wanted = frozenset(parts)
    standing, starts = look(core)
    spread = core.book(Predictions).spread()
    mine = [one for one in standing if one.entry.key[0] in wanted]
    mine.sort(key=lambda one: (-one.priority, one.entry.order, one.key.demoted))
    out = [_waiting(core, one, starts[(one.entry.key, one.key.demoted)], spread) for one in mine]
    on_slots = capacity.on_slots(core)
    for key in sorted(key for key in core.state.custodies if key[0] in wanted):
        custody = core.state.custodies[key]
        absent = machine_events.absent(core, custody)
        claimed = len(custody.running) - on_slots.get(key, 0) - sum(one.claimed for one in absent)
        notes = [(one.jobs, one.note) for one in absent]
        for jobs, note in ((claimed, CLAIMED), *notes, (_held(core, custody), _held_by(core, custody))):
            if jobs:
                out.append(unranked(core.site, key[0], custody.owner, jobs, note))
    return out


def _held(core: Context, custody: Custody) -> int:
    entry = core.queues.entries.get(custody.key)
    return len(custody.unstarted()) - (entry.jobs if entry else 0)


def _held_by(core: Context, custody: Custody) -> str:
    if not custody.runnable:
        return "offered here and not committed yet"
    return journal_doubt.stays(core, custody) or "held until they are released"


def _waiting(core: Context, one: QueuePlace, wait_s: float, spread: WaitFactors) -> Waiting:
    entry, key = one.entry, one.key
    settings = core.state.settings
    custody = core.state.custodies.get(entry.key)
    blocked = _blocked(core, custody, one) if custody is not None else RESERVED
    low_s, high_s = spread.around(inf if blocked else wait_s)
    lift = rise(one.base, key.added(), key.steps, one.allowance)
    threshold_s = settings.time_threshold_s
    by_waiting = lift.steps >= 0 and threshold_s > 0
    due_s = core.queues.waits_since_s(entry) + (key.steps + lift.steps) * threshold_s - core.now
    return Waiting(
        site=core.site,
        part=entry.key[0],
        user=entry.user,
        jobs=one.jobs,
        ready=_ready(one),
        note=blocked or use.short(core, entry.kind),
        processors=entry.processors,
        queue="local" if key.bound else "global",
        level=one.level.name,
        priority=one.priority,
        base=one.base,
        ageing=key.steps * priority.AGE_STEP,
        offset=key.offset,
        demoted=key.demoted,
        n=core.queues.jobs_of(entry.user),
        allowance=one.allowance,
        demand=demand_of(one.base, one.allowance),
        quota=settings.quota_of(entry.user),
        total_quota=core.queues.classes.sizes.last_totals[1],
        job_threshold=settings.job_threshold,
        rises_to=lift.to.name if lift.to else "",
        rises_after_s=max(0.0, due_s) if by_waiting else -1.0,
        rises_at_n=_queued_for(core, entry.user, lift.demand),
        low_s=low_s,
        high_s=high_s,
        predictions=spread.samples,
        mode=settings.priority_mode,
        heavy=heavy.why(settings, entry.load),
    )


def _queued_for(core: Context, user: str, demand: float) -> float:
    """Return the n that gives this demand; -1: none. In the default mode part of the demand is the service the user
    had."""
    settings, service = core.state.settings, core.state.service
    served = service.total_jobs()
    if settings.priority_mode != "paper" and served > 0:
        weight = priority.served_weight(served, core.workers.slots(), settings.service_half_life)
        total = core.queues.classes.sizes.last_totals[0]
        had = weight * total * service.jobs.get(user, 0.0) / service.processors
        demand = (demand - had) / (1.0 - weight)
    jobs = floor(demand + _ROUNDING)
    return float(jobs) if jobs >= 1 else -1.0


def _blocked(core: Context, custody: Custody, one: QueuePlace) -> str:
    """Return why none of them would start even in a free slot; empty: they would."""
    settings = core.state.settings
    if not core.workers.there():
        return "the local resource manager does not answer"
    widest = core.workers.widest(one.entry.kind)
    if one.entry.processors > widest:
        return f"needs {one.entry.processors} processors, the site has {widest}"
    if why := capacity.nobody_takes(core, requirements.asked(custody.spec)):
        return why
    if why := licences.short(core, one.entry.kind):
        return why
    if not _ready(one):
        return "its inputs are on their way"
    if _is_full(core, one):
        return f"max_parallel: {custody.max_parallel} of the group run here"
    if not limits.startable(settings, capacity.running_of(core).get(custody.owner, 0)):
        return f"the site runs at most {counted(settings.user_max_running, 'job')} of one user"
    return ""
