"""The origin brings outputs home (SPEC J5)."""

from __future__ import annotations

from typing import NamedTuple

from diana.engine.data import checkpoints
from diana.engine.journal.effects import CancelStage, DropOutputs, Gather
from diana.engine.journal.events import StageDone
from diana.engine.journal.records import JobsRetried, OutputsGathered, facts_key
from diana.engine.journal.state import Group
from diana.engine.messages.messages import ResultAck
from diana.engine.site import links
from diana.engine.site.context import Context
from diana.engine.site.timers import BatchTimer
from diana.model.facts import FactsKey
from diana.model.ids import SiteId, SubgroupId, group_of
from diana.model.indexset import IndexSet
from diana.model.job.output_names import may_begin_with_index
from diana.model.job.patterns import is_found
from diana.model.job.spec import GroupSpec

GIVE_UP_AFTER = 40
"""Tries to bring one batch home from a site in reach, with growing pauses (about ten minutes), before the group is
called failed for want of it. What time does not mend (`StageDone.final`) fails it at once."""


class Gathers:
    """Outputs on their way home. Volatile: `resume_all` orders them again after a restart."""

    def __init__(self) -> None:
        self.moving: dict[int, tuple[FactsKey, SiteId]] = {}
        """Ticket -> the outputs and the site they come from."""
        self.away: dict[FactsKey, tuple[str, IndexSet]] = {}
        """Outputs collected here that cannot be gathered -> the machine they lie on, which is away, and their jobs."""


def begin(core: Context, group: Group, key: FactsKey, source: SiteId, size_bytes: int = 0) -> None:
    """Order a batch's outputs home. `size_bytes`: size of the files, where it is known; they count as on their way
    until they are here."""
    ticket = core.ticket()
    core.book(Gathers).moving[ticket] = (key, source)
    if checkpoints.are_coming(group, key):
        order = Gather(ticket=ticket, source=source, key=key, to="", saved=True)
    else:
        skip = group.subgroups[key.subgroup].superseded
        to, replaces = group.spec.outputs.to, replaced(group)
        order = Gather(ticket=ticket, source=source, key=key, to=to, skip=skip, replaces=replaces)
    links.ordered(core, order, size_bytes)
    core.emit(order)


def replaced(group: Group) -> tuple[tuple[SubgroupId, IndexSet], ...]:
    """Return the parts of which jobs were tried again, where a later attempt may leave fewer files than one before."""
    if not (group.retried and group.spec.outputs.kept):
        return ()
    return tuple((part, sub.superseded) for part, sub in sorted(group.subgroups.items()) if sub.superseded)


def begin_again(core: Context, group: Group) -> None:
    """Gather on after jobs were retried: without their old outputs, and with another try of batches given up."""
    wanted, moving = set(group.gathers), set[FactsKey]()
    for ticket, (key, _) in sorted(core.book(Gathers).moving.items()):
        if key in wanted and not group.subgroups[key.subgroup].superseded:
            moving.add(key)
        elif key.group == group.group:
            del core.book(Gathers).moving[ticket]
            links.settled(core, ticket)
            core.emit(CancelStage(ticket))
    for key in group.gathers:
        if key not in moving:
            core.settle(_timer(key))
            begin(core, group, key, group.subgroups[key.subgroup].site)


def shared(core: Context, spec: GroupSpec) -> str:
    """Return why its outputs may not go where it says: a group that is not over gathers files of the same names there,
    and one would overwrite the other's. Empty: they may."""
    for other in core.state.groups.values() if spec.outputs.to else ():
        if not other.state and other.spec.outputs.to and (name := meeting(spec, other.spec)):
            return (
                f"outputs.to: {other.group}, which is not over, puts its {name!r} into {spec.outputs.to} too;"
                " name another folder, put {group} into the file names, or wait for it"
            )
    return ""


def meeting(one: GroupSpec, other: GroupSpec) -> str:
    """Return the first of the other's outputs that may have the name of one of this group's in the same folder of the
    user's; empty: none may."""
    if both := places(one) & places(other):
        return min(both)[1]
    mine, theirs = in_jobs_folders(one), in_jobs_folders(other)
    if mine is None or theirs is None or mine.folder != theirs.folder or not (mine.found or theirs.found):
        return ""
    return theirs.name


def places(spec: GroupSpec) -> set[tuple[str, str]]:
    """Return (folder, file name) of the files it gathers into a folder of the user's under names that other groups may
    use too."""
    if not spec.outputs.to:
        return set()
    folder = _folder(spec.outputs.to)
    return {(folder, name) for name in spec.outputs.collect if "{group}" not in name}


class InJobsFolders(NamedTuple):
    """Outputs of a group that may lie in folders named by indices of jobs, in a folder of the user's."""

    folder: str
    name: str
    """The first of them, as its group names it."""
    found: bool
    """True if some are found when a job has ended, so that their names are not known."""


def in_jobs_folders(spec: GroupSpec) -> InJobsFolders | None:
    """Return those under names that other groups may use too; None: there are none."""
    listed = sorted(name for _, name in places(spec))
    found = [name for name in listed if spec.outputs.kept and is_found(name)]
    names = found or [name for name in listed if may_begin_with_index(name)]
    return InJobsFolders(_folder(spec.outputs.to), names[0], bool(found)) if names else None


def _folder(text: str) -> str:
    return "/".join(part for part in text.split("/") if part not in ("", "."))


def resume_all(core: Context) -> None:
    """Gather, at start, every batch whose outputs are not here (again)."""
    for name in sorted(core.state.groups):
        group = core.state.groups[name]
        for key in group.gathers:
            begin(core, group, key, group.subgroups[key.subgroup].site)


def on_gathered(core: Context, event: StageDone) -> None:
    key, source = core.book(Gathers).moving.pop(event.ticket)
    links.settled(core, event.ticket)
    group = core.state.groups.get(key.group)
    if group is None or key not in group.gathers:
        return
    timer = _timer(key)
    core.book(Gathers).away.pop(key, None)
    if event.error and event.away and source == core.site and machine_gone(core, event.away):
        core.settle(timer)
        _lost(core, group, key, event.lacking, event.away)
        return
    passing = event.away or core.tries.get(timer, 0) < GIVE_UP_AFTER or not _in_reach(core, source)
    if event.error and passing and not event.final:
        if event.away and source == core.site:
            core.book(Gathers).away[key] = (event.away, event.lacking)
        core.waiting_notes[group.group] = event.error
        core.back_off(timer)
        core.notify(group.group)
        return
    core.settle(timer)
    core.waiting_notes.pop(group.group, None)
    if checkpoints.are_coming(group, key):
        core.to_place.add(group.group)
    core.persist(
        OutputsGathered(
            subgroup=key.subgroup,
            epoch=key.epoch,
            batch=key.batch,
            bytes_moved=event.bytes_moved,
            error=event.error,
            at_s=max(0.0, core.now - group.submitted_s),
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


def machine_gone(core: Context, machine: str) -> bool:
    """True if an operator gave the machine up."""
    known = core.state.machines.get(machine)
    return known is not None and known.gone


def machine_back(core: Context, machine: str) -> None:
    """Gather at once the outputs that lie on a machine that is back."""
    for key in [key for key, (at, _) in sorted(core.book(Gathers).away.items()) if at == machine]:
        del core.book(Gathers).away[key]
        core.settle(_timer(key))
        gather_again(core, key.subgroup, key.epoch, key.batch)


def machine_lost(core: Context, machine: str) -> int:
    """Settle the outputs that lay on this machine only and will never come; return the number of jobs concerned."""
    count = 0
    for key in [key for key, (at, _) in sorted(core.book(Gathers).away.items()) if at == machine]:
        _, jobs = core.book(Gathers).away.pop(key)
        core.settle(_timer(key))
        group = core.state.groups.get(key.group)
        if group is not None and key in group.gathers:
            count += len(jobs)
            _lost(core, group, key, jobs, machine)
    return count


def _lost(core: Context, group: Group, key: FactsKey, jobs: IndexSet, machine: str) -> None:
    """Run the jobs again if their `on_crash` says so; else give up their outputs."""
    part = group.subgroups[key.subgroup]
    again = group.done.within(jobs & part.indices)
    if group.spec.on_crash == "rerun" and again:
        core.persist(JobsRetried(group=group.group, indices=again))
        core.waiting_notes.pop(group.group, None)
        core.to_place.add(group.group)
        core.count("jobs_retried", len(again))
        begin(core, group, key, part.site)
    else:
        if checkpoints.are_coming(group, key):
            core.to_place.add(group.group)
        why = f"outputs of {len(jobs):,} jobs were on machine {machine}, which was removed; submit these jobs again"
        core.persist(OutputsGathered(subgroup=key.subgroup, epoch=key.epoch, batch=key.batch, bytes_moved=0, error=why))
        core.count("batches_not_gathered")
    core.to_check.add(group.group)
    core.notify(group.group)


def give_up(core: Context, group: Group, why: str) -> int:
    """Gather no more of the batches that did not come at the first try; return how many. They stay where they are: a
    retry of the group gathers them again."""
    stuck = {key: None for key in group.gathers if core.tries.get(_timer(key), 0)}
    for ticket in [t for t, (moving, _) in core.book(Gathers).moving.items() if moving in stuck]:
        del core.book(Gathers).moving[ticket]
        links.settled(core, ticket)
        core.emit(CancelStage(ticket))
    for key in stuck:
        core.settle(_timer(key))
        if checkpoints.are_coming(group, key):
            core.to_place.add(group.group)
        core.persist(OutputsGathered(subgroup=key.subgroup, epoch=key.epoch, batch=key.batch, bytes_moved=0, error=why))
        core.count("batches_not_gathered")
    if stuck:
        core.waiting_notes.pop(group.group, None)
        core.to_check.add(group.group)
    return len(stuck)


def _timer(key: FactsKey) -> BatchTimer:
    return BatchTimer("gather", key.subgroup, key.epoch, key.batch)


def _in_reach(core: Context, source: SiteId) -> bool:
    """True if the source is in reach: a site that is away for a while has not lost its files."""
    peer = core.view.peers.get(source)
    return source == core.site or (peer is not None and peer.here)


def gather_again(core: Context, subgroup: SubgroupId, epoch: int, batch: int) -> None:
    key = facts_key(subgroup, epoch, batch)
    group = core.state.groups.get(group_of(subgroup))
    if group is not None and key in group.gathers:
        begin(core, group, key, group.subgroups[subgroup].site)
