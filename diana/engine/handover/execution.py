"""Results, made of what the machines tell of their jobs (PROMISES section 2, step 7)."""

from __future__ import annotations

from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch.predictions import Predictions
from diana.engine.guard import guard
from diana.engine.handover import results
from diana.engine.journal import columns
from diana.engine.journal.effects import CancelStage, DropSubgroup, ForgetRuns, KeepFacts, Kill, Recall, SendResult
from diana.engine.journal.events import JobsEnded, Run
from diana.engine.journal.records import CustodyClosed, RunsEnded, RunsRepeated, RunsReturned, RunsVoided, facts_key
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.machines.running import Lane
from diana.engine.site import journal_doubt, links, run_times
from diana.engine.site.context import Context
from diana.engine.site.journal_doubt import JournalDoubt
from diana.engine.site.run_book import PendingEnds
from diana.engine.site.timers import BatchTimer, CustodyTimer
from diana.model.facts import Facts, JobError, Outcome
from diana.model.ids import group_of
from diana.model.indexset import IndexSet

_LEASE_OVER = frozenset({Outcome.LEASE_OVER})
_UNSURE = _LEASE_OVER | {Outcome.UNKNOWN, Outcome.INTERRUPTED}


# --- the LRM -----------------------------------------------------------------------------------------------


def on_jobs_ended(core: Context, event: JobsEnded) -> None:
    key = (event.subgroup, event.epoch)
    custody = core.state.custodies.get(key)
    facts = event.facts
    if custody is None:
        # An older copy knows less: the end is told again once it has its new name.
        if not core.book(JournalDoubt).fallen:
            core.emit(ForgetRuns(_runs(key, facts)))
        return
    buffer = core.run_book.ended.setdefault(key, PendingEnds())
    fresh, stale = [], []
    for at, (index, attempt) in enumerate(zip(facts.indices, facts.attempts, strict=True)):
        if custody.running.get(index) == attempt:
            if index not in buffer.indices:
                fresh.append(at)
        else:
            stale.append(at)
    if stale and not core.book(JournalDoubt).fallen:
        core.emit(ForgetRuns(_runs(key, columns.pick(facts, stale))))
    fresh = _take_back(core, custody, facts, fresh)
    fresh = _repeat_unsure(core, custody, facts, fresh)
    if fresh:
        buffer.facts.append(facts if len(fresh) == len(facts.indices) else columns.pick(facts, fresh))
        buffer.indices.update(facts.indices[at] for at in fresh)
        core.totals.runs.told(key, [facts.indices[at] for at in fresh], core.now)
        _learn(core, custody, facts, fresh)
        if guard.ended(core, custody, facts, fresh):
            flush(core, key)
        else:
            _flush_soon(core, custody, buffer)


def void(core: Context, custody: Custody, indices: IndexSet) -> None:
    """Make jobs pending again that were given to a machine and never claimed there."""
    core.persist(RunsVoided(subgroup=custody.subgroup, epoch=custody.epoch, indices=indices))
    guard.counted(core, custody)
    core.requeue.add(custody.key)
    _cancel_pending(core, custody, custody.cancelled & indices)


def _given_back(core: Context, custody: Custody) -> list[tuple[Lane, list[int]]]:
    """Return the running jobs that may not have begun, by the lanes of workers that give such back."""
    recalling = core.totals.runs.recalling
    if not recalling or not custody.running:
        return []
    held = custody.by_machine(custody.never_begun()).items()
    return [(recalling[machine], some) for machine, some in held if machine in recalling]


def recallable(core: Context, custody: Custody) -> IndexSet:
    """Return the running jobs that may not have begun, of workers that give such back."""
    return IndexSet.union(IndexSet.of(some) for _, some in _given_back(core, custody))


def waiting_there(core: Context, custody: Custody) -> IndexSet:
    """Return the recallable jobs that found no free slot when they were given, as far as is known."""
    lanes = _given_back(core, custody)
    return IndexSet.union(IndexSet.of(i for i in some if (custody.key, i) in lane.ahead) for lane, some in lanes)


def recall(core: Context, custody: Custody) -> None:
    """Ask back jobs that are to go elsewhere or not to start, from workers that can say whether they have begun."""
    recalling = core.totals.runs.recalling
    if not recalling or journal_doubt.stays(core, custody) or not (custody.held or custody.recalled):
        return
    running = IndexSet.of(custody.running)
    wanted = (custody.held & running) | (custody.recalled & recallable(core, custody))
    for machine, indices in custody.by_machine(wanted - custody.cancelled).items():
        if machine in recalling:
            some = IndexSet.of(indices)
            core.emit(Recall(worker=machine, subgroup=custody.subgroup, epoch=custody.epoch, indices=some))


def give_up(core: Context, custody: Custody, indices: list[int], error: str) -> None:
    """End jobs whose machine is gone for good: nobody will tell how they ended."""
    began, attempts = core.run_book.started_s.get(custody.key, {}), [custody.running[index] for index in indices]
    for index in indices:
        began.pop(index, None)
    outcomes = [int(Outcome.CANCELLED if i in custody.cancelled else Outcome.INTERRUPTED) for i in indices]
    errors = [JobError(index, error) for index in indices if index not in custody.cancelled]
    facts = columns.never_ran(core.site, indices, attempts, outcomes, 0, errors, core.now)
    rows = list(range(len(indices)))
    rows = _repeat_unsure(core, custody, facts, rows)
    if rows:
        buffer = core.run_book.ended.setdefault(custody.key, PendingEnds())
        buffer.facts.append(columns.pick(facts, rows))
        buffer.indices.update(indices[at] for at in rows)
        core.totals.runs.told(custody.key, [indices[at] for at in rows], core.now)
        flush(core, custody.key)


def kill(core: Context, custody: Custody, running: IndexSet) -> None:
    for machine, indices in custody.by_machine(running).items():
        core.emit(Kill(worker=machine, subgroup=custody.subgroup, epoch=custody.epoch, indices=IndexSet.of(indices)))


def _learn(core: Context, custody: Custody, facts: Facts, rows: list[int]) -> None:
    """Update the custody's mean run time here, the newest counting most."""
    began = core.run_book.started_s.get(custody.key, {})
    for at in rows:
        began.pop(facts.indices[at], None)
    core.book(Predictions).began(custody.key, facts.indices, facts.started_s)
    took_s = sum(facts.ended_s[at] - facts.started_s[at] for at in rows) / len(rows)
    known = core.run_book.mean_s.get(custody.key)
    core.run_book.mean_s[custody.key] = max(0.0, took_s) if known is None else 0.8 * known + 0.2 * max(0.0, took_s)
    core.totals.touch(custody.key)


def _take_back(core: Context, custody: Custody, facts: Facts, fresh: list[int]) -> list[int]:
    """Take back jobs given back unbegun: they wait again, or go on to where they are wanted. Return the other rows."""
    back = [at for at in fresh if facts.outcomes[at] == Outcome.UNBEGUN]
    if not back:
        return fresh
    picked = columns.pick(facts, back)
    indices = IndexSet.of(picked.indices)
    core.persist(RunsReturned(subgroup=custody.subgroup, epoch=custody.epoch, indices=indices))
    guard.counted(core, custody)
    core.emit(ForgetRuns(_runs(custody.key, picked)))
    core.requeue.add(custody.key)
    if custody.origin != core.site:
        core.moved.add(custody.key)
    began = core.run_book.started_s.get(custody.key, {})
    for index in indices:
        began.pop(index, None)
    _cancel_pending(core, custody, custody.cancelled & indices)
    revoke(core, custody)
    returned = set(back)
    return [at for at in fresh if at not in returned]


def _repeat_unsure(core: Context, custody: Custody, facts: Facts, fresh: list[int]) -> list[int]:
    """Try jobs whose outcome nobody knows again as a new attempt if on_crash = rerun, and those that ended with their
    lease in any case. Return the other rows."""
    if custody.spec.on_crash == custody.spec.on_site_lost == "hold":
        return fresh
    kinds = _UNSURE if custody.spec.on_crash == "rerun" else _LEASE_OVER
    again = [at for at in fresh if facts.outcomes[at] in kinds and facts.indices[at] not in custody.cancelled]
    if not again:
        return fresh
    picked = columns.pick(facts, again)
    core.persist(RunsRepeated(subgroup=custody.subgroup, epoch=custody.epoch, indices=IndexSet.of(picked.indices)))
    guard.counted(core, custody)
    core.emit(ForgetRuns(_runs(custody.key, picked)))
    core.requeue.add(custody.key)
    repeated = set(again)
    return [at for at in fresh if at not in repeated]


def _runs(key: CustodyKey, facts: Facts) -> tuple[Run, ...]:
    return tuple(Run(key[0], key[1], i, a) for i, a in zip(facts.indices, facts.attempts, strict=True))


# --- ends ----------------------------------------------------------------------------------------------------


def _flush_soon(core: Context, custody: Custody, buffer: PendingEnds) -> None:
    """Send results in batches: at once if none left lately or this was the last, else when the batch time is over."""
    wait = buffer.flushed_s + core.state.settings.result_batch_s - core.now
    if wait <= 0 or (not custody.pending and len(buffer.indices) == len(custody.running)):
        flush(core, custody.key)
    else:
        timer = CustodyTimer("flush", *custody.key)
        if timer not in core.timers:
            core.after(timer, wait)


def flush(core: Context, key: CustodyKey) -> None:
    custody, buffer = core.state.custodies.get(key), core.run_book.ended.get(key)
    if custody is None or buffer is None or not buffer.facts:
        return
    facts = columns.join(buffer.facts)
    buffer.facts, buffer.indices, buffer.flushed_s = [], set(), core.now
    core.timers.cancel(CustodyTimer("flush", *key))
    runs = _runs(key, facts)
    _ended(core, custody, results.Ends(facts))
    core.emit(ForgetRuns(runs))
    close_if_over(core, custody)


def never_ran(core: Context, custody: Custody, indices: list[int], error: str) -> None:
    """End pending jobs whose inputs cannot be had."""
    core.requeue.add(custody.key)
    facts = columns.staging_failed(core.site, indices, error, core.now)
    guard.ended(core, custody, facts, list(range(len(indices))), ran=False)
    _ended(core, custody, results.Ends(facts))
    close_if_over(core, custody)


def _cancel_pending(core: Context, custody: Custody, indices: IndexSet) -> None:
    if indices:
        core.requeue.add(custody.key)
        _ended(core, custody, results.Ends(columns.empty(core.site), cancelled=indices))
        close_if_over(core, custody)


def revoke(core: Context, custody: Custody) -> None:
    """Give back jobs that are recalled and have not started; told like a result, until it is acknowledged. Jobs that
    would not be started here either do not go back: an older copy of the journal may not show that they started."""
    indices = IndexSet() if journal_doubt.stays(core, custody) else custody.revocable()
    if indices and custody.key in core.state.custodies:
        core.requeue.add(custody.key)
        _ended(core, custody, results.Ends(columns.empty(core.site), revoked=indices))
        close_if_over(core, custody)


def cancel(core: Context, custody: Custody, indices: IndexSet) -> None:
    """Carry out a recorded cancel: pending jobs are over at once; running ones are killed and report their end."""
    running = indices & IndexSet.of(custody.running)
    if running:
        kill(core, custody, running)
    _cancel_pending(core, custody, indices & custody.pending)


def _ended(core: Context, custody: Custody, ends: results.Ends) -> None:
    """Make one batch of ends durable here and tell it to the origin."""
    facts = ends.facts
    batch = custody.next_batch
    staged = core.book(StageBook).moved_bytes.pop(custody.key, 0)
    key = facts_key(custody.subgroup, custody.epoch, batch)
    if facts.indices:
        core.emit(KeepFacts(key, facts))
    core.persist(
        RunsEnded(
            subgroup=custody.subgroup,
            epoch=custody.epoch,
            batch=batch,
            ended=IndexSet.of(facts.indices),
            cancelled=ends.cancelled,
            revoked=ends.revoked,
            has_outputs=bool(facts.outputs),
            bytes_staged=staged,
            took=run_times.took(facts),
        )
    )
    core.count("jobs_ended", len(facts.indices))
    core.count("bytes_staged", staged)
    run_times.note(core, custody)
    if custody.origin == core.site:
        group = core.state.groups[group_of(custody.subgroup)]
        results.accept(core, group, group.subgroups[custody.subgroup], batch, ends, staged, keep=False)
    else:
        core.moved.add(custody.key)
        send_result(core, custody, batch)


def send_result(core: Context, custody: Custody, batch: int) -> None:
    core.back_off(BatchTimer("result", *custody.key, batch))
    key = facts_key(custody.subgroup, custody.epoch, batch)
    out = custody.outgoing[batch]
    state = core.state
    core.emit(SendResult(custody.origin, key, out.cancelled, out.bytes_staged, out.revoked, state.db_uuid, state.seq))


def close_if_over(core: Context, custody: Custody) -> None:
    key = custody.key
    if not custody.over() or custody.outgoing or key not in core.state.custodies:
        return
    core.queues.remove(key)
    core.queues.merges.discard(key)
    core.run_book.started_s.pop(key, None)
    core.run_book.mean_s.pop(key, None)
    core.book(Predictions).forget(key)
    core.run_book.ended.pop(key, None)
    core.moved.discard(key)
    for ticket in core.book(StageBook).drop(key):
        links.settled(core, ticket)
        core.emit(CancelStage(ticket))
    core.persist(CustodyClosed(subgroup=key[0], epoch=key[1], at_s=core.now))
    core.emit(DropSubgroup(custody.subgroup))
