"""Jobs that wait at one site are to run at another: called back there, placed anew here (PROMISES section 2, recall).

The origin alone decides it, whoever asked. Where jobs are meant to go is remembered with them, so that it holds however
long their site takes to give them back; a site that cannot take them after all ends that, and they go where it is best.
"""

from __future__ import annotations

import msgspec

from diana.engine.journal.effects import Reply
from diana.engine.journal.events import MoveJobs
from diana.engine.journal.records import JobsMoved
from diana.engine.journal.state import Group, Subgroup
from diana.engine.matching.match import allowed
from diana.engine.placement import control
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.views.decision import Decision
from diana.model.views.views import Ok
from diana.policy.trust.authorise import Action

TABLE_S = 60.0
"""Seconds between two placements of a group's gangs whose decisions have the table of conditions: each of a thousand
such tables may be as long as all else that is kept of the group."""


def move(core: Context, event: MoveJobs) -> None:
    """Carry out a user's order to move jobs. Answered once it is durable, with how many may go and how many have
    started (exactly at home, elsewhere by what the site said last)."""
    asked = control.asked_of(core, event, Action.MOVE)
    if asked is None:
        return
    group, wanted = asked
    wrong = _wrong(core, group, event.to) if event.to else _no_checkpoint(group)
    parts = _movable(group, wanted, event.to)
    waiting = group.unplaced & wanted if event.to else IndexSet()
    if wrong or not (parts or waiting):
        where = f"to move to {event.to}" if event.to else "to save"
        control.refuse(core, event, wrong or f"{group.group} has nothing {where}: {_why_not(group, wanted, event.to)}")
        return
    started = sum(control.started_of(core, subgroup, indices) for subgroup, indices in parts)
    why = f"asked for by {event.principal.name}"
    if not event.to:
        save(core, group, parts, why)
        core.reply(Reply(event.request, Ok(started)))
        return
    order(core, group, parts, waiting, event.to, why, save=True)
    count = len(waiting) + sum(len(indices) for _, indices in parts)
    run_on = 0 if control.saves_state(group) else started
    core.reply(Reply(event.request, Ok(count - run_on, run_on)))


def save(core: Context, group: Group, parts: list[tuple[Subgroup, IndexSet]], why: str) -> None:
    """Have running jobs save their state and stop; they are placed anew where it is best."""
    indices = IndexSet.union(some for _, some in parts)
    core.persist(JobsMoved(group=group.group, indices=indices, to=SiteId(""), why=f"from a checkpoint, {why}"))
    for subgroup, some in parts:
        control.checkpoint(core, group, subgroup, some)
    core.notify(group.group)


def _no_checkpoint(group: Group) -> str:
    if control.saves_state(group):
        return ""
    return f"{group.group} cannot save its jobs' state: its job file has no [checkpoint]"


def order(
    core: Context,
    group: Group,
    parts: list[tuple[Subgroup, IndexSet]],
    waiting: IndexSet,
    to: SiteId,
    why: str,
    *,
    exported: bool = False,
    room: int = 0,
    gain_s: float = 0.0,
    behind: bool = False,
    save: bool = False,
) -> None:
    """Call back the jobs of these parts that have not started, and place them, and `waiting` too, at that site; empty:
    wherever it is best.

    `exported`: a congested site lets them go, this once; `room`: number of the room that the site keeps for them, 0:
    none; `gain_s`: seconds within which they are to start there; `behind`: they get no raise there; `save`: those that
    have started are to save their state, if they can, and come, too.
    """
    indices = IndexSet.union([waiting, *(some for _, some in parts)])
    core.persist(
        JobsMoved(
            group=group.group,
            indices=indices,
            to=to,
            why=why,
            exported=exported,
            room=room,
            gain_s=gain_s,
            behind=behind,
        )
    )
    for subgroup, some in parts:
        control.recall(core, group, subgroup, some, f"moved to {to}" if to else why, save=save)
    if waiting:
        core.to_place.add(group.group)
    core.notify(group.group)


def _wrong(core: Context, group: Group, to: SiteId) -> str:
    if group.spec.is_gang:
        mend = (
            f"diana checkpoint {group.group} has them go on where it is best"
            if control.saves_state(group)
            else "cancel it and name their sites in the job file"
        )
        return f"{group.group}: gangs go where all their components fit; {mend}"
    if to != core.site and to not in core.view.peers:
        return f"no site {to} is known at {core.site}; see diana sites"
    peer = core.view.peers.get(to)
    if to in core.view.banned:
        return f"site {to} is banned by the VO"
    if peer is not None and not peer.answers(core.now, core.state.settings.suspect_after_s):
        return f"site {to} does not answer, last heard of {core.now - peer.last_heard_s:.0f} s ago; see diana sites"
    drained = core.drained() if peer is None else peer.summary.drained if peer.summary else ""
    if drained:
        return f"site {to} is drained: {drained}"
    if not allowed(group.spec, to):
        return f"{group.group} may not run at {to}: its job file does not allow that site"
    return ""


def _movable(group: Group, wanted: IndexSet, to: SiteId) -> list[tuple[Subgroup, IndexSet]]:
    """Return the parts at other sites than `to` that have wanted jobs without a result; in order of their names."""
    out = []
    for part in sorted(group.subgroups):
        subgroup = group.subgroups[part]
        indices = group.open_of(subgroup.indices & wanted) - subgroup.cancelling
        if indices and subgroup.site != to and not subgroup.unreachable and indices.bounds[0] < group.jobs:
            out.append((subgroup, indices))
    return out


def _why_not(group: Group, wanted: IndexSet, to: SiteId) -> str:
    there = sum(len(group.open_of(s.indices & wanted)) for s in group.subgroups.values() if s.site == to)
    if there:
        return f"{there} of them are there"
    return control.ended(group, wanted)


def next_of(group: Group, waiting: IndexSet) -> tuple[IndexSet, SiteId | None]:
    """Return those of the waiting jobs that are placed together next, and the site they are to go to (None: wherever it
    is best)."""
    for one in group.moving:
        if one.to and (some := waiting & one.indices):
            return some, one.to
    return waiting, None


def room_for(group: Group, indices: IndexSet) -> tuple[int, bool]:
    """(number of the room that the site they are to go to keeps for them, 0: none; True if they get no raise there)."""
    return next(((one.room, one.behind) for one in group.moving if indices.issubset(one.indices)), (0, False))


def told(group: Group, indices: IndexSet, decision: Decision) -> Decision:
    """Return the decision on a placement, with why its jobs were moved, if they were. Of gangs, of which many are
    placed one after the other, one decision a minute has the table of conditions."""
    if group.spec.is_gang and decision.requirements is not None:
        last = next((one for one in reversed(group.decisions) if one.requirements is not None), None)
        if last is not None and decision.decided_at_s - last.decided_at_s < TABLE_S:
            decision = msgspec.structs.replace(decision, requirements=None)
    moved = [one for one in group.moving if not one.indices.isdisjoint(indices)]
    if not moved:
        return decision
    why = "; ".join(f"{one.to}: {one.why}" if one.to else one.why for one in moved)
    return msgspec.structs.replace(decision, reason=f"moved ({why}); {decision.reason}", moved=why)


def give_up(core: Context, group: Group, indices: IndexSet, to: SiteId, why: str) -> None:
    """Place these jobs wherever it is best: the site they were meant for does not take them."""
    core.waiting_notes[group.group] = why
    refusal = f"{to} did not take them: {why}"
    core.persist(JobsMoved(group=group.group, indices=indices, to=SiteId(""), why=refusal))
    core.to_place.add(group.group)
