"""Starts of jobs on machines: the records of them, and the orders to the machines."""

from __future__ import annotations

from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch import maintenance, renewals
from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.dispatch.predictions import Predictions
from diana.engine.guard import guard
from diana.engine.journal.effects import GATHERED, Start
from diana.engine.journal.records import RunsStarted
from diana.engine.journal.state import Custody
from diana.engine.site.context import Context
from diana.engine.site.timers import CustodyTimer
from diana.model.ids import group_of
from diana.model.indexset import IndexSet


def start(core: Context, custody: Custody, shares: dict[str, int]) -> int:
    """Start that many ready jobs of the custody on each machine; return how many started in all."""
    if not shares:
        return 0
    blocked = core.book(StageBook).blocked(custody.key)
    waiting = custody.startable()
    ready = waiting - blocked if blocked else waiting
    first, started = ready.bounds[:1], 0
    for machine, jobs in shares.items():
        indices, ready = ready.take(jobs)
        if indices:
            _give(core, custody, machine, indices)
            started += len(indices)
    if not started:
        return 0
    guard.counted(core, custody)
    core.queues.took(custody.key, started)
    core.line.rates.started(started, core.now)
    core.count("jobs_started", started)
    core.line.note(custody.key, len(custody.startable()), core.now)
    core.book(Predictions).given(custody.key, first[0])
    if custody.origin != core.site:
        core.moved.add(custody.key)
    else:
        core.notify(group_of(custody.subgroup))
    return started


def _give(core: Context, custody: Custody, machine: str, indices: IndexSet) -> None:
    worker = core.workers.find(machine)
    assert worker is not None and worker.session is not None
    core.persist(RunsStarted(subgroup=custody.subgroup, epoch=custody.epoch, indices=indices, worker=machine))
    core.run_book.started_s.setdefault(custody.key, {}).update(dict.fromkeys(indices, core.now))
    save_later(core, custody)
    core.emit(
        Start(
            worker=machine,
            session=worker.session,
            term=core.term,
            subgroup=custody.subgroup,
            epoch=custody.epoch,
            owner=custody.owner,
            spec=custody.spec,
            indices=indices,
            attempts=tuple((i, custody.running[i]) for i in indices if custody.running[i] > 1),
            directory=merge_directory(core, custody),
            lease=custody.origin if renewals.leased(core, custody) else "",
            barrier_s=core.book(ClaimBook).held_until(custody, core.now),
            saved=tuple(job for job in custody.saved if job.index in indices),
        )
    )


def save_later(core: Context, custody: Custody) -> None:
    """Have jobs be asked to save before their machines close, and those that run for long enough where their checkpoint
    is made now and then."""
    maintenance.ask_in_time(core, custody)
    checkpoint, timer = custody.spec.checkpoint, CustodyTimer("save", *custody.key)
    if checkpoint is not None and checkpoint.every_s and timer not in core.timers:
        core.after(timer, checkpoint.every_s)


def merge_directory(core: Context, custody: Custody) -> str:
    """Return the folder in which the merge command runs; empty for ordinary jobs."""
    group = core.state.groups.get(group_of(custody.subgroup)) if custody.origin == core.site else None
    if group is None or custody.indices.bounds[:1] != (group.jobs,):
        return ""
    return group.spec.outputs.folder or GATHERED
