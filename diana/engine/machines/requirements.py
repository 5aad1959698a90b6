"""Demands of jobs on the machine they run on."""

from __future__ import annotations

from typing import NamedTuple

from diana.model.job import software
from diana.model.job.spec import GroupSpec


class Needs(NamedTuple):
    """Demands that not every machine meets. Jobs that differ in them stand in classes of their own, so that where one
    of them can start nowhere, a million like it cost no look each."""

    gpus: int = 0
    software: tuple[str, ...] = ()
    """Names of `model/job/software.py`, in order."""
    memory_bytes: int = 0
    """Memory that one job asks, rounded down (`about`); 0 for plain jobs: nearly every machine has what they ask."""
    scratch_bytes: int = 0
    """Room on the local disk that one job asks, rounded down."""


PLAIN = Needs()
"""Needs that any machine meets."""

Kind = tuple[int, Needs]
"""(processors, needs)."""


class Want(NamedTuple):
    """The demands of one job on its machine."""

    processors: int
    memory_bytes: int
    ahead: bool = False
    """True if it may wait there for a slot."""
    gpus: int = 0
    software: tuple[str, ...] = ()
    scratch_bytes: int = 0


def of_kind(kind: Kind) -> Want:
    """The least that a job of this kind asks."""
    processors, needs = kind
    return Want(
        processors, needs.memory_bytes, gpus=needs.gpus, software=needs.software, scratch_bytes=needs.scratch_bytes
    )


def needs(spec: GroupSpec) -> Needs:
    asked = spec.resources
    apart = spec.container or spec.modules or spec.mpi or spec.is_gang
    if not (asked.gpus or asked.scratch_bytes > 0 or asked.licences or apart):
        return PLAIN
    names = tuple(sorted(set(software.needed(spec))))
    return Needs(asked.gpus, names, about(asked.memory_bytes), about(max(0, asked.scratch_bytes)))


def about(size_bytes: int) -> int:
    """Round a size down to one of four steps per doubling, so that sizes make few kinds. It is never rounded up, or
    machines that have enough for the jobs would be left out."""
    below = max(0, size_bytes.bit_length() - 3)
    return size_bytes >> below << below


def want(spec: GroupSpec) -> Want:
    """Return the demands of each of the group's jobs."""
    asked, has = needs(spec), spec.resources
    return Want(
        has.processors,
        has.memory_bytes,
        gpus=asked.gpus,
        software=asked.software,
        scratch_bytes=max(0, has.scratch_bytes),
    )
