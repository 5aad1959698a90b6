"""The interface of a batch system to a site, and the values that go to and fro (SPEC U7).

Methods block and run in a thread of the cluster's own, one at a time. They raise `BatchRefused`, in the batch system's
own words, for orders that will not be taken however often they are tried, and `BatchUnreachable` when it cannot be told
whether an order was taken.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import msgspec

from diana.adapters.batch.array.script import Dialect
from diana.errors import DianaError
from diana.model.indexset import IndexSet
from diana.model.job import resources as res
from diana.model.job.resources import ResourceOffer, ResourceRequest
from diana.model.job.software import MPI


class BatchRefused(DianaError):
    """A no of the batch system, in its own words, on one line. `every`: whatever the jobs, as things stand."""

    def __init__(self, words: str, *, every: bool = False) -> None:
        super().__init__(words)
        self.every = every


class BatchUnreachable(DianaError):
    """No answer of the batch system, or none that could be understood."""


class ClusterCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """The means of a cluster for this site's account, at one moment."""

    version: str
    slots: int
    """Processors of machines that are up."""
    others: int = 0
    """Slots in use by jobs that are not ours."""
    memory_bytes: int = 0
    """Memory of the largest machine; 0: not known."""
    widest: int = 0
    """Processors of the largest machine; 0: not known."""
    gpus: int = 0
    """GPUs of the machine with most of them."""
    all_gpus: int = 0
    most_tasks: int = 1000
    """Most tasks of one array."""
    most_jobs: int = 0
    """Tasks the account may have waiting and running at once; 0: no limit is known."""
    throttles: bool = False
    """True if it heeds `Array.at_once`."""
    time_limit_s: float = 0.0
    """Longest time of a job, seconds; 0: no limit."""
    licences: tuple[tuple[str, int], ...] = ()
    """(name by which jobs ask for it, number there is), by name."""

    @property
    def offer(self) -> ResourceOffer:
        """Return the most that one job may have. A job that may lie on several machines asks for `MPI`. All
        else that machines can do is no matter of the batch system's."""
        counts = {res.LICENCE + name: count for name, count in self.licences}
        most = dict(res.of({**counts, res.MEMORY: self.memory_bytes, res.GPUS: self.gpus}))
        return ResourceOffer(self.widest or res.UNBOUND, most, (MPI,), spread=self.slots or res.UNBOUND)


class Array(msgspec.Struct, frozen=True, kw_only=True):
    """An order for a number of tasks, told apart by a number from 0 on."""

    token: str
    """Name of this order and no other; the batch system shows it again in `listing`."""
    script: str
    """Path of the script that each task runs."""
    tasks: IndexSet
    processors: int
    memory_bytes: int = 0
    time_limit_s: float = 0.0
    gpus: int = 0
    at_once: int = 0
    """Most of its tasks that may run together, the others wait for these; 0: all."""
    licences: tuple[tuple[str, int], ...] = ()
    """(the batch system's own name, number that each task wants)."""
    mpi: bool = False
    """True if each task is an MPI job: a process on each of its processors."""

    @property
    def spread(self) -> bool:
        """True if its processors, and its memory with them, may be those of several machines."""
        return ResourceRequest(self.processors, res.of({res.GPUS: self.gpus}), (MPI,) if self.mpi else ()).spreads


class Stage(Enum):
    WAITING = "waits"
    RUNNING = "runs"
    OVER = "over"


class Fate(Enum):
    """The reason why tasks ended that told no end, where the batch system says so."""

    TIME_LIMIT = 1
    LIMIT = 2
    """A limit on something else: memory, as a rule, but nobody says so."""
    MACHINE_LOST = 3
    MEMORY = 4
    """The limit on its memory, surely."""


class Seen(msgspec.Struct, frozen=True):
    """Tasks of one array in one stage."""

    job: str
    """The batch system's id of the array."""
    token: str
    """The array's token; empty where the batch system does not say it again."""
    tasks: IndexSet
    stage: Stage
    why: str = ""
    """Reason why they wait, or how they ended, in the batch system's words."""
    never: bool = False
    """True if they wait for something that will never come."""
    fate: Fate | None = None


class BatchSystem(Protocol):
    kind: str
    """Name of the kind in the site file."""
    dialect: Dialect

    def capacity(self) -> ClusterCapacity: ...

    def starts_in_s(self) -> float | None:
        """Return its own estimate for a job of one processor that came now, seconds. None: it makes none."""
        ...

    def submit(self, array: Array) -> str:
        """Submit an array; return its id."""
        ...

    def listing(self) -> list[Seen]:
        """Return all this account has waiting and running, and what ended lately where that is told. One call."""
        ...

    def past(self, jobs: list[str], since_s: float) -> list[Seen]:
        """Return what the batch system's own history knows of tasks that are over; those it does not know are left
        out. `since_s`: none of them was submitted earlier, by the file system's clock, seconds since 1970; 0: not
        known. Unreachable where it keeps none."""
        ...

    def cancel(self, job: str, tasks: IndexSet) -> None:
        """Cancel tasks; one that is over already is no error."""
        ...
