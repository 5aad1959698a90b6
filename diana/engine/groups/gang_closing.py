"""The end of gangs that broke after they were let go: the components that run are ended, and the gang is placed anew
once all of them have, unless one of them has a result (SPEC K7)."""

from __future__ import annotations

from diana.engine.handover import leases, results
from diana.engine.handover.gangs.attempt_book import GangAttempts, GangKey, broke
from diana.engine.journal.state import Step
from diana.engine.placement import control
from diana.engine.site.context import Context
from diana.model.ids import GroupId, SiteId
from diana.model.job import gang
from diana.policy.gang import holding


def settle(core: Context) -> None:
    """End what is left of each gang that broke in the event at hand."""
    broken = core.book(GangAttempts).broken
    while broken:
        key = min(broken)
        _end(core, key, *broken.pop(key))


def save_over(core: Context, name: GroupId, number: int) -> None:
    """End the components that did not stop at a checkpoint with the others, and begin from the one before."""
    group, book = core.state.groups.get(name), core.book(GangAttempts)
    parts = [group.subgroups.get(part) for part in book.parts.get((name, number), ())] if group is not None else []
    running = sorted({one.site for one in parts if one is not None and one.open_jobs()})
    if running:
        broke(
            core,
            (name, number),
            f"its components at {', '.join(running)} did not save their state with the others",
            *running,
        )


def _end(core: Context, key: GangKey, why: str, failed: frozenset[SiteId]) -> None:
    group, book = core.state.groups.get(key[0]), core.book(GangAttempts)
    if group is None:
        return
    parts = [group.subgroups[part] for part in book.parts.get(key, ()) if part in group.subgroups]
    running = [one for one in parts if one.step is Step.COMMITTED and one.open_jobs()]
    members = gang.members(group.spec, key[1])
    if group.settled(members):
        results.cancel_unplaced(core, group, members)
        for one in running:
            control.cancel_part(core, one, one.indices)
    else:
        for one in running:
            leases.place_anew(core, group, one, f"its gang begins anew: {why}", avoids=False)
            leases.disown(core, one.site)
        core.count("gangs_broken")
        book.forget(key)
        book.again(key, failed, core.now + holding.pause_s(0, 0.0))
    core.waiting_notes[group.group] = why
    core.to_place.add(group.group)
    core.notify(group.group)
