"""Index of the machines of this site by the jobs they can run at all, whatever they hold just now.

Answers are kept by what jobs ask, until a machine or its offer changes. So a choice costs neither by the machines nor
by the number of names that are asked for, which users may invent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from diana.engine.machines.machine import Worker
from diana.engine.machines.requirements import Kind, Want, of_kind
from diana.model.job.licences import COUNTED_THERE, named
from diana.model.job.software import lacking, spreads
from diana.model.settings import Settings

MOST_NAMES = 1024
"""Answers kept of each sort: peers may ask for anything."""

Offer = tuple[str, ...]


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
    alike: Mapping[tuple[int, int, int, int], tuple[Kind, ...]]
    """(processors, GPUs, scratch, crew's number) -> kinds; a machine has room for all of these or for none."""


class Offers:
    """Kept answers about the workers. Whoever changes what a worker can run calls `changed`."""

    def __init__(self, workers: Mapping[str, Worker], own: str, settings: Settings) -> None:
        self._workers = workers
        self.default: Offer = ()
        """Software that jobs may ask for at machines that do not say it themselves."""
        self.memory_bytes = settings.memory_bytes
        """Memory that one job may want at machines that do not say it themselves; 0: no limit is known."""
        self.licences = named(settings.licences.items())
        """Licences shared by all machines but those that count their own."""
        self._with_licences: dict[Offer, Offer] = {}
        self.own = own
        """The machine to which the site's own limit applies, whatever it says."""
        self.changes = 0
        self._distinct: dict[Offer, frozenset[str]] = {}
        self._having: dict[tuple[str, ...], frozenset[Offer]] = {}
        self._crews: dict[tuple[int, int, int, int, frozenset[Offer]], Crew] = {}
        self._numbers: dict[tuple[str, ...], int] = {}
        self._union: Offer | None = None
        self._apart: tuple[Worker, ...] | None = None
        self._parted: dict[int, Parted] = {}
        self._sorted: tuple[tuple[int, int], Sorted] | None = None

    def has(self, settings: Settings) -> None:
        """Take over the site's memory limit and licences from its settings."""
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
        """Return all that machines offer that are here or soon will be."""
        if self._union is None:
            self._union = together(self.of(worker) for worker in self._workers.values() if worker.counted.slots)
        return self._union

    def apart(self) -> tuple[Worker, ...]:
        """Return the workers that count their licences themselves."""
        if self._apart is None:
            self._apart = tuple(worker for worker in self._workers.values() if self.counts_its_own(worker))
        return self._apart

    def counts_its_own(self, worker: Worker) -> bool:
        """True if the worker's batch system counts the licences of the jobs that run there."""
        return COUNTED_THERE in self.of(worker)

    def parted(self, crew: Crew) -> Parted:
        found = self._parted.get(crew.number)
        if found is None:
            apart = tuple(worker for worker in crew.here if self.counts_its_own(worker))
            shared = frozenset(worker.name for worker in crew.here) - {worker.name for worker in apart}
            found = self._parted[crew.number] = Parted(shared, apart)
        return found

    def suits(self, worker: Worker, want: Want) -> bool:
        """True if such a job can run there at all."""
        limit = self.memory_bytes
        if worker.name != self.own:
            limit = worker.memory_bytes or limit
        over_several = spreads(want.software, want.gpus)
        widest = worker.widest_of(over_several)
        # A job that may lie on several machines has its memory in parts, one for each process.
        asked = -(-want.memory_bytes // want.processors) if over_several and worker.widest else want.memory_bytes
        if widest < want.processors or worker.gpus[0] < want.gpus or 0 < limit < asked:
            return False
        if 0 < worker.scratch_bytes < want.scratch_bytes:
            return False
        return not want.software or self.of(worker) in self.having(want.software)

    def takes(self, worker: Worker, want: Want) -> bool:
        """True if such a job can run there at all and others than this site's jobs leave room for it on the disk."""
        return not 0 <= worker.scratch_room < want.scratch_bytes and self.suits(worker, want)

    def having(self, software: tuple[str, ...]) -> frozenset[Offer]:
        """Return those of the machines' distinct offers that have all of the software."""
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
        """Return the slots of each worker that has all of the software and is here or soon will be; a cluster's
        machines count as one."""
        return [worker.counted.slots for worker in self.those(software) if worker.counted.slots]

    def those(self, software: tuple[str, ...]) -> list[Worker]:
        having = self.having(software)
        return [worker for worker in self._workers.values() if self.of(worker) in having]

    def crew(self, want: Want) -> Crew:
        key = (want.processors, want.gpus, want.memory_bytes, want.scratch_bytes, self.having(want.software))
        found = self._crews.get(key)
        if found is None:
            if len(self._crews) >= MOST_NAMES:
                self._crews.clear()
            some = [w for w in self._workers.values() if self.suits(w, want)]
            able = [w for w in some if w.session is not None and not w.closed and self.takes(w, want)]
            here = tuple(sorted(able, key=_name))
            number = self._numbers.setdefault(tuple(worker.name for worker in here), len(self._numbers))
            found = self._crews[key] = Crew(number, here, any(worker.counted.slots for worker in some))
        return found

    def sorted(self, kinds: Iterable[Kind], changes: int) -> Sorted:
        """Sort kinds of jobs by who can run them. `changes`: while it is the same, so are the kinds."""
        stamp = (self.changes, changes)
        if self._sorted is None or self._sorted[0] != stamp:
            self._sorted = (stamp, self._sort(kinds))
        return self._sorted[1]

    def _sort(self, kinds: Iterable[Kind]) -> Sorted:
        untaken, alike = [], dict[tuple[int, int, int, int], list[Kind]]()
        for kind in kinds:
            crew = self.crew(of_kind(kind))
            if not crew.expected:
                untaken.append(kind)
            alike.setdefault((kind[0], kind[1].gpus, kind[1].scratch_bytes, crew.number), []).append(kind)
        return Sorted(frozenset(untaken), {key: tuple(some) for key, some in alike.items()})


def together(offers: Iterable[Offer]) -> Offer:
    return tuple(sorted({name for offer in set(offers) for name in offer}))


def _name(worker: Worker) -> str:
    return worker.name
