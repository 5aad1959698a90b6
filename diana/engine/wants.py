"""What jobs ask of the machine they run on."""

from __future__ import annotations

from typing import NamedTuple

from diana.model import software
from diana.model.spec import GroupSpec


class Needs(NamedTuple):
    """What not every machine has. Jobs that differ in it stand in classes of their own, so that where one of them can
    start nowhere, a million like it cost no look each."""

    gpus: int = 0
    software: tuple[str, ...] = ()
    """Names of `model/software.py`, in order."""
    memory_bytes: int = 0
    """About as much as one job asks and not more (`about`); of plain jobs 0: nearly every machine has what they ask."""


PLAIN = Needs()
"""What any machine has."""

Kind = tuple[int, Needs]
"""(processors, needs)."""


class Want(NamedTuple):
    """What one job asks of its machine."""

    processors: int
    memory_bytes: int
    ahead: bool = False
    """It may wait there for a slot."""
    gpus: int = 0
    software: tuple[str, ...] = ()


def of_kind(kind: Kind) -> Want:
    """The least that a job of this kind asks."""
    processors, needs = kind
    return Want(processors, needs.memory_bytes, gpus=needs.gpus, software=needs.software)


def needs(spec: GroupSpec) -> Needs:
    if not (spec.resources.gpus or spec.container or spec.modules or spec.mpi or spec.resources.licences):
        return PLAIN
    names = tuple(sorted(set(software.needed(spec))))
    return Needs(spec.resources.gpus, names, about(spec.resources.memory_bytes))


def about(size_bytes: int) -> int:
    """Rounded down to one of four steps per doubling, so that sizes make few kinds: none is taken for one that asks
    more than its jobs do, or machines that have enough would be left out."""
    below = max(0, size_bytes.bit_length() - 3)
    return size_bytes >> below << below


def want(spec: GroupSpec) -> Want:
    """Of each of the group's jobs."""
    asked = needs(spec)
    return Want(spec.resources.processors, spec.resources.memory_bytes, gpus=asked.gpus, software=asked.software)
