"""Jobs that ended otherwise than done are tried again: placed anew, in a new epoch, their attempts counting on."""

from __future__ import annotations

from diana.engine.data import output_datasets, outputs
from diana.engine.guard import guard
from diana.engine.handover import leases
from diana.engine.journal.effects import Reply
from diana.engine.journal.events import RetryJobs
from diana.engine.journal.records import JobsRetried
from diana.engine.journal.state import Group, Step
from diana.engine.placement.control import asked_of, ended, refuse
from diana.engine.recovery import stocktaking
from diana.engine.site import dependencies
from diana.engine.site.context import Context
from diana.engine.views import answers
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from diana.policy.trust.authorise import Action


def retry(core: Context, event: RetryJobs) -> None:
    """Try jobs again: failed ones of those named; held and cancelled ones if asked for; done ones never. A merge that
    failed when every job was done is tried again too."""
    asked = asked_of(core, event, Action.RETRY)
    if asked is None:
        return
    group, wanted = asked
    if unheard := stocktaking.in_doubt(core, group):
        # They may run there, tried again since the copy was made.
        refuse(core, event, f"{core.site} was restored from a backup: a retry {unheard}")
        return
    if event.unreachable and event.indices is not None:
        refuse(core, event, f"--unreachable is about all that a site has of a group; write {group.group} alone")
        return
    kinds = [group.failed, *([group.held] if event.held else ()), *([group.cancelled] if event.cancelled else ())]
    again = IndexSet.union(kind.within(wanted) for kind in kinds)
    if event.indices is None:
        again = again | _merge_again(group, event)
    unfinished = group.not_gathered or not_registered(group)
    lost = _at_lost_sites(core, group, event)
    if not again and not lost and not (event.indices is None and unfinished):
        refuse(core, event, _nothing(core, group, event))
        return
    if again or not lost:
        core.persist(JobsRetried(group=group.group, indices=again))
    core.waiting_notes.pop(group.group, None)
    core.view.refused.pop(group.group, None)
    guard.forget(core, group.group)
    outputs.begin_again(core, group)
    core.to_place.add(group.group)
    core.to_check.add(group.group)
    core.count("jobs_retried", len(again))
    dependencies.changed(core, group)
    core.reply(Reply(event.request, Ok(len(again) + lost)))
    core.notify(group.group)


def _at_lost_sites(core: Context, group: Group, event: RetryJobs) -> int:
    """Place anew jobs at sites out of reach, whatever becomes of them there (PROMISES 1.7); return how many."""
    count = 0
    for _, subgroup in sorted(group.subgroups.items()) if event.unreachable else ():
        why = answers.out_of_reach(core, subgroup)
        if why and subgroup.site != core.site and subgroup.step is Step.COMMITTED:
            reason = f"asked for by {event.principal.name}, as {subgroup.site} is out of reach"
            count += leases.place_anew(core, group, subgroup, reason)
            # It may be there, with another database.
            leases.disown(core, subgroup.site)
    return count


def not_registered(group: Group) -> bool:
    """True if all went well but that its outputs could not be made a dataset."""
    return group.state == "failed" and len(group.done) == group.jobs and output_datasets.due(group)


def _merge_again(group: Group, event: RetryJobs) -> IndexSet:
    wanted = {"failed", *(["held"] if event.held else ()), *(["cancelled"] if event.cancelled else ())}
    return IndexSet.span(group.jobs, group.jobs + 1) if group.merge in wanted else IndexSet()


def _nothing(core: Context, group: Group, event: RetryJobs) -> str:
    which = " or ".join(["failed", *(["held"] if event.held else ()), *(["cancelled"] if event.cancelled else ())])
    waiting = dependencies.note(core, group)
    if waiting:
        return f"{group.group} has nothing to retry: it {waiting}"
    what = "" if event.indices is None else " among those named"
    more = [f"--{name} takes {name} ones too" for name in ("held", "cancelled") if not getattr(event, name)]
    if not event.unreachable and any(answers.out_of_reach(core, s) for s in group.subgroups.values() if s.open_jobs()):
        more.append("--unreachable takes those at sites out of reach too")
    return f"{group.group} has no {which} jobs{what} to retry: {'; '.join([ended(group), *more])}"
