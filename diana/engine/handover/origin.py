"""The origin's side of a hand-over (PROMISES section 2, steps 1, 3 and 8; abort). The origin arbitrates: the other
side's copy is inert until `TransferCommitted` is durable here."""

from __future__ import annotations

from diana.engine.handover import leases, receipts, results
from diana.engine.handover.gangs import attempt_book, attempts
from diana.engine.journal.records import (
    CommitAcked,
    ControlAcked,
    PartUnreachable,
    ResultStale,
    TakenBack,
    TransferCommitted,
)
from diana.engine.journal.state import Group, Step, Subgroup
from diana.engine.messages.messages import (
    Abort,
    Aborted,
    Committed,
    Control,
    ControlAck,
    GangClaimed,
    GangYield,
    Lost,
    Prepare,
    Prepared,
    Progress,
    Refused,
    Result,
    ResultAck,
)
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.timers import PartTimer, part_timers
from diana.errors import one_line
from diana.model.ids import SiteId, SubgroupId, group_of, origin_of
from diana.model.indexset import IndexSet
from diana.model.trust.principal import Principal
from diana.policy.trust import seals
from diana.policy.trust.authorise import Action, authorise

REFUSED_S = 30.0
"""A site that refused part of a group is no candidate for it for this long."""

MOST_REASON = 300
"""Characters shown of a peer's reason."""

Report = Prepared | GangClaimed | GangYield | Refused | Committed | Aborted | Lost | Progress | Result | ControlAck
"""A destination's message about a transfer."""


def offer(core: Context, group: Group, subgroup: Subgroup) -> None:
    """Make the offer, step 1; its record stands already."""
    core.after(PartTimer("offer-over", subgroup.subgroup), core.state.settings.offer_wait_s)
    _send_prepare(core, group, subgroup)


def _send_prepare(core: Context, group: Group, subgroup: Subgroup) -> None:
    core.back_off(PartTimer("offer", subgroup.subgroup))
    core.send(
        subgroup.site,
        Prepare(
            **subgroup.assigned(),
            spec=group.spec_bytes,
            authorisation=group.authorisation,
            submitted_s=group.submitted_s,
            room=subgroup.room,
            offer=seals.offer(
                core.state.seal_key,
                site=subgroup.site,
                subgroup=subgroup.subgroup,
                epoch=subgroup.epoch,
                bounds=subgroup.indices.bounds,
            ),
            receipt=receipts.of(group, core.state.seal_key),
        ),
    )


def _send_commit(core: Context, subgroup: Subgroup) -> None:
    core.back_off(PartTimer("commit", subgroup.subgroup))
    core.send(subgroup.site, attempts.commit(subgroup))


def find(core: Context, part: SubgroupId) -> tuple[Group, Subgroup] | None:
    group = core.state.groups.get(group_of(part))
    subgroup = group.subgroups.get(part) if group else None
    return (group, subgroup) if group and subgroup else None


def on_report(core: Context, sender: SiteId, message: Report) -> None:
    """Take a destination's report. One that is not about the placement that counts now changes nothing."""
    if origin_of(group_of(message.subgroup)) != core.site:
        core.warn(f"{sender} reports to {core.site} of {message.subgroup}, which is another site's")
        return
    if leases.on_answer(core, sender, message):
        return
    found = find(core, message.subgroup)
    if found is None or found[1].epoch != message.epoch:
        _about_nothing_current(core, sender, message)
        return
    group, subgroup = found
    why = authorise(Principal.peer(sender), Action.REPORT, subgroup.site)
    if why:
        core.warn(f"{message.subgroup}: {why}")
        return
    match message:
        case Prepared():
            _prepared(core, group, subgroup, message)
        case GangClaimed():
            if group.spec.is_gang and not subgroup.unreachable:
                attempts.claimed(core, group, subgroup, message)
        case GangYield():
            if group.spec.is_gang:
                attempts.yielded(core, group, subgroup)
        case Refused():
            if subgroup.step is Step.OFFERED:
                reason = shown(message.reason)
                why = f"refused part of this group just now: {reason}"
                core.view.avoid(group.group, sender, core.now + REFUSED_S, why)
                take_back(core, group, subgroup, f"{sender} refused: {reason}")
        case Aborted():
            journal_doubt.heard(core, sender, message.db_uuid, message.seq, message.seal)
            if subgroup.step is Step.COMMITTED and message.db_uuid not in ("", subgroup.db_uuid):
                core.warn(f"{sender} dropped {message.subgroup} in another database than took it")
            elif subgroup.acked:
                core.warn(f"{sender} says it dropped {message.subgroup}, which it has taken")
            elif message.unrestored and group.spec.is_gang and subgroup.step is Step.OFFERED:
                attempts.unrestored(core, group, subgroup, shown(message.reason))
            elif message.unable and group.spec.is_gang and subgroup.step is Step.OFFERED:
                attempts.unable(core, group, subgroup, shown(message.reason))
            else:
                take_back(core, group, subgroup, shown(message.reason) or f"{sender} dropped the offer")
        case Committed():
            if subgroup.step is Step.COMMITTED and not subgroup.acked:
                core.persist(CommitAcked(subgroup=subgroup.subgroup, epoch=subgroup.epoch))
                core.settle(PartTimer("commit", subgroup.subgroup))
                core.notify(group.group)
        case Lost():
            _lost(core, group, subgroup, message)
        case Progress():
            journal_doubt.heard(core, sender, message.db_uuid, message.seq, message.seal)
            results.on_progress(core, group, message)
        case Result():
            if subgroup.step is Step.COMMITTED:
                results.on_result(core, group, subgroup, message)
            else:
                core.warn(f"{sender} reports results of {message.subgroup}, which was never committed")
        case ControlAck():
            # A number that was never issued counts as the last one that was.
            seq = min(message.control_seq, subgroup.control_seq)
            if seq > subgroup.control_acked:
                core.persist(ControlAcked(subgroup=subgroup.subgroup, epoch=subgroup.epoch, control_seq=seq))
            if subgroup.control_acked >= subgroup.control_seq:
                core.settle(PartTimer("control", subgroup.subgroup))


def _about_nothing_current(core: Context, sender: SiteId, message: Report) -> None:
    """Answer a late report of a transfer that was taken back, or of a group that expired."""
    core.count("late_words")
    if isinstance(message, Prepared | GangClaimed):
        core.send(sender, Abort(subgroup=message.subgroup, epoch=message.epoch))
    elif isinstance(message, Result):
        group = core.state.groups.get(group_of(message.subgroup))
        if group is None and journal_doubt.forgotten(core, group_of(message.subgroup)):
            core.count("results_of_forgotten_groups")
            return
        if group is not None and not _put_aside(core, group, sender, message):
            return
        ack = ResultAck(subgroup=message.subgroup, epoch=message.epoch, batch=message.batch, outputs_taken=True)
        core.send(sender, ack)


def _put_aside(core: Context, group: Group, sender: SiteId, message: Result) -> bool:
    """Count a late result once; False if the sender never had that part."""
    past = group.past.get(message.subgroup)
    why = authorise(Principal.peer(sender), Action.REPORT, past.site if past else None)
    if past is None or why:
        core.warn(f"{message.subgroup} epoch {message.epoch}: {why}")
        return False
    if message.batch not in past.batches:
        jobs = len(message.facts.indices) + len(message.cancelled)
        core.persist(ResultStale(subgroup=message.subgroup, epoch=message.epoch, batch=message.batch, jobs=jobs))
        core.count("stale_results")
    return True


def _prepared(core: Context, group: Group, subgroup: Subgroup, message: Prepared) -> None:
    if subgroup.step is Step.OFFERED:
        if subgroup.unreachable:
            # This store was put back: first its destination tells what it holds.
            return
        if group.spec.is_gang:
            attempts.prepared(core, group, subgroup, message)
            return
        core.persist(TransferCommitted(subgroup=subgroup.subgroup, epoch=subgroup.epoch, db_uuid=message.db_uuid))
        _rests_on(core, subgroup.site, message)
        leases.committed(core, group, subgroup)
        core.settle(PartTimer("offer", subgroup.subgroup))
        core.timers.cancel(PartTimer("offer-over", subgroup.subgroup))
        _send_commit(core, subgroup)
    elif not subgroup.acked and not subgroup.unreachable:
        _send_commit(core, subgroup)


def _rests_on(core: Context, site: SiteId, message: Prepared) -> None:
    """Note how long the site's journal is: if it comes back with a shorter one, it does not know the work."""
    known = core.state.peers.get(site)
    if known is not None and known.db_uuid == message.db_uuid and known.seq < message.seq:
        journal_doubt.note_length(core, site, message.seq, message.seal)


def _lost(core: Context, group: Group, subgroup: Subgroup, message: Lost) -> None:
    """Handle a transfer that the destination's database does not know."""
    if subgroup.step is Step.OFFERED:
        take_back(core, group, subgroup, f"{subgroup.site} does not know the offer")
    elif subgroup.unreachable:
        core.settle(PartTimer("control", subgroup.subgroup))
    elif subgroup.open_jobs():
        what = "lost its database" if message.db_uuid != subgroup.db_uuid else "came back with an older database"
        mark_unreachable(core, group, subgroup, f"{subgroup.site} {what}")


def mark_unreachable(core: Context, group: Group, subgroup: Subgroup, reason: str) -> None:
    core.persist(PartUnreachable(subgroup=subgroup.subgroup, epoch=subgroup.epoch, reason=reason))
    core.settle(PartTimer("commit", subgroup.subgroup))
    core.notify(group.group)


def take_back(core: Context, group: Group, subgroup: Subgroup, reason: str) -> None:
    """Take OFFERED jobs back to unplaced. Safe as long as COMMIT was never persisted, or the destination wrote a
    tombstone. Of a gang that was not let go it takes back all parts."""
    if group.spec.is_gang:
        if subgroup.step is Step.OFFERED:
            attempts.give_up(core, group, subgroup, reason)
            return
        attempt_book.broke(core, attempt_book.key_of(group, subgroup), reason, subgroup.site)
    core.persist(TakenBack(subgroup=subgroup.subgroup, epoch=subgroup.epoch, reason=reason))
    for timer in part_timers(subgroup.subgroup):
        core.settle(timer)
    core.waiting_notes[group.group] = reason
    results.cancel_unplaced(core, group, subgroup.cancelling)
    core.to_place.add(group.group)


def withdraw(core: Context, group: Group, subgroup: Subgroup, reason: str, *, ordered: bool = False) -> None:
    """Take an offer back that its site may have by now, and tell it so. `ordered`: its user wants it so."""
    if group.spec.is_gang:
        attempts.give_up(core, group, subgroup, reason, ordered=ordered)
        return
    core.send(subgroup.site, Abort(subgroup=subgroup.subgroup, epoch=subgroup.epoch))
    take_back(core, group, subgroup, reason)


def shown(reason: str) -> str:
    """Return a peer's words as one line of bounded length."""
    return one_line(reason)[:MOST_REASON]


def exporting(core: Context, subgroup: Subgroup) -> IndexSet:
    """Return the jobs called back from the placement that leave it as an export, by all that this origin knows."""
    if subgroup.exported or not subgroup.recalled:
        return IndexSet()
    return subgroup.recalled & core.state.groups[group_of(subgroup.subgroup)].exported


def send_control(core: Context, subgroup: Subgroup) -> None:
    """Send the standing order for this transfer; the highest control_seq wins."""
    core.back_off(PartTimer("control", subgroup.subgroup))
    core.send(
        subgroup.site,
        Control(
            subgroup=subgroup.subgroup,
            epoch=subgroup.epoch,
            control_seq=subgroup.control_seq,
            cancel=subgroup.cancelling,
            hold=subgroup.holding,
            recall=subgroup.recalled,
            export=exporting(core, subgroup),
            anew=subgroup.ordered_by == core.state.db_uuid,
            save=subgroup.saving,
            save_seq=subgroup.save_seq,
        ),
    )


def offer_over(core: Context, part: SubgroupId) -> None:
    found = find(core, part)
    if found and found[1].step is Step.OFFERED and not found[1].unreachable:
        group, subgroup = found
        why = "did not answer an offer of this group just now"
        core.view.avoid(group.group, subgroup.site, core.now + REFUSED_S, why)
        withdraw(core, group, subgroup, f"{subgroup.site} did not answer the offer")


def resend(core: Context, part: SubgroupId) -> None:
    """Say again whatever this transfer waits for."""
    found = find(core, part)
    if found is None:
        return
    group, subgroup = found
    if subgroup.step is Step.OFFERED:
        if not subgroup.unreachable:
            _send_prepare(core, group, subgroup)
        return
    if not subgroup.acked and not subgroup.unreachable:
        _send_commit(core, subgroup)
    if subgroup.control_acked < subgroup.control_seq:
        send_control(core, subgroup)


def resend_all(core: Context, site: SiteId | None = None) -> None:
    """Say again what is open (with that peer): at start, or when a peer is back."""
    at_home = attempts.at_home(core) if site is None else []
    for _, subgroup in (*core.parties.handed_to(site), *at_home):
        if subgroup.step is Step.OFFERED and PartTimer("offer-over", subgroup.subgroup) not in core.timers:
            core.after(PartTimer("offer-over", subgroup.subgroup), core.state.settings.offer_wait_s)
        core.tries.pop(PartTimer("commit", subgroup.subgroup), None)
        resend(core, subgroup.subgroup)
