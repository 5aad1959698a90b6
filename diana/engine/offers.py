"""Which machines of this site can run which jobs at all, whatever they hold just now.

Looked up by what jobs ask, kept until a machine or its offer changes: a choice costs neither by the machines nor, of
names that users may invent, by how many of them are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from diana.engine.wants import Kind, Want, of_kind
from diana.engine.worker import Worker
from diana.model.licences import COUNTED_THERE, named
from diana.model.settings import Settings
from diana.model.software import lacking, spreads

MOST_NAMES = 1024
"""Of software asked for, of which it is kept who offers it: peers may ask for anything."""

Offer = tuple[str, ...]


class Crew(NamedTuple):
    """Machines that can run jobs of some kind."""

    number: int
    """Crews of the same machines have the same."""
    here: tuple[Worker, ...]
    """Those in touch and not under maintenance, by name."""
    expected: bool
    """Some machine is here, or soon will be."""


class Parted(NamedTuple):
    """A crew that is here, by whose licences its jobs hold."""

    shared: frozenset[str]
    """The site's."""
    apart: tuple[Worker, ...]
    """Each its own."""


class Sorted(NamedTuple):
    """Kinds of queued jobs by who can run them."""

    untaken: frozenset[Kind]
    """No machine can that is here or soon will be."""
    alike: Mapping[tuple[int, int, int], tuple[Kind, ...]]
    """(processors, GPUs, crew's number) -> kinds: of those a machine has room for all or for none."""


class Offers:
    """Whoever changes what a worker can run calls `changed`."""

    def __init__(self, workers: Mapping[str, Worker], own: str, settings: Settings) -> None:
        self._workers = workers
        self.default: Offer = ()
        """What jobs may ask for at machines that do not say it themselves."""
        self.memory_bytes = settings.memory_bytes
        """Of machines that do not say it themselves, for one job; 0: no limit is known."""
        self.licences = named(settings.licences.items())
        """What all machines share but those that count their own."""
        self._with_licences: dict[Offer, Offer] = {}
        self.own = own
        """The machine to which the site's own limit applies, whatever it says."""
        self.changes = 0
        self._distinct: dict[Offer, frozenset[str]] = {}
        self._having: dict[tuple[str, ...], frozenset[Offer]] = {}
        self._crews: dict[tuple[int, int, int, frozenset[Offer]], Crew] = {}
        self._numbers: dict[tuple[str, ...], int] = {}
        self._union: Offer | None = None
        self._apart: tuple[Worker, ...] | None = None
        self._parted: dict[int, Parted] = {}
        self._sorted: tuple[tuple[int, int], Sorted] | None = None

    def has(self, settings: Settings) -> None:
        """The site, by its settings."""
        self.memory_bytes, self.licences = settings.memory_bytes, named(settings.licences.items())
        self.changed()

    def changed(self) -> None:
        self.changes += 1
        for kept in (self._distinct, self._having, self._crews, self._numbers, self._parted, self._with_licences):
            kept.clear()
        self._union = self._apart = None

    def of(self, worker: Worker) -> Offer:
        said = self.default if worker.software is None else worker.software
        if not self.licences or COUNTED_THERE in said:
            return said
        found = self._with_licences.get(said)
        if found is None:
            found = self._with_licences[said] = (*said, *self.licences)
        return found

    def union(self) -> Offer:
        """Of the machines that are here or soon will be."""
        if self._union is None:
            self._union = together(self.of(worker) for worker in self._workers.values() if worker.counted[0])
        return self._union

    def apart(self) -> tuple[Worker, ...]:
        """Those that count their licences themselves."""
        if self._apart is None:
            self._apart = tuple(worker for worker in self._workers.values() if self.counts_its_own(worker))
        return self._apart

    def counts_its_own(self, worker: Worker) -> bool:
        """Its batch system counts the licences of what runs there."""
        return COUNTED_THERE in self.of(worker)

    def parted(self, crew: Crew) -> Parted:
        found = self._parted.get(crew.number)
        if found is None:
            apart = tuple(worker for worker in crew.here if self.counts_its_own(worker))
            shared = frozenset(worker.name for worker in crew.here) - {worker.name for worker in apart}
            found = self._parted[crew.number] = Parted(shared, apart)
        return found

    def suits(self, worker: Worker, want: Want) -> bool:
        """Whether such a job can run there at all."""
        limit = self.memory_bytes
        if worker.name != self.own:
            limit = worker.memory_bytes or limit
        over_several = spreads(want.software, want.gpus)
        widest = worker.widest_of(over_several)
        # Of a job that may lie on several machines each process has its part of the memory.
        asked = -(-want.memory_bytes // want.processors) if over_several and worker.widest else want.memory_bytes
        if widest < want.processors or worker.gpus[0] < want.gpus or 0 < limit < asked:
            return False
        return not want.software or self.of(worker) in self.having(want.software)

    def having(self, software: tuple[str, ...]) -> frozenset[Offer]:
        """Of the distinct offers of all machines those with all of it."""
        found = self._having.get(software)
        if found is None:
            if not self._distinct:
                self._distinct = {offer: frozenset(offer) for offer in map(self.of, self._workers.values())}
            if len(self._having) >= MOST_NAMES:
                self._having.clear()
            some = (offer for offer, names in self._distinct.items() if not lacking(names, software))
            found = self._having[software] = frozenset(some)
        return found

    def wholes(self, software: tuple[str, ...]) -> list[int]:
        """Slots of those that have all of it and are here or soon will be, a cluster's machines together."""
        return [worker.counted[0] for worker in self.those(software) if worker.counted[0]]

    def those(self, software: tuple[str, ...]) -> list[Worker]:
        having = self.having(software)
        return [worker for worker in self._workers.values() if self.of(worker) in having]

    def crew(self, want: Want) -> Crew:
        key = (want.processors, want.gpus, want.memory_bytes, self.having(want.software))
        found = self._crews.get(key)
        if found is None:
            if len(self._crews) >= MOST_NAMES:
                self._crews.clear()
            some = [w for w in self._workers.values() if self.suits(w, want)]
            here = tuple(sorted((w for w in some if w.session is not None and not w.closed), key=_name))
            number = self._numbers.setdefault(tuple(worker.name for worker in here), len(self._numbers))
            found = self._crews[key] = Crew(number, here, any(worker.counted[0] for worker in some))
        return found

    def sorted(self, kinds: Iterable[Kind], changes: int) -> Sorted:
        """`changes`: as long as it is the same, so are the kinds."""
        stamp = (self.changes, changes)
        if self._sorted is None or self._sorted[0] != stamp:
            self._sorted = (stamp, self._sort(kinds))
        return self._sorted[1]

    def _sort(self, kinds: Iterable[Kind]) -> Sorted:
        untaken, alike = [], dict[tuple[int, int, int], list[Kind]]()
        for kind in kinds:
            crew = self.crew(of_kind(kind))
            if not crew.expected:
                untaken.append(kind)
            alike.setdefault((kind[0], kind[1].gpus, crew.number), []).append(kind)
        return Sorted(frozenset(untaken), {key: tuple(some) for key, some in alike.items()})


def together(offers: Iterable[Offer]) -> Offer:
    return tuple(sorted({name for offer in set(offers) for name in offer}))


def _name(worker: Worker) -> str:
    return worker.name
