"""state = fold(records). Plain bookkeeping: it calls no policy, reads no clock and cannot refuse."""

from __future__ import annotations

from itertools import islice
from typing import assert_never

from msgspec.structs import replace

from diana.engine.journal import fold_checkpoints, fold_destination, fold_recovery
from diana.engine.journal import records as r
from diana.engine.journal.past import remember
from diana.engine.journal.records import HoldLifted, PartClosed, PartDisowned, PartDropped, PartReported, PeerReported
from diana.engine.journal.state import (
    MOST_REASONS,
    ActiveRanks,
    Custody,
    Disowned,
    Group,
    Machine,
    Moving,
    PeerMemory,
    SiteState,
    Step,
    Subgroup,
)
from diana.model.bygone import MOST_MOMENTS, MOST_ORDERS, GroupOrder, SiteMoment
from diana.model.history import program_key
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.indexset import IndexSet
from diana.model.learned import fit_key
from diana.model.trust.invitation import noted
from diana.model.views.decision import Decision
from diana.model.views.link import MOST_LINKS, LinkHistory

SKIPPED_GROUPS = 1_000_000
"""Group numbers left out after a restore."""
MOST_FORMER = MOST_BEGUN = 16
"""db_uuids of a peer that are remembered beside its present one."""
FULL_DECISIONS = 32
"""Decisions per group that keep their cost tables; older ones keep only what was planned."""
FULL_CONDITIONS = 4
"""Decisions per group that keep their table of conditions, of those that came with one: it may be ten times as long as
the one of costs."""


def apply(state: SiteState, record: r.Record, home: SiteId) -> None:
    """Change `state` by one record of the site `home`."""
    state.seq += 1
    match record:
        # The most frequent records come first: cases are tried in order.
        case (
            r.RunsEnded()
            | r.RunsStarted()
            | r.BatchAcked()
            | r.CustodyTaken()
            | r.CustodyRunnable()
            | r.CustodyDropped()
            | r.CustodyClosed()
            | r.TombstoneExpired()
            | r.ControlTaken()
            | r.RunsVoided()
            | r.RunsReturned()
            | r.RunsRepeated()
            | r.RunsMakeWay()
        ):
            fold_destination.in_custody(state, record, home)
        case (
            r.ResultAccepted()
            | r.TransferCommitted()
            | r.CommitAcked()
            | r.TakenBack()
            | r.PartUnreachable()
            | PartDisowned()
            | r.ResultStale()
            | r.OutputsGathered()
            | r.ControlIssued()
            | r.ControlAcked()
        ):
            _at_origin(state, record)
        case r.Opened():
            _opened(state, record)
        case r.SettingsChanged():
            state.settings = record.settings
            _moment(state, record.at_s)
        case r.StatementKept():
            state.ledger[record.signed.statement.about] = record.signed
        case r.DrainChanged():
            state.drained = (record.reason or "drained") if record.on else ""
            _moment(state, record.at_s)
        case r.MaintenancePlanned():
            state.maintenance = record.windows
        case r.InvitationNoted():
            state.invitations = noted(state.invitations, record.invitation)
        case r.RegisterChanged():
            state.registers[record.site] = record.register
        case r.DatasetAdded():
            state.datasets[record.dataset.name] = record.dataset
        case r.DatasetRemoved():
            state.datasets.pop(record.name, None)
            state.produced.pop(record.name, None)
        case r.PeerSeen():
            state.peers[record.site] = _peer_seen(state.peers.get(record.site), record)
        case r.LinksRecorded():
            _links_recorded(state, record)
        case r.ContactsLearned():
            for one in record.contacts:
                state.contacts[one.site] = one
            for site in record.gone:
                state.contacts.pop(site, None)
            _machines_counted(state, record)
        case r.GroupSubmitted():
            _group_submitted(state, record)
        case r.GroupPlaced():
            group = state.groups[record.group]
            _decided(group, record.decision)
            if group.foretold is None and len(group.decisions) == 1:
                group.foretold = record.foretold or record.decision.foretold()
            for part in record.parts:
                # At home, too, a component is offered and claimed: it does not start by itself.
                _place(state, group, part, home, group.spec_bytes, starts_by_itself=not group.spec.is_gang)
        case r.GangGo():
            group = state.groups[record.group]
            group.unplaced, group.unused = group.unplaced - record.unused, group.unused | record.unused
            for claimed in record.parts:
                subgroup = group.subgroups[claimed.subgroup]
                subgroup.step, subgroup.db_uuid = Step.COMMITTED, claimed.db_uuid
                subgroup.environment = record.environment
                if claimed.made_way:
                    group.tell_way(subgroup.indices, f"at {subgroup.site} {claimed.made_way}")
            for claimed in record.parts:
                group.rosters.pop(group.subgroups[claimed.subgroup].indices.bounds[0] // group.spec.gang_size, None)
        case r.ProcessExchanged():
            group = state.groups[record.group]
            known = group.rosters.get(record.gang)
            reasons = known.reasons if known is not None and known.epoch == record.epoch else ()
            reasons = (*reasons, record.reason)[-MOST_REASONS:]
            group.rosters[record.gang] = ActiveRanks(record.epoch, record.number, record.active, reasons)
        case r.JobsFailed():
            group = state.groups[record.group]
            group.unplaced, group.holding = group.unplaced - record.indices, group.holding - record.indices
            group.failed.add_set(record.indices)
            group.note = group.note or record.note
        case r.JobsCancelled():
            group = state.groups[record.group]
            group.unplaced = group.unplaced - record.indices
            group.holding = group.holding - record.indices
            group.cancelled.add_set(record.indices)
            group.cancel_asked = group.cancel_asked | record.asked
            _ordered(group, record.ordered)
        case r.MachineKnown():
            state.machines[record.machine] = _machine(record)
        case r.MachineGone():
            state.machines[record.machine] = Machine(0, gone=True)
            state.presences.pop(record.machine, None)
        case r.HoldingChanged():
            group = state.groups[record.group]
            group.holding = record.holding
            group.was_held = group.was_held or bool(record.holding)
            _ordered(group, record.ordered)
        case r.JobsMoved():
            _jobs_moved(state.groups[record.group], record)
            _ordered(state.groups[record.group], record.ordered)
        case r.JobsRetried():
            _jobs_retried(state.groups[record.group], record)
            _ordered(state.groups[record.group], record.ordered)
        case r.MergeStarted():
            group = state.groups[record.group]
            group.merge = "running"
            group.merge_spec = record.spec
            _place(state, group, record.part, home, record.spec, starts_by_itself=True)
        case r.OutputsRegistered():
            group = state.groups[record.group]
            group.registered = True
            state.produced[record.dataset] = group.owner
        case r.GroupClosed():
            group = state.groups[record.group]
            group.state, group.closed_s = record.state, record.at_s
            _compare(state, group)
            group.note = record.note or group.note
        case PartClosed():
            parts = state.disowned[record.site]
            parts[record.subgroup] = replace(parts[record.subgroup], closed=True)
        case PartDropped():
            dropped = state.disowned[record.site]
            del dropped[record.subgroup]
            if not dropped:
                del state.disowned[record.site]
        case r.GroupExpired():
            group = state.groups.pop(record.group)
            asked = f"{group.owner} {group.key}"
            if state.keys.get(asked) == group.group:
                del state.keys[asked]
            number = int(group.group.rpartition("-")[2])
            if any(first <= number < end for first, end in state.forgotten):
                state.expired = state.expired | IndexSet.span(number, number + 1)
        case PartReported() | PeerReported() | HoldLifted():
            fold_recovery.recover(state, record, home)
        case _:
            assert_never(record)


def _moment(state: SiteState, at_s: float) -> None:
    """Remember how the site stands from now on, where that differs from before."""
    last, settings = state.moments[-1:], state.settings
    now = SiteMoment(at_s, settings.slots, settings.speed, bool(state.drained))
    if at_s > 0 and (not last or replace(last[0], at_s=at_s) != now):
        state.moments = (*state.moments, now)[-MOST_MOMENTS:]


def _ordered(group: Group, order: GroupOrder | None) -> None:
    if order is None:
        return
    if len(group.orders) < MOST_ORDERS:
        group.orders = (*group.orders, order)
    if group.spec.retries or group.spec.retry is not None:
        meant = order.indices if order.indices is not None else IndexSet.span(0, group.jobs)
        if order.kind == "cancel":
            group.called_off = group.called_off | meant
        elif order.kind == "retry":
            group.called_off = group.called_off - meant


def _links_recorded(state: SiteState, record: r.LinksRecorded) -> None:
    for samples in record.links:
        state.links.setdefault(samples.site, LinkHistory()).add(samples)
    for _ in range(len(state.links) - MOST_LINKS):
        del state.links[min(state.links, key=lambda site: (state.links[site].last_s(), site))]


def _opened(state: SiteState, record: r.Opened) -> None:
    if state.db_uuid not in ("", record.db_uuid):
        others = tuple(name for name in state.former if name not in (state.db_uuid, record.db_uuid))
        state.former = (*others, state.db_uuid)[-MOST_FORMER:]
    state.generation, state.boot_nonce, state.db_uuid = record.generation, record.boot_nonce, record.db_uuid
    state.seal_key = record.seal_key or state.seal_key
    state.begun = (*state.begun, state.seq - 1)[-MOST_BEGUN:]
    if record.restored:
        _hold_everything(state, fold_recovery.RESTORED, record.first_group or state.next_group + SKIPPED_GROUPS)


def _hold_everything(state: SiteState, reason: str, first_group: int) -> None:
    """Hold all that is not over: it may have gone on since the backup, so nothing of it starts or is placed by
    itself."""
    # Ids given since the backup may stand at peers and in users' notes.
    if not (state.lost_from and state.recovering and not all(state.reported.values())):
        # Otherwise not all have told yet of what went before.
        state.lost_from = state.next_group
    state.forgotten = (*state.forgotten, (state.next_group, first_group))
    state.next_group = first_group
    state.recovering, state.reported = True, dict.fromkeys(state.peers, False)
    for custody in state.custodies.values():
        custody.on_hold = True
    for group in state.groups.values():
        if not group.state:
            group.on_hold = reason
        # They may have been tried again by what is gone.
        group.cancel_asked = IndexSet()
        for subgroup in group.subgroups.values():
            if subgroup.open_jobs():
                subgroup.unreachable = reason


def _group_submitted(state: SiteState, record: r.GroupSubmitted) -> None:
    state.groups[record.group] = Group(
        group=record.group,
        owner=record.owner,
        key=record.key,
        spec_bytes=record.spec,
        jobs=record.jobs,
        refs=record.refs,
        submitted_s=record.submitted_s,
        wall_s=record.wall_s,
        authorisation=record.authorisation,
        unplaced=IndexSet.span(0, record.jobs),
        after=record.after,
        chain=record.chain,
        notify=record.notify,
        on_hold=fold_recovery.RESTORED if record.returned else "",
    )
    state.next_group = max(state.next_group, int(record.group.rpartition("-")[2]) + 1)
    asked = f"{record.owner} {record.key}"
    if record.key and not (record.returned and asked in state.keys):
        state.keys[asked] = record.group


def _decided(group: Group, decision: Decision) -> None:
    """Add a decision. A group decided again and again keeps the tables of its latest decisions alone."""
    if decision.requirements is not None:
        before = (at for at in reversed(range(len(group.decisions))) if group.decisions[at].requirements is not None)
        for at in islice(before, FULL_CONDITIONS - 1, FULL_CONDITIONS):
            group.decisions[at] = replace(group.decisions[at], requirements=None)
    group.decisions.append(decision)
    if len(group.decisions) > FULL_DECISIONS:
        old = group.decisions[-FULL_DECISIONS - 1]
        group.decisions[-FULL_DECISIONS - 1] = replace(old, candidates=(), reasons=())


def _place(state: SiteState, group: Group, part: r.Part, home: SiteId, spec: bytes, *, starts_by_itself: bool) -> None:
    at_home = part.site == home and starts_by_itself
    group.unplaced = group.unplaced - part.indices
    _not_moving(group, part.indices)
    group.next_number = max(group.next_number, int(part.subgroup.rpartition("/")[2]) + 1)
    group.epoch = max(group.epoch, part.epoch)
    # At home the custody has the files; an origin keeps those of other parts for as long as it may have to offer them.
    group.subgroups[part.subgroup] = Subgroup(
        **part.assigned(*(("files", "sources", "readers", "saved") if at_home else ())),
        site=part.site,
        step=Step.COMMITTED if at_home else Step.OFFERED,
        room=part.room,
        decision=len(group.decisions) - 1,
        db_uuid=state.db_uuid if at_home else "",
        acked=at_home,
    )
    if at_home:
        state.custodies[(part.subgroup, part.epoch)] = Custody(
            **part.assigned(),
            origin=home,
            owner=group.owner,
            spec_bytes=spec,
            submitted_s=group.submitted_s,
            raised=part.room > 0 and not part.behind,
            arrived_s=group.decisions[-1].decided_at_s if part.behind else 0.0,
            runnable=True,
            pending=part.indices,
        )


def _jobs_moved(group: Group, record: r.JobsMoved) -> None:
    _not_moving(group, record.indices)
    group.moving = (*group.moving, Moving(record.indices, record.to, record.why, record.room, record.behind))
    if record.exported:
        group.exported = group.exported | record.indices


def _not_moving(group: Group, indices: IndexSet) -> None:
    """Drop the orders to move these jobs."""
    if group.moving:
        left = (replace(m, indices=m.indices - indices) for m in group.moving)
        group.moving = tuple(m for m in left if m.indices)


def _jobs_retried(group: Group, record: r.JobsRetried) -> None:
    indices = record.indices
    group.own_retries += record.by_itself
    for kind in record.kinds:
        group.own_retries_of[kind] = group.own_retries_of.get(kind, 0) + 1
    group.not_before_s = record.not_before_s
    if record.memory_bytes:
        group.memory_bytes = record.memory_bytes
        group.forget_derived()
    for subgroup in group.subgroups.values():
        again = subgroup.indices & indices
        if again:
            subgroup.done -= len(group.done.within(again))
            subgroup.failed -= len(group.failed.within(again))
            subgroup.finished -= len(again)
            subgroup.indices = subgroup.indices - again
            subgroup.cancelling, subgroup.holding = subgroup.cancelling - again, subgroup.holding - again
            subgroup.superseded = subgroup.superseded | again
    for ended in (group.done, group.failed, group.cancelled, group.held, group.timed_out, group.out_of_memory):
        ended.discard_set(indices)
    group.retried, group.unused = group.retried | indices, group.unused - indices
    group.cancel_asked = group.cancel_asked - indices
    _not_moving(group, indices)
    group.unplaced = group.unplaced | (indices & IndexSet.span(0, group.jobs))
    group.gathers, group.not_gathered = group.gathers + group.not_gathered, []
    if group.merge != "done":
        group.merge = ""
    group.state, group.closed_s, group.note = "", -1.0, ""


_OriginRecord = (
    r.TransferCommitted
    | r.CommitAcked
    | r.TakenBack
    | r.PartUnreachable
    | PartDisowned
    | r.ResultAccepted
    | r.ResultStale
    | r.OutputsGathered
    | r.ControlIssued
    | r.ControlAcked
)


def _at_origin(state: SiteState, record: _OriginRecord) -> None:
    group = state.groups[group_of(record.subgroup)]
    if isinstance(record, r.ResultStale):
        group.stale_results += record.jobs
        # A part that was placed anew stays a part if any of it is left.
        past = group.subgroups.get(record.subgroup) or group.past[record.subgroup]
        past.batches = past.batches | IndexSet.span(record.batch, record.batch + 1)
        return
    if isinstance(record, r.OutputsGathered):
        key = r.facts_key(record.subgroup, record.epoch, record.batch)
        group.gathers.remove(key)
        if fold_checkpoints.saved_home(group, key, record):
            return
        group.bytes_moved += record.bytes_moved
        gathered = group.subgroups.get(record.subgroup)
        if gathered is not None and not record.error:
            gathered.gathered_s = max(gathered.gathered_s, record.at_s)
        if record.error:
            group.not_gathered.append(key)
            group.note = record.error
        return
    subgroup = group.subgroups[record.subgroup]
    match record:
        case r.TransferCommitted():
            subgroup.step, subgroup.db_uuid = Step.COMMITTED, record.db_uuid
        case r.CommitAcked():
            subgroup.acked = True
            # Never needed again: a committed transfer is not offered twice.
            subgroup.files = subgroup.sources = subgroup.readers = subgroup.saved = ()
        case r.TakenBack():
            group.unplaced = group.unplaced | subgroup.indices
            fold_checkpoints.divided_anew(group, subgroup.indices)
            group.holding = group.holding | subgroup.holding
            if record.unrestored:
                fold_checkpoints.unrestored(group, subgroup.indices, record.reason)
                group.note = group.note or record.reason
            remember(group, subgroup)
        case r.PartUnreachable():
            subgroup.unreachable = record.reason
        case PartDisowned():
            _part_disowned(state, group, subgroup, record)
        case r.ControlIssued():
            subgroup.control_seq = record.control_seq
            subgroup.cancelling, subgroup.holding = record.cancel, record.hold
            subgroup.recalled, subgroup.saving = record.recall, record.save
            subgroup.save_seq = record.save_seq
            group.was_held = group.was_held or bool(record.hold)
            subgroup.ordered_by = record.origin_db or subgroup.ordered_by
            _ordered(group, record.ordered)
        case r.ControlAcked():
            subgroup.control_acked = max(subgroup.control_acked, record.control_seq)
        case r.ResultAccepted():
            _result_accepted(group, subgroup, record)
            _heard(state, subgroup.site, record)
            if record.took:
                state.work_times.add(group.template, group.owner, record.took)
            if record.ratios:
                state.model_ratios.add(group.template, group.owner, record.ratios)
                state.site_ratios.add(f"{group.template}/{subgroup.site}", group.owner, record.ratios)
            if record.learned is not None:
                state.run_fits.add(fit_key(group.spec), group.owner, record.learned)
            if record.done and group.spec.outputs.collect and subgroup.indices.bounds[:1] != (group.jobs,):
                state.output_sizes.add(group.outputs_key, group.owner, len(record.done), record.output_bytes)


def _part_disowned(state: SiteState, group: Group, subgroup: Subgroup, record: PartDisowned) -> None:
    lost = record.indices
    old = Disowned(subgroup.epoch, subgroup.control_seq, subgroup.cancelling, subgroup.recalled)
    state.disowned.setdefault(subgroup.site, {})[subgroup.subgroup] = old
    group.unplaced = group.unplaced | lost
    fold_checkpoints.divided_anew(group, lost)
    group.holding = group.holding | record.held
    group.retried = group.retried | lost
    group.attempts = max(group.attempts, subgroup.attempt_base + 1)
    subgroup.indices, subgroup.disowned = subgroup.indices - lost, subgroup.disowned | lost
    subgroup.cancelling = subgroup.cancelling - lost
    subgroup.recalled, subgroup.saving = subgroup.recalled - lost, subgroup.saving - lost
    if not subgroup.indices and not subgroup.superseded:
        remember(group, subgroup)


def _heard(state: SiteState, site: SiteId, record: r.ResultAccepted) -> None:
    """Note how long the site's journal was: it comes back with less only if an older copy was put back."""
    known = state.peers.get(site)
    if known is not None and known.db_uuid == record.db_uuid and known.seq < record.seq:
        state.peers[site] = replace(known, seq=record.seq, seal=record.seal)


def _peer_seen(known: PeerMemory | None, record: r.PeerSeen) -> PeerMemory:
    former = known.former if known is not None else ()
    if known is not None and known.db_uuid != record.db_uuid:
        others = tuple(db_uuid for db_uuid in former if db_uuid not in (known.db_uuid, record.db_uuid))
        former = (*others, known.db_uuid)[-MOST_FORMER:]
    sealing = record.sealing or (known is not None and known.sealing)
    return PeerMemory(
        record.db_uuid,
        record.generation,
        record.boot_nonce,
        record.seq,
        former,
        seal=record.seal,
        names=record.names,
        sealing=sealing,
    )


def _compare(state: SiteState, group: Group) -> None:
    """Score what was foretold of a group that is done, if its user did not come between: moves are among what forecasts
    have to foresee, holds and retries are not."""
    said = group.foretold
    if said is None:
        _compare_as_planned(state, group)
        return
    if group.state != "done" or group.last_end_s < 0 or group.was_held or group.retried:
        return
    achieved_s = group.ended_s() - (said.at_s - group.submitted_s)
    state.past_ends.add(
        said.basis,
        said.slowest_s,
        said.end_s,
        achieved_s,
        bounds_s=(said.low_s, said.high_s),
        owner=group.owner,
        program=program_key(group.spec),
        site=said.site,
    )


def _compare_as_planned(state: SiteState, group: Group) -> None:
    """As release 0.1.0 did with its own groups: those that were placed once, and not held, cancelled or retried."""
    as_planned = len(group.decisions) == 1 and not group.past and not group.retried
    ordered = any(subgroup.control_seq for subgroup in group.subgroups.values())
    if group.state != "done" or not as_planned or ordered or group.last_end_s < 0:
        return
    decision = group.decisions[0]
    state.errors.add(decision.end_s(), group.ended_s() - (decision.decided_at_s - group.submitted_s))


def _result_accepted(group: Group, subgroup: Subgroup, record: r.ResultAccepted) -> None:
    jobs = len(record.done) + len(record.failed) + len(record.cancelled) + len(record.held)
    subgroup.batches = subgroup.batches | IndexSet.span(record.batch, record.batch + 1)
    subgroup.finished += jobs
    subgroup.done += len(record.done)
    subgroup.failed += len(record.failed)
    subgroup.acked = True
    if record.revoked:
        subgroup.indices = subgroup.indices - record.revoked
        group.unplaced = group.unplaced | record.revoked
        fold_checkpoints.divided_anew(group, record.revoked)
        group.holding = group.holding | (subgroup.holding & record.revoked)
        subgroup.holding = subgroup.holding - record.revoked
        subgroup.recalled = subgroup.recalled - record.revoked
        subgroup.saving = subgroup.saving - record.revoked
        if group.spec.is_gang and group.spec.on_site_lost == "rerun":
            # They may have run until their lease was over: the next attempt has another number.
            group.retried = group.retried | record.revoked
            group.attempts = max(group.attempts, subgroup.attempt_base + 1)
        if not subgroup.indices and not subgroup.superseded:
            # Nothing of it is left to tell; jobs may move often.
            remember(group, subgroup)
    if record.saved:
        fold_checkpoints.stopped(group, subgroup, record)
    if record.made_way:
        what = "job" if len(record.made_way) == 1 else "jobs"
        group.tell_way(record.made_way, f"{what} {record.made_way} at {subgroup.site} {record.note}")
    group.attempts = max(group.attempts, record.attempts)
    group.bytes_moved += record.bytes_staged
    if record.has_outputs:
        group.gathers.append(r.facts_key(record.subgroup, record.epoch, record.batch))
    if subgroup.indices.bounds[:1] == (group.jobs,):
        ends = (("done", record.done), ("cancelled", record.cancelled), ("held", record.held))
        group.merge = next((name for name, jobs in ends if jobs), "failed")
        group.note = record.note or group.note
        return
    group.timed_out.add_set(record.timed_out)
    group.out_of_memory.add_set(record.out_of_memory)
    subgroup.bytes_in += record.bytes_staged
    if record.first_start_s >= 0 and not 0 <= subgroup.first_start_s <= record.first_start_s:
        subgroup.first_start_s = record.first_start_s
    subgroup.last_start_s = max(subgroup.last_start_s, record.last_start_s)
    subgroup.last_end_s = max(subgroup.last_end_s, record.last_end_s)
    group.done.add_set(record.done)
    if group.checkpoints:
        fold_checkpoints.done(group, record.done)
    group.failed.add_set(record.failed)
    group.cancelled.add_set(record.cancelled)
    group.held.add_set(record.held)
    group.note = group.note or ("" if record.made_way else record.note)
    if record.first_start_s >= 0 and not 0 <= group.first_start_s <= record.first_start_s:
        group.first_start_s = record.first_start_s
    group.last_end_s = max(group.last_end_s, record.last_end_s)


def group_ids(state: SiteState) -> list[GroupId]:
    """Return all groups, oldest first."""
    return sorted(state.groups, key=lambda g: int(g.rpartition("-")[2]))


def _machine(record: r.MachineKnown) -> Machine:
    return Machine(
        record.slots,
        record.memory_bytes,
        record.widest,
        record.gpus,
        identity=record.identity,
        software=record.software,
        scratch_bytes=record.scratch_bytes,
        claim_log=record.claim_log,
        speed=record.speed,
        resources=record.resources,
    )


def _machines_counted(state: SiteState, record: r.ContactsLearned) -> None:
    told, lead = record.machines, record.lead
    if told is not None:
        state.presences.update((one.machine, one) for one in told.machines)
        state.handed_to = state.handed_to if told.led == state.led else ""
        state.led, state.led_process = told.led, told.process
    if lead is not None:
        state.handed_to, state.handed_s = lead.to, lead.at_s if lead.to else -1.0
