"""The part of the fold marked `D`: how an executing site's records change its custodies."""

from __future__ import annotations

from diana.engine.journal import records as r
from diana.engine.journal.state import Custody, CustodyKey, Outgoing, SiteState, Tombstone
from diana.model.ids import MAIN_MACHINE, SiteId
from diana.model.indexset import IndexSet

CustodyRecord = (
    r.CustodyTaken
    | r.CustodyRunnable
    | r.CustodyDropped
    | r.CustodyClosed
    | r.TombstoneExpired
    | r.ControlTaken
    | r.RunsStarted
    | r.RunsVoided
    | r.RunsReturned
    | r.RunsRepeated
    | r.RunsMakeWay
    | r.RunsEnded
    | r.BatchAcked
)


def in_custody(state: SiteState, record: CustodyRecord, home: SiteId) -> None:
    key: CustodyKey = (record.subgroup, record.epoch)
    match record:
        case r.CustodyTaken():
            state.custodies[key] = Custody(
                **record.assigned(),
                origin=record.origin,
                owner=record.owner,
                spec_bytes=record.spec,
                submitted_s=record.submitted_s,
                raised=record.raised,
                arrived_s=record.arrived_s,
                origin_db=record.origin_db,
                offer=record.offer,
                offered=record.indices if record.offer else IndexSet(),
                receipt=record.receipt,
            )
            if state.custodies[key].spec.is_gang:
                # They are claimed before the custody is runnable.
                state.custodies[key].pending = record.indices
            return
        case r.CustodyDropped() | r.CustodyClosed():
            custody = state.custodies.pop(key)
            done = isinstance(record, r.CustodyClosed)
            if custody.origin != home:
                told = custody.indices if done else IndexSet()
                state.tombstones[key] = Tombstone(
                    done, record.at_s, custody.origin, told, custody.went_back, custody.offer, custody.offered
                )
            return
        case r.TombstoneExpired():
            del state.tombstones[key]
            return
    custody = state.custodies[key]
    # A component is served when it is let go: a claim may come to nothing.
    served = r.CustodyRunnable if custody.spec.is_gang else r.RunsStarted
    if isinstance(record, served):
        jobs = len(record.indices) if isinstance(record, r.RunsStarted) else len(custody.running)
        state.service.give(custody.owner, jobs, custody.spec.resources.processors, state.settings.service_half_life)
    match record:
        case r.CustodyRunnable():
            custody.runnable = True
            custody.environment = record.environment
            if not custody.spec.is_gang:
                custody.pending = custody.indices
        case r.ControlTaken():
            custody.control_seq = record.control_seq
            custody.cancelled, custody.held, custody.recalled = record.cancel, record.hold, record.recall
            custody.saving = record.save
            custody.origin_db = record.origin_db or custody.origin_db
        case r.RunsStarted():
            if record.worker != MAIN_MACHINE or record.worker in custody.given:
                # A good moment to sweep: ended jobs stay in the set until then.
                mine = custody.given.get(record.worker, IndexSet())
                still = IndexSet.of(index for index in mine if index in custody.running)
                custody.given[record.worker] = still | record.indices
            custody.pending = custody.pending - record.indices
            for index in record.indices:
                custody.running[index] = custody.attempts.pop(index, custody.attempt_base) + 1
        case r.RunsMakeWay():
            custody.making_way[record.why] = custody.making_way.get(record.why, IndexSet()) | record.indices
        case r.RunsVoided() | r.RunsReturned() | r.RunsRepeated():
            _makes_way_no_more(custody, record.indices)
            if isinstance(record, r.RunsReturned):
                custody.unbegun = custody.unbegun | (record.indices & custody.never_begun())
            elif custody.unbegun:
                custody.unbegun = custody.unbegun - record.indices
            for machine, mine in custody.given.items():
                custody.given[machine] = mine - record.indices
            for index in record.indices:
                custody.attempts[index] = custody.running.pop(index)
            custody.pending = custody.pending | record.indices
        case r.RunsEnded():
            _runs_ended(custody, record, custody.origin == home)
            if record.took:
                state.run_times.add(custody.template, custody.owner, record.took)
        case r.BatchAcked():
            batch = custody.outgoing[record.batch]
            if record.outputs_taken or not batch.has_outputs:
                del custody.outgoing[record.batch]
            else:
                batch.acked = True


def _makes_way_no_more(custody: Custody, indices: IndexSet) -> None:
    for why in list(custody.making_way):
        custody.making_way[why] = custody.making_way[why] - indices
        if not custody.making_way[why]:
            del custody.making_way[why]


def _runs_ended(custody: Custody, record: r.RunsEnded, at_home: bool) -> None:
    _makes_way_no_more(custody, record.ended)
    started = 0
    for index in record.ended:
        started += custody.running.pop(index, 0) > 0
    gone = record.cancelled | record.revoked
    if gone or started < len(record.ended):
        custody.pending = custody.pending - record.ended - gone
    custody.indices = custody.indices - record.revoked
    if custody.exported:
        custody.went_back = custody.went_back | record.revoked
    custody.next_batch = record.batch + 1
    if not at_home:
        custody.outgoing[record.batch] = Outgoing(
            cancelled=record.cancelled,
            has_outputs=record.has_outputs,
            bytes_staged=record.bytes_staged,
            revoked=record.revoked,
            ended=record.ended,
        )
