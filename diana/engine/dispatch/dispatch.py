"""The choice of the waiting jobs that the machines are given, and when (SPEC D3, D4, D8; paper sections VI and X)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch import (
    capacity,
    claimed_ahead,
    forecast,
    licences,
    maintenance,
    renewals,
    start,
    way_book,
    wide_places,
)
from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.dispatch.licences import Pool
from diana.engine.dispatch.predictions import Predictions
from diana.engine.dispatch.wide_places import WidePlaces
from diana.engine.guard import guard, machine_guard
from diana.engine.journal.state import Custody
from diana.engine.machines import requirements
from diana.engine.machines.machine import Worker
from diana.engine.machines.requirements import Kind
from diana.engine.queue.entries import QueueEntry
from diana.engine.queue.order import Closed
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.model.ids import group_of
from diana.model.job.resources import Amounts, ResourceRequest, devices, of_job, of_machine, shared
from diana.policy.migration.plan import RAISE
from diana.policy.queueing import heavy, limits
from diana.policy.queueing.backfill import Reservation, reserve

LOOK_PAST = 500
"""Entries looked at for work that may pass a reservation; deeper ones wait, so that a look's cost is bounded."""
REST_S = 1.0
"""Seconds without another round, at most, after one that gave nothing, while nothing happens to the queue or to
machines: the jobs that the guard lets start change with time alone."""
MOST_MISSED = 64
"""Entries of a kind with needs that one round looks at in vain, though some machine has room for the kind: the exact
memory they ask, or room kept for others, stands in the way. The others of the kind wait behind them."""


def recount(core: Context) -> None:
    """Put custodies whose waiting jobs changed into the queues with their new numbers. Arrivals re-prioritise
    everything now, with the numbers as they are, and not only when there is room."""
    if not core.requeue:
        core.queues.settle(core.now)
        return
    core.workers.look_again()
    for key in sorted(core.requeue):
        custody = core.state.custodies.get(key)
        if (
            custody is None
            or not may_start(core, custody)
            or journal_doubt.stays(core, custody)
            or renewals.lapsed(core, custody)
        ):
            core.queues.remove(key)
            core.line.note(key, 0, core.now)
            core.book(Predictions).forget(key)
            core.queues.merges.discard(key)
            continue
        if start.merge_directory(core, custody):
            core.queues.merges.add(key)
        waiting, blocked = custody.startable(), core.book(StageBook).blocked(key)
        core.queues.put(
            QueueEntry(
                key,
                user=custody.owner,
                origin=custody.origin,
                kind=requirements.kind(requirements.asked(custody.spec)),
                submitted_s=custody.submitted_s,
                jobs=len(waiting),
                ready=len(waiting - blocked) if blocked else len(waiting),
                offset=RAISE if custody.raised else 0.0,
                bound=_is_bound(core, custody),
                run_s=core.run_book.expected_s(custody),
                arrived_s=custody.arrived_s,
                load=_load(core, custody),
                claims=custody.spec.is_gang,
            ),
            core.now,
        )
        arrived = core.line.note(key, len(waiting), core.now)
        if arrived > 0:
            core.line.rates.arrived(arrived, core.now)
    some = max(core.requeue)
    core.requeue.clear()
    core.queues.settle(core.now)
    forecast.learn(core, some)


def may_start(core: Context, custody: Custody) -> bool:
    """True if its jobs may be given to machines: once it is runnable, and those of a component while it is claimed."""
    if custody.spec.is_gang:
        # What of it was let go and came back would run without the others.
        return not custody.runnable and core.book(ClaimBook).begins(custody)
    return custody.runnable


def _load(core: Context, custody: Custody) -> heavy.GroupLoad:
    """Return the load of the part's group, with the inputs that this part reads. It counts when the part enters, so it
    is not added up again while it waits: a part may have a million files."""
    waits = core.queues.entries.get(custody.key)
    if waits is not None:
        return waits.load
    return heavy.load_of(custody.spec, sum(file.size_bytes for file in custody.files))


def _is_bound(core: Context, custody: Custody) -> bool:
    """True if it belongs in the local queue: meant or claimed for this site only, or with its inputs here. Others may
    move."""
    spec = custody.spec
    return (
        spec.is_gang
        or spec.sites == (core.site,)
        or bool(custody.files and not core.book(StageBook).blocked(custody.key))
    )


def dispatch(core: Context) -> None:
    """Give the machines what they have room for, best first, and nothing that would outlast a coming maintenance.

    Quick jobs of one processor are also fed ahead of free slots, so that a slot that comes free has its next job there.
    Others are given when they fit on one machine; the best one that does not fit anywhere gets a reservation on the
    machine that has room for it first, and until it starts only what does not delay it may pass there, of whatever
    priority (EASY backfilling; `wide_places.py`).
    A job that needs devices or software makes others wait only on machines that offer these; the best of the other jobs
    that does not fit has a reservation of its own, on another machine. A job no machine here can run gets none.
    """
    recount(core)
    if core.calendar.closed:
        return
    if core.queues.merges:
        _merge_without_slots(core)
    workers = core.workers
    if not len(core.queues) or workers.rests == _stamp(core) or not workers.hungry():
        return
    turn = _Round()
    _fill(core, turn)
    workers.round_over(_stamp(core) if turn.is_in_vain() else None)
    claimed_ahead.watch(core)


def _stamp(core: Context) -> tuple[int, ...]:
    """Return the stamp of a round: the runs that machines hold, the order of the queue, the machines' offers, and the
    time in steps of `REST_S`. Changes of settings, work or machines call for a new round by themselves."""
    return core.totals.runs.changes, core.queues.lifts, core.workers.offers.changes, int(core.now / REST_S)


_Caps = Callable[[Mapping[str, int]], Mapping[str, int]]
"""A function that lowers caps: machine -> the most jobs it may be given."""


_Beside = tuple[Amounts, tuple[str, ...]]


class _Round:
    """One look at the queue, to its end."""

    def __init__(self) -> None:
        self.kept: dict[str, _Kept] = {}
        self.placed: set[int] = set()
        """Numbers of the crews whose best job that fits nowhere was seen."""
        self.settled: set[_Beside] = set()
        """Requests, processors aside, whose crew is known to be in `placed`."""
        self.claimed: set[str] = set()
        self.closed = Closed()
        self.missed: Counter[Kind] = Counter()
        """Per kind that is not plain, the entries of which not all jobs could start."""
        self.promised = licences.Promised()
        self.looks = LOOK_PAST
        self.in_order = True
        self.started = 0

    def is_in_vain(self) -> bool:
        """True if another round now would give nothing either."""
        return not (self.started or any(one.free() > 0 for one in self.kept.values()))


def _in_turn(core: Context, turn: _Round) -> Iterator[tuple[QueueEntry, int]]:
    """Yield (entry, how many of its jobs stand at this place): the claim for which others end, those with a place, then
    all in the queues' order."""
    if (claim := way_book.entry(core)) is not None:
        yield claim, claim.ready
    for entry in wide_places.standing(core):
        # The round gives it the place again, unless it starts, or may not start now.
        del core.book(WidePlaces).kept[entry.key]
        yield entry, 1
    yield from core.queues.order(core.now, turn.closed)


def _fill(core: Context, turn: _Round) -> None:
    settings, workers, kept = core.state.settings, core.workers, turn.kept
    running = capacity.running_of(core) if settings.user_max_running else {}
    closing = maintenance.Closing(core)
    for entry, jobs in _in_turn(core, turn):
        custody = core.state.custodies[entry.key]
        whole_s = custody.spec.resources.time_limit_s or entry.run_s
        takes = maintenance.Takes(whole_s, maintenance.least_s(custody, whole_s))
        if (kept and _stays(core, turn, entry, custody)) or not closing.any_left(takes.least_s):
            turn.looks -= 1
            if turn.looks <= 0:
                return
            continue
        # A claim waits for a slot that is free, and would wait for ever if others were given each slot in advance.
        quick = settings.claims_ahead(entry.run_s) and not custody.spec.is_gang
        request, plain = _exactly(custody, entry), entry.kind.is_plain
        licensed = shared(request.amounts) if request.amounts else ()
        # Behind a job that waits for a licence nothing would start.
        ahead = entry.processors == 1 and quick and turn.in_order and not licensed
        claimed_ahead.pace(core, custody, waits=ahead)
        most = min(_parallel(core, custody), limits.startable(settings, running.get(entry.user, 0)))
        let = guard.allowed(core, custody) if most > 0 else 0
        most = most if let is None else min(most, let)
        pools = None
        if licensed:
            pools = licences.some_for(core, entry.kind, min(most, jobs), turn.promised)
            if not pools:
                turn.closed.add(entry.kind)
                continue
            most = min(most, sum(pool.jobs for pool in pools))
        behind = max(0, min(most, entry.ready) - jobs)
        jobs = min(jobs, most)
        capped = partial(closing.caps, entry.processors, takes)
        shares = _shares(core, custody, entry, request, jobs, behind, kept, capped, pools, ahead=ahead)
        began = start.start(core, custody, shares)
        closing.gave(shares, entry.processors, takes.whole_s)
        way_book.gave(core, custody, shares)
        turn.started += began
        if began:
            running[entry.user] = running.get(entry.user, 0) + began
        short = jobs > began
        wide = _is_wide(request)
        place = None
        if short and wide and entry.key not in core.queues.merges:
            among_these = frozenset[str]().union(*(pool.machines for pool in pools)) if pools is not None else None
            place = _place(core, turn, request, entry.kind, partial(closing.in_time, takes.least_s), among_these)
        if place is not None and not custody.spec.is_gang:
            core.book(WidePlaces).kept[entry.key] = None
        if place is not None and plain:
            # Nothing is claimed ahead of the processors kept for it, by quick jobs no more than by others.
            turn.in_order = False
        if short and pools and not began:
            _await_room(core, turn, custody, request, pools, place, capped)
        if short and not plain:
            _part(core, turn, custody, entry, request, quick=quick, ahead=ahead)
        elif short and not quick:
            # The next job takes the next free slot: nothing behind it is claimed ahead of that.
            turn.in_order = False
            if not workers.free_slots():
                workers.next_waits = True
                return
        turn.looks -= bool(kept)
        if turn.looks == 0 or not (workers.hungry(kept) or any(one.free() > 0 for one in kept.values())):
            return


def _exactly(custody: Custody, entry: QueueEntry) -> ResourceRequest:
    """Return what each of its jobs asks, to the byte; as a kind it is rounded."""
    return ResourceRequest(entry.processors, of_job(custody.spec.resources), entry.kind.capabilities)


def _stays(core: Context, turn: _Round, entry: QueueEntry, custody: Custody) -> bool:
    """True if a job without needs waits in any case, as most of a long queue do behind the best that fits nowhere: only
    kept machines have so many processors free, and their reservations do not let it pass."""
    if not entry.kind.is_plain or core.queues.merges or not core.workers.free_slots():
        return False
    if entry.processors > 1 and _PLAIN not in turn.settled:
        # It may get a machine kept for it.
        return False
    if turn.in_order and (entry.processors == 1 or not core.state.settings.claims_ahead(entry.run_s)):
        # It may be claimed ahead, or what is behind it may not any more.
        return False
    if not core.workers.fits_nowhere(entry.processors, turn.kept):
        return False
    beside = [one for one in turn.kept.values() if one.free() >= entry.processors]
    if not beside:
        turn.closed.from_width(entry.processors)
        return True
    run_s = core.run_book.expected_s(custody)
    return not any(one.reservation.lets_pass(entry.processors, run_s, one.free(), core.now) for one in beside)


_PLAIN: _Beside = ((), ())


def _is_wide(request: ResourceRequest) -> bool:
    """True for a job that may wait long for a machine to have room, if others pass it all the time."""
    return request.processors > 1 or any(count > 1 for _, count in devices(request.amounts))


def _await_room(
    core: Context,
    turn: _Round,
    custody: Custody,
    request: ResourceRequest,
    pools: list[Pool],
    place: _Kept | None,
    closing: _Caps,
) -> None:
    """Promise licences to a custody none of whose jobs could start though there are licences for some. They wait for
    room alone: wide jobs on the machine kept for them, narrow ones on any machine that may be given them."""
    caps = closing(machine_guard.caps(core, group_of(custody.subgroup), custody))
    some = {name for pool in pools for name in pool.machines if caps.get(name, 1) > 0}
    if _is_wide(request):
        some = {place.worker.name} if place is not None else set()
    licences.await_room(turn.promised, pools, shared(request.amounts), some)


def _place(
    core: Context,
    turn: _Round,
    request: ResourceRequest,
    kind: Kind,
    in_time: Callable[[str, float], bool],
    among_these: Container[str] | None,
) -> _Kept | None:
    """Keep a machine for the best job of its crew that fits nowhere, if it can be over there `in_time`.
    `among_these`: the machines to choose from, since on others it waits for more than processors; None: any."""
    beside = (kind.amounts, kind.capabilities)
    if beside in turn.settled:
        return None
    # Over several machines it has its memory in parts, so that alone one process may have none that is large enough.
    over = kind.processors if kind.spreads else 1
    crew = core.workers.crew(kind._replace(processors=over))
    if crew.number in turn.placed:
        if over == 1:
            turn.settled.add(beside)
        return None
    found = _keep(core, request, turn.claimed, among_these)
    if found is not None and in_time(found.worker.name, found.reservation.start_s):
        turn.kept[found.worker.name] = found
        # Others have a place of their own only where such jobs cannot run at all.
        turn.claimed |= {worker.name for worker in crew.here}
    if turn.kept:
        turn.placed.add(crew.number)
    return found if found is not None and found.worker.name in turn.kept else None


def _part(
    core: Context,
    turn: _Round,
    custody: Custody,
    entry: QueueEntry,
    request: ResourceRequest,
    *,
    quick: bool,
    ahead: bool,
) -> None:
    """Handle an entry that is not plain and of which not all jobs could start. Others wait for them only on machines
    that can run such jobs at all; if no more can start there, none that the same machines can run comes in this
    round."""
    workers, kind = core.workers, entry.kind
    crew = workers.crew(kind)
    caps = machine_guard.caps(core, group_of(custody.subgroup), custody)
    if not quick or of_machine(request.amounts):
        # They do not wait for a machine that is to have no more of their group, nor for one where they lack more than
        # a slot.
        some = (worker for worker in crew.here if caps.get(worker.name, 1) > 0)
        workers.feed_no_more(worker for worker in some if workers.fit_beside(worker, request.amounts) > 0)
    turn.missed[kind] += 1
    if not workers.any_has_room(crew, kind, ahead=ahead):
        # No machine could be kept for this one, by its memory; one may be for the next.
        alone = _is_wide(request) and crew.here and not turn.kept
        like = (kind.processors, of_machine(kind.amounts), crew.number)
        turn.closed.add(*([kind] if alone else capacity.kinds(core).alike.get(like, (kind,))))
    elif turn.missed[kind] >= MOST_MISSED:
        turn.closed.add(kind)


class _Kept(NamedTuple):
    """The machine on which the best job that fits nowhere has its place."""

    worker: Worker
    reservation: Reservation

    def free(self) -> int:
        return self.worker.lane.slots - self.worker.lane.load


def _keep(
    core: Context, request: ResourceRequest, claimed: Container[str], among_these: Container[str] | None
) -> _Kept | None:
    """Return the machine where such a job can start first; of equals the one with most left beside it, then by name."""
    best: tuple[float, int, _Kept] | None = None
    pieces = devices(request.amounts)
    for worker in core.workers.takers(request):
        if among_these is not None and worker.name not in among_these:
            continue
        lane = worker.lane
        # Where a batch system hands devices out, jobs that want several wait there as any others do.
        if worker.name not in claimed and (request.processors > 1 or not core.workers.hands_out(worker)):
            free, ends = lane.slots - lane.load, capacity.ends(core, lane)
            left = core.workers.left(worker, pieces)
            found = reserve(request.processors, free, ends, core.now, pieces, left)
            if best is None or (found.start_s, -found.spare) < best[:2]:
                best = (found.start_s, -found.spare, _Kept(worker, found))
    return best[2] if best else None


def _shares(
    core: Context,
    custody: Custody,
    entry: QueueEntry,
    request: ResourceRequest,
    jobs: int,
    behind: int,
    kept: Mapping[str, _Kept],
    closing: _Caps,
    pools: list[Pool] | None,
    *,
    ahead: bool,
) -> dict[str, int]:
    """Return machine -> how many of the jobs it gets now. `closing` lowers what a machine may be given. `pools`: the
    machines that have licences for them; None: they want none."""
    if jobs <= 0:
        return {}
    workers = core.workers
    if custody.key in core.queues.merges:
        own = workers.find(workers.own)
        return {own.name: 1} if own and own.counted.room and own.name not in kept else {}
    if not entry.kind.is_plain and not workers.any_has_room(workers.crew(entry.kind), request, ahead=ahead):
        # A cheap look, before all machines are gone through for the few that have it.
        return {}
    others = machine_guard.caps(core, group_of(custody.subgroup), custody)
    caps = closing(way_book.caps(core, custody, entry.processors, others))
    if pools is None:
        return _dealt(core, custody, request, jobs, behind, kept, caps, ahead=ahead)
    shares: dict[str, int] = {}
    for pool in pools:
        most = min(jobs - sum(shares.values()), pool.jobs)
        shares |= _dealt(core, custody, request, most, 0, kept, caps, _Others(pool.machines), ahead=ahead)
    return shares


class _Others:
    """The names of all machines but these."""

    def __init__(self, these: frozenset[str]) -> None:
        self._these = these

    def __contains__(self, name: object) -> bool:
        return name not in self._these


class _Either:
    def __init__(self, *some: Container[str]) -> None:
        self._some = some

    def __contains__(self, name: object) -> bool:
        return any(name in names for names in self._some)


def _dealt(
    core: Context,
    custody: Custody,
    request: ResourceRequest,
    jobs: int,
    behind: int,
    kept: Mapping[str, _Kept],
    caps: Mapping[str, int],
    others: Container[str] | None = None,
    *,
    ahead: bool,
) -> dict[str, int]:
    """Return machine -> how many of the jobs it gets; the machines of `others` get none."""
    workers = core.workers
    if not kept:
        return workers.share_out(request, jobs, () if others is None else others, behind, caps, ahead=ahead)
    spared: Container[str] = kept if others is None else _Either(kept, others)
    processors, pieces = request.processors, devices(request.amounts)
    shares: dict[str, int] = {}
    if ahead or not workers.fits_nowhere(processors):
        shares = workers.share_out(request, jobs, spared=spared, caps=caps, ahead=ahead)
    left = jobs - sum(shares.values())
    for name, one in kept.items():
        free = one.free() if left else 0
        if free < processors or name in caps or (others is not None and name in others):
            continue
        if not workers.offers.takes(one.worker, request):
            continue
        run_s = core.run_book.expected_s(custody)
        beside = workers.left(one.worker, pieces)
        most = one.reservation.lets_pass(processors, run_s, free, core.now, pieces, beside)
        passing = min(left, most, workers.fit_beside(one.worker, request.amounts))
        if passing:
            one.reservation.passed(passing * processors, run_s, core.now, pieces, passing)
            workers.took((name,))
            shares[name] = passing
            left -= passing
    return shares


def _merge_without_slots(core: Context) -> None:
    """Start a merge command here though all slots are other machines', one at a time."""
    own = core.workers.find(core.workers.own)
    if own is None or own.session is None or own.lane.slots or own.lane.load:
        return
    for key in sorted(core.queues.merges):
        if core.state.custodies[key].startable():
            start.start(core, core.state.custodies[key], {own.name: 1})
            return


def _parallel(core: Context, custody: Custody) -> int:
    """Return how many more of its jobs may run at once, by the group's `max_parallel`."""
    return custody.max_parallel - len(custody.running) if custody.max_parallel else len(custody.pending)
