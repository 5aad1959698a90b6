"""The origin accepts results: exactly one per job, by the epoch that counts (PROMISES 1.5 and section 2, step 8)."""

from __future__ import annotations

from typing import NamedTuple

from diana.engine.data import outputs
from diana.engine.guard import guard
from diana.engine.journal.effects import KeepFacts, SendResult
from diana.engine.journal.records import JobsCancelled, ResultAccepted, ResultStale, facts_key
from diana.engine.journal.state import Group, Subgroup
from diana.engine.messages.messages import Progress, Result, ResultAck
from diana.engine.site import run_times
from diana.engine.site.context import Context
from diana.engine.site.timers import PartTimer
from diana.model.facts import MOST_ATTEMPTS, Facts, Outcome
from diana.model.ids import SubgroupId
from diana.model.indexset import IndexSet
from diana.model.sketch import Batch

LEAST_SPEED, MOST_SPEED = 1e-3, 1e3
"""Least and most speed that a peer is believed."""
_HELD = (Outcome.UNKNOWN, Outcome.INTERRUPTED)


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
    )


def on_result(core: Context, group: Group, subgroup: Subgroup, message: Result) -> None:
    """Accept a batch of results from another site, which tells it again until it is acknowledged."""
    batch = message.batch
    if batch not in subgroup.batches and _disowned(subgroup, message):
        jobs = len(message.facts.indices) + len(message.cancelled)
        core.persist(ResultStale(subgroup=subgroup.subgroup, epoch=subgroup.epoch, batch=batch, jobs=jobs))
        core.count("stale_results")
    if batch not in subgroup.batches:
        wrong = _nonsense(group, subgroup, message)
        if wrong:
            core.warn(f"{subgroup.site} reports of {subgroup.subgroup}: {wrong}")
            return
        ends = Ends(message.facts, message.cancelled, message.revoked)
        told_by = (message.db_uuid, message.seq)
        accept(core, group, subgroup, batch, ends, message.bytes_staged, keep=True, told_by=told_by)
        core.settle(PartTimer("commit", subgroup.subgroup))
    key = facts_key(subgroup.subgroup, subgroup.epoch, batch)
    taken = key not in group.gathers and key not in group.not_gathered
    core.send(
        subgroup.site, ResultAck(subgroup=subgroup.subgroup, epoch=subgroup.epoch, batch=batch, outputs_taken=taken)
    )


def _disowned(subgroup: Subgroup, message: Result) -> bool:
    """True if all jobs that it names were placed anew since."""
    named = IndexSet.of(message.facts.indices) | message.cancelled | message.revoked
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
    if not revoked.issubset(subgroup.recalled):
        return "jobs that were not recalled"
    if group.settled(named):
        return "jobs that have a result"
    if facts.attempts and not 0 <= min(facts.attempts) <= max(facts.attempts) <= MOST_ATTEMPTS:
        return "attempts nobody makes"
    return ""


def accept(
    core: Context,
    group: Group,
    subgroup: Subgroup,
    batch: int,
    ends: Ends,
    bytes_staged: int,
    *,
    keep: bool,
    told_by: tuple[str, int] = ("", 0),
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
        else:
            failed.append(index)
    key = facts_key(subgroup.subgroup, subgroup.epoch, batch)
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
            has_outputs=bool(facts.outputs),
            first_start_s=max(0.0, min(started) - group.submitted_s) if started else -1.0,
            last_end_s=max(0.0, max(facts.ended_s) - group.submitted_s) if facts.ended_s else -1.0,
            bytes_staged=bytes_staged,
            attempts=max(facts.attempts, default=0),
            note=_first_error(group, facts),
            took=_work(core, subgroup, facts),
            output_bytes=run_times.left_bytes(facts, done),
            revoked=ends.revoked,
            db_uuid=told_by[0],
            seq=told_by[1],
        )
    )
    for kind, indices in (("done", done), ("failed", failed), ("cancelled", stopped), ("unknown", held)):
        core.count(f"jobs_{kind}", len(indices))
    core.count("jobs_cancelled", len(ends.cancelled))
    guard.accepted(core, group, subgroup, facts)
    if facts.outputs:
        outputs.begin(core, group, key, subgroup.site, sum(o.size_bytes for o in facts.outputs))
    if ends.revoked:
        # Some may have been cancelled when they were on their way back already.
        cancel_unplaced(core, group, subgroup.cancelling)
        core.to_place.add(group.group)
    if not subgroup.open_jobs():
        core.settle(PartTimer("control", subgroup.subgroup))
        core.view.progress.pop(subgroup.subgroup, None)
        if group.unplaced and group.spec.max_parallel:
            # Its share of max_parallel is free for jobs that waited for it.
            core.to_place.add(group.group)
    core.to_check.add(group.group)
    core.notify(group.group)


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


def _first_error(group: Group, facts: Facts) -> str:
    """Return the line that a status shows of a batch that did not go well. A merge has no other place to say how it
    ended."""
    if facts.errors:
        return facts.errors[0].text
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
