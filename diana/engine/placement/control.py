"""Cancel, hold and release, from the client's word to the last site that has a job.

Each placement has one standing order, the jobs to cancel and the jobs to hold, told whole each time: repeated, late or
reordered it says the same, and the highest `control_seq` counts (PROMISES section 2, control).
"""

from __future__ import annotations

from diana.engine.data import outputs
from diana.engine.handover import destination as custodies
from diana.engine.handover import execution, origin, results
from diana.engine.journal.effects import Refusal, Reply
from diana.engine.journal.events import CancelJobs, HoldJobs, MoveJobs, ReleaseJobs, RetryJobs
from diana.engine.journal.records import ControlIssued, HoldingChanged, JobsCancelled
from diana.engine.journal.state import Group, Step, Subgroup
from diana.engine.messages.messages import Progress
from diana.engine.recovery import stocktaking
from diana.engine.site import dependencies
from diana.engine.site.context import Context
from diana.model.bygone import GroupOrder, OrderKind
from diana.model.ids import group_of, no_group
from diana.model.indexset import IndexSet
from diana.model.job.gang import whole_gangs
from diana.model.views.views import Ok
from diana.policy.trust.authorise import Action, authorise

Asked = CancelJobs | HoldJobs | MoveJobs | ReleaseJobs | RetryJobs
_KINDS: dict[type[Asked], OrderKind] = {
    CancelJobs: "cancel",
    HoldJobs: "hold",
    MoveJobs: "move",
    ReleaseJobs: "release",
    RetryJobs: "retry",
}


def asked_of(core: Context, event: Asked, action: Action) -> tuple[Group, IndexSet] | None:
    """Return the group and the jobs meant; None: the caller was refused."""
    group = core.state.groups.get(event.group)
    why = authorise(event.principal, action, group.owner if group else None)
    if group is None or (why and authorise(event.principal, Action.READ_GROUP, group.owner)):
        # Nobody else is told whose group it is, or whether it exists.
        refuse(core, event, no_group(event.group, core.site))
        return None
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return None
    everything = IndexSet.span(0, group.jobs)
    wanted = everything if event.indices is None else event.indices
    if not wanted.issubset(everything):
        refuse(core, event, f"{event.group} has jobs 0 to {group.jobs - 1}, not {listed(wanted - everything)}")
        return None
    to = event.to if isinstance(event, MoveJobs) else ""
    core.order = (group.group, GroupOrder(core.now, _KINDS[type(event)], event.indices, to))
    # A component is nothing without the others.
    return group, whole_gangs(group.spec, wanted)


def refuse(core: Context, event: Asked, text: str) -> None:
    core.reply(Reply(event.request, Refusal(code="usage", text=text)))


def listed(indices: IndexSet) -> str:
    """Return the indices for one line of text: the first ranges, and how many more there are."""
    ranges = IndexSet(indices.bounds[:16])
    return str(indices) if ranges == indices else f"{ranges} and {len(indices) - len(ranges)} more"


def ended(group: Group, wanted: IndexSet) -> str:
    """Return how many of these jobs of the group ended and how, for refusals."""
    kinds = (("done", group.done), ("failed", group.failed), ("cancelled", group.cancelled), ("held", group.held))
    counts = ((name, len(kind.within(wanted))) for name, kind in kinds)
    return ", ".join(f"{count} {name}" for name, count in counts if count) or "none has ended"


# --- cancel ----------------------------------------------------------------------------------------------


def cancel(core: Context, event: CancelJobs) -> None:
    """Cancel jobs. The answer comes once the order is durable; jobs show CANCELLING until their site acknowledged."""
    asked = asked_of(core, event, Action.CANCEL)
    if asked is None:
        return
    group, wanted = asked
    if event.dependents and event.indices is not None:
        refuse(core, event, f"dependents are cancelled with the whole of a group; write {group.group} alone")
        return
    if event.held:
        waiting, unsure = _held_for_sure(core, group, wanted)
        core.order = (group.group, GroupOrder(core.now, "cancel", waiting))
        count = _cancel(core, group, waiting, waiting)
        if event.release:
            _unhold(core, group, wanted)
            core.notify(group.group)
        core.reply(Reply(event.request, Ok(count, jobs=waiting, unsure=unsure)))
        return
    count = _cancel(core, group, wanted, event.indices)
    for name in dependencies.downstream(core, group.group) if event.dependents else ():
        behind = core.state.groups[name]
        if not behind.state and not authorise(event.principal, Action.CANCEL, behind.owner):
            count += _cancel(core, behind, IndexSet.span(0, behind.jobs), None)
    core.reply(Reply(event.request, Ok(count)))


def _held_for_sure(core: Context, group: Group, wanted: IndexSet) -> tuple[IndexSet, int]:
    """Return (jobs of `wanted` that are surely held, how many are unsure). Held are those under an order to hold that
    have not started: exactly known at home, elsewhere by the site's last progress. Unsure are those of a site that has
    told no progress since it has the order, since earlier progress may arrive after its acknowledgement, and those that
    a worker here may yet give back unbegun."""
    out, unsure = [group.holding & group.unplaced & wanted], 0
    for part, subgroup in group.subgroups.items():
        ordered = group.open_of(subgroup.holding & wanted) - subgroup.cancelling
        custody, told = core.state.custodies.get((part, subgroup.epoch)), _told(core, subgroup)
        if not ordered:
            continue
        if subgroup.site == core.site:
            out.append(ordered & custody.pending if custody is not None else IndexSet())
            unsure += len(ordered & execution.waiting_there(core, custody)) if custody is not None else 0
        elif told is None or told.control_seq < subgroup.control_seq:
            unsure += len(ordered)
        else:
            out.append(ordered & told.held)
    return IndexSet.union(out), unsure


def _told(core: Context, subgroup: Subgroup) -> Progress | None:
    """Return the last progress of the placement, as its site told it; None: it has told none."""
    told = core.view.progress.get(subgroup.subgroup)
    return told if told is not None and told.epoch == subgroup.epoch else None


def _cancel(core: Context, group: Group, wanted: IndexSet, asked: IndexSet | None) -> int:
    """Cancel jobs; return about how many. `asked` None: all of the group, its merge included."""
    before = group.finished()
    count = len(wanted & group.unplaced)
    for part in sorted(group.subgroups):
        subgroup = group.subgroups.get(part)
        if subgroup is None:
            continue
        indices = subgroup.indices & (wanted | _merge_index(group, asked)) - subgroup.cancelling
        if indices and subgroup.open_jobs():
            # Not more exactly: results on their way may still win.
            count += min(len(indices), subgroup.open_jobs())
            if subgroup.step is Step.OFFERED and not subgroup.unreachable:
                _withdraw(core, group, subgroup, "cancelled")
            else:
                _order(core, subgroup, cancel=subgroup.cancelling | indices)
    results.cancel_unplaced(core, group, wanted)
    stocktaking.cancel_what_is_told(core, group, wanted)
    if core.order is not None and not group.state and (group.spec.retries or group.spec.retry is not None):
        # Nothing is left to cancel, but what failed is not to be tried again by itself.
        core.persist(JobsCancelled(group=group.group, indices=IndexSet()))
    if asked is None:
        outputs.give_up(core, group, "outputs were not gathered: cancelled; diana retry gathers them again")
    core.notify(group.group)
    return max(count, group.finished() - before)


def _merge_index(group: Group, indices: IndexSet | None) -> IndexSet:
    """Return the index of the merge where all of a group is cancelled, which ends the merge too; else none."""
    return IndexSet.span(group.jobs, group.jobs + 1) if indices is None else IndexSet()


def cancel_part(core: Context, subgroup: Subgroup, indices: IndexSet) -> None:
    """Cancel jobs of a committed placement, whoever wants it."""
    if not indices.issubset(subgroup.cancelling):
        _order(core, subgroup, cancel=subgroup.cancelling | indices)


def _withdraw(core: Context, group: Group, subgroup: Subgroup, reason: str) -> None:
    if subgroup.subgroup not in group.subgroups:
        # It went with another part of its gang.
        return
    origin.withdraw(core, group, subgroup, reason, ordered=True)


def recall(
    core: Context, group: Group, subgroup: Subgroup, indices: IndexSet, reason: str, *, save: bool = False
) -> None:
    """Call back those of the jobs that have not started, to be placed anew (PROMISES section 2, recall). `save`: also
    those that have and save their state; who was asked before and runs on is asked again."""
    if subgroup.unreachable:
        return
    if subgroup.step is Step.OFFERED:
        _withdraw(core, group, subgroup, reason)
        return
    wanted = group.open_of(subgroup.indices & indices) - subgroup.cancelling
    fresh = wanted - subgroup.recalled
    saves = save and saves_state(group)
    if fresh or (saves and wanted):
        _order(core, subgroup, recall=subgroup.recalled | fresh, save=wanted if saves else None)


def checkpoint(core: Context, group: Group, subgroup: Subgroup, indices: IndexSet) -> None:
    """Have those of the jobs that run save their state, stop and come back."""
    wanted = group.open_of(subgroup.indices & indices) - subgroup.cancelling
    if wanted and subgroup.step is Step.COMMITTED and not subgroup.unreachable:
        _order(core, subgroup, save=wanted)


def saves_state(group: Group) -> bool:
    """True if its running jobs can be stopped at a checkpoint, and go on from there."""
    return group.spec.checkpoint is not None


def save_others(core: Context, group: Group, indices: IndexSet) -> None:
    """Have the other components of these jobs' gangs save their state with them: none goes on without the others."""
    others = whole_gangs(group.spec, indices) - indices
    for part in sorted(group.subgroups) if others and saves_state(group) else ():
        subgroup = group.subgroups.get(part)
        if subgroup is not None and subgroup.indices:
            checkpoint(core, group, subgroup, others)


def _order(
    core: Context,
    subgroup: Subgroup,
    *,
    cancel: IndexSet | None = None,
    hold: IndexSet | None = None,
    recall: IndexSet | None = None,
    save: IndexSet | None = None,
) -> None:
    """Issue a new standing order for a committed placement. None: that part stays as it stands."""
    cancel = subgroup.cancelling if cancel is None else cancel
    hold = subgroup.holding if hold is None else hold
    recall = subgroup.recalled if recall is None else recall
    seq = subgroup.control_seq + 1
    saving, save_seq = (subgroup.saving, subgroup.save_seq) if save is None else (subgroup.saving | save, seq)
    core.persist(
        ControlIssued(
            subgroup=subgroup.subgroup,
            epoch=subgroup.epoch,
            control_seq=seq,
            cancel=cancel,
            hold=hold - cancel,
            # Also jobs cancelled since: they may be on their way back already.
            recall=recall,
            save=saving - cancel,
            save_seq=save_seq,
        )
    )
    if subgroup.step is Step.OFFERED:
        # This store was put back: the order is given once that site has told whether it has the jobs.
        return
    if subgroup.site != core.site:
        origin.send_control(core, subgroup)
        return
    custody = core.state.custodies.get((subgroup.subgroup, subgroup.epoch))
    if custody is not None:
        custodies.obey(core, custody, seq, cancel, hold - cancel, recall, asked=(subgroup.saving, save_seq))


# --- hold ------------------------------------------------------------------------------------------------


def hold(core: Context, event: HoldJobs) -> None:
    """Hold jobs: those that have not started do not start until released. Started ones run on, and the answer says how
    many (exactly at home, elsewhere by what the site said last); one that has to start again is held then."""
    asked = asked_of(core, event, Action.HOLD)
    if asked is None:
        return
    group, wanted = asked
    if not group.open_of(wanted):
        refuse(core, event, f"{group.group} has nothing to hold there: {ended(group, wanted)}")
        return
    count = started = 0
    for part in sorted(group.subgroups):
        subgroup = group.subgroups.get(part)
        if subgroup is None:
            continue
        fresh = group.open_of(subgroup.indices & wanted) - subgroup.holding - subgroup.cancelling
        if not fresh:
            continue
        if subgroup.step is Step.OFFERED:
            if not subgroup.unreachable:
                _withdraw(core, group, subgroup, "held")
            continue
        run_on = started_of(core, subgroup, fresh)
        count, started = count + len(fresh) - run_on, started + run_on
        _order(core, subgroup, hold=subgroup.holding | fresh)
    waiting = (group.unplaced & wanted) - group.holding
    if waiting:
        core.persist(HoldingChanged(group=group.group, holding=group.holding | waiting))
    core.reply(Reply(event.request, Ok(count + len(waiting), started)))
    core.notify(group.group)


def started_of(core: Context, subgroup: Subgroup, indices: IndexSet) -> int:
    """Return how many of the jobs have started: exactly at home, elsewhere by what the site said last. Components have
    once their gang is let go, whoever has told of it."""
    if core.state.groups[group_of(subgroup.subgroup)].spec.is_gang:
        return len(indices) if subgroup.step is Step.COMMITTED else 0
    custody = core.state.custodies.get((subgroup.subgroup, subgroup.epoch))
    if subgroup.site == core.site and custody is not None:
        return len((IndexSet.of(custody.running) & indices) - execution.waiting_there(core, custody))
    told = core.view.progress.get(subgroup.subgroup)
    # Jobs given ahead there are given back, as far as they have not begun when the order comes.
    return min(told.running, len(indices)) if told else 0


# --- release ---------------------------------------------------------------------------------------------


def release(core: Context, event: ReleaseJobs) -> None:
    """Release jobs. All that are named must be held; else nothing changes, and the refusal says which are."""
    asked = asked_of(core, event, Action.RELEASE)
    if asked is None:
        return
    group, wanted = asked
    if group.on_hold:
        if _may_lift(core, event, group):
            stocktaking.lift(core, group)
            # Its user wants all of it to go on.
            _unhold(core, group, wanted)
            core.reply(Reply(event.request, Ok(group.jobs - group.finished())))
        return
    ordered = IndexSet.union([group.holding, *(s.holding for s in group.subgroups.values())])
    held = _held(core, group)
    if not wanted & held or (event.indices is not None and not wanted.issubset(ordered)):
        refuse(core, event, _not_held(group, event.indices, wanted - ordered or wanted, held))
        return
    _unhold(core, group, wanted)
    core.reply(Reply(event.request, Ok(len(wanted & held))))
    core.notify(group.group)


def _unhold(core: Context, group: Group, wanted: IndexSet) -> None:
    for part in sorted(group.subgroups):
        subgroup = group.subgroups[part]
        if subgroup.open_jobs() and subgroup.holding & wanted:
            _order(core, subgroup, hold=subgroup.holding - wanted)
    if group.holding & wanted:
        core.persist(HoldingChanged(group=group.group, holding=group.holding - wanted))
        core.to_place.add(group.group)


def _may_lift(core: Context, event: ReleaseJobs, group: Group) -> bool:
    """True if a group held since a restore may go on: as a whole, once every peer and machine has told what runs
    there; else refuse."""
    if not stocktaking.in_doubt(core, group) and event.indices is None:
        return True
    whole = "" if event.indices is None else "it is released as a whole; "
    refuse(core, event, f"{group.group}: {whole}{stocktaking.note(core, group)}")
    return False


def _held(core: Context, group: Group) -> IndexSet:
    """Return the jobs under an order to hold, without result and not known to run."""
    some = (subgroup for subgroup in group.subgroups.values() if subgroup.holding)
    return IndexSet.union([group.holding, *(_waits(core, group, one) for one in some)])


def _waits(core: Context, group: Group, subgroup: Subgroup) -> IndexSet:
    """Return the jobs of a placement under an order to hold, without result and not known to run: exactly at home,
    elsewhere by what the site said last."""
    ordered, told = group.open_of(subgroup.holding), _told(core, subgroup)
    if group.spec.is_gang:
        return IndexSet() if subgroup.step is Step.COMMITTED else ordered
    if subgroup.site == core.site:
        custody = core.state.custodies.get((subgroup.subgroup, subgroup.epoch))
        return ordered - IndexSet.of(custody.running) if custody is not None else ordered
    if told is None:
        return ordered
    if told.control_seq >= subgroup.control_seq:
        return ordered & told.held
    return IndexSet() if told.running >= subgroup.open_jobs() else ordered


def _not_held(group: Group, indices: IndexSet | None, wrong: IndexSet, held: IndexSet) -> str:
    what = group.group if indices is None else f"{group.group}.[{listed(wrong)}]"
    text = f"{what} is not held; held are {listed(held)}" if held else f"{what} is not held: no job of the group is"
    if group.held.overlaps(wrong):
        text += f"; what is held for its unknown outcome is tried again by: diana retry --held {group.group}"
    return f"{text}; {group.on_hold}" if group.on_hold else text
