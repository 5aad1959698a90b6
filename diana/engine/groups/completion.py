"""The end of a group: when nothing else is open it is merged once and closed."""

from __future__ import annotations

from diana.engine.data import output_datasets
from diana.engine.groups import retry
from diana.engine.handover import inputs
from diana.engine.handover.gangs import attempt_book
from diana.engine.journal.events import OutputsInCatalogue
from diana.engine.journal.records import GroupClosed, MergeStarted, Part
from diana.engine.journal.state import Group
from diana.engine.migration.table import MigrationBook
from diana.engine.site import dependencies
from diana.engine.site.context import Context
from diana.model.ids import subgroup_id
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec, Outputs, encode_spec
from diana.model.job.template import settled


def check_complete(core: Context, group: Group) -> None:
    """Start the merge, or close the group, when nothing else is open."""
    if group.state or group.finished() < group.jobs or group.gathers or group.merge == "running":
        return
    if any(subgroup.open_jobs() for subgroup in group.subgroups.values()):
        return
    if retry.by_itself(core, group):
        return
    all_done = group.all_done() and not group.not_gathered
    if group.spec.outputs.merge and not group.merge and all_done:
        # After a restore it may have run since the copy was made: at its user's word only.
        if not group.on_hold:
            _merge(core, group)
        return
    state, note = _final_state(group, all_done)
    if state == "done" and output_datasets.due(group):
        taken = output_datasets.taken(core, group.owner, group.spec.outputs.dataset)
        if not taken:
            output_datasets.begin(core, group)
            return
        state, note = "failed", taken
    _close(core, group, state, note)


def on_registered(core: Context, event: OutputsInCatalogue) -> None:
    answered = output_datasets.finished(core, event)
    if answered is not None and answered[1]:
        _close(core, answered[0], "failed", answered[1])


def _close(core: Context, group: Group, state: str, note: str) -> None:
    core.persist(GroupClosed(group=group.group, state=state, at_s=core.now, note=note))
    core.count(f"groups_{state}")
    core.waiting_notes.pop(group.group, None)
    core.book(MigrationBook).kept.pop(group.group, None)
    core.view.avoided.pop(group.group, None)
    if group.spec.is_gang:
        attempt_book.closed(core, group)
    core.notify(group.group)
    dependencies.changed(core, group)


def _final_state(group: Group, all_done: bool) -> tuple[str, str]:
    if group.merge == "failed":
        why = f": {group.note}" if group.note else ""
        return "failed", f"the merge command failed{why}; what it wrote: diana logs --merge {group.group}"
    if group.merge in ("cancelled", "held"):
        how = "was cancelled" if group.merge == "cancelled" else "ended without a trace"
        return group.merge, f"the merge command {how}"
    if all_done:
        return "done", ""
    note = "the merge command was not run: not every job is done" if group.spec.outputs.merge else ""
    if len(group.held):
        return "held", note
    if len(group.failed) or group.not_gathered:
        return "failed", note
    return "cancelled", note


def _merge(core: Context, group: Group) -> None:
    """Start the merge: job number `jobs`, run at home in the folder of the gathered outputs. It is no job of the sweep:
    variables that differ from job to job are none of its."""
    known = {"group": group.group}
    variables = ((name, settled(text, known)) for name, text in group.spec.environment)
    spec = GroupSpec(
        name=f"{group.spec.name or group.group} merge",
        argv=tuple(settled(word, known) or word for word in group.spec.outputs.merge),
        environment=tuple((name, text) for name, text in variables if text is not None),
        outputs=Outputs(to=group.spec.outputs.folder),
        on_crash=group.spec.on_crash,
    )
    index = IndexSet.span(group.jobs, group.jobs + 1)
    part = Part(
        subgroup=subgroup_id(group.group, group.next_number),
        epoch=group.epoch + 1,
        site=core.site,
        indices=index,
        attempt_base=group.attempt_base(index),
    )
    core.persist(MergeStarted(group=group.group, part=part, spec=encode_spec(spec)))
    inputs.begin(core, core.state.custodies[(part.subgroup, part.epoch)])
    core.notify(group.group)
