"""Needs of jobs besides processors: containers, modules by name, a launcher of MPI jobs, licences."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from itertools import islice

from diana.model.job import licences
from diana.model.job.spec import GroupSpec

CONTAINERS = "containers"
"""Name of the need for running jobs in an image."""
MPI = "mpi"
"""Name of the need for a launcher of MPI jobs."""
MPI_INSIDE = "mpi in containers"
"""Name of the need for MPI jobs in an image; each process of such a job is then a process of its own machine."""
ANY_MODULE = "module *"
MOST_MODULES = 64
"""Modules that a group may ask for."""
MOST_NEEDED = MOST_MODULES + 3 + licences.MOST_LICENCES
"""Names of needs that a group's jobs may have, all kinds together."""
MOST_TEXT = 200
"""Characters of a name."""
_MOST_ASKED = len("module ") + MOST_TEXT
"""Characters of a name as it is asked for."""
_LACKS = {
    CONTAINERS: "runs no containers",
    MPI: "has no launcher of MPI jobs",
    MPI_INSIDE: "has no launcher of MPI jobs in containers",
}
_MODULE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+@:=,-]*")


def module(name: str) -> str:
    return f"module {name}"


def needed(spec: GroupSpec) -> tuple[str, ...]:
    """Names of all needs of the group's jobs."""
    return (*made_ready(spec), *licences.named(spec.resources.licences))


def made_ready(spec: GroupSpec) -> tuple[str, ...]:
    """Names of those needs that the machine makes ready where the jobs start."""
    mpi = (MPI, MPI_INSIDE) if spec.container else (MPI,)
    return (*((CONTAINERS,) if spec.container else ()), *map(module, spec.modules), *(mpi if spec.mpi else ()))


def spreads(software: Container[str], gpus: int) -> bool:
    """True if a job with these needs may lie on several machines of a cluster. A job with GPUs gets one machine, since
    not every batch system can be asked for GPUs of several."""
    return MPI in software and not gpus


def asked(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names from a peer, asked or offered, sorted, each once, and no more than a group may ask for. Names
    are kept for a while, so one longer than any valid name is cut; it still matches none."""
    return tuple(sorted({name[:_MOST_ASKED] for name in islice(names, MOST_NEEDED)}))


def had(offered: Iterable[str], asked: Iterable[str]) -> tuple[str, ...]:
    """Return those of the asked names that a site with these offers has."""
    names = frozenset(offered)
    return tuple(one for one in asked if one in names or _had(names, one))


def _had(names: frozenset[str], one: str) -> bool:
    if licences.is_licence(one):
        return not licences.lacking(names, one)
    return one.startswith("module ") and ANY_MODULE in names


def lacking(offered: Iterable[str], asked: Iterable[str]) -> str:
    """Say what a site with these offers lacks of the asked names; empty: it has all."""
    names = frozenset(offered)
    lacks = next((one for one in asked if not had(names, (one,))), "")
    if licences.is_licence(lacks):
        return licences.lacking(names, lacks)
    if lacks in _LACKS:
        return _LACKS[lacks]
    return f"has no {lacks[:MOST_TEXT]}" if lacks else ""


def plain(spec: GroupSpec) -> bool:
    """True if the spec's names of software are well formed; a spec may come from anywhere."""
    image = spec.container
    if image and (len(image) > MOST_TEXT or not image.isprintable() or image[0] in "- "):
        return False
    few = len(spec.modules) <= MOST_MODULES and licences.plain(spec.resources.licences)
    return few and all(map(is_module, spec.modules))


def is_module(name: str) -> bool:
    """True for a name without special meaning to a shell, in case an operator's command lacks quotes."""
    return len(name) <= MOST_TEXT and _MODULE.fullmatch(name) is not None
