"""Surplus: jobs that wait here and might run elsewhere earlier, looked for every few seconds and told to their origins
(SPEC D7; papers/diana-bulk-scheduling section X).

The executing site knows its queues, the origin decides: so every move is one of the origin's, with its reasons, and no
two sites move the same job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch import capacity
from diana.engine.journal.state import Custody
from diana.engine.messages.migration import Surplus, SurplusGroup
from diana.engine.migration import origin as migration_origin
from diana.engine.migration.table import MigrationBook
from diana.engine.queue.queues import QueuePlace
from diana.engine.site.context import Context
from diana.model.ids import GroupId, SiteId, group_of
from diana.policy.migration import congestion
from diana.policy.migration.congestion import CongestionSettings, Mode
from diana.policy.queueing.priority import Level

LOOK_S = 5.0
"""Seconds between two looks. A quote of a site that just got work is that old at most."""
INVITED_LOOK_S = 1.0
"""The same between a look and one that an invitation asks for."""
ENTRIES_PER_S = 200
"""Entries looked through per second at most: long queues are looked at less often, so that it costs the same."""
MOST_GROUPS = 16
"""Groups told to one origin at a time: those that wait longest."""
MOST_PARTS = 64
"""Parts told of each group."""


class MovableJobs(NamedTuple):
    """Jobs that stand together in the queues and may go."""

    custody: Custody
    jobs: int
    priority: float
    level: Level
    jobs_ahead: int
    """Jobs ahead of the last of them."""
    ends_s: float
    """Seconds from now until the last of them is through."""


def settings_of(core: Context) -> CongestionSettings | None:
    """Return how this site judges congestion; None: it lets nothing go."""
    settings = core.state.settings
    if not settings.migrates():
        return None
    mode: Mode = "paper" if settings.migration == "paper" else "default"
    return CongestionSettings(mode=mode, threshold=settings.migration_threshold, window_s=settings.migration_window_s)


def look(core: Context) -> None:
    """Tell the origins, at each turn and when an idle site invites work, which jobs they may move, where that may
    pay."""
    book = core.book(MigrationBook)
    invited = bool(book.inviters) and core.now >= book.invited_look_s
    if (core.now < book.look_due_s and not invited) or not len(core.queues) or not core.view.peers:
        return
    if not core.workers.slots():
        # Nobody can say when work would run here; its origins call it back (`placement/pull_back.py`).
        return
    inviters = tuple(sorted(book.inviters))
    book.inviters.clear()
    # A look out of turn replaces the next one in turn, so that invitations make long queues cost no more.
    book.look_due_s = core.now + max(LOOK_S, len(core.queues) / ENTRIES_PER_S)
    book.invited_look_s = core.now + max(INVITED_LOOK_S, len(core.queues) / ENTRIES_PER_S)
    settings = settings_of(core)
    if settings is None:
        return
    rates = core.line.rates.rates(core.now)
    verdict = congestion.judge(rates, settings)
    if settings.mode == "paper" and not verdict.congested:
        return
    waiting = _waiting(core, 0.0 if settings.mode == "paper" else core.state.settings.migration_gain_s)
    queued: dict[Level, int] = {}
    for one in waiting:
        queued[one.level] = queued.get(one.level, 0) + one.jobs
    level = congestion.offered(queued, settings.mode)
    told: dict[SiteId, dict[GroupId, list[MovableJobs]]] = {}
    for one in waiting:
        if one.level == level:
            groups = told.setdefault(one.custody.origin, {})
            groups.setdefault(group_of(one.custody.subgroup), []).append(one)
    for origin in sorted(told):
        some = _last_in_line(core, told[origin].items())
        message = Surplus(groups=some, reason=verdict.reason, invited=inviters)
        if origin == core.site:
            migration_origin.on_surplus(core, origin, message)
        else:
            core.send(origin, message)


def _waiting(core: Context, gain_s: float) -> list[MovableJobs]:
    """Return the waiting jobs in the order in which they would start if nothing more came; only those for which a move
    can save `gain_s`."""
    slots, ahead_s = capacity.slots_of(core)
    untaken = capacity.untaken(core)
    out, ahead = [], 0
    for one in sorted(core.queues.standing(), key=_turn):
        entry = one.entry
        if entry.kind in untaken:
            # `stranded.py` has it go.
            continue
        ahead_s += entry.counted_s(one.jobs)
        if entry.reserved:
            # Its jobs are bound to no site, so that none needs to go.
            continue
        ahead += one.jobs
        custody = core.state.custodies[entry.key]
        ends_s = max(entry.run_s, slots.starts_s(1, ahead_s))
        if _may_go(core, custody, one) and ends_s - entry.run_s >= gain_s:
            out.append(MovableJobs(custody, one.jobs, one.priority, one.level, ahead - 1, ends_s))
    return out


def _turn(one: QueuePlace) -> tuple[float, bool, object, bool]:
    return (-one.priority, not one.key.bound, one.entry.order, one.key.demoted)


def _may_go(core: Context, custody: Custody, one: QueuePlace) -> bool:
    """True if the jobs may go: not what is for this site only, not a merge, which runs where the outputs are, not what
    waits for `max_parallel` and for no slot, and not twice. What has its inputs here may go too: quotes elsewhere count
    its staging, so that the gain pays for it. In paper mode that is bound, as all of the local queue."""
    here_only = custody.spec.sites == (core.site,) or custody.key in core.queues.merges
    bound = here_only or (one.key.bound and core.state.settings.migration == "paper")
    full = 0 < custody.max_parallel <= len(custody.running)
    return not (bound or custody.exported or full)


def _last_in_line(core: Context, groups: Iterable[tuple[GroupId, list[MovableJobs]]]) -> tuple[SurplusGroup, ...]:
    last = sorted(groups, key=lambda one: (-one[1][-1].jobs_ahead, one[0]))[:MOST_GROUPS]
    return tuple(_told(core, group, some[-MOST_PARTS:]) for group, some in last)


def _told(core: Context, group: GroupId, some: list[MovableJobs]) -> SurplusGroup:
    last = some[-1]
    run_s = core.queues.entries[last.custody.key].run_s
    return SurplusGroup(
        group=group,
        parts=tuple(one.custody.subgroup for one in some),
        epochs=tuple(one.custody.epoch for one in some),
        jobs=tuple(one.jobs for one in some),
        priority=last.priority,
        jobs_ahead=last.jobs_ahead,
        ends_s=last.ends_s,
        processors_per_s=core.workers.slots() / run_s if run_s > 0 else 0.0,
        data_elsewhere=any(core.book(StageBook).blocked(one.custody.key) for one in some),
    )
