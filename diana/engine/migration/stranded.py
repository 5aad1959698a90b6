"""Stranded jobs: those that wait here for GPUs or software that no machine of the site offers any more, or none that is
wide enough. Their machine is away for long, or offers that no more (SPEC D8). They go back to their origin, which
places them anew, wherever that can be had.

They are looked for by kinds of jobs, not job by job. While the machine is gone for less than `pull_back.NO_SLOTS_S`
they keep their place.
"""

from __future__ import annotations

from diana.engine.dispatch import capacity
from diana.engine.journal.state import CustodyKey
from diana.engine.machines.requirements import Kind
from diana.engine.messages.migration import Surplus, SurplusGroup
from diana.engine.migration.surplus import ENTRIES_PER_S, LOOK_S, MOST_GROUPS, MOST_PARTS
from diana.engine.placement import pull_back
from diana.engine.queue.entries import Order, QueueEntry
from diana.engine.site.context import Context
from diana.model.ids import GroupId, SiteId, group_of

AGAIN_S = 60.0
"""Seconds until an origin that leaves a group here is told of it again."""
FAR_S = 30 * 86400.0
"""Seconds told as the end of such jobs, which nobody foresees, for an origin that goes by prices alone."""


class Stranded:
    """Kinds of jobs here that no machine of the site can run. Volatile."""

    def __init__(self) -> None:
        self.since: dict[Kind, float] = {}
        self.told: dict[CustodyKey, float] = {}
        """Custody -> site time before which its origin is not told of it again."""
        self.look_due_s = 0.0


def look(core: Context) -> None:
    """Tell the origins, at each turn, which jobs are stranded here."""
    book = core.book(Stranded)
    overdue = _overdue(core)
    if core.now < book.look_due_s or not overdue:
        return
    book.look_due_s = core.now + max(LOOK_S, len(core.queues) / ENTRIES_PER_S)
    entries = core.queues.entries
    book.told = {key: until_s for key, until_s in book.told.items() if until_s > core.now and key in entries}
    told: dict[tuple[SiteId, Kind], dict[GroupId, list[QueueEntry]]] = {}
    waiting = (entry for entry in entries.values() if not entry.reserved)
    some = [entry for entry in waiting if entry.kind in overdue and entry.key not in book.told]
    for entry in sorted(some, key=_order):
        groups = told.setdefault((entry.origin, entry.kind), {})
        group = group_of(entry.key[0])
        if (group in groups or len(groups) < MOST_GROUPS) and len(parts := groups.setdefault(group, [])) < MOST_PARTS:
            parts.append(entry)
            book.told[entry.key] = core.now + AGAIN_S
    for (origin, kind), groups in sorted(told.items()):
        why = capacity.nobody_takes(core, kind) or f"{core.site} has not what they need"
        if origin == core.site:
            pull_back.unfit(core, core.site, groups, why)
        else:
            message = tuple(_told(core, group, groups[group]) for group in groups)
            core.send(origin, Surplus(groups=message, reason=why, unfit=True))


def _overdue(core: Context) -> set[Kind]:
    """Return the kinds that no machine that counts has been able to run for too long. A site without slots is left to
    `placement/pull_back.py`."""
    book = core.book(Stranded)
    missing = sorted(capacity.untaken(core)) if core.workers.slots() else []
    book.since = {kind: book.since.get(kind, core.now) for kind in missing}
    return {kind for kind, since_s in book.since.items() if core.now - since_s >= pull_back.NO_SLOTS_S}


def _order(entry: QueueEntry) -> Order:
    return entry.order


def _told(core: Context, group: GroupId, parts: list[QueueEntry]) -> SurplusGroup:
    return SurplusGroup(
        group=group,
        parts=tuple(one.key[0] for one in parts),
        epochs=tuple(one.key[1] for one in parts),
        jobs=tuple(one.jobs for one in parts),
        priority=core.queues.best(parts[-1].key)[1],
        jobs_ahead=len(core.queues),
        ends_s=FAR_S,
        processors_per_s=0.0,
    )
