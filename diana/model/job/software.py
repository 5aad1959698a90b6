"""Needs of jobs besides processors: containers, modules by name, a launcher of MPI jobs, licences, declared
resources."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

from diana.model.job import declared, licences
from diana.model.job.spec import GroupSpec, Resources

CONTAINERS = "containers"
"""Name of the need for running jobs in an image."""
MPI = "mpi"
"""Name of the need for a launcher of MPI jobs."""
MPI_INSIDE = "mpi in containers"
"""Name of the need for MPI jobs in an image; each process of such a job is then a process of its own machine."""
MPI_OVER_SITES = "mpi over sites"
"""Name of the need for MPICH's launcher, which starts one MPI world over the components of a gang."""
BARRIER = "barrier"
"""Name of the need of components for a machine that can hold them until all of their gang are let go."""
CHECKPOINT = "checkpoint"
"""Name of the need for a machine that can ask its jobs to save their state, and start others from such a state."""
SPARES = "spares"
"""Name of the need of gangs with spares for a machine that hears how fast a process is and tells it who computes."""
FOUND = "found outputs"
"""Name of the need for a machine that finds outputs by patterns, and those that lie in folders."""
OWN_RUNNERS = ("env", "mpi", "none")
"""Runners that diana has itself, by the names that job files give them."""
_RUNNER = "runner "
"""Beginning of the need of gangs whose runner is an installed one."""
_PLATFORM = "platform "
"""Beginning of the need for a machine of one of some kinds, by `uname -m`."""
ANY_MODULE = "module *"
MOST_MODULES = 64
"""Modules that a group may ask for."""
MOST_NEEDED = MOST_MODULES + 8 + licences.MOST_LICENCES + declared.MOST_DECLARED
"""Names of needs that a group's jobs may have, all kinds together."""
MOST_TEXT = 200
"""Characters of a name."""
MOST_BUILDS = 8
"""Platforms that a package may have builds for."""
_MOST_ASKED = len("module ") + MOST_TEXT
"""Characters of a name as it is asked for."""
_LACKS = {
    CONTAINERS: "runs no containers",
    MPI: "has no launcher of MPI jobs",
    MPI_INSIDE: "has no launcher of MPI jobs in containers",
    MPI_OVER_SITES: "has no launcher of MPI jobs over several sites (mpi_over_sites in its site.toml)",
    BARRIER: "cannot hold jobs until others start with them",
    CHECKPOINT: "cannot start jobs from checkpoints",
    SPARES: "cannot exchange processes for spares",
    FOUND: "finds no outputs by patterns or folders, as it is of an older release",
}
_BUILD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,99}")
_INSTALLED = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
_MODULE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+@:=,-]*")


def module(name: str) -> str:
    return f"module {name}"


def runner(name: str) -> str:
    return f"{_RUNNER}{name}"


def platform(*names: str) -> str:
    """Return the need for a machine of any of these platforms; of one, also the name under which it offers that."""
    return _PLATFORM + "|".join(sorted(names))


def platforms_in(offered: Iterable[str]) -> frozenset[str]:
    """Return the platforms among the names that machines offer."""
    return frozenset(name.removeprefix(_PLATFORM) for name in offered if name.startswith(_PLATFORM))


def is_package(names: Iterable[str]) -> bool:
    """True if jobs with these needs bring programs of their own, a build for each platform."""
    return any(name.startswith(_PLATFORM) for name in names)


def needed(spec: GroupSpec, each: Resources | None = None) -> tuple[str, ...]:
    """Names of all needs of the group's jobs. `each`: what one of them asks; None: as the group says."""
    has = spec.resources if each is None else each
    gang = (BARRIER,) if spec.is_gang else ()
    saves = (CHECKPOINT,) if spec.checkpoint is not None else ()
    spares = (SPARES,) if spec.spares else ()
    found = (FOUND,) if spec.outputs.finds else ()
    counted = (*licences.named(has.licences), *declared.named(has.others))
    return (*made_ready(spec), *gang, *saves, *spares, *found, *counted)


def made_ready(spec: GroupSpec) -> tuple[str, ...]:
    """Names of those needs that the machine makes ready where the jobs start."""
    mpi = (MPI, MPI_INSIDE) if spec.container else (MPI,)
    own = {"": (), "none": (), "mpi": (MPI_OVER_SITES,)}
    runs = own.get(spec.runner, (runner(spec.runner),))
    builds = (platform(*spec.builds),) if spec.builds else ()
    software = ((CONTAINERS,) if spec.container else ()), tuple(map(module, spec.modules)), (mpi if spec.mpi else ())
    return tuple(name for some in (*software, runs, builds) for name in some)


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
    if declared.is_named(one):
        return not declared.lacking(names, one)
    if one.startswith(_PLATFORM):
        return any(_PLATFORM + each in names for each in one.removeprefix(_PLATFORM).split("|"))
    return one.startswith("module ") and ANY_MODULE in names


def lacking(offered: Iterable[str], asked: Iterable[str]) -> str:
    """Say what a site with these offers lacks of the asked names; empty: it has all."""
    names = frozenset(offered)
    lacks = next((one for one in asked if not had(names, (one,))), "")
    if licences.is_licence(lacks):
        return licences.lacking(names, lacks)
    if declared.is_named(lacks):
        return declared.lacking(names, lacks)
    if lacks.startswith(_PLATFORM):
        return f"has no machine of {lacks[:MOST_TEXT].replace('|', ' or ')}"
    if lacks in _LACKS:
        return _LACKS[lacks]
    return f"has no {lacks[:MOST_TEXT]}" if lacks else ""


def unknown_runner(name: str, offered: Iterable[str]) -> str:
    """Return the words that refuse a runner, with the nearest of diana's own and of those that a site offers; empty:
    it is one of them."""
    known = (*OWN_RUNNERS, *sorted(one.removeprefix(_RUNNER) for one in offered if one.startswith(_RUNNER)))
    if not name or name in known:
        return ""
    near = get_close_matches(name, known, 1, 0.5)
    hint = f"did you mean {near[0]}? Known" if near else "known"
    return f"{name!r}: no such runner; {hint} here: {', '.join(known[:16])}"


def plain(spec: GroupSpec) -> bool:
    """True if the spec's names of software are well formed; a spec may come from anywhere."""
    image = spec.container
    if image and (len(image) > MOST_TEXT or not image.isprintable() or image[0] in "- "):
        return False
    if spec.runner and not is_runner(spec.runner):
        return False
    if not (len(spec.builds) <= MOST_BUILDS and all(map(is_build, (*spec.builds, spec.program or "x")))):
        return False
    counted = {(each.licences, each.others) for each in spec.components}
    counted.add((spec.resources.licences, spec.resources.others))
    if not all(licences.plain(some) and declared.plain(others) for some, others in counted):
        return False
    return len(spec.modules) <= MOST_MODULES and all(map(is_module, spec.modules))


def is_build(name: str) -> bool:
    """True for the name of a platform or program that is a plain file's, without special meaning to a shell."""
    return _BUILD.fullmatch(name) is not None


def is_runner(name: str) -> bool:
    """True for a name that a runner may have."""
    return _INSTALLED.fullmatch(name) is not None


def is_module(name: str) -> bool:
    """True for a name without special meaning to a shell, in case an operator's command lacks quotes."""
    return len(name) <= MOST_TEXT and _MODULE.fullmatch(name) is not None
