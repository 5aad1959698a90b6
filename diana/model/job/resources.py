"""Resources by name: what a job asks of its machine, what a machine has, and what the one lacks of the other.

A resource is a name and a whole number, the unit at the end of the name where there is one. A few names have a meaning
of their own here; all others are declared by operators, and nothing needs to know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from functools import lru_cache
from math import ceil, floor
from typing import NamedTuple

from diana.model.job import declared, licences, software
from diana.model.job.spec import GroupSpec, Resources
from diana.model.words import counted

PROCESSORS = "processors"
MEMORY = "memory_bytes"
"""A bound for each job: jobs beside one another share the memory of a machine as they come."""
GPUS = "gpus"
SCRATCH = "scratch_bytes"
"""Room on the local disk: others fill it, too."""
LICENCE = "licence:"
"""Beginning of the names of licences, which the machines of a site share."""
SIZES = frozenset((MEMORY, SCRATCH))
"""Resources of which a machine may have more than it tells: without a figure nothing is checked."""

MOST_BYTES = 1 << 62
UNBOUND = 1 << 62
"""Processors of a machine of which nobody says how many it has."""

Amounts = tuple[tuple[str, int], ...]
"""(resource, amount above 0), by name."""


class ResourceRequest(NamedTuple):
    """Request of one job to the machine it runs on."""

    processors: int = 1
    amounts: Amounts = ()
    """Everything but processors."""
    capabilities: tuple[str, ...] = ()
    """Names of `model/job/software.py`, each once and in order: what a machine can do or cannot."""
    lives_s: float = 0.0
    """Seconds that it may run; 0: no limit is known."""

    @property
    def is_plain(self) -> bool:
        """True if any machine with so many processors will do."""
        return not (self.amounts or self.capabilities)

    @property
    def spreads(self) -> bool:
        """True if it may lie on several machines of a cluster. A job with devices gets one machine, since not every
        batch system can be asked for those of several."""
        return software.MPI in self.capabilities and not devices(self.amounts)


class ResourceOffer(NamedTuple):
    """Offer of one machine, or of a cluster that stands for several, to one job."""

    processors: int
    """Processors of its largest machine."""
    most: Mapping[str, int] = {}
    """Resource -> the most that one job may have. Of `SIZES` that are left out nothing is known, of others there is
    none."""
    capabilities: tuple[str, ...] = ()
    spread: int = 0
    """Processors of one job over several of its machines; 0: it is one machine."""


class Lack(NamedTuple):
    """A resource of which a job asks more than there is, or a capability."""

    resource: str
    wanted: int
    """Its amount; 0: it is a capability."""
    had: int

    @property
    def why(self) -> str:
        """Words that follow the name of a site or machine: what there is, and what is wanted."""
        name, wanted, had = self
        if name == PROCESSORS:
            return f"has {had} of the {wanted} processors a job needs"
        if name == GPUS:
            there = f"has {counted(had, 'GPU')} for one job" if had else "hands out no GPUs"
            return f"{there}, a job needs {wanted}"
        if name == MEMORY:
            return f"has {gib(had)} of memory, a job needs {gib(wanted)}"
        if name == SCRATCH:
            return f"has {room(had)} of scratch, a job needs {room(wanted, up=True)}"
        if name.startswith(LICENCE):
            return licences.why(name.removeprefix(LICENCE), wanted, had)
        if not self.wanted:
            return software.lacking((), (name,))
        return declared.why(name, wanted, had)

    @property
    def mend(self) -> str:
        """The change to the job that would do; empty: it cannot do with less."""
        name, wanted, had = self
        if not wanted:
            return ""
        if name == GPUS:
            return f"gpus <= {had}" if had else "gpus = 0"
        if name in SIZES:
            return f"memory <= {gib(had)}" if name == MEMORY else f"scratch <= {room(had)}"
        if name.startswith(LICENCE):
            name = f"licences.{name.removeprefix(LICENCE)}"
        return f"{name} <= {had}" if had else ""


# --- the predicate and the arithmetic ----------------------------------------------------------------------


def lacking(request: ResourceRequest, offer: ResourceOffer) -> tuple[Lack, ...]:
    """Return what an idle machine lacks for the job, processors first, then in order of the names; none: it will do.
    Of the capabilities that it lacks the first is told."""
    spread = offer.spread if request.spreads else 0
    found = []
    if (widest := spread or offer.processors) < request.processors:
        found.append(Lack(PROCESSORS, request.processors, widest))
    for name, wanted in request.amounts:
        had = offer.most.get(name, MOST_BYTES if name in SIZES else 0)
        if spread and name == MEMORY:
            # In parts, one for each process.
            had *= request.processors
        if had < wanted:
            found.append(Lack(name, wanted, had))
    if request.capabilities and (name := _first_lacking(offer.capabilities, request.capabilities)):
        found.append(Lack(name, 0, 0))
    return tuple(found)


def fits(request: ResourceRequest, offer: ResourceOffer) -> bool:
    """True if nothing is `lacking`; where nobody asks what."""
    processors, amounts, capabilities, _ = request
    if not (amounts or capabilities):
        return offer.processors >= processors
    spread = offer.spread if capabilities and request.spreads else 0
    if (spread or offer.processors) < processors:
        return False
    for name, wanted in amounts:
        had = offer.most.get(name)
        if had is None:
            if name not in SIZES:
                return False
        elif had < (-(-wanted // processors) if spread and name == MEMORY else wanted):
            return False
    return not (capabilities and _first_lacking(offer.capabilities, capabilities))


def how_many(left: Mapping[str, int], asked: Amounts) -> int:
    """Return how many such jobs what is left will do for, by the resources that `left` names; `MOST_AMOUNT` where it
    names none of them."""
    return max(0, min((left[name] // amount for name, amount in asked if name in left), default=declared.MOST_AMOUNT))


def take(left: MutableMapping[str, int], asked: Amounts, jobs: int = 1) -> None:
    """Take what so many jobs ask from what is left, of the resources that it names."""
    for name, amount in asked:
        if name in left:
            left[name] -= jobs * amount


def give_back(left: MutableMapping[str, int], asked: Amounts, jobs: int = 1) -> None:
    """Inverse of `take`."""
    take(left, asked, -jobs)


def amount(asked: Amounts, resource: str) -> int:
    for name, count in asked:
        if name == resource:
            return count
    return 0


def of_job(has: Resources) -> Amounts:
    """Return what a spec's resources ask beside processors."""
    if not (has.memory_bytes or has.gpus or has.scratch_bytes or has.licences or has.others):
        return ()
    sizes = {MEMORY: has.memory_bytes, GPUS: has.gpus, SCRATCH: has.scratch_bytes}
    return of({**dict(has.others), **{LICENCE + name: count for name, count in has.licences}, **sizes})


def capabilities(spec: GroupSpec) -> tuple[str, ...]:
    """Return what machines must be able to do for the jobs."""
    return capabilities_in(software.needed(spec))


def capabilities_in(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names without those that stand for amounts. One of those that cannot be read stays: nobody has it."""
    return tuple(sorted({name for name in names if not (declared.among((name,)) or licences.among((name,)))}))


def request_of(spec: GroupSpec) -> ResourceRequest:
    """Return all that a site must have for a job of the group, or for the least component of one."""
    has = spec.least_of_site()
    return ResourceRequest(has.processors, of_job(has), capabilities(spec), has.time_limit_s)


def of(counts: Mapping[str, int]) -> Amounts:
    """Return the amounts above 0, in order."""
    return tuple(sorted((name, count) for name, count in counts.items() if count > 0))


def counts_in(names: Iterable[str]) -> dict[str, int]:
    """Return the counts among the names of what a site can do, by resource (inverse of `texts`)."""
    some = tuple(names)
    return {**dict(declared.among(some)), **{LICENCE + name: count for name, count in licences.among(some)}}


@lru_cache(1024)
def held(asked: Amounts) -> Amounts:
    """Return what a machine has less of while such a job is there, licences among it."""
    return tuple((name, count) for name, count in asked if name != MEMORY)


@lru_cache(1024)
def of_machine(asked: Amounts) -> Amounts:
    """Return the part of `held` that is the machine's own."""
    return tuple((name, count) for name, count in asked if name != MEMORY and not name.startswith(LICENCE))


@lru_cache(1024)
def devices(asked: Amounts) -> Amounts:
    """Return what a machine has in whole pieces, each one job's at a time: GPUs and what operators declare."""
    return tuple((name, count) for name, count in asked if name not in SIZES and not name.startswith(LICENCE))


@lru_cache(1024)
def others(asked: Amounts) -> Amounts:
    """Return what operators declare, by names of their own."""
    return tuple(one for one in devices(asked) if one[0] != GPUS)


@lru_cache(1024)
def countable(asked: Amounts) -> Amounts:
    """Return devices and licences: what is there in units that come free as jobs end."""
    return tuple((name, count) for name, count in asked if name not in SIZES)


@lru_cache(1024)
def shared(asked: Amounts) -> Amounts:
    """Return the licences."""
    return tuple((name, count) for name, count in asked if name.startswith(LICENCE))


@lru_cache(1024)
def _first_lacking(offered: tuple[str, ...], asked: tuple[str, ...]) -> str:
    had = software.had(offered, asked)
    return next((name for name in asked if name not in had), "")


def without_names(request: ResourceRequest) -> ResourceRequest:
    """Return the request without licences and capabilities."""
    return request._replace(amounts=of_machine_sized(request.amounts), capabilities=())


def of_machine_sized(asked: Amounts) -> Amounts:
    """Return all amounts but licences."""
    return tuple(one for one in asked if not one[0].startswith(LICENCE))


def texts(offer: ResourceOffer) -> tuple[str, ...]:
    """Return the names by which sites tell one another what machines can do, licences and declared resources among
    them."""
    most = of(offer.most)
    counts = [(name.removeprefix(LICENCE), count) for name, count in shared(most)]
    return (*offer.capabilities, *licences.named(counts), *declared.named(others(most)))


def offered(names: Iterable[str], *, processors: int, most: Mapping[str, int], spread: int = 0) -> ResourceOffer:
    """Return the offer of a site that tells such names: the inverse of `texts`. `most`: what it tells otherwise."""
    some = tuple(names)
    return ResourceOffer(processors, {**counts_in(some), **most}, capabilities_in(some), spread)


# --- words -------------------------------------------------------------------------------------------------


def shown(request: ResourceRequest) -> str:
    """Return in words what a job asks."""
    named = [count_shown(PROCESSORS, request.processors)]
    named += amounts_shown(request.amounts)
    return " and ".join([*named, *request.capabilities])


def amounts_shown(asked: Amounts) -> list[str]:
    """Return each amount in words, sizes first."""
    order = {MEMORY: 0, SCRATCH: 1, GPUS: 2}
    return [count_shown(*one) for one in sorted(asked, key=lambda one: (order.get(one[0], 3), one[0]))]


_PEOPLE = {PROCESSORS: "processor", GPUS: "GPU"}


def people(name: str) -> str:
    """Return what people call several of a resource."""
    return f"{_PEOPLE[name]}s" if name in _PEOPLE else name


def count_shown(name: str, count: int) -> str:
    """Return in words so much of a resource."""
    if name == MEMORY:
        return f"{gib(count)} of memory"
    if name == SCRATCH:
        return f"{room(count, up=True)} of scratch"
    if name.startswith(LICENCE):
        return f"{count} of {name.removeprefix(LICENCE)}"
    return counted(count, _PEOPLE[name]) if name in _PEOPLE else f"{count:,} {name}"


def gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:,.1f} GiB"


def room(size_bytes: int, *, up: bool = False) -> str:
    """Room on a disk in words; what is there is rounded down, what is asked `up`."""
    unit, name = (2**30, "GiB") if size_bytes >= 2**30 else (2**20, "MiB")
    tenths = 10 * size_bytes / unit
    return f"{(ceil(tenths) if up else floor(tenths)) / 10:,.1f} {name}"
