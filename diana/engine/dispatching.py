"""Which waiting jobs the machines are given, and when (SPEC D3, D4, D8; paper sections VI and X)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from diana.engine import forecast, guard, load, machine_guard, recovery, renewing, wants
from diana.engine.context import Context
from diana.engine.effects import GATHERED, Start
from diana.engine.entries import Entry
from diana.engine.records import RunsStarted
from diana.engine.state import Custody
from diana.engine.wants import PLAIN, Kind, Needs, Want, of_kind
from diana.engine.worker import Worker
from diana.engine.workers import MANY
from diana.model.ids import group_of
from diana.model.indexset import IndexSet
from diana.policy import limits
from diana.policy.backfill import Reservation, reserve
from diana.policy.migration import RAISE

LOOK_PAST = 500
"""Entries looked at for work that may pass a reservation; deeper ones wait, so that a look's cost is bounded."""


def recount(core: Context) -> None:
    """Custodies whose waiting jobs changed stand in the queues with their new numbers; what came re-prioritises all
    now, with the numbers as they are, and not only when there is room."""
    if not core.requeue:
        core.queues.settle(core.now)
        return
    core.workers.next_waits = False
    for key in sorted(core.requeue):
        custody = core.state.custodies.get(key)
        if custody is None or not custody.runnable or recovery.stays(core, custody) or renewing.lapsed(core, custody):
            core.queues.remove(key)
            core.line.note(key, 0, core.now)
            core.predictions.forget(key)
            core.merges.discard(key)
            continue
        if _merge_directory(core, custody):
            core.merges.add(key)
        waiting, blocked = custody.startable(), core.staging.blocked(key)
        core.queues.put(
            Entry(
                key,
                user=custody.owner,
                origin=custody.origin,
                processors=custody.spec.resources.processors,
                submitted_s=custody.submitted_s,
                jobs=len(waiting),
                ready=len(waiting - blocked) if blocked else len(waiting),
                offset=RAISE if custody.raised else 0.0,
                bound=_is_bound(core, custody),
                run_s=load.expected_s(core, custody),
                needs=wants.needs(custody.spec),
            ),
            core.now,
        )
        arrived = core.line.note(key, len(waiting), core.now)
        if arrived > 0:
            core.migration.rates.arrived(arrived, core.now)
    some = max(core.requeue)
    core.requeue.clear()
    core.queues.settle(core.now)
    forecast.learn(core, some)


def _is_bound(core: Context, custody: Custody) -> bool:
    """In the local queue: submitted for this site only, or with its inputs here already. Else it may still move."""
    spec = custody.spec
    return spec.sites == (core.site,) or bool(custody.files and not core.staging.blocked(custody.key))


def dispatch(core: Context) -> None:
    """Give the machines what they have room for, best first.

    Quick jobs of one processor are also fed ahead of free slots, so that a slot that comes free has its next job there.
    Others are given when they fit on one machine; the best one that does not fit anywhere gets a reservation on the
    machine that has room for it first, and from then on only what does not delay it may pass there (EASY backfilling).
    For a job that needs GPUs or software others wait on machines that offer these alone; the best of the others that
    does not fit has a place of its own, on a machine that does not. What no machine here can run takes no place.
    """
    recount(core)
    if core.merges:
        _merge_without_slots(core)
    if not len(core.queues) or not core.workers.hungry():
        return
    _fill(core)
    core.workers.round_over()


def _fill(core: Context) -> None:
    settings, workers = core.state.settings, core.workers
    kept: dict[str, _Kept] = {}
    placed: set[Needs] = set()
    claimed: set[str] = set()
    closed: set[Kind] = set()
    looks, in_order = LOOK_PAST, True
    running = load.running_of(core) if settings.user_max_running else {}
    for entry, jobs in core.queues.order(core.now, closed):
        custody = core.state.custodies[entry.key]
        quick = settings.claims_ahead(entry.run_s)
        ahead = entry.processors == 1 and quick and in_order
        want = Want(entry.processors, custody.spec.resources.memory_bytes, ahead, *entry.needs)
        most = min(_parallel(core, custody), limits.startable(settings, running.get(entry.user, 0)))
        let = guard.allowed(core, custody) if most > 0 else 0
        most = most if let is None else min(most, let)
        behind = max(0, min(most, entry.ready) - jobs)
        jobs = min(jobs, most)
        starting = _start(core, custody, _shares(core, custody, want, jobs, behind, kept))
        if starting:
            running[entry.user] = running.get(entry.user, 0) + starting
        short = jobs > starting
        wide = want.processors > 1 or want.gpus > 1
        if short and entry.needs not in placed and wide and entry.key not in core.merges:
            found = _keep(core, want, claimed)
            if found is not None:
                kept[found.worker.name] = found
                # Others have a place of their own only where such jobs cannot run at all.
                claimed |= {worker.name for worker in workers.takers(of_kind((1, entry.needs)))}
            if kept:
                placed.add(entry.needs)
        if short and entry.needs is not PLAIN:
            # Only where such jobs can run at all does anything wait for them.
            takers = workers.takers(want)
            if not quick or want.gpus:
                # Of those, where it only waits for a slot.
                workers.feed_no_more(worker for worker in takers if workers.free_gpus(worker) >= want.gpus)
            if _none_starts(core, want, kept):
                closed.add((want.processors, entry.needs))
        elif short and not quick:
            # What is next takes the next free slot: nothing behind it is claimed ahead of that.
            in_order = False
            if not workers.free_slots():
                workers.next_waits = True
                return
        looks -= bool(kept)
        if looks == 0 or not (workers.hungry(kept) or any(one.free() > 0 for one in kept.values())):
            return


class _Kept(NamedTuple):
    """The machine on which the best job that fits nowhere has its place."""

    worker: Worker
    reservation: Reservation

    def free(self) -> int:
        return self.worker.lane.slots - self.worker.lane.load


def _keep(core: Context, want: Want, claimed: Container[str]) -> _Kept | None:
    """Where such a job can start first, of equals where most is left beside it, then by name."""
    best: tuple[float, int, _Kept] | None = None
    for worker in core.workers.takers(want):
        lane, devices = worker.lane, core.workers.free_gpus(worker)
        # Where a batch system hands GPUs out, what wants several waits there as anything else does.
        if worker.name not in claimed and (want.processors > 1 or devices < MANY):
            free, ends = lane.slots - lane.load, load.ends(core, lane)
            found = reserve(want.processors, free, ends, core.now, gpus=want.gpus, free_gpus=devices)
            if best is None or (found.start_s, -found.spare) < best[:2]:
                best = (found.start_s, -found.spare, _Kept(worker, found))
    return best[2] if best else None


def _none_starts(core: Context, want: Want, kept: Mapping[str, _Kept]) -> bool:
    """No job of this kind is given to anybody any more in this round, whatever memory it asks for."""
    takers = core.workers.takers(want._replace(memory_bytes=0))
    return not any(worker.name in kept or core.workers.has_room(worker, want) for worker in takers)


def _shares(
    core: Context, custody: Custody, want: Want, jobs: int, behind: int, kept: Mapping[str, _Kept]
) -> dict[str, int]:
    """Machine -> how many of the jobs it gets now."""
    if jobs <= 0:
        return {}
    workers = core.workers
    if custody.key in core.merges:
        own = workers.find(workers.own)
        return {own.name: 1} if own and own.counted[2] and own.name not in kept else {}
    caps = machine_guard.caps(core, group_of(custody.subgroup), custody)
    if not kept:
        return workers.share_out(want, jobs, behind=behind, caps=caps)
    shares = workers.share_out(want, jobs, spared=kept, caps=caps)
    left = jobs - sum(shares.values())
    run_s = load.expected_s(core, custody) if left else 0.0
    for name, one in kept.items():
        if not left or name in caps or not workers.suits(one.worker, want):
            continue
        free, devices = max(0, one.free()), workers.free_gpus(one.worker)
        most = one.reservation.lets_pass(want.processors, run_s, free, core.now, gpus=want.gpus, free_gpus=devices)
        passing = min(left, most)
        if passing:
            one.reservation.passed(passing * want.processors, run_s, core.now, gpus=passing * want.gpus)
            workers.took((name,))
            shares[name] = passing
            left -= passing
    return shares


def _merge_without_slots(core: Context) -> None:
    """A merge command runs here even where all slots are other machines': one at a time."""
    own = core.workers.find(core.workers.own)
    if own is None or own.session is None or own.lane.slots or own.lane.load:
        return
    for key in sorted(core.merges):
        if core.state.custodies[key].startable():
            _start(core, core.state.custodies[key], {own.name: 1})
            return


def _parallel(core: Context, custody: Custody) -> int:
    """How many more of its jobs may run at once: by the group's `max_parallel`."""
    return custody.max_parallel - len(custody.running) if custody.max_parallel else len(custody.pending)


def _start(core: Context, custody: Custody, shares: dict[str, int]) -> int:
    """Start that many ready jobs of the custody on each machine; how many there were."""
    if not shares:
        return 0
    blocked = core.staging.blocked(custody.key)
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
    guard.given(core, custody)
    core.queues.took(custody.key, started)
    core.migration.rates.started(started, core.now)
    core.count("jobs_started", started)
    core.line.note(custody.key, len(custody.startable()), core.now)
    core.predictions.given(custody.key, first[0])
    if custody.origin != core.site:
        core.moved.add(custody.key)
    else:
        core.notify(group_of(custody.subgroup))
    return started


def _give(core: Context, custody: Custody, machine: str, indices: IndexSet) -> None:
    worker = core.workers.find(machine)
    assert worker is not None and worker.session is not None
    core.persist(RunsStarted(subgroup=custody.subgroup, epoch=custody.epoch, indices=indices, worker=machine))
    core.started_s.setdefault(custody.key, {}).update(dict.fromkeys(indices, core.now))
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
            directory=_merge_directory(core, custody),
            lease=custody.origin if renewing.leased(core, custody) else "",
        )
    )


def _merge_directory(core: Context, custody: Custody) -> str:
    """Where the merge command runs; empty for ordinary jobs."""
    group = core.state.groups.get(group_of(custody.subgroup)) if custody.origin == core.site else None
    if group is None or custody.indices.bounds[:1] != (group.jobs,):
        return ""
    return group.spec.outputs.folder or GATHERED
