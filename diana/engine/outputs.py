"""The origin brings outputs home (SPEC J5)."""

from __future__ import annotations

from diana.engine.context import Context
from diana.engine.effects import CancelStage, DropOutputs, Gather
from diana.engine.events import StageDone
from diana.engine.messages import ResultAck
from diana.engine.records import OutputsGathered, facts_key
from diana.engine.state import Group
from diana.model.facts import FactsKey
from diana.model.ids import SiteId, SubgroupId, group_of

GIVE_UP_AFTER = 40
"""Tries to bring one batch home from a site in reach, with growing pauses (about ten minutes), before the group is
called failed for want of it."""


def begin(core: Context, group: Group, key: FactsKey, source: SiteId) -> None:
    ticket = core.ticket()
    core.gathers[ticket] = (key, source)
    skip = group.subgroups[key.subgroup].superseded
    core.emit(Gather(ticket=ticket, source=source, key=key, to=group.spec.outputs.to, skip=skip))


def begin_again(core: Context, group: Group) -> None:
    """Jobs were retried: what still moves goes on without their old outputs, what was given up is tried again."""
    moving: set[FactsKey] = set()
    for ticket, (key, _) in sorted(core.gathers.items()):
        if key in group.gathers and not group.subgroups[key.subgroup].superseded:
            moving.add(key)
        elif key.group == group.group:
            del core.gathers[ticket]
            core.emit(CancelStage(ticket))
    for key in group.gathers:
        if key not in moving:
            core.settle(("gather", key.subgroup, str(key.epoch), str(key.batch)))
            begin(core, group, key, group.subgroups[key.subgroup].site)


def resume_all(core: Context) -> None:
    """At start: every batch whose outputs are not here is gathered (again)."""
    for name in sorted(core.state.groups):
        group = core.state.groups[name]
        for key in group.gathers:
            begin(core, group, key, group.subgroups[key.subgroup].site)


def on_gathered(core: Context, event: StageDone) -> None:
    key, source = core.gathers.pop(event.ticket)
    group = core.state.groups.get(key.group)
    if group is None or key not in group.gathers:
        return
    timer = ("gather", key.subgroup, str(key.epoch), str(key.batch))
    if event.error and (core.tries.get(timer, 0) < GIVE_UP_AFTER or not _in_reach(core, source)):
        core.waiting_notes[group.group] = event.error
        core.back_off(timer)
        core.notify(group.group)
        return
    core.settle(timer)
    core.waiting_notes.pop(group.group, None)
    core.persist(
        OutputsGathered(
            subgroup=key.subgroup, epoch=key.epoch, batch=key.batch, bytes_moved=event.bytes_moved, error=event.error
        )
    )
    if event.error:
        # The executing site keeps the files: whoever mends what was wrong can still fetch them by hand.
        core.count("batches_not_gathered")
    elif source == core.site:
        core.emit(DropOutputs(key))
    else:
        core.send(source, ResultAck(subgroup=key.subgroup, epoch=key.epoch, batch=key.batch, outputs_taken=True))
    core.to_check.add(group.group)
    core.notify(group.group)


def _in_reach(core: Context, source: SiteId) -> bool:
    """A site that is away for a while has not lost its files."""
    peer = core.view.peers.get(source)
    return source == core.site or (peer is not None and peer.up)


def gather_again(core: Context, subgroup: SubgroupId, epoch: str, batch: str) -> None:
    key = facts_key(subgroup, int(epoch), int(batch))
    group = core.state.groups.get(group_of(subgroup))
    if group is not None and key in group.gathers:
        begin(core, group, key, group.subgroups[subgroup].site)
