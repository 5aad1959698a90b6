"""Index of the machines of this site by the jobs they can run at all, whatever they hold just now.

Answers are kept by what jobs ask, until a machine or its offer changes. So a choice costs neither by the machines nor
by the number of names that are asked for, which users may invent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from diana.engine.machines.machine import Worker
from diana.engine.machines.requirements import Kind
from diana.model.job import licences
from diana.model.job.licences import COUNTED_THERE
from diana.model.job.resources import (
    LICENCE,
    MEMORY,
    SCRATCH,
    SIZES,
    Amounts,
    ResourceOffer,
    ResourceRequest,
    amount,
    capabilities_in,
    fits,
    of_machine,
)
from diana.model.job.software import MPI, lacking
from diana.model.settings import Settings

MOST_NAMES = 1024
"""Answers kept of each sort: peers may ask for anything."""

Capabilities = tuple[str, ...]


class Crew(NamedTuple):
    """Machines that can run jobs of some kind."""

    number: int
    """Number of this set of machines that are here: equal sets have the same."""
    here: tuple[Worker, ...]
    """Machines in touch, not under maintenance and with room on their disks, by name."""
    expected: bool
    """True if one of its machines is here or soon will be."""


class Parted(NamedTuple):
    """The machines of a crew that are here, by whose licences their jobs hold."""

    shared: frozenset[str]
    """Names of machines whose jobs hold the site's licences."""
    apart: tuple[Worker, ...]
    """Machines that count licences of their own."""


class Sorted(NamedTuple):
    """Kinds of queued jobs by who can run them."""

    untaken: frozenset[Kind]
    """Kinds that no machine can run that is here or soon will be."""
    alike: Mapping[tuple[int, Amounts, int], tuple[Kind, ...]]
    """(processors, what of the machine's own they hold, crew's number) -> kinds; a machine has room for all of these or
    for none."""


NOBODY = Crew(-1, (), False)


class Offers:
    """Kept answers about the workers. Whoever changes what a worker can run calls `changed`."""

    def __init__(self, workers: Mapping[str, Worker], own: str, settings: Settings) -> None:
        self._workers = workers
        self.default: tuple[str, ...] = ()
        """Software that jobs may ask for at machines that do not say it themselves."""
        self.memory_bytes = settings.memory_bytes
        """Memory that one job may want at machines that do not say it themselves; 0: no limit is known."""
        self.licences = _licences(settings)
        """Licences shared by all machines but those that count their own."""
        self.own = own
        """The machine to which the site's own limit applies, whatever it says."""
        self.changes = 0
        self._split: dict[tuple[str, ...], tuple[Capabilities, dict[str, int]]] = {}
        self._distinct: dict[Capabilities, frozenset[str]] = {}
        self._counted: frozenset[str] | None = None
        self._having: dict[Capabilities, frozenset[Capabilities]] = {}
        self._crews: dict[tuple[int, Amounts, frozenset[Capabilities]], Crew] = {}
        self._numbers: dict[tuple[str, ...], int] = {}
        self._offers: dict[str, ResourceOffer] = {}
        self._alike: dict[tuple[object, ...], ResourceOffer] = {}
        """Figures of machines -> what those have: machines that are alike share one, so that a request is held to few,
        however many machines there are."""
        self._every: tuple[ResourceOffer, ...] | None = None
        """Each of the offers of all machines once."""
        self._there: tuple[ResourceOffer, ...] | None = None
        """The same of those that are here or soon will be."""
        self._wholes: dict[str, int] | None = None
        self._whole: ResourceOffer | None = None
        self._apart: tuple[Worker, ...] | None = None
        self._parted: dict[int, Parted] = {}
        self._sorted: tuple[tuple[int, int], Sorted] | None = None

    def has(self, settings: Settings) -> None:
        """Take over the site's memory limit and licences from its settings."""
        self.memory_bytes, self.licences = settings.memory_bytes, _licences(settings)
        self.changed()

    def changed(self, name: str = "") -> None:
        """Forget what was answered. `name`: the machine that changed; empty: all may have."""
        self.changes += 1
        for kept in (self._distinct, self._having, self._crews, self._numbers, self._parted):
            kept.clear()
        self._counted = self._whole = self._apart = self._every = self._there = self._wholes = None
        if name and len(self._alike) <= MOST_NAMES + len(self._workers):
            self._offers.pop(name, None)
            return
        for all_kept in (self._offers, self._alike, self._split):
            all_kept.clear()

    def of(self, worker: Worker) -> ResourceOffer:
        """Return what an idle machine has for one job."""
        found = self._offers.get(worker.name)
        if found is None:
            found = self._offers[worker.name] = self._offer(worker)
        return found

    def _offer(self, worker: Worker) -> ResourceOffer:
        said = self.default if worker.software is None else worker.software
        own, slots = worker.name == self.own, worker.lane.slots
        key = (said, tuple(worker.most.items()), slots, worker.widest, own)
        found = self._alike.get(key)
        if found is None:
            found = self._alike[key] = self._made(worker, said, slots, own=own)
        return found

    def _made(self, worker: Worker, said: tuple[str, ...], slots: int, *, own: bool) -> ResourceOffer:
        split = self._split.get(said)
        if split is None:
            counts = {LICENCE + name: count for name, count in licences.among(said)}
            split = self._split[said] = (capabilities_in(said), counts)
        capabilities, counted = split
        most = {**worker.most, **(counted if COUNTED_THERE in capabilities else {**counted, **self.licences})}
        memory_bytes = self.memory_bytes if own else worker.most.get(MEMORY, self.memory_bytes)
        if memory_bytes:
            most[MEMORY] = memory_bytes
        else:
            most.pop(MEMORY, None)
        return ResourceOffer(
            min(worker.widest or slots, slots), most, capabilities, spread=slots if worker.widest else 0
        )

    def whole(self) -> ResourceOffer:
        """Return the most that any machine has which is here or soon will be, of each resource by itself. Of a site
        without any, the memory that its settings say."""
        if self._whole is None:
            sizes = {MEMORY: self.memory_bytes} if self.memory_bytes else {}
            there = self._offers_there()
            self._whole = together(there) if there else ResourceOffer(0, sizes)
        return self._whole

    def whole_of(self, resource: str) -> int:
        """Return how much of a resource in whole pieces all those machines have."""
        if self._wholes is None:
            self._wholes = {}
            for worker in self._workers.values():
                for name, count in worker.whole.items() if worker.counted.slots else ():
                    self._wholes[name] = self._wholes.get(name, 0) + count
        return self._wholes.get(resource, 0)

    def suits_any(self, request: ResourceRequest) -> bool:
        """True if such a job can run on any of those machines."""
        return any(fits(request, offer) for offer in self._offers_there())

    def _offers_there(self) -> tuple[ResourceOffer, ...]:
        if self._there is None:
            self._there = self._each_once(worker for worker in self._workers.values() if worker.counted.slots)
        return self._there

    def _offers_of_all(self) -> tuple[ResourceOffer, ...]:
        if self._every is None:
            self._every = self._each_once(self._workers.values())
        return self._every

    def _each_once(self, some: Iterable[Worker]) -> tuple[ResourceOffer, ...]:
        return tuple({id(offer): offer for offer in map(self.of, some)}.values())

    def _all_suited(self, request: ResourceRequest) -> list[Worker]:
        """Return the workers that such a job can run on at all, in touch or not."""
        good = {id(offer) for offer in self._offers_of_all() if fits(request, offer)}
        return [worker for worker in self._workers.values() if id(self.of(worker)) in good] if good else []

    def apart(self) -> tuple[Worker, ...]:
        """Return the workers that count their licences themselves."""
        if self._apart is None:
            self._apart = tuple(worker for worker in self._workers.values() if self.counts_its_own(worker))
        return self._apart

    def counts_its_own(self, worker: Worker) -> bool:
        """True if the worker's batch system counts the licences of the jobs that run there."""
        return COUNTED_THERE in self.of(worker).capabilities

    def parted(self, crew: Crew) -> Parted:
        found = self._parted.get(crew.number)
        if found is None:
            apart = tuple(worker for worker in crew.here if self.counts_its_own(worker))
            shared = frozenset(worker.name for worker in crew.here) - {worker.name for worker in apart}
            found = self._parted[crew.number] = Parted(shared, apart)
        return found

    def suits(self, worker: Worker, request: ResourceRequest) -> bool:
        """True if such a job can run there at all."""
        return fits(request, self.of(worker))

    def takes(self, worker: Worker, request: ResourceRequest) -> bool:
        """True if such a job can run there at all and others than this site's jobs leave room for it on the disk."""
        if request.amounts and 0 <= worker.scratch_room < amount(request.amounts, SCRATCH):
            return False
        return self.suits(worker, request)

    def having(self, capabilities: Capabilities) -> frozenset[Capabilities]:
        """Return those of the machines' distinct capabilities that have all of these."""
        found = self._having.get(capabilities)
        if found is None:
            if not self._distinct:
                self._distinct = {offer.capabilities: frozenset(offer.capabilities) for offer in self._offers_of_all()}
            if len(self._having) >= MOST_NAMES:
                self._having.clear()
            some = (offer for offer, names in self._distinct.items() if not lacking(names, capabilities))
            found = self._having[capabilities] = frozenset(some)
        return found

    def those(self, request: ResourceRequest) -> list[Worker]:
        """Return the workers that can do what such a job needs done and have what it asks beside sizes, however narrow
        they are."""
        least = ResourceRequest(0, tuple(one for one in request.amounts if one[0] not in SIZES), request.capabilities)
        return self._all_suited(least)

    def crew(self, request: ResourceRequest) -> Crew:
        if any(name not in SIZES and name not in self._known() for name, _ in request.amounts):
            # Users may invent names: none of these answers is kept.
            return NOBODY
        key = (request.processors, request.amounts, self.having(request.capabilities))
        found = self._crews.get(key)
        if found is None:
            if len(self._crews) >= MOST_NAMES:
                self._crews.clear()
            some = self._all_suited(request)
            able = [w for w in some if w.session is not None and not w.closed and self.takes(w, request)]
            here = tuple(sorted(able, key=_name))
            number = self._numbers.setdefault(tuple(worker.name for worker in here), len(self._numbers))
            found = self._crews[key] = Crew(number, here, any(worker.counted.slots for worker in some))
        return found

    def _known(self) -> frozenset[str]:
        """Return the resources that any machine has."""
        if self._counted is None:
            self._counted = frozenset(name for offer in self._offers_of_all() for name in offer.most)
        return self._counted

    def sorted(self, kinds: Iterable[Kind], changes: int) -> Sorted:
        """Sort kinds of jobs by who can run them. `changes`: while it is the same, so are the kinds."""
        stamp = (self.changes, changes)
        if self._sorted is None or self._sorted[0] != stamp:
            self._sorted = (stamp, self._sort(kinds))
        return self._sorted[1]

    def _sort(self, kinds: Iterable[Kind]) -> Sorted:
        untaken, alike = [], dict[tuple[int, Amounts, int], list[Kind]]()
        for kind in kinds:
            crew = self.crew(kind)
            if not crew.expected:
                untaken.append(kind)
            alike.setdefault((kind.processors, of_machine(kind.amounts), crew.number), []).append(kind)
        return Sorted(frozenset(untaken), {key: tuple(some) for key, some in alike.items()})


def together(some: Iterable[ResourceOffer]) -> ResourceOffer:
    """Return the most of each resource by itself that any machine with these has, and all that any of them can do."""
    widest = over = 0
    most, unknown, capabilities = dict[str, int](), set[str](), set[str]()
    for offer in some:
        widest = max(widest, offer.processors)
        over = max(over, offer.spread or offer.processors) if MPI in offer.capabilities else over
        unknown |= SIZES - offer.most.keys()
        capabilities.update(offer.capabilities)
        for name, count in offer.most.items():
            most[name] = max(most.get(name, 0), count)
    known = {name: count for name, count in most.items() if name not in unknown}
    return ResourceOffer(widest, known, tuple(sorted(capabilities)), over)


def _licences(settings: Settings) -> dict[str, int]:
    return {LICENCE + name: count for name, count in settings.licences.items() if count > 0}


def _name(worker: Worker) -> str:
    return worker.name
