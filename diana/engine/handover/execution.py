"""Results, made of what the machines tell of their jobs (PROMISES section 2, step 7)."""

from __future__ import annotations

from collections.abc import Iterable

from diana.engine.data import checkpoints
from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch import way_book
from diana.engine.dispatch.predictions import Predictions
from diana.engine.guard import guard
from diana.engine.handover import results
from diana.engine.handover.gangs import claims
from diana.engine.journal import columns
from diana.engine.journal.effects import (
    CancelStage,
    DropSubgroup,
    ForgetRuns,
    KeepFacts,
    KillRuns,
    RecallRuns,
    SendResult,
)
from diana.engine.journal.events import JobsEnded, Run
from diana.engine.journal.records import CustodyClosed, RunsEnded, RunsRepeated, RunsReturned, RunsVoided, facts_key
from diana.engine.journal.state import Custody, CustodyKey, Group, Subgroup
from diana.engine.machines.running import Lane
from diana.engine.site import journal_doubt, links, run_times
from diana.engine.site.context import Context
from diana.engine.site.journal_doubt import JournalDoubt
from diana.engine.site.run_book import PendingEnds
from diana.engine.site.timers import BatchTimer, CustodyTimer
from diana.model.facts import Facts, JobError, Outcome, impossible
from diana.model.ids import MAIN_MACHINE, group_of
from diana.model.indexset import IndexSet
from diana.model.job.checkpoint import readers
from diana.model.job.output_names import most_told

_BATCH_BYTES = 3 << 20
"""Of results that go to their origin together: they fit into one message."""
_RAN = frozenset({Outcome.DONE, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CHECKPOINTED})
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
            core.emit(ForgetRuns(_runs(key, facts), event.worker))
        return
    if event.worker and (wrong := impossible(facts)):
        # Its own jobs are not over until it says what can be.
        core.warn(f"machine {event.worker} tells of {event.subgroup} {wrong}", event.worker)
        return
    buffer = core.run_book.ended.setdefault(key, PendingEnds())
    fresh, stale = [], []
    others = elsewhere(custody, event.worker, facts.indices) if event.worker else frozenset()
    if others:
        some = f"{len(others)} jobs of {event.subgroup}"
        core.warn(f"machine {event.worker} tells the ends of {some} that are with others", event.worker)
    for at, (index, attempt) in enumerate(zip(facts.indices, facts.attempts, strict=True)):
        if custody.running.get(index) == attempt and index not in others:
            if index not in buffer.indices:
                fresh.append(at)
        else:
            stale.append(at)
    if stale and not core.book(JournalDoubt).fallen:
        core.emit(ForgetRuns(_runs(key, columns.pick(facts, stale)), event.worker))
    if custody.spec.is_gang and not custody.runnable:
        if not any(facts.outcomes[at] in _RAN for at in fresh):
            claims.ended(core, custody, facts, fresh)
            return
        # Its commit is lost with the end of a journal that was put back: what ran was let go.
        claims.was_let_go(core, custody)
    fresh = _take_back(core, custody, facts, fresh)
    fresh = _repeat_unsure(core, custody, facts, fresh)
    facts = way_book.as_ended(custody, facts)
    fresh = _stopped(core, custody, facts, fresh)
    if fresh:
        buffer.facts.append(facts if len(fresh) == len(facts.indices) else columns.pick(facts, fresh))
        buffer.indices.update(facts.indices[at] for at in fresh)
        core.totals.runs.told(key, [facts.indices[at] for at in fresh], core.now)
        _learn(core, custody, facts, fresh)
        if guard.ended(core, custody, facts, fresh):
            flush(core, key)
        else:
            _flush_soon(core, custody, buffer)


def elsewhere(custody: Custody, machine: str, indices: Iterable[int]) -> frozenset[int]:
    """Return those of the jobs that run on another machine than this one."""
    running = (index for index in indices if index in custody.running)
    if machine == MAIN_MACHINE:
        return frozenset(index for index in running if any(index in some for some in custody.given.values()))
    mine = custody.given.get(machine, IndexSet())
    return frozenset(index for index in running if index not in mine)


def worker_of(custody: Custody, index: int) -> str:
    """Return the machine that a running job is with."""
    return next((machine for machine, some in custody.given.items() if index in some), MAIN_MACHINE)


def void(core: Context, custody: Custody, indices: IndexSet) -> None:
    """Make jobs pending again that were given to a machine and never claimed there."""
    # A component that its machine held and lost never began: it goes back, and does not wait here. Of one in a backup
    # that was put back nobody knows that: it may have been let go since, and be over. It stays, as other jobs do.
    returns = custody.spec.is_gang and not custody.on_hold
    kind = RunsReturned if returns else RunsVoided
    core.persist(kind(subgroup=custody.subgroup, epoch=custody.epoch, indices=indices))
    guard.counted(core, custody)
    core.requeue.add(custody.key)
    if returns:
        if custody.runnable:
            _give_back(core, custody, indices)
        else:
            claims.end(core, custody, f"{core.site}: a machine lost its claim")
        return
    _cancel_pending(core, custody, custody.cancelled & indices)


def _give_back(core: Context, custody: Custody, indices: IndexSet) -> None:
    """Give components back that were let go and never began, or ended with their lease: started later, they would run
    without the others."""
    if indices and custody.key in core.state.custodies:
        core.requeue.add(custody.key)
        _ended(core, custody, results.Ends(columns.empty(core.site), revoked=indices))
        close_if_over(core, custody)


def released(core: Context, custody: Custody) -> None:
    """Give components of this site's own gangs back that were let go before a restore and run nowhere, at their user's
    word: nothing starts them here without the others."""
    if custody.spec.is_gang and custody.runnable:
        _give_back(core, custody, custody.pending)


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
            core.emit(RecallRuns(worker=machine, subgroup=custody.subgroup, epoch=custody.epoch, indices=some))


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
        core.emit(
            KillRuns(worker=machine, subgroup=custody.subgroup, epoch=custody.epoch, indices=IndexSet.of(indices))
        )


def _learn(core: Context, custody: Custody, facts: Facts, rows: list[int]) -> None:
    """Update the custody's mean run time here, the newest counting most."""
    began = core.run_book.started_s.get(custody.key, {})
    for at in rows:
        began.pop(facts.indices[at], None)
    core.book(Predictions).began(custody.key, facts.indices, facts.started_s)
    took_s = sum(facts.ended_s[at] - facts.started_s[at] for at in rows) / len(rows)
    core.run_book.ran(custody.key, took_s)
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
    if custody.spec.is_gang:
        _give_back(core, custody, indices - custody.cancelled)
    else:
        revoke(core, custody)
    returned = set(back)
    return [at for at in fresh if at not in returned]


def _repeat_unsure(core: Context, custody: Custody, facts: Facts, fresh: list[int]) -> list[int]:
    """Try jobs whose outcome nobody knows again as a new attempt if on_crash = rerun, and those that ended with their
    lease in any case; components begin with the others, or not at all, and are given back. Return the other rows."""
    if custody.spec.on_crash == custody.spec.on_site_lost == "hold":
        return fresh
    kinds = _UNSURE if custody.spec.on_crash == "rerun" and not custody.spec.is_gang else _LEASE_OVER
    again = [at for at in fresh if facts.outcomes[at] in kinds and facts.indices[at] not in custody.cancelled]
    if not again:
        return fresh
    picked = columns.pick(facts, again)
    core.persist(RunsRepeated(subgroup=custody.subgroup, epoch=custody.epoch, indices=IndexSet.of(picked.indices)))
    guard.counted(core, custody)
    core.emit(ForgetRuns(_runs(custody.key, picked)))
    core.requeue.add(custody.key)
    if custody.spec.is_gang:
        _give_back(core, custody, IndexSet.of(picked.indices))
    repeated = set(again)
    return [at for at in fresh if at not in repeated]


def _stopped(core: Context, custody: Custody, facts: Facts, fresh: list[int]) -> list[int]:
    """Tell at once, in batches of their own, of jobs that stopped at a checkpoint or made way for a gang, and of those
    that could not begin from a checkpoint: their attempts are closed here, and nothing is learned from them. Return the
    other rows."""
    stopped = [at for at in fresh if facts.outcomes[at] in checkpoints.STOPPED]
    if not stopped:
        return fresh
    unrestored = [at for at in stopped if facts.outcomes[at] == Outcome.UNRESTORED]
    began = core.run_book.started_s.get(custody.key, {})
    # The note of a batch says why, and that of the one is not that of the other.
    for rows in (unrestored, [at for at in stopped if at not in set(unrestored)]):
        if not rows:
            continue
        picked = columns.pick(facts, rows)
        for index in picked.indices:
            began.pop(index, None)
        core.totals.runs.told(custody.key, picked.indices, core.now)
        _ended(core, custody, results.Ends(picked))
        core.emit(ForgetRuns(_runs(custody.key, picked)))
    close_if_over(core, custody)
    others = set(stopped)
    return [at for at in fresh if at not in others]


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
    parts = columns.pieces(facts, _BATCH_BYTES, most_told(custody.spec))
    for rows in parts:
        part = facts if len(parts) == 1 else columns.pick(facts, rows)
        runs = _runs(key, part)
        _ended(core, custody, results.Ends(part))
        core.emit(ForgetRuns(runs))
    close_if_over(core, custody)


def never_ran(core: Context, custody: Custody, indices: IndexSet, error: str, spoilt: str = "") -> None:
    """End pending jobs whose inputs cannot be had. `spoilt`: the input of which no source has what was promised; jobs
    with a checkpoint that it is of go on without that one."""
    core.requeue.add(custody.key)
    unrestored = indices & readers(custody.saved, spoilt)
    if custody.spec.is_gang:
        claims.end(core, custody, error, unrestored=bool(unrestored))
        return
    for outcome, some in ((Outcome.UNRESTORED, unrestored), (Outcome.STAGING_FAILED, indices - unrestored)):
        if some:
            facts = columns.not_staged(core.site, list(some), outcome, error, core.now)
            if outcome is Outcome.STAGING_FAILED:
                guard.ended(core, custody, facts, list(range(len(some))), ran=False)
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
    """Make one batch of ends durable here and tell it to the origin. At home there is nobody to tell of jobs that were
    placed anew since: what became of them here is not kept."""
    facts = ends.facts
    batch = custody.next_batch
    staged = core.book(StageBook).moved_bytes.pop(custody.key, 0)
    key = facts_key(custody.subgroup, custody.epoch, batch)
    home = custody.origin == core.site
    placed = _placed_at_home(core, custody, ends) if home else None
    if facts.indices and not (home and placed is None):
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
    if not home:
        core.moved.add(custody.key)
        send_result(core, custody, batch)
    elif placed is None:
        core.count("stale_results")
    else:
        results.accept(core, *placed, batch, ends, staged, keep=False)


def _placed_at_home(core: Context, custody: Custody, ends: results.Ends) -> tuple[Group, Subgroup] | None:
    """Return the placement at home that these ends are of; None: all its jobs that they name were placed anew since,
    as those of a gang that did not start whole."""
    group = core.state.groups[group_of(custody.subgroup)]
    subgroup = group.subgroups.get(custody.subgroup)
    if subgroup is None or subgroup.epoch != custody.epoch or results.disowned(subgroup, ends):
        return None
    return group, subgroup


def send_result(core: Context, custody: Custody, batch: int) -> None:
    core.back_off(BatchTimer("result", *custody.key, batch))
    key = facts_key(custody.subgroup, custody.epoch, batch)
    out = custody.outgoing[batch]
    state = core.state
    core.emit(
        SendResult(
            custody.origin,
            key,
            out.cancelled,
            out.bytes_staged,
            out.revoked,
            state.db_uuid,
            state.seq,
            core.seal(),
        )
    )


def close_if_over(core: Context, custody: Custody) -> None:
    key = custody.key
    if not custody.over() or custody.outgoing or key not in core.state.custodies:
        return
    core.queues.remove(key)
    core.queues.merges.discard(key)
    core.run_book.forget(key)
    core.book(Predictions).forget(key)
    core.moved.discard(key)
    for ticket in core.book(StageBook).drop(key):
        links.settled(core, ticket)
        core.emit(CancelStage(ticket))
    core.persist(CustodyClosed(subgroup=key[0], epoch=key[1], at_s=core.now))
    core.emit(DropSubgroup(custody.subgroup))
