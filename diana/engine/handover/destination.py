"""The destination's side of a hand-over (PROMISES section 2, steps 2, 4, 7 and 9). A prepared offer is inert."""

from __future__ import annotations

from math import inf

import msgspec

from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch import capacity, forecast, gang_quota, maintenance, promised_capacity, renewals, turns
from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.guard import guard
from diana.engine.handover import execution, inputs, machine_events, saving, steps
from diana.engine.handover.gangs import claims
from diana.engine.journal import columns
from diana.engine.journal.effects import DropOutputs
from diana.engine.journal.records import (
    BatchAcked,
    ControlTaken,
    CustodyDropped,
    CustodyRunnable,
    CustodyTaken,
    facts_key,
)
from diana.engine.journal.state import Custody, CustodyKey, Tombstone
from diana.engine.messages.messages import (
    Abort,
    Aborted,
    Commit,
    Committed,
    Control,
    ControlAck,
    GangClaim,
    Lost,
    Prepare,
    Prepared,
    Progress,
    Refused,
    Result,
    ResultAck,
)
from diana.engine.messages.orders import OriginOrder
from diana.engine.messages.wanted import wanted_of
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.journal_doubt import JournalDoubt
from diana.engine.site.timers import BatchTimer, CustodyTimer
from diana.model.facts import MOST_ATTEMPTS
from diana.model.ids import SiteId, SubgroupId, group_of, origin_of
from diana.model.indexset import IndexSet
from diana.model.job import gang, software
from diana.model.job.components import check_components, check_flexible
from diana.model.job.spec import GroupSpec, decode_spec
from diana.model.job.urls import beginnings
from diana.model.trust.principal import Principal
from diana.model.words import counted
from diana.policy.requirements import group as requirements
from diana.policy.trust.authorise import Action, authorise

REMIND_S = 30.0
"""Seconds after which an offer prepared here and neither committed nor aborted is asked about, again and again."""

_NOTHING = IndexSet()


def on_order(core: Context, sender: SiteId, message: OriginOrder | Prepare) -> None:
    origin = origin_of(group_of(message.subgroup))
    action = Action.ACKNOWLEDGE if isinstance(message, ResultAck) else Action.OFFER
    why = authorise(Principal.peer(sender), action, origin)
    if why:
        core.warn(f"{message.subgroup}: {why}")
        return
    journal_doubt.heard(core, sender, message.origin_db_uuid, message.origin_seq, message.seal)
    if core.book(JournalDoubt).fallen or (isinstance(message, Abort | Control) and not journal_doubt.may_bury(core)):
        # Without an answer it is said again.
        return
    key = (message.subgroup, message.epoch)
    tombstone = core.state.tombstones.get(key)
    if tombstone is not None:
        _already_over(core, sender, message, tombstone)
        return
    custody = core.state.custodies.get(key)
    match message:
        case Prepare():
            if custody is None:
                _take(core, sender, message)
            elif (custody.spec_bytes, custody.indices) == (message.spec, message.indices):
                _say_prepared(core, custody)
            else:
                # An origin that lost its journal names new work like old work that still stands here.
                why = "other work of this name stands here"
                core.send(sender, Refused(subgroup=message.subgroup, epoch=message.epoch, reason=why))
        case GangClaim():
            claims.on_claim(core, sender, message, custody)
        case Commit():
            _commit(core, sender, message, custody)
        case Abort():
            if custody is not None and not custody.runnable and custody.spec.is_gang:
                claims.aborted(core, custody)
            elif custody is not None and not custody.runnable:
                core.persist(CustodyDropped(subgroup=message.subgroup, epoch=message.epoch, at_s=core.now))
                core.settle(CustodyTimer("prepared", *key))
                core.send(sender, _aborted(core, message.subgroup, message.epoch))
            elif custody is not None:
                core.warn(f"{sender} aborts {message.subgroup}, which it had committed")
        case Control():
            _control(core, sender, message, custody)
        case ResultAck():
            if custody is not None:
                _acknowledged(core, custody, message)


def _already_over(core: Context, sender: SiteId, message: OriginOrder | Prepare, tombstone: Tombstone) -> None:
    """Answer by the tombstone, for ever, as the transfer would have answered."""
    part, epoch = message.subgroup, message.epoch
    if isinstance(message, Prepare | GangClaim | Commit) and tombstone.done:
        core.send(sender, Committed(subgroup=part, epoch=epoch))
    elif isinstance(message, Prepare | GangClaim | Commit | Abort) and not tombstone.done:
        core.send(sender, _aborted(core, part, epoch))
    elif isinstance(message, Control):
        core.send(sender, ControlAck(subgroup=part, epoch=epoch, control_seq=message.control_seq))


def _aborted(core: Context, part: SubgroupId, epoch: int) -> Aborted:
    return Aborted(subgroup=part, epoch=epoch, db_uuid=core.state.db_uuid, seq=core.state.seq, seal=core.seal())


# --- prepare ---------------------------------------------------------------------------------------------


def _take(core: Context, sender: SiteId, message: Prepare) -> None:
    why = _unacceptable(core, message) or _no_room(core, sender, message)
    if why:
        core.send(sender, Refused(subgroup=message.subgroup, epoch=message.epoch, reason=why))
        core.count("offers_refused")
        return
    raised = message.room > 0 and not message.behind and forecast.raises(core)
    core.persist(
        CustodyTaken(
            **message.assigned(),
            origin=sender,
            owner=message.authorisation.owner,
            spec=message.spec,
            # A submission in the future cannot be, whatever its origin claims.
            submitted_s=min(message.submitted_s, core.now),
            raised=raised,
            arrived_s=core.now if message.behind or (message.room and not raised) else 0.0,
            origin_db=message.origin_db_uuid,
            offer=message.offer,
            receipt=message.receipt,
        )
    )
    if message.room:
        core.count("jobs_imported", len(message.indices))
    custody = core.state.custodies[(message.subgroup, message.epoch)]
    turns.offered(core, custody)
    if custody.spec.is_gang:
        # Processors would stand idle if they were claimed first.
        inputs.begin(core, custody)
    _say_prepared(core, custody)
    # The first work of its origin since this boot may wait for the origin's word, which nobody asked for until now.
    journal_doubt.again(core, sender)


def _unacceptable(core: Context, message: Prepare) -> str:
    """Return why this offer is not taken: authorisation, shape, feasibility, caps. Empty: it is."""
    permit = message.authorisation
    if permit.group != group_of(message.subgroup):
        return f"the authorisation is for {permit.group}"
    why = core.keyring.check(permit, message.spec)
    if why:
        return why
    try:
        spec = decode_spec(message.spec)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"the spec cannot be read: {error}"
    need = spec.resources
    if not message.indices or not len(message.files) == len(message.sources) == len(message.readers):
        return "the offer is malformed"
    if need.processors < 1 or not 0 <= need.work_s < inf or message.max_parallel < 0:
        return "the spec asks for less than nothing"
    if spec.flexible is None and message.processors:
        return "the offer divides a job that is not flexible"
    if spec.is_gang and (why := _no_component(spec, message.indices, message.processors)):
        return why
    if not software.plain(spec):
        return "the spec names software by what cannot be a name"
    if not requirements.plain(spec):
        return "the spec has more requirements than a group may have"
    if not 0 <= message.attempt_base <= MOST_ATTEMPTS:
        return f"its attempts count from {message.attempt_base}"
    part = gang.of_part(spec.with_memory(message.memory_bytes), message.indices, message.processors)
    asked = wanted_of(
        part,
        part.resources,
        jobs=len(message.indices),
        owner=permit.owner,
        group=permit.group,
        urls=beginnings(f.ref.partition(":")[2] for f in message.files if f.ref.startswith("url:")),
    )
    return capacity.rejection(core, asked) or _not_here(core, spec) or _beyond_quota(core, message, part)


def _no_component(spec: GroupSpec, indices: IndexSet, processors: int) -> str:
    """Return why the jobs are no alike components of one gang; empty: they are."""
    flexible = spec.flexible
    try:
        check_components(spec.components)
        if flexible is not None:
            check_flexible(flexible)
    except ValueError as error:
        return str(error)
    if not 0 <= spec.spares <= spec.gang_size // 2 or (spec.spares and flexible is not None):
        return "the offer's gang has more spares than can stand by"
    first, last = indices.bounds[0], indices.bounds[-1] - 1
    if last // spec.gang_size != first // spec.gang_size:
        return "the offer holds components of several gangs"
    if flexible is not None:
        fits = flexible.allows(processors) and processors * len(indices) <= flexible.processors
        return "" if fits else f"the offer has components of {processors} processors, which its job does not allow"
    if any(spec.component(index) != spec.component(first) for index in indices):
        return "the offer holds components that are not alike"
    return ""


def _beyond_quota(core: Context, message: Prepare, part: GroupSpec) -> str:
    """Return why gangs never have so much here at one time as these components and others of their gang; empty: they
    may. An origin of an older release knows of no quota."""
    if not part.is_gang or gang_quota.most(core) is None:
        return ""
    number, group = message.indices.bounds[0] // part.gang_size, group_of(message.subgroup)
    wanted, ending = len(message.indices) * part.resources.processors, core.book(ClaimBook).ending
    for one in core.totals.gangs():
        if group_of(one.key[0]) != group or one.key in ending or not one.indices:
            continue
        if one.indices.isdisjoint(message.indices) and one.indices.bounds[0] // part.gang_size == number:
            wanted += len(one.indices) * one.spec.resources.processors
    why = gang_quota.beyond(core, wanted)
    return f"{core.site} {why}" if why else ""


def _no_room(core: Context, sender: SiteId, message: Prepare) -> str:
    """Return why work that moves here finds no kept room; empty: it takes its room, or needs none."""
    if not message.room:
        return ""
    processors = len(message.indices) * decode_spec(message.spec).resources.processors
    if _came_before(core, message):
        core.count("exports_refused")
        return f"{core.site} had some of these jobs as an export before: a job is exported once"
    if not (message.exported and promised_capacity.take(core, sender, message.room, processors, message.behind)):
        return f"{core.site} keeps no room for it any more"
    promised_capacity.landing(core, message.subgroup, message.epoch, processors)
    return ""


def _came_before(core: Context, message: Prepare) -> bool:
    """True if this site's journal knows of any of the jobs that it came here as an export and went back, whatever its
    origin remembers (SPEC D7)."""
    group = group_of(message.subgroup)
    known: tuple[tuple[CustodyKey, Custody | Tombstone], ...] = (
        *core.state.custodies.items(),
        *core.state.tombstones.items(),
    )
    mine = (one.went_back for key, one in known if one.went_back and group_of(key[0]) == group)
    return any(not went_back.isdisjoint(message.indices) for went_back in mine)


def _not_here(core: Context, spec: GroupSpec) -> str:
    if (spec.sites and core.site not in spec.sites) or core.site in spec.not_sites:
        return "the group does not allow this site"
    return ""


def _say_prepared(core: Context, custody: Custody) -> None:
    if not custody.runnable:
        core.after(CustodyTimer("prepared", *custody.key), REMIND_S)
    core.send(
        custody.origin,
        Prepared(
            subgroup=custody.subgroup,
            epoch=custody.epoch,
            db_uuid=core.state.db_uuid,
            seq=core.state.seq,
            seal=core.seal(),
            staged=custody.spec.is_gang and not core.book(StageBook).blocked(custody.key),
        ),
    )


def staged(core: Context, custody: Custody) -> None:
    """Tell the origin of a component that all its inputs are there."""
    if custody.spec.is_gang and not custody.runnable and not core.book(StageBook).blocked(custody.key):
        _say_prepared(core, custody)


def remind(core: Context, subgroup: SubgroupId, epoch: int) -> None:
    custody = core.state.custodies.get((subgroup, epoch))
    if custody is not None and not custody.runnable:
        _say_prepared(core, custody)


# --- commit, control, acknowledgements -----------------------------------------------------------------------


def _commit(core: Context, sender: SiteId, message: Commit, custody: Custody | None) -> None:
    if custody is None or message.db_uuid != core.state.db_uuid:
        core.send(sender, Lost(subgroup=message.subgroup, epoch=message.epoch, db_uuid=core.state.db_uuid))
        return
    if custody.spec.is_gang:
        claims.let_go(core, sender, message, custody)
        return
    if not custody.runnable:
        core.persist(CustodyRunnable(subgroup=message.subgroup, epoch=message.epoch))
        promised_capacity.landed(core, message.subgroup, message.epoch)
        turns.landed(core, custody)
        core.settle(CustodyTimer("prepared", *custody.key))
        core.moved.add(custody.key)
        inputs.begin(core, custody)
        renewals.committed(core, custody)
        # An order may overtake the commit.
        execution.cancel(core, custody, custody.cancelled)
        execution.revoke(core, custody)
    core.send(sender, Committed(subgroup=message.subgroup, epoch=message.epoch))


def _control(core: Context, sender: SiteId, message: Control, custody: Custody | None) -> None:
    if custody is None:
        core.send(sender, Lost(subgroup=message.subgroup, epoch=message.epoch, db_uuid=core.state.db_uuid))
        return
    if message.control_seq > custody.control_seq:
        order = (message.cancel, message.hold, message.recall - _not_let_go(core, sender, custody, message))
        origin_db = message.origin_db_uuid if message.anew else ""
        asked = (message.save, message.save_seq)
        obey(core, custody, message.control_seq, *order, origin_db=origin_db, asked=asked)
    if custody.spec.is_gang and not custody.runnable and custody.cancelled:
        # The order has overtaken the word that lets it go, which is to find nothing.
        claims.end(core, custody, "its origin cancelled it")
        return
    if custody.spec.is_gang and not custody.cancelled.isdisjoint(IndexSet.of(custody.running)):
        # Whoever cancels a component waits for its end: the order is said again.
        return
    core.send(sender, ControlAck(subgroup=message.subgroup, epoch=message.epoch, control_seq=message.control_seq))
    _tell(core, custody)
    core.moved.add(custody.key)


def _not_let_go(core: Context, sender: SiteId, custody: Custody, message: Control) -> IndexSet:
    """Return the jobs that stay although they are called back: they came here as an export, and their origin, which
    should know, wants to export them again (SPEC D7)."""
    if not custody.exported or not (stay := message.export & message.recall & custody.indices):
        return IndexSet()
    core.count("exports_refused")
    core.warn(f"{sender} calls {counted(len(stay), 'job')} of {message.subgroup} back to export them again")
    return stay


def obey(
    core: Context,
    custody: Custody,
    control_seq: int,
    cancel: IndexSet,
    hold: IndexSet,
    recall: IndexSet,
    *,
    origin_db: str = "",
    asked: tuple[IndexSet, int] = (_NOTHING, 0),
) -> None:
    """Obey a changed standing order. Cancelled jobs stay cancelled; started ones are not held, and go back only if they
    save their state. `asked`: jobs that are to, and the number of the order that said so: of these, jobs that start
    after it are not meant."""
    save, save_seq = asked
    to_save = save & IndexSet.of(custody.running) if save_seq > custody.control_seq else custody.saving
    fresh = (cancel & custody.indices) - custody.cancelled
    core.persist(
        ControlTaken(
            subgroup=custody.subgroup,
            epoch=custody.epoch,
            control_seq=control_seq,
            cancel=custody.cancelled | fresh,
            hold=hold & custody.indices,
            recall=(recall & custody.indices) - fresh - custody.cancelled,
            origin_db=origin_db,
            save=to_save,
            save_seq=save_seq,
        )
    )
    if custody.runnable:
        core.requeue.add(custody.key)
        execution.cancel(core, custody, fresh)
        execution.recall(core, custody)
        saving.save(core, custody)
        execution.revoke(core, custody)


def _acknowledged(core: Context, custody: Custody, message: ResultAck) -> None:
    batch = custody.outgoing.get(message.batch)
    if batch is None or (batch.acked and not message.outputs_taken):
        return
    had_outputs = batch.has_outputs
    core.persist(
        BatchAcked(
            subgroup=custody.subgroup,
            epoch=custody.epoch,
            batch=message.batch,
            outputs_taken=message.outputs_taken,
        )
    )
    if custody.pending and not custody.startable():
        # No start will tell that fewer run.
        core.moved.add(custody.key)
    if message.batch not in custody.outgoing:
        core.settle(BatchTimer("result", *custody.key, message.batch))
        if had_outputs:
            key = facts_key(custody.subgroup, custody.epoch, message.batch)
            core.emit(DropOutputs(key, custody.spec.outputs.dataset))
        execution.close_if_over(core, custody)


def result_due(core: Context, subgroup: SubgroupId, epoch: int, batch: int) -> None:
    custody = core.state.custodies.get((subgroup, epoch))
    if custody is None or batch not in custody.outgoing:
        return
    if custody.outgoing[batch].acked:
        _ask_for_outputs(core, custody, batch)
    else:
        execution.send_result(core, custody, batch)


def _ask_for_outputs(core: Context, custody: Custody, batch: int) -> None:
    """Ask the origin, which has the facts, whether the outputs arrived: an empty batch asks that."""
    core.back_off(BatchTimer("result", *custody.key, batch))
    core.send(
        custody.origin,
        Result(
            subgroup=custody.subgroup,
            epoch=custody.epoch,
            batch=batch,
            facts=columns.empty(core.site),
            cancelled=_NOTHING,
        ),
    )


def say_again(core: Context, site: SiteId | None = None) -> None:
    """Say again everything an origin has not acknowledged: at start, or when it is back."""
    for key in core.parties.taken_from(site):
        custody = core.state.custodies[key]
        if not custody.runnable:
            _say_prepared(core, custody)
        for batch in sorted(custody.outgoing):
            core.tries.pop(BatchTimer("result", *key, batch), None)
            execution.send_result(core, custody, batch)
        if custody.runnable:
            core.moved.add(key)


def tell_progress(core: Context) -> None:
    """Tell origins the progress of their work. Advisory; numbered by boot and count, so that the newest wins."""
    # Arrivals of other work move their priorities, too.
    core.moved.update(core.queues.moved_priorities(core.site))
    core.moved.update(guard.stopped_keys(core))
    for key in sorted(core.moved):
        custody = core.state.custodies.get(key)
        if custody is not None:
            _tell(core, custody)
    core.moved.clear()


def _tell(core: Context, custody: Custody) -> None:
    """Tell the custody's progress, if it is another site's and not over."""
    if custody.origin == core.site or not custody.runnable or custody.key not in core.state.custodies:
        return
    held = custody.pending if journal_doubt.stays(core, custody) else custody.pending & custody.held
    staging_jobs = len((custody.pending - held) & core.book(StageBook).blocked(custody.key))
    running = capacity.running_here(core, custody)
    level, priority = core.queues.best(custody.key)
    counted_by = custody.control_seq
    if custody.held and custody.held & execution.waiting_there(core, custody):
        # Held jobs may yet come back from a worker: so this does not speak for the latest order.
        counted_by = max(0, counted_by - 1)
    core.summary_counter += 1
    core.send(
        custody.origin,
        Progress(
            subgroup=custody.subgroup,
            epoch=custody.epoch,
            counter=core.state.generation * 10**12 + core.summary_counter,
            staging=staging_jobs,
            queued=len(custody.pending) - len(held) - staging_jobs + len(custody.running) - running,
            running=running,
            claimed=len(custody.running) - running,
            held=held,
            level=level,
            priority=priority,
            note=inputs.note(core, custody.key)
            or machine_events.note(core, custody.key)
            or maintenance.note(core, custody.key)
            or journal_doubt.stays(core, custody),
            db_uuid=core.state.db_uuid,
            seq=core.state.seq,
            seal=core.seal(),
            stopped=guard.stopped(core, custody),
            control_seq=counted_by,
            steps=steps.told(core, custody),
        ),
    )
