"""The placement queues of an origin: which of its groups of gangs is tried next, where several wait for a place (SPEC
K4; docs/decisions/gangs.md).

A group that waits alone is tried at once. Where several wait, one level is scanned after the other, an interval apart:
its groups are tried in the order of their submission, each until a gang of it finds no place. At the sites levels count
for nothing: what is placed claims by its rank.
"""

from __future__ import annotations

from diana.engine.journal.state import Group
from diana.engine.site.context import Context
from diana.engine.site.timers import SiteTimer
from diana.model.ids import GroupId
from diana.policy.gang.queues import GangLevel, ScanWeights, promoted


class GangQueues:
    """Volatile: after a restart every group that has unplaced gangs comes anew."""

    def __init__(self) -> None:
        self.waiting: dict[GroupId, None] = {}
        """Groups with gangs to place, the one that is tried included."""
        self.scan: list[GroupId] = []
        """Groups left of the scan under way; the first is being tried."""
        self.tries: dict[GroupId, int] = {}
        """Tries that found no place."""
        self.position = 0
        """Place of the next scan in its round."""


def level(core: Context, group: Group) -> GangLevel:
    """Return the level of the group's placement queue, with the promotions that it had."""
    own = GangLevel(group.spec.gang_level or GangLevel.LOW)
    per_level = core.state.settings.gang_promote_tries
    return promoted(own, core.book(GangQueues).tries.get(group.group, 0), per_level or float("inf"))


def others_wait(core: Context) -> bool:
    return bool(core.book(GangQueues).waiting)


def has_turn(core: Context, group: Group) -> bool:
    """True if the group's gangs may be placed now; else it waits in its queue."""
    book, name = core.book(GangQueues), group.group
    book.waiting[name] = None
    if not book.scan and len(book.waiting) == 1:
        book.scan = [name]
    if book.scan[:1] == [name]:
        return True
    _arm(core)
    before = len(book.waiting) - 1
    others = "another group" if before == 1 else f"{before} other groups"
    core.waiting_notes.setdefault(name, f"it waits beside {others} of gangs for its turn: queue {level(core, group)}")
    return False


def tried(core: Context, group: Group, *, placed: bool, why: str) -> None:
    """Note how a try ended. A group of which a gang was placed goes on, one that found no place waits for its next
    scan, and one that has nothing to place now comes again by itself."""
    book = core.book(GangQueues)
    if placed and group.unplaced - group.holding:
        return
    book.waiting[group.group] = None
    if why:
        book.tries[group.group] = book.tries.get(group.group, 0) + 1
        _next(core, group.group)
        _arm(core)
    else:
        leave(core, group.group)


def leave(core: Context, name: GroupId) -> None:
    """Take a group out that has no gang to place just now."""
    book = core.book(GangQueues)
    book.waiting.pop(name, None)
    group = core.state.groups.get(name)
    if group is None or not group.unplaced:
        book.tries.pop(name, None)
    _next(core, name)


def due(core: Context) -> None:
    """Begin the next scan, that of the next level in the round which has groups."""
    book, groups = core.book(GangQueues), core.state.groups
    for name in [name for name in book.waiting if name not in groups]:
        leave(core, name)
    if book.waiting:
        _arm(core)
    if book.scan:
        return
    levels = scan_weights(core).round()
    of_level: dict[GangLevel, list[Group]] = {}
    for name in book.waiting:
        of_level.setdefault(level(core, groups[name]), []).append(groups[name])
    for _ in levels if of_level else ():
        at = levels[book.position % len(levels)]
        book.position += 1
        if at in of_level:
            some = sorted(of_level[at], key=lambda group: (group.submitted_s, group.group))
            book.scan = [group.group for group in some]
            core.to_place.add(book.scan[0])
            return


def scan_weights(core: Context) -> ScanWeights:
    told = core.state.settings.gang_scans
    usual = ScanWeights()
    return ScanWeights(
        told.get("higher", usual.higher),
        told.get("lower", usual.lower),
        *(told.get(one.value, of) for one, of in zip(GangLevel, (usual.n1, usual.n2, usual.n3, usual.n4), strict=True)),
    )


def _next(core: Context, name: GroupId) -> None:
    """Go on with the scan after this group."""
    scan = core.book(GangQueues).scan
    if name not in scan:
        return
    first = scan[0] == name
    scan.remove(name)
    if first and scan:
        core.to_place.add(scan[0])


def _arm(core: Context) -> None:
    if SiteTimer("gangs") not in core.timers:
        core.after(SiteTimer("gangs"), core.state.settings.gang_scan_s)
