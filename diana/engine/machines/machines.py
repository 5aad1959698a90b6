"""The machines of this site that run jobs: who is there, who has room, and what the site has in all (SPEC D8).

Each machine's spawner is a worker with a session of its own. Looks cost by the machines that changed since the last
one, never by all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from heapq import heapify, heappop, heappush
from math import ceil, exp2, floor, log2

from diana.engine.journal.state import Machine, SiteState
from diana.engine.machines.machine import MANY, MANY_BYTES, Counted, Key, Worker, fitting, lanes_of
from diana.engine.machines.requirements import Kind
from diana.engine.machines.running import GivenRuns, Lane
from diana.engine.machines.software import Crew, Offers, Sorted, together
from diana.model.ids import MAIN_MACHINE
from diana.model.job.resources import SCRATCH, SIZES, Amounts, ResourceOffer, ResourceRequest, devices, of_machine
from diana.model.settings import Settings

NO_CAPS: Mapping[str, int] = {}
AHEAD_S = 0.5
"""Seconds for which short jobs claimed ahead are expected to keep a machine's slots busy."""
MOST_AHEAD = 128
"""Jobs claimed ahead by time for each slot, at most."""
LEAST_PACE_S = 0.001
_NUMBER_WILL_DO = -4
"""From a quarter of a second on the jobs that are claimed ahead in any case last as long."""


def most_ahead(settings: Settings, slots: int) -> int:
    """Processors' worth of jobs that a machine which gives back what it has not begun may claim beyond its slots."""
    return settings.claim_ahead or max(settings.ahead_of(slots), MOST_AHEAD * slots)


class Workers:
    """All workers of the site: its machines and clusters. `own` is the machine the node itself runs on: its slots are
    those of the settings, the others bring theirs."""

    def __init__(self, runs: GivenRuns, state: SiteState, now: float) -> None:
        self._runs = runs
        self._state = state
        self._workers: dict[str, Worker] = {}
        self._away: dict[str, Worker] = {}
        self._heap: list[Key] = []
        self._sizes: Counter[int] = Counter()
        self._slots = self._free = self._room = 0
        self._served: dict[str, None] = {}
        self._deep: dict[str, None] = {}
        """Workers that say themselves how much they are given ahead."""
        self._unfed: dict[str, None] = {}
        """Workers that are given nothing ahead of free slots in this round: the next job waits for them."""
        self._idle: dict[str, Worker] = {}
        """Workers with free slots that are to be given jobs."""
        self.own = MAIN_MACHINE
        self.closed: Mapping[str, str] = {}
        """Machines that are under maintenance, by name, and why."""
        self.offers = Offers(self._workers, self.own, state.settings)
        self.next_waits = False
        """True if the next job in the queue takes the next free slot: nothing is given before there is one."""
        self.rests: tuple[int, ...] | None = None
        """Stamp of the last round if it gave nothing: while `dispatch/dispatch.py` counts the same, another round would
        give nothing either. None: it may give something."""
        self._pace: int | None = None
        """Run time of the jobs given next, in half powers of two seconds, rounded up; None: by number will do."""
        self.ahead_by_time = False
        """True while a machine may hold more by `paced` than by number."""
        self.told_slots = -1
        """Slots that the queues were last told."""
        for name, machine in state.machines.items():
            runs.configure(0 if machine.gone else machine.slots, name)
        for name in runs.lanes:
            worker = self._worker(name, now)
            if name in state.machines:
                worker.is_like(state.machines[name])

    # --- what happens to machines ----------------------------------------------------------------------

    def own_is(self, name: str, now: float) -> None:
        """Begin when the node starts, on the machine of this name."""
        self.own = name
        self.offers.own = name
        known = self._state.machines.get(MAIN_MACHINE)
        if name != MAIN_MACHINE:
            self._runs.configure(known.slots if known and not known.gone else 0)
        self._worker(name, now)
        self.configured()

    def configured(self) -> None:
        """Take over changed settings."""
        self.look_again()
        self.offers.has(self._state.settings)
        self._runs.configure(self._state.settings.slots, self.own)
        self._runs.touched |= dict.fromkeys(self._workers)

    def site_offers(self, software: tuple[str, ...]) -> None:
        """Set the software that jobs may ask for at machines that do not say it themselves."""
        self.offers.default = software
        self.offers.changed()
        self.look_again()

    def look_again(self) -> None:
        """Forget the outcome of the last round: another may come to something else now."""
        self.next_waits, self.rests = False, None

    def ready(self, name: str, session: int, machine: Machine, now: float) -> None:
        worker = self._worker(name, now)
        worker.session = session
        worker.is_like(machine)
        self.rests = None
        self.offers.changed(name)
        self._away.pop(name, None)
        self._expect(worker, True)

    def sized(self, name: str, ahead: int, delay_s: float = 0.0, trouble: str = "") -> None:
        """Set how many processors' worth of jobs the worker is given `ahead`, beyond its slots (-1: as the settings
        say), and the `delay_s` before it starts anything."""
        worker = self._workers[name]
        worker.trouble = trouble
        if delay_s != worker.lane.delay_s:
            worker.lane.delay_s = delay_s
            self._runs.changes += 1
        if ahead != worker.ahead:
            worker.ahead = ahead
            self._runs.touched[name] = None
        if ahead >= 0:
            self._deep[name] = None
        else:
            self._deep.pop(name, None)

    def paced(self, run_s: float | None) -> None:
        """Say that the jobs given next run so long each, as was seen of them; None: they are claimed ahead by number
        alone. Machines that give back what has not begun are given short ones ahead by time."""
        steps = None if run_s is None else ceil(2.0 * log2(max(run_s, LEAST_PACE_S)))
        if steps is not None and steps >= _NUMBER_WILL_DO:
            steps = None
        if steps == self._pace:
            return
        self._pace = steps
        self._runs.touched |= dict.fromkeys(self._runs.recalling)

    def is_paced(self, lane: Lane) -> bool:
        """True if the machine may be given jobs ahead by time."""
        return lane.name in self._runs.recalling and lane.name not in self._deep

    def stalled(self, lane: Lane) -> None:
        """Give the machine nothing ahead by time until a job of those on its slots is over."""
        lane.stalled = True
        self._runs.touched[lane.name] = None

    def by_number_again(self) -> None:
        """Say that no machine holds more than by number; each is counted anew before it is given any."""
        self.ahead_by_time = False
        self._runs.touched |= dict.fromkeys(self._runs.recalling)

    def _ahead_by_time(self, lane: Lane) -> int:
        """Return the processors' worth of jobs that it may hold ahead, so that it is busy for `AHEAD_S`."""
        if self._pace is None or lane.stalled or not self.is_paced(lane):
            return 0
        more = floor((AHEAD_S * lane.slots - lane.ahead_s) / exp2(0.5 * self._pace))
        self.ahead_by_time = True
        return min(MOST_AHEAD * lane.slots, lane.load - lane.used + max(0, more))

    def scratch_seen(self, name: str, free_bytes: int) -> None:
        """Note how much is free just now of the disk where the worker's jobs have their scratch directories."""
        worker = self._workers[name]
        before = worker.scratch_room
        worker.scratch_seen(free_bytes)
        if worker.scratch_room != before:
            self.offers.changed(name)
            self._runs.touched[name] = None
            self.look_again()

    def lost(self, name: str, now: float, why: str = "") -> None:
        worker = self._worker(name, now)
        worker.trouble = why
        if worker.session is not None:
            worker.session, worker.away_since_s = None, now
            self._away[name] = worker
            self.rests = None
            self.offers.changed(name)
        self._runs.touched[name] = None

    def not_expected(self, name: str, now: float) -> None:
        """Count without a member machine that is away for long."""
        worker = self._worker(name, now)
        if worker.session is None and name != self.own:
            self._expect(worker, False)

    def _expect(self, worker: Worker, there: bool) -> None:
        worker.lane.away = not there
        self._runs.changes += 1
        self._runs.touched[worker.name] = None

    def close(self, closed: Mapping[str, str]) -> None:
        """Close the named machines, which have no slots for now, with the reasons; all others are open."""
        for worker in self._workers.values():
            why = closed.get(worker.name, "")
            if why != worker.closed:
                worker.closed = why
                self.offers.changed(worker.name)
                self._runs.changes += 1
                self._runs.touched[worker.name] = None
                self.next_waits = False
        self.closed = closed

    # --- questions -------------------------------------------------------------------------------------

    def there(self) -> bool:
        """True if some machine can be given jobs."""
        return len(self._away) < len(self._workers)

    def trouble(self) -> str:
        """One line on the trouble of the first machine by name that has any; empty: none has."""
        told = ((name, self._workers[name].closed or self._workers[name].trouble) for name in self.names())
        return next((f"{name}: {trouble}" for name, trouble in told if trouble), "")

    def names(self) -> list[str]:
        return sorted(self._workers)

    def find(self, name: str) -> Worker | None:
        return self._workers.get(name)

    def slots(self) -> int:
        """Return the slots of all machines that are here or soon will be."""
        self._settle()
        return self._slots

    def free_slots(self) -> int:
        """Return how many of `slots` nothing running or claimed ahead wants."""
        self._settle()
        return self._free

    def load(self) -> int:
        """Return the processors of the jobs that all machines hold, as far as they have told."""
        return sum(lane.load for lane in self._runs.lanes.values())

    def offer(self) -> ResourceOffer:
        """Return the most of each resource by itself that one job may want at any machine that is here or soon will
        be."""
        self._settle()
        return self.offers.whole()

    def offer_now(self) -> ResourceOffer:
        """Return the same of the machines that are here."""
        self._settle()
        here = (self.offers.of(worker) for worker in self._workers.values() if worker.session is not None)
        return together({id(offer): offer for offer in here}.values())

    def widest(self, request: ResourceRequest | None = None) -> int:
        """Return the most processors that one job can have; one that may lie on several machines of a cluster, those of
        all."""
        offer = self.offer()
        return (offer.spread if request is not None and request.spreads else 0) or offer.processors

    def lanes(self, request: ResourceRequest) -> int:
        """Return how many such jobs run at once, by their processors, devices and capabilities, if there is nothing
        else; neither sizes nor licences count."""
        self._settle()
        if not request.capabilities and all(name in SIZES for name, _ in request.amounts):
            return lanes_of(self._sizes, request.processors)
        some, pieces = self.offers.those(request), devices(request.amounts)
        if request.spreads:
            return sum(worker.counted.slots // request.processors for worker in some)
        found = 0
        for worker in some:
            lanes = lanes_of(worker.sizes, request.processors)
            for name, each in pieces:
                lanes = min(lanes, worker.whole.get(name, 0) // each)
            found += lanes
        return found

    def whole(self, resource: str) -> int:
        """Return how much of a resource, which is there in whole pieces, all machines have that are here or soon will
        be."""
        self._settle()
        return self.offers.whole_of(resource)

    def idle(self, resource: str) -> int:
        """Return how much of that no job asked for."""
        self._settle()
        some = (worker for worker in self._workers.values() if worker.counted.slots and resource in worker.whole)
        return sum(min(self.free_of(worker, resource), worker.whole[resource]) for worker in some)

    def hands_out(self, worker: Worker) -> bool:
        """True if jobs wait there for what a batch system hands out."""
        return worker.name in self._deep

    def left(self, worker: Worker, amounts: Amounts) -> dict[str, int]:
        """Return how much the worker has left of each of its own resources among these that no job it holds asked
        for."""
        return {name: self.free_of(worker, name) for name, _ in of_machine(amounts)}

    def fit_beside(self, worker: Worker, amounts: Amounts) -> int:
        """Return how many jobs with these amounts what is left will do for, processors and licences aside."""
        return min((self.free_of(worker, name) // each for name, each in of_machine(amounts)), default=MANY)

    def free_of(self, worker: Worker, resource: str) -> int:
        """Return how much of one of the worker's own resources is there for jobs and promised to none."""
        if resource == SCRATCH:
            room = worker.scratch_room
            return MANY_BYTES if room < 0 else max(0, room - worker.lane.held[SCRATCH])
        # Where a batch system hands them out, there are always enough: jobs wait for them there.
        if worker.name in self._deep:
            return MANY
        return max(0, worker.whole.get(resource, 0) - worker.lane.held[resource])

    def expected(self) -> list[Worker]:
        """Return the workers with slots that are here or soon will be, by name."""
        self._settle()
        return [self._workers[name] for name in self.names() if self._workers[name].counted.slots]

    def late(self) -> list[tuple[float, int]]:
        """Return (seconds until they are ours, how many) of the free slots of workers that start nothing at once."""
        self._settle()
        some = (self._workers[name] for name in self._deep)
        return [
            (w.lane.delay_s, w.counted.free_slots) for w in some if w.lane.delay_s > 0.0 and w.counted.free_slots > 0
        ]

    def away(self) -> list[Worker]:
        """Return the machines that are not in touch, by name."""
        return [self._away[name] for name in sorted(self._away)]

    def absent(self) -> list[Worker]:
        """Return the machines away that hold jobs, by name."""
        return [worker for worker in self.away() if worker.lane.load]

    def suits_any(self, request: ResourceRequest) -> bool:
        """True if such a job can run on some machine that is here or soon will be."""
        self._settle()
        return self.offers.suits_any(request)

    def present(self) -> list[Worker]:
        """Return the machines that are in touch, by name."""
        return [self._workers[name] for name in self.names() if self._workers[name].session is not None]

    def takers(self, request: ResourceRequest) -> list[Worker]:
        """Return the machines that are here and can run such a job at all, by name."""
        sized = any(name in SIZES for name, _ in request.amounts)
        rest = tuple(one for one in request.amounts if one[0] not in SIZES) if sized else request.amounts
        some = self.crew(request._replace(amounts=rest, lives_s=0.0)).here
        return [worker for worker in some if self.offers.takes(worker, request)] if sized else list(some)

    def crew(self, kind: Kind) -> Crew:
        """Return the machines that can run such a job at all. It is for kinds of jobs only, since every size that is
        asked for is kept."""
        self._settle()
        return self.offers.crew(kind)

    def has_room(self, worker: Worker, request: ResourceRequest, *, ahead: bool = False) -> bool:
        """True if the machine, which is here, may be given such a job just now. `ahead`: it may wait there for a
        slot."""
        self._settle()
        lane, waits = worker.lane, self._may_wait(worker.name, request.amounts, ahead)
        fits = fitting(lane.slots - lane.load, worker.counted.room, request.processors, waits) > 0
        return fits and (not request.amounts or self.fit_beside(worker, request.amounts) > 0)

    def sorted(self, kinds: Iterable[Kind], changes: int) -> Sorted:
        """Sort kinds of jobs by who can run them. `changes`: while it is the same, so are the kinds."""
        self._settle()
        return self.offers.sorted(kinds, changes)

    def any_has_room(self, crew: Crew, request: ResourceRequest, *, ahead: bool = False) -> bool:
        """True if some machine of the crew `has_room`. Only those with free slots are looked at where no job may
        wait."""
        self._settle()
        fewer = not ahead and len(self._idle) + len(self._deep) < len(crew.here)
        some = (*self._idle.values(), *(self._workers[name] for name in self._deep)) if fewer else crew.here
        return any(
            worker.counted.room
            and self.has_room(worker, request, ahead=ahead)
            and (not fewer or (worker.session is not None and self.offers.takes(worker, request)))
            for worker in some
        )

    # --- who gets jobs ---------------------------------------------------------------------------------

    def hungry(self, beside: Iterable[str] = ()) -> bool:
        """True if any machine, but for the named ones, is to be given jobs. Refilling in batches, not one by one, keeps
        the cost of a start low."""
        self._settle()
        if self.next_waits and not self._free and not any(self._workers[name].counted.room for name in self._deep):
            return False
        return self._room > sum(self._workers[name].counted.room for name in beside)

    def feed_no_more(self, some: Iterable[Worker]) -> None:
        """Give these machines nothing ahead of free slots until the round is over: the next job waits for a slot
        there."""
        self._unfed |= {worker.name: None for worker in some}

    def round_over(self, rests: tuple[int, ...] | None) -> None:
        """End a round: all that could be given just now was. `rests`: as the attribute."""
        self.rests = rests if not self._served else None
        for name in self._served:
            self._workers[name].filling = False
        self._runs.touched |= self._served
        self._served, self._unfed = {}, {}

    def fits_nowhere(self, processors: int, beside: Container[str] = ()) -> bool:
        """True if surely no machine that is given jobs, but for those beside, has so many processors free for a job
        that may not wait."""
        self._settle()
        if self._deep:
            return False
        freest = self._peek()
        if freest is None or -freest[0] < processors:
            return True
        return freest[2] in beside and all(name in beside for name in self._idle)

    def share_out(
        self,
        request: ResourceRequest,
        jobs: int,
        spared: Container[str] = (),
        behind: int = 0,
        caps: Mapping[str, int] = NO_CAPS,
        *,
        ahead: bool = False,
    ) -> dict[str, int]:
        """Return machine -> how many of up to `jobs` such jobs it gets: one after the other to where most processors
        are free, then, if they may wait there (`ahead`), to where most may; among equals the first by name. `spared`
        get none; machines named in `caps` get no more than it says.

        With `behind` more of the kind to come at once, enough for all machines, each is filled before the next: the
        outcome is the same, with an order per machine instead of one per machine and portion.
        """
        self._settle()
        plenty = jobs + behind >= self._room
        processors, amounts = request.processors, request.amounts
        given: dict[str, int] = {}
        aside: list[Key] = []
        while jobs > 0:
            key = self._pop()
            if key is None:
                break
            free, room, name = -key[0], -key[1], key[2]
            waits = self._may_wait(name, amounts, ahead)
            fits = fitting(free, room, processors, waits)
            if not fits:
                aside.append(key)
                if not (self._deep or self._unfed):
                    break
                continue
            worker, cap = self._workers[name], caps.get(name, jobs)
            if amounts:
                fits = min(fits, self.fit_beside(worker, amounts) - given.get(name, 0))
            if name in spared or not cap or fits <= 0 or not self.offers.takes(worker, request):
                aside.append(key)
                continue
            if name in caps:
                given[name] = min(jobs, cap, fits)
                jobs -= given[name]
                worker.key = None
                continue
            following = self._peek()
            if following is None or plenty:
                # All that is free there and all that may wait, at once.
                some = min(jobs, room // processors if waits else fits)
                given[name] = given.get(name, 0) + some
                jobs -= some
                worker.key = None
                continue
            # Down to where the next is as free as this one is now: more at once, the same result as one by one.
            there = self._may_wait(following[2], amounts, ahead)
            next_fits = fitting(-following[0], -following[1], processors, there)
            some = min(jobs, fits, max(1, fits - next_fits) if (following[0] < 0) == (free > 0) else fits)
            given[name] = given.get(name, 0) + some
            jobs -= some
            took = some * processors
            rest = (-max(0, free - took), -(room - took), name)
            worker.key = rest if room > took else None
            if room > took:
                heappush(self._heap, rest)
        for key in aside:
            heappush(self._heap, key)
        # Jobs shared out stand in the heap as if started; whoever does not start them looks again.
        self.took(given)
        return {name: given[name] for name in sorted(given)}

    def took(self, names: Iterable[str]) -> None:
        """Note that these machines are given jobs in this round."""
        served = dict.fromkeys(names)
        self._served |= served
        self._runs.touched |= served

    # --- inside ----------------------------------------------------------------------------------------

    def _may_wait(self, name: str, amounts: Amounts, ahead: bool) -> bool:
        """True if such a job may be given to the machine ahead of a free slot. `ahead`: it may by itself."""
        if name in self._deep:
            return True
        # Behind a job that waits for a device or for room on the disk nothing would start: it is given when there is
        # one.
        return ahead and name not in self._unfed and not (amounts and of_machine(amounts))

    def _worker(self, name: str, now: float) -> Worker:
        worker = self._workers.get(name)
        if worker is None:
            worker = self._workers[name] = self._away[name] = Worker(self._runs.lane(name), now)
            worker.closed = self.closed.get(name, "")
            self.offers.changed(name)
            self._runs.touched[name] = None
        return worker

    def _pop(self) -> Key | None:
        return heappop(self._heap) if self._peek() else None

    def _peek(self) -> Key | None:
        while self._heap and self._workers[self._heap[0][2]].key != self._heap[0]:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _settle(self) -> None:
        if not self._runs.touched:
            return
        touched, self._runs.touched = self._runs.touched, {}
        for name in touched:
            worker = self._worker(name, 0.0)
            old, new = worker.counted, self._count(worker)
            if (new.slots, worker.widest) != worker.shape:
                self.offers.changed(name)
                worker.shape = (new.slots, worker.widest)
                self._sizes.subtract(worker.sizes)
                worker.sizes = worker.pieces(new.slots)
                self._sizes.update(worker.sizes)
                self._sizes = +self._sizes
                del self._sizes[0]
            self._slots += new.slots - old.slots
            self._free += new.free_slots - old.free_slots
            self._room += new.room - old.room
            worker.counted = new
            if new.free_slots and new.room:
                self._idle[name] = worker
            else:
                self._idle.pop(name, None)
            lane = worker.lane
            key = (-max(0, lane.slots - lane.load), -new.room, name) if new.room else None
            if key != worker.key:
                worker.key = key
                if key is not None:
                    heappush(self._heap, key)
        if len(self._heap) > 64 + 4 * len(self._workers):
            self._heap = [worker.key for worker in self._workers.values() if worker.key is not None]
            heapify(self._heap)

    def _count(self, worker: Worker) -> Counted:
        lane = worker.lane
        if lane.away or worker.closed:
            return Counted(0, 0, 0)
        free = lane.slots - lane.load
        if worker.session is None or not lane.slots:
            return Counted(lane.slots, max(0, free), 0)
        ahead = worker.ahead
        if ahead < 0:
            ahead = max(self._state.settings.ahead_of(lane.slots), self._ahead_by_time(lane))
        room = free + ahead
        worker.filling = room > 0 and (worker.filling or free > 0 or room >= (ahead + 1) // 2)
        return Counted(lane.slots, max(0, free), room if worker.filling else 0)
