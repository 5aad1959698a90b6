"""Jobs that ended otherwise than done are tried again: placed anew, in a new epoch, their attempts counting on."""

from __future__ import annotations

from diana.engine.data import output_datasets, outputs
from diana.engine.guard import guard
from diana.engine.handover import leases
from diana.engine.journal.effects import Refusal, Reply
from diana.engine.journal.events import GiveUpSite, RetryJobs
from diana.engine.journal.records import JobsRetried
from diana.engine.journal.state import Group, Step, Subgroup
from diana.engine.matching import match
from diana.engine.placement.control import asked_of, ended, refuse
from diana.engine.recovery import stocktaking
from diana.engine.site import dependencies
from diana.engine.site.context import Context
from diana.engine.views import answers
from diana.model.durations import seconds
from diana.model.ids import SiteId
from diana.model.indexset import FinishedSet, IndexSet
from diana.model.job.gang import whole_gangs
from diana.model.job.resources import MEMORY, gib
from diana.model.views.views import Ok
from diana.policy.trust.authorise import Action, authorise

LONGEST_PAUSE_S = 3600.0
"""Most seconds before jobs are tried again by themselves."""
MOST_BYTES = 1 << 60
"""Most memory that a job can be given."""


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
    if (event.memory_bytes or event.memory_factor) and (why := _no_memory(core, group, event, wanted)):
        refuse(core, event, why)
        return
    kinds = [
        _failed(group, event),
        *([group.held] if event.held else ()),
        *([group.cancelled] if event.cancelled else ()),
    ]
    again = IndexSet.union(kind.within(wanted) for kind in kinds)
    if group.spec.is_gang and again:
        # A component is tried again with all others of its gang, those that are done among them.
        again = whole_gangs(group.spec, again)
        if group.open_of(again):
            _wait_for_all(core, event, group)
            return
    away = _out_of_reach(core, group, event)
    if group.spec.is_gang and away:
        out = IndexSet.union(group.open_of(part.indices) for part, _ in away)
        gangs = whole_gangs(group.spec, out)
        if not group.open_of(gangs).issubset(out):
            _wait_for_all(core, event, group)
            return
        again = again | (gangs - out)
    if event.indices is None:
        again = again | _merge_again(group, event)
    unfinished = group.not_gathered or not_registered(group)
    lost = _place_anew(core, group, away)
    if not again and not lost and not (event.indices is None and unfinished):
        refuse(core, event, _nothing(core, group, event, wanted))
        return
    if again or not lost:
        memory_bytes = event.memory_bytes or _more(group, event.memory_factor)
        core.persist(JobsRetried(group=group.group, indices=again, memory_bytes=memory_bytes))
    guard.forget(core, group.group)
    _begin_again(core, group, again)
    core.reply(Reply(event.request, Ok(len(again) + lost)))


def give_up(core: Context, event: GiveUpSite) -> None:
    """The operator's word that a site is banned or lost for good: what it has of this site's jobs is placed anew. Gangs
    come back by themselves, when their leases are over."""
    site, why = event.site, authorise(event.principal, Action.DRAIN)
    if why:
        core.reply(Reply(event.request, Refusal(code="denied", text=why)))
        return
    parts = [(group, part) for group, part in core.parties.handed_to(site) if not group.spec.is_gang]
    parts = [(group, part) for group, part in parts if part.step is Step.COMMITTED]
    away = [(group, part) for group, part in parts if answers.out_of_reach(core, part)]
    if not away:
        text = f"{core.site} has no jobs at {site}"
        if parts:
            text = f"{site} is in touch; diana site ban {site} first, or diana move what waits there"
        elif core.parties.handed_to(site):
            text = f"what {core.site} has at {site} comes back by itself: offers, and gangs when their lease is over"
        core.reply(Reply(event.request, Refusal(code="usage", text=text)))
        return
    unsure = sorted({group.group for group, _ in away if stocktaking.in_doubt(core, group)})
    if unsure:
        text = f"{core.site} was restored from a backup, and {unsure[0]} waits for what others can tell; diana status"
        core.reply(Reply(event.request, Refusal(code="usage", text=text)))
        return
    reason = f"given up by {event.principal.name}: {answers.out_of_reach(core, away[0][1])}"
    count = sum(_place_anew(core, group, [(part, reason)]) for group, part in away)
    core.reply(Reply(event.request, Ok(count)))


def by_itself(core: Context, group: Group) -> bool:
    """Try a group's failed jobs again if it says so, a component with its whole gang; all others of it have ended. None
    that its user cancelled, or whose gang has a component of which nobody knows how it ended. The guard keeps in mind
    where they failed."""
    rules = group.spec.retry
    if group.on_hold or (rules is None and group.own_retries >= group.spec.retries):
        return False
    everything = IndexSet.span(0, group.jobs)
    kept = group.called_off | group.held.within(everything)
    failed = group.failed.within(everything) - whole_gangs(group.spec, kept)
    if not failed:
        return False
    if rules is None:
        again = whole_gangs(group.spec, failed)
        core.persist(JobsRetried(group=group.group, indices=again, by_itself=True))
        _begin_again(core, group, again)
        return True
    kinds = {kind: some for kind, some in _by_kind(group, failed).items() if some}
    kinds = {kind: some for kind, some in kinds.items() if group.own_retries_of.get(kind, 0) < getattr(rules, kind)}
    memory_bytes = _more(group, rules.factor) if "out_of_memory" in kinds else 0
    if memory_bytes and (most := _most_anywhere(core, group)[0]):
        # More than any site has would have them wait for ever; as much as one has is worth a try.
        memory_bytes = min(memory_bytes, most)
        if memory_bytes <= group.spec.resources.memory_bytes:
            del kinds["out_of_memory"]
    if not kinds:
        return False
    again = whole_gangs(group.spec, IndexSet.union(kinds.values()))
    pause_s = min(rules.pause_s * 2.0 ** min(group.own_retries, 32), LONGEST_PAUSE_S)
    core.persist(
        JobsRetried(
            group=group.group,
            indices=again,
            by_itself=True,
            kinds=tuple(sorted(kinds)),
            memory_bytes=memory_bytes if "out_of_memory" in kinds else 0,
            not_before_s=core.now + pause_s if pause_s else 0.0,
        )
    )
    _begin_again(core, group, again)
    if pause_s:
        core.waiting_notes[group.group] = f"wait {seconds(pause_s)} before they are tried again"
    return True


def _by_kind(group: Group, failed: IndexSet) -> dict[str, IndexSet]:
    memory, late = group.out_of_memory.within(failed), group.timed_out.within(failed)
    return {"failed": failed - memory - late, "out_of_memory": memory, "timed_out": late}


def _failed(group: Group, event: RetryJobs) -> FinishedSet:
    """The failed jobs that are asked for: with more memory those that ran out of it."""
    return group.out_of_memory if event.memory_bytes or event.memory_factor else group.failed


def _more(group: Group, factor: float) -> int:
    """The memory of each job that is placed now, times `factor`, in whole bytes; 0: it has none of its own."""
    return min(int(group.spec.resources.memory_bytes * factor), MOST_BYTES)


def _most_anywhere(core: Context, group: Group) -> tuple[int, SiteId]:
    """Return the most memory that a job of the group can have at a site known here, and the site; 0: one of them does
    not say."""
    told = {core.site: core.workers.offer().most.get(MEMORY, 0)} if core.workers.slots() else {}
    for site, peer in core.view.peers.items():
        if peer.summary is not None and peer.summary.slots and site not in core.view.banned:
            told[site] = peer.summary.memory_bytes
    at = {site: most for site, most in told.items() if match.allowed(group.spec, site)}
    if not at or not all(at.values()):
        return 0, core.site
    site = min(at, key=lambda one: (-at[one], one))
    return at[site], site


def _no_memory(core: Context, group: Group, event: RetryJobs, wanted: IndexSet) -> str:
    """Why jobs cannot be tried again with so much memory; empty: they can."""
    if group.spec.is_gang:
        return f"{group.group}: --memory is for ordinary jobs; submit its gangs anew with more"
    if not group.out_of_memory.within(wanted):
        what = "" if event.indices is None else " among those named"
        return f"{group.group} has no jobs{what} that ran out of memory; leave --memory out for all that failed"
    had = group.spec.resources.memory_bytes
    if event.memory_factor and not had:
        return f"{group.group} names no memory to have more of; write how much, such as --memory 8G"
    if event.memory_bytes and event.memory_bytes <= had:
        return f"{group.group} had {had >> 20} MiB for each job already; write more than that, or --memory 2x"
    asked, (most, site) = event.memory_bytes or _more(group, event.memory_factor), _most_anywhere(core, group)
    if most and asked > most:
        return f"no site that is known has {gib(asked)} for a job; the most is {gib(most)}, at {site}"
    return ""


def _begin_again(core: Context, group: Group, again: IndexSet) -> None:
    core.waiting_notes.pop(group.group, None)
    core.view.avoided.pop(group.group, None)
    outputs.begin_again(core, group)
    core.to_place.add(group.group)
    core.to_check.add(group.group)
    core.count("jobs_retried", len(again))
    dependencies.changed(core, group)
    core.notify(group.group)


def _wait_for_all(core: Context, event: RetryJobs, group: Group) -> None:
    refuse(core, event, f"{group.group}: some components of these gangs have not ended; try again when they have")


def _out_of_reach(core: Context, group: Group, event: RetryJobs) -> list[tuple[Subgroup, str]]:
    """Return the parts at sites out of reach whose jobs are placed anew at their user's word, with the reasons."""
    found = []
    for _, subgroup in sorted(group.subgroups.items()) if event.unreachable else ():
        why = answers.out_of_reach(core, subgroup)
        if why and subgroup.site != core.site and subgroup.step is Step.COMMITTED:
            found.append((subgroup, f"asked for by {event.principal.name}, as {subgroup.site} is out of reach"))
    return found


def _place_anew(core: Context, group: Group, away: list[tuple[Subgroup, str]]) -> int:
    """Place jobs anew, whatever becomes of them where they are (PROMISES 1.7); return how many."""
    count = 0
    for subgroup, reason in away:
        count += leases.place_anew(core, group, subgroup, reason)
        # It may be there, with another database.
        leases.disown(core, subgroup.site)
    return count


def not_registered(group: Group) -> bool:
    """True if all went well but that its outputs could not be made a dataset."""
    return group.state == "failed" and group.all_done() and output_datasets.due(group)


def _merge_again(group: Group, event: RetryJobs) -> IndexSet:
    wanted = {"failed", *(["held"] if event.held else ()), *(["cancelled"] if event.cancelled else ())}
    return IndexSet.span(group.jobs, group.jobs + 1) if group.merge in wanted else IndexSet()


def _nothing(core: Context, group: Group, event: RetryJobs, wanted: IndexSet) -> str:
    which = " or ".join(["failed", *(["held"] if event.held else ()), *(["cancelled"] if event.cancelled else ())])
    waiting = dependencies.note(core, group)
    if waiting:
        return f"{group.group} has nothing to retry: it {waiting}"
    what = "" if event.indices is None else " among those named"
    more = [f"--{name} takes {name} ones too" for name in ("held", "cancelled") if not getattr(event, name)]
    if not event.unreachable and any(answers.out_of_reach(core, s) for s in group.subgroups.values() if s.open_jobs()):
        more.append("--unreachable takes those at sites out of reach too")
    return f"{group.group} has no {which} jobs{what} to retry: {'; '.join([ended(group, wanted), *more])}"
