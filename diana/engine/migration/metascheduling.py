"""An origin between its own groups (SPEC G7): jobs that yield are stopped at a checkpoint where a shorter one waits for
their processors, and stay back until it has begun; sites where contracts are broken get no more work while others can
take it. Volatile: after a restart it decides anew."""

from __future__ import annotations

from typing import NamedTuple

from diana.engine.handover.gangs.attempt_book import GangAttempts
from diana.engine.journal.state import Group
from diana.engine.migration import rescheduling
from diana.engine.migration.rescheduling import JobKey, Running
from diana.engine.placement import control, recall
from diana.engine.placement.reservations import Reservations
from diana.engine.site.context import Context
from diana.engine.site.harm import HarmBook
from diana.engine.site.timers import GroupTimer
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.job.gang import of_part
from diana.policy.grads.metascheduling import ContractsAt, Permission, WayIn, YieldingJob, harmed, permission

AGAIN_S = 600.0
"""Seconds for which a job that made way is not stopped for others again."""
ASKED_AGAIN_S = 15.0
"""Seconds between two looks at one group that waits."""
BACK_S = 120.0
"""Seconds that a group stays back for another at most."""
BACK_LOOK_S = 2.0
MOST_WAITING = 64
"""Groups that wait of which a turn looks at most."""


class MetaAnswer(NamedTuple):
    said: str
    again_s: float
    """When it is looked at again."""


class MetaBook:
    def __init__(self) -> None:
        self.asked: dict[GroupId, MetaAnswer] = {}
        """The latest answer to each group that waits."""
        self.rested_s: dict[JobKey, float] = {}
        """Job that made way -> until when it is not stopped again."""
        self.back: dict[GroupId, tuple[GroupId, float]] = {}
        """Group that stays back -> (the group it made way for, until when at most)."""


def look(core: Context) -> None:
    """Look at each turn who may begin, and whom more work would harm."""
    holders, contracts = list[YieldingJob](), dict[SiteId, list[Running]]()
    for group in _reporting(core):
        for one in rescheduling.running(core, group):
            contracts.setdefault(one.part.site, []).append(one)
            if _yields(core, group, one):
                each = group.spec.resources.processors
                holders.append(YieldingJob(group.group, one.told.index, one.part.site, each, one.kept.remaining_s))
    core.book(HarmBook).sites = harmed({site: _contracts(some) for site, some in contracts.items()})
    book = core.book(MetaBook)
    for name in [name for name in book.asked if not _waits(core, core.state.groups.get(name))]:
        del book.asked[name]
    if not holders:
        return
    names = {*core.totals.unplaced(), *(name for name, _ in core.book(GangAttempts).claiming)}
    waiting = [core.state.groups[name] for name in names if name in core.state.groups]
    for group in sorted(waiting, key=lambda one: (one.submitted_s, one.group))[:MOST_WAITING]:
        if group.on_hold or group.group in book.back or not _waits(core, group):
            continue
        if (asked := book.asked.get(group.group)) is not None and asked.again_s > core.now:
            continue
        found = _asked(core, group, [one for one in holders if one.group != group.group])
        if found is None:
            continue
        book.asked[group.group] = MetaAnswer(found.reason, core.now + (BACK_S if found.stop else ASKED_AGAIN_S))
        if found.stop:
            _stop(core, group, found)
            # What they free is for this one.
            return


def stays_back(core: Context, group: Group) -> bool:
    """True if the group is not to be placed yet: a job of it was stopped so that another group may begin."""
    book = core.book(MetaBook)
    found = book.back.get(group.group)
    if found is None:
        return False
    name, until_s = found
    other = core.state.groups.get(name)
    if core.now >= until_s or other is None or other.on_hold or not _waits(core, other):
        del book.back[group.group]
        return False
    core.waiting_notes[group.group] = f"it made way for {name}, and goes on once that has begun"
    core.after(GroupTimer("place", group.group), min(BACK_LOOK_S, until_s - core.now))
    return True


def note(core: Context, group: Group) -> str:
    """Return why the group, which waits, was let in or not; empty: it was not looked at."""
    asked = core.book(MetaBook).asked.get(group.group)
    return asked.said if asked is not None and _waits(core, group) else ""


def tidy(core: Context) -> None:
    book = core.book(MetaBook)
    for key in [key for key, until_s in book.rested_s.items() if until_s < core.now or key[0] not in core.state.groups]:
        del book.rested_s[key]
    for name in [name for name in book.back if name not in core.state.groups]:
        del book.back[name]


def _waits(core: Context, group: Group | None) -> bool:
    """True if jobs of the group wait for a place, or a gang of it for its processors."""
    if group is None or group.state:
        return False
    return bool(group.placeable()) or any(name == group.group for name, _ in core.book(GangAttempts).claiming)


def _reporting(core: Context) -> list[Group]:
    """Return the groups of which running jobs report, by name."""
    names = {GroupId(part.rpartition("/")[0]) for part, told in core.view.progress.items() if told.steps}
    names |= {GroupId(key[0].rpartition("/")[0]) for key in rescheduling.reporting_here(core)}
    return [core.state.groups[name] for name in sorted(names) if name in core.state.groups]


def _yields(core: Context, group: Group, one: Running) -> bool:
    contract, key = group.spec.contract, (group.group, one.told.index)
    if contract is None or not contract.yields or not control.saves_state(group):
        return False
    if any(one.told.index in moved.indices for moved in group.moving):
        return False
    return core.book(MetaBook).rested_s.get(key, 0.0) <= core.now and one.told.done < one.told.total


def _contracts(some: list[Running]) -> ContractsAt:
    slow = [one.kept.mean for one in some if one.kept.state == "slow"]
    return ContractsAt(len(some) - len(slow), len(slow), max(slow, default=0.0))


def _asked(core: Context, group: Group, holders: list[YieldingJob]) -> Permission | None:
    """Return the answer to one group that waits; None: nobody can tell yet how long it would run, or where."""
    ways = _ways_of_gang(core, group) if group.spec.is_gang else _ways(core, group)
    return permission(ways, holders, core.state.settings.migration_gain_s) if ways else None


def _ways(core: Context, group: Group) -> list[WayIn]:
    """Return the sites at which a job of the group waits for its turn, by the prices it waits by."""
    waiting = core.book(Reservations).groups.get(group.group)
    if waiting is None:
        return []
    gone_s, jobs = core.now - waiting.told.decided_at_s, max(1, len(waiting.draft.indices))
    each, out = max(1, group.spec.resources.processors), []
    for row in waiting.told.candidates:
        if row.rejected or row.run_s <= 0:
            continue
        # A row tells the run of all its jobs there, on all lanes.
        run_s = row.run_s * min(1.0, max(1, row.slots // each) / jobs)
        out.append(WayIn(((row.site, each - _idle(core, row.site)),), run_s, max(0.0, row.wait_s - gone_s)))
    return out


def _ways_of_gang(core: Context, group: Group) -> list[WayIn]:
    """Return the sites at which components of the group's first gang that claims wait for processors, as one way."""
    book = core.book(GangAttempts)
    key = min((key for key in book.claiming if key[0] == group.group), default=None)
    if key is None:
        return []
    lacks, waits_s = dict[SiteId, int](), 0.0
    for name in book.parts.get(key, ()):
        part, claim = group.subgroups.get(name), book.claim(name)
        if part is None or claim.host:
            continue
        each = of_part(group.spec, part.indices, part.processors).resources.processors
        lacks[part.site] = lacks.get(part.site, 0) + each * len(part.indices)
        waits_s = max(waits_s, claim.expected_s - (core.now - book.placed_s.get(key, core.now)))
    decided = group.decisions[-1].gang if group.decisions else None
    run_s = (decided.run_s if decided is not None else 0.0) or group.spec.resources.work_s
    if not lacks or run_s <= 0:
        return []
    missing = tuple((site, wanted - _idle(core, site)) for site, wanted in sorted(lacks.items()))
    return [WayIn(missing, run_s, max(0.0, waits_s))]


def _idle(core: Context, site: SiteId) -> int:
    if site == core.site:
        return max(0, core.workers.free_slots())
    peer = core.view.peers.get(site)
    return max(0, peer.summary.free_slots) if peer is not None and peer.summary is not None else 0


def _stop(core: Context, newcomer: Group, found: Permission) -> None:
    book, by_group = core.book(MetaBook), dict[GroupId, list[YieldingJob]]()
    for one in found.stop:
        by_group.setdefault(one.group, []).append(one)
        book.rested_s[one.group, one.job] = core.now + AGAIN_S
    core.count("jobs_yielded", len(found.stop))
    for name, some in by_group.items():
        group, wanted = core.state.groups[name], IndexSet.of(one.job for one in some)
        parts = [(part, wanted & part.indices) for part in group.subgroups.values() if wanted & part.indices]
        book.back[name] = (newcomer.group, core.now + BACK_S)
        recall.save(core, group, parts, f"to make way for {newcomer.group}: {found.reason}")
    core.notify(newcomer.group)
