"""The origin accepts results: exactly one per job, by the epoch that counts (PROMISES 1.5 and section 2, step 8)."""

from __future__ import annotations

from typing import NamedTuple

from diana.engine.data import checkpoints, outputs
from diana.engine.guard import guard
from diana.engine.handover.gangs import attempt_book
from diana.engine.journal.effects import KeepFacts, SendResult
from diana.engine.journal.records import JobsCancelled, ResultAccepted, ResultStale, facts_key
from diana.engine.journal.state import Group, Subgroup
from diana.engine.messages.messages import Progress, Result, ResultAck
from diana.engine.site import run_times
from diana.engine.site.context import Context
from diana.engine.site.timers import PartTimer
from diana.model.facts import MOST_ATTEMPTS, Facts, Outcome, impossible, was_out_of_memory
from diana.model.ids import SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.output_names import OutputNames
from diana.model.learned import RunSample, work_of
from diana.model.signals import signal_name
from diana.model.sketch import Batch

LEAST_SPEED, MOST_SPEED = 1e-3, 1e3
"""Least and most speed that a peer is believed."""
MOST_SHOWN = 80
"""Characters shown of a name that a peer made."""
_HELD = (Outcome.UNKNOWN, Outcome.INTERRUPTED)


SLOW = 0.9
"""Part of the slowest component's seconds from which on another one counts as slow, too."""


class Ends(NamedTuple):
    """A batch: no job is in two of the three."""

    facts: Facts
    cancelled: IndexSet = IndexSet()
    """Jobs cancelled before they started."""
    revoked: IndexSet = IndexSet()


def told(order: SendResult, facts: Facts) -> Result:
    """Make the message of an order, with the facts that the driver kept of the batch."""
    return Result(
        subgroup=order.key.subgroup,
        epoch=order.key.epoch,
        batch=order.key.batch,
        facts=facts,
        cancelled=order.cancelled,
        bytes_staged=order.bytes_staged,
        revoked=order.revoked,
        db_uuid=order.db_uuid,
        seq=order.seq,
        seal=order.seal,
    )


def on_result(core: Context, group: Group, subgroup: Subgroup, message: Result) -> None:
    """Accept a batch of results from another site, which tells it again until it is acknowledged."""
    batch = message.batch
    if batch not in subgroup.batches and disowned(subgroup, Ends(message.facts, message.cancelled, message.revoked)):
        jobs = len(message.facts.indices) + len(message.cancelled)
        core.persist(ResultStale(subgroup=subgroup.subgroup, epoch=subgroup.epoch, batch=batch, jobs=jobs))
        core.count("stale_results")
    if batch not in subgroup.batches:
        wrong = _nonsense(group, subgroup, message)
        if wrong:
            core.warn(f"{subgroup.site} reports of {subgroup.subgroup}: {wrong}")
            return
        ends = Ends(message.facts, message.cancelled, message.revoked)
        told_by = (message.db_uuid, message.seq, message.seal)
        accept(core, group, subgroup, batch, ends, message.bytes_staged, keep=True, told_by=told_by)
        core.settle(PartTimer("commit", subgroup.subgroup))
    key = facts_key(subgroup.subgroup, subgroup.epoch, batch)
    taken = key not in group.gathers and key not in group.not_gathered
    core.send(
        subgroup.site, ResultAck(subgroup=subgroup.subgroup, epoch=subgroup.epoch, batch=batch, outputs_taken=taken)
    )


def disowned(subgroup: Subgroup, ends: Ends) -> bool:
    """True if all jobs that they name were placed anew since."""
    named = IndexSet.of(ends.facts.indices) | ends.cancelled | ends.revoked
    return bool(named) and named.issubset(subgroup.disowned)


def _nonsense(group: Group, subgroup: Subgroup, message: Result) -> str:
    facts, over, revoked = message.facts, message.cancelled, message.revoked
    indices = IndexSet.of(facts.indices)
    named = indices | over | revoked
    if not named:
        return "a batch of nothing"
    if facts.site != subgroup.site:
        return f"facts of {facts.site}"
    if len(indices) != len(facts.indices):
        return "one job twice in a batch"
    if not named.issubset(subgroup.indices) or len(named) != len(indices) + len(over) + len(revoked):
        return "jobs it was not given"
    if not (revoked.issubset(subgroup.recalled) or group.spec.is_gang):
        return "jobs that were not recalled"
    if group.settled(named):
        return "jobs that have a result"
    if facts.attempts and not 0 <= min(facts.attempts) <= max(facts.attempts) <= MOST_ATTEMPTS:
        return "attempts nobody makes"
    # A merge leaves its files at its origin and reports none.
    if why := checkpoints.wrong(group, facts):
        return why
    if facts.outputs and (name := OutputNames(group.spec).strange(group.group, facts)):
        return f"a file {name[:MOST_SHOWN]!r}, which its job does not leave"
    return impossible(facts)


def accept(
    core: Context,
    group: Group,
    subgroup: Subgroup,
    batch: int,
    ends: Ends,
    bytes_staged: int,
    *,
    keep: bool,
    told_by: tuple[str, int, bytes] = ("", 0, b""),
) -> None:
    """Make a batch's results the results of its jobs. `keep`: store the facts (at home they are stored already)."""
    facts = ends.facts
    done: list[int] = []
    failed: list[int] = []
    stopped: list[int] = []
    held: list[int] = []
    for index, outcome in zip(facts.indices, facts.outcomes, strict=True):
        if outcome == Outcome.DONE:
            done.append(index)
        elif outcome in (Outcome.CANCELLED, Outcome.LEASE_OVER):
            # A job whose lease ended is only told if it was cancelled: else it is tried again.
            stopped.append(index)
        elif outcome in _HELD:
            held.append(index)
        elif outcome not in checkpoints.STOPPED:
            failed.append(index)
    saved = checkpoints.stopped(group, facts)
    unrestored = checkpoints.unrestored(facts) if saved else IndexSet()
    note = _first_error(group, facts)
    has_outputs = any(job.files for job in saved) if saved else bool(facts.outputs)
    if group.spec.outputs.kept and not saved and group.retried & IndexSet.of(facts.indices):
        # What the attempt before left has to go.
        has_outputs = True
    timed_out, out_of_memory = _kinds(facts)
    key = facts_key(subgroup.subgroup, subgroup.epoch, batch)
    gang_key = attempt_book.key_of(group, subgroup) if attempt_book.is_of_gang(group, subgroup) else None
    if gang_key is not None and (ends.revoked or ends.cancelled or len(done) + len(saved) < len(facts.indices)):
        why = f"{subgroup.site} gave its component back" if ends.revoked else _first_error(group, facts)
        why = why or f"its component at {subgroup.site} did not end well"
        attempt_book.broke(core, gang_key, why, subgroup.site)
    if keep and facts.indices:
        core.emit(KeepFacts(key, facts))
    started = [t for t, a in zip(facts.started_s, facts.attempts, strict=True) if a]
    core.persist(
        ResultAccepted(
            subgroup=subgroup.subgroup,
            epoch=subgroup.epoch,
            batch=batch,
            done=IndexSet.of(done),
            failed=IndexSet.of(failed),
            cancelled=ends.cancelled | IndexSet.of(stopped),
            held=IndexSet.of(held),
            has_outputs=has_outputs,
            first_start_s=max(0.0, min(started) - group.submitted_s) if started else -1.0,
            last_start_s=max(0.0, max(started) - group.submitted_s) if started and gang_key is not None else -1.0,
            last_end_s=max(0.0, max(facts.ended_s) - group.submitted_s) if facts.ended_s else -1.0,
            bytes_staged=bytes_staged,
            attempts=max(facts.attempts, default=0),
            note=checkpoints.not_used(group, unrestored, note) if unrestored else note,
            took=_work(core, subgroup, facts),
            ratios=_ratios(group, subgroup, facts),
            output_bytes=run_times.left_bytes(facts, done),
            learned=_learned(core, group, subgroup, facts) if group.spec.learned else None,
            revoked=ends.revoked,
            db_uuid=told_by[0],
            seq=told_by[1],
            seal=told_by[2],
            saved=saved,
            timed_out=timed_out,
            out_of_memory=out_of_memory,
            made_way=checkpoints.made_way(group, facts),
            unrestored=unrestored,
        )
    )
    for kind, indices in (("done", done), ("failed", failed), ("cancelled", stopped), ("unknown", held)):
        core.count(f"jobs_{kind}", len(indices))
    core.count("jobs_cancelled", len(ends.cancelled))
    core.count("jobs_checkpointed", facts.outcomes.count(Outcome.CHECKPOINTED))
    if not saved:
        guard.accepted(core, group, subgroup, facts)
    if has_outputs:
        outputs.begin(core, group, key, subgroup.site, sum(o.size_bytes for o in facts.outputs))
    if ends.revoked or saved:
        # Some may have been cancelled when they were on their way back already.
        cancel_unplaced(core, group, subgroup.cancelling)
        core.to_place.add(group.group)
    if gang_key is not None:
        if saved:
            attempt_book.stopping(core, group, gang_key)
        attempt_book.over(core, group, gang_key)
    if not subgroup.open_jobs():
        core.settle(PartTimer("control", subgroup.subgroup))
        core.view.progress.pop(subgroup.subgroup, None)
        if group.unplaced and group.spec.max_parallel:
            # Its share of max_parallel is free for jobs that waited for it.
            core.to_place.add(group.group)
    core.to_check.add(group.group)
    core.notify(group.group)


def _kinds(facts: Facts) -> tuple[IndexSet, IndexSet]:
    """The jobs that took too long, and those that used more memory than they may."""
    if Outcome.TIMED_OUT not in facts.outcomes and not facts.errors:
        return IndexSet(), IndexSet()
    outcomes = dict(zip(facts.indices, facts.outcomes, strict=True))
    timed_out = IndexSet.of([index for index, outcome in outcomes.items() if outcome == Outcome.TIMED_OUT])
    memory = (e.index for e in facts.errors if was_out_of_memory(outcomes.get(e.index, 0), e.text))
    return timed_out, IndexSet.of(sorted(set(memory)))


def cancel_unplaced(core: Context, group: Group, wanted: IndexSet) -> None:
    """Cancel those of the jobs that no site has: they are over as soon as their user says so."""
    indices = wanted & group.unplaced
    if indices:
        core.persist(JobsCancelled(group=group.group, indices=indices))
        core.count("jobs_cancelled", len(indices))
        core.to_check.add(group.group)
        core.notify(group.group)


def _work(core: Context, subgroup: Subgroup, facts: Facts) -> Batch:
    """Return run times of another site's jobs, at reference speed: for sites that never ran their like. Home learns by
    itself."""
    peer = core.view.peers.get(subgroup.site)
    told = peer.summary if peer is not None else None
    believed = told is not None and LEAST_SPEED <= told.speed <= MOST_SPEED
    return run_times.took(facts, told.speed) if told is not None and believed else ()


def _ratios(group: Group, subgroup: Subgroup, facts: Facts) -> Batch:
    """Return how long the jobs ran against what their group's model foretold of the site."""
    if not (group.spec.model or group.spec.learned):
        return ()
    if group.spec.is_gang:
        return run_times.took(facts, 1.0 / model_s) if (model_s := _gang_model_s(group, subgroup)) else ()
    rows = (row for decision in reversed(group.decisions) for row in decision.candidates if row.site == subgroup.site)
    model_s = next((row.model_s for row in rows if row.model_s > 0), 0.0)
    return run_times.took(facts, 1.0 / model_s) if model_s else ()


def _gang_model_s(group: Group, subgroup: Subgroup) -> float:
    """Return the seconds of a gang by its model, of a part that may teach something: the components of a program wait
    for each other, so that only the slowest show how long their own work takes; 0: it is none of these."""
    if not attempt_book.is_of_gang(group, subgroup):
        return 0.0
    decided = group.decisions[subgroup.decision].gang
    if decided is None:
        return 0.0
    slowest_s = max((place.model_s for place in decided.components), default=0.0)
    here_s = max((place.model_s for place in decided.components if place.site == subgroup.site), default=0.0)
    return slowest_s if here_s >= SLOW * slowest_s else 0.0


def _learned(core: Context, group: Group, subgroup: Subgroup, facts: Facts) -> RunSample | None:
    """Return how long the jobs ran, with the power that they had; None: nobody can tell, or others of their gang had
    more to do."""
    took = run_times.took(facts)
    runs = sum(count for _, count, _ in took)
    if not runs:
        return None
    mean_s, work = sum(total_s for *_, total_s in took) / runs, work_of(group.spec)
    decided = group.decisions[subgroup.decision].gang
    if decided is not None:
        items, whole = sum(p.items for p in decided.components), sum(p.processors for p in decided.components)
        # Seconds per unit of work at each component: the first of the slowest shows how long the gang's work takes.
        pace = [
            ((p.items / items if items else p.processors / whole) / (p.speed * p.processors), p.site)
            for p in decided.components
            if p.speed > 0
        ]
        if len(pace) < len(decided.components):
            return None
        slowest, where = max(pace, key=lambda each: each[0])
        if where != subgroup.site:
            return None
        return RunSample(work * slowest, len({site for _, site in pace}) - 1, mean_s, 1)
    speed = _speed(core, subgroup)
    if not speed:
        return None
    return RunSample(work / (speed * group.spec.resources.processors), 0, mean_s, runs)


def _speed(core: Context, subgroup: Subgroup) -> float:
    """Return the speed of the part's site; 0: it is not known, or makes no sense."""
    if subgroup.site == core.site:
        return core.state.settings.speed
    peer = core.view.peers.get(subgroup.site)
    speed = peer.summary.speed if peer is not None and peer.summary is not None else 0.0
    return speed if LEAST_SPEED <= speed <= MOST_SPEED else 0.0


def _first_error(group: Group, facts: Facts) -> str:
    """Return the line that a status shows of a batch that did not go well. A merge has no other place to say how it
    ended."""
    if facts.errors:
        return facts.errors[0].text
    if facts.indices == [group.jobs] and any(facts.signals):
        return f"{signal_name(facts.signals[0])} ended it"
    if facts.indices == [group.jobs] and facts.exit_codes[0]:
        return f"exit code {facts.exit_codes[0]}"
    return ""


def on_progress(core: Context, group: Group, message: Progress) -> None:
    known = core.view.progress.get(message.subgroup)
    if known is None or known.counter < message.counter:
        core.view.progress[SubgroupId(message.subgroup)] = message
        core.notify(group.group)
        if message.stopped:
            guard.on_stopped(core, group, group.subgroups[SubgroupId(message.subgroup)], message.stopped)
