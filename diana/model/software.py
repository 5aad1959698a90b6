"""What jobs need of a site besides its processors: containers, modules by name, a launcher of MPI jobs, licences."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from itertools import islice

from diana.model import licences
from diana.model.spec import GroupSpec

CONTAINERS = "containers"
"""That a site can run jobs in an image."""
MPI = "mpi"
"""That a site has a launcher of MPI jobs."""
MPI_INSIDE = "mpi in containers"
"""That it can have such jobs in an image: each of their processes is a process of its own machine's then."""
ANY_MODULE = "module *"
MOST_MODULES = 64
"""That a group may ask for."""
MOST_NEEDED = MOST_MODULES + 3 + licences.MOST_LICENCES
"""Names of what its jobs need."""
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
    """Names of all the group's jobs need."""
    return (*made_ready(spec), *licences.named(spec.resources.licences))


def made_ready(spec: GroupSpec) -> tuple[str, ...]:
    """Of these, what the machine makes ready where they start."""
    mpi = (MPI, MPI_INSIDE) if spec.container else (MPI,)
    return (*((CONTAINERS,) if spec.container else ()), *map(module, spec.modules), *(mpi if spec.mpi else ()))


def spreads(software: Container[str], gpus: int) -> bool:
    """Whether a job that needs so much may lie on several machines of a cluster. One of GPUs has one machine, since not
    every batch system can be asked for GPUs of several."""
    return MPI in software and not gpus


def asked(names: Iterable[str]) -> tuple[str, ...]:
    """As much of what a peer asks, or says that it has of what it was asked, as a group may ask for, in order and each
    once. What is longer than any such name is cut, and so is still none of them: names are kept for a while."""
    return tuple(sorted({name[:_MOST_ASKED] for name in islice(names, MOST_NEEDED)}))


def had(offered: Iterable[str], asked: Iterable[str]) -> tuple[str, ...]:
    """What of the asked a site has that offers so much."""
    names = frozenset(offered)
    return tuple(one for one in asked if one in names or _had(names, one))


def _had(names: frozenset[str], one: str) -> bool:
    if licences.is_licence(one):
        return not licences.lacking(names, one)
    return one.startswith("module ") and ANY_MODULE in names


def lacking(offered: Iterable[str], asked: Iterable[str]) -> str:
    """Why a site that offers so much is none for jobs that need the asked; empty: it has all."""
    names = frozenset(offered)
    lacks = next((one for one in asked if not had(names, (one,))), "")
    if licences.is_licence(lacks):
        return licences.lacking(names, lacks)
    if lacks in _LACKS:
        return _LACKS[lacks]
    return f"has no {lacks[:MOST_TEXT]}" if lacks else ""


def plain(spec: GroupSpec) -> bool:
    """Whether the names can be names: a spec may come from anywhere."""
    image = spec.container
    if image and (len(image) > MOST_TEXT or not image.isprintable() or image[0] in "- "):
        return False
    few = len(spec.modules) <= MOST_MODULES and licences.plain(spec.resources.licences)
    return few and all(map(is_module, spec.modules))


def is_module(name: str) -> bool:
    """A name that means nothing else to a shell, in which an operator may have forgotten quotes."""
    return len(name) <= MOST_TEXT and _MODULE.fullmatch(name) is not None
