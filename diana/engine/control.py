"""Cancelling, from the client's word to the last site that holds a job."""

from __future__ import annotations

from diana.engine import execution, handover
from diana.engine.context import Context
from diana.engine.effects import Refusal, Reply
from diana.engine.events import CancelJobs
from diana.engine.messages import Abort
from diana.engine.records import ControlIssued, ControlTaken
from diana.engine.state import Group, Step, Subgroup
from diana.model.indexset import IndexSet
from diana.model.views import Ok
from diana.policy.authorise import Action, authorise


def cancel(core: Context, event: CancelJobs) -> None:
    """Answered once the order is durable; jobs show CANCELLING until their site acknowledged."""
    group = core.state.groups.get(event.group)
    why = authorise(event.principal, Action.CANCEL, group.owner if group else None)
    if group is None or (why and authorise(event.principal, Action.READ_GROUP, group.owner)):
        # Whose group it is, and whether it exists, is nobody else's business.
        core.reply(Reply(event.request, Refusal(code="usage", text=f"no group {event.group} of yours at {core.site}")))
        return
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    everything = IndexSet.span(0, group.jobs)
    wanted = everything if event.indices is None else event.indices
    if not wanted.issubset(everything):
        text = f"{event.group} has jobs 0 to {group.jobs - 1}, not {wanted - everything}"
        core.reply(Reply(event.request, Refusal(code="usage", text=text)))
        return
    before = group.finished()
    count = 0
    for part in sorted(group.subgroups):
        subgroup = group.subgroups[part]
        indices = subgroup.indices & (wanted | _merge_index(group, event.indices)) - subgroup.cancelling
        if indices and subgroup.open_jobs():
            count += _cancel_in(core, group, subgroup, indices)
    count += len(wanted & group.unplaced)
    handover.cancel_unplaced(core, group, wanted)
    core.reply(Reply(event.request, Ok(max(count, group.finished() - before))))
    core.notify(group.group)


def _merge_index(group: Group, indices: IndexSet | None) -> IndexSet:
    """Cancelling all of a group also ends its merge."""
    return IndexSet.span(group.jobs, group.jobs + 1) if indices is None else IndexSet()


def _cancel_in(core: Context, group: Group, subgroup: Subgroup, indices: IndexSet) -> int:
    """Cancel in one placement; about how many jobs that concerns (results on their way may still win)."""
    count = min(len(indices), subgroup.open_jobs())
    core.persist(
        ControlIssued(
            subgroup=subgroup.part,
            epoch=subgroup.epoch,
            control_seq=subgroup.control_seq + 1,
            verb="cancel",
            indices=indices,
        )
    )
    if subgroup.step is Step.OFFERED:
        core.send(subgroup.site, Abort(subgroup=subgroup.part, epoch=subgroup.epoch))
        handover.take_back(core, group, subgroup, "cancelled")
    elif subgroup.site == core.site:
        custody = core.state.custodies.get((subgroup.part, subgroup.epoch))
        if custody is not None:
            core.persist(
                ControlTaken(
                    subgroup=subgroup.part,
                    epoch=subgroup.epoch,
                    control_seq=subgroup.control_seq,
                    verb="cancel",
                    indices=indices,
                )
            )
            execution.cancel(core, custody, indices)
    else:
        handover.send_control(core, subgroup)
    return count
