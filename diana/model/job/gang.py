"""Parts of a group of gangs: the spec of alike components, and the environment that they get when all are let go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec

SPARES = "DIANA_GANG_SPARES"
"""Variable of the components that stand by at first, the last ones."""
ROSTER = "DIANA_GANG_ROSTER"
"""Variable of the file that says who computes, once it is there."""
ROSTER_NAME = ".diana-roster"
"""Name of that file, in the component's own directory."""
ITEMS = "DIANA_GANG_ITEMS"
"""Variable of the items of data of each component, by rank."""
MOST_EXCHANGES = 10**6
"""Exchanges of processes within one attempt of a gang."""
MOST_ITEMS = 10**15
"""Items of one component."""
MOST_PORT = 65_535
_HOST = re.compile(r"[A-Za-z0-9._:%-]{1,255}")
Environment = tuple[tuple[str, str], ...]
COMPONENT = "component"
"""Name of the swept value that is a component's rank within its gang."""


def of_part(spec: GroupSpec, indices: IndexSet, processors: int = 0) -> GroupSpec:
    """Return the spec by which a part's jobs run. Of a gang it holds alike components, with what they ask, read and run
    themselves; any other spec stays as it is. `processors`: those of each component of a flexible gang, as it was
    divided."""
    if spec.flexible is not None and processors:
        return msgspec.structs.replace(spec, resources=msgspec.structs.replace(spec.resources, processors=processors))
    if not spec.components or not indices:
        return spec
    own = spec.component(indices.bounds[0])
    return msgspec.structs.replace(
        spec, resources=spec.of_component(own), argv=own.argv or spec.argv, inputs=spec.inputs + own.inputs
    )


def gangs_in(spec: GroupSpec, indices: IndexSet) -> Iterator[int]:
    """Yield the gangs, by their numbers, that lie wholly among the indices."""
    size = spec.gang_size
    for begin, end in zip(indices.bounds[::2], indices.bounds[1::2], strict=True):
        yield from range(-(-begin // size), end // size)


def ragged(spec: GroupSpec, indices: IndexSet) -> IndexSet:
    """Return those of the indices whose gang is not wholly among them."""
    size, out = spec.gang_size, []
    for begin, end in zip(indices.bounds[::2], indices.bounds[1::2], strict=True):
        first, last = -(-begin // size) * size, end // size * size
        out += [IndexSet.span(begin, min(first, end)), IndexSet.span(max(last, begin, min(first, end)), end)]
    return IndexSet.union(out)


def members(spec: GroupSpec, gang: int) -> IndexSet:
    """Return the indices of a gang's components."""
    return IndexSet.span(gang * spec.gang_size, (gang + 1) * spec.gang_size)


def whole_gangs(spec: GroupSpec, indices: IndexSet) -> IndexSet:
    """Return the indices of all gangs of which any component is among `indices`."""
    size = spec.gang_size
    if size == 1:
        return indices
    spans = zip(indices.bounds[::2], indices.bounds[1::2], strict=True)
    return IndexSet.union(IndexSet.span(begin // size * size, -(-end // size) * size) for begin, end in spans)


def size_told(spec: GroupSpec, environment: Environment) -> int:
    """Return the components of a gang that was let go: of a flexible one, as many as were told."""
    return dict(environment)["DIANA_GANG_HOSTS"].count(",") + 1 if spec.flexible is not None else spec.gang_size


def is_division(items: Sequence[int], size: int) -> bool:
    """True for items of a gang of this size, or none; peers say them."""
    return not items or (len(items) == size and all(0 <= count <= MOST_ITEMS for count in items))


def first_active(spec: GroupSpec) -> tuple[int, ...]:
    """Return the ranks that compute when a gang with spares begins."""
    return tuple(range(spec.gang_size - spec.spares))


def is_roster(spec: GroupSpec, number: int, active: Sequence[int]) -> bool:
    """True for a word on who computes that a gang of this spec may be told; peers say it."""
    size = spec.gang_size
    fits = 0 < spec.spares < size and 0 < number <= MOST_EXCHANGES and len(active) == size - spec.spares
    return fits and len(set(active)) == len(active) and all(0 <= rank < size for rank in active)


def roster_text(number: int, active: Sequence[int]) -> str:
    """Return the roster as a component reads it: its number, and the ranks that compute, by their places."""
    return f"{number} {','.join(map(str, active))}\n"


def is_host(host: str, port: int) -> bool:
    """True for an address that components may be told; peers say them."""
    return _HOST.fullmatch(host) is not None and 0 <= port <= MOST_PORT


def met(hosts: Sequence[str], port: int, token: str, items: Sequence[int] = ()) -> Environment:
    """Return what all components of a gang are told when they are let go. `hosts`: by rank; `port`: free at the first
    of them; `items`: the data of each, if a mapper divided them. The names without DIANA are those of torchrun."""
    first = hosts[0]
    mapped = ((ITEMS, ",".join(map(str, items))),) if items else ()
    return (
        *mapped,
        ("DIANA_GANG_HOSTS", ",".join(hosts)),
        ("DIANA_GANG_PORT", str(port)),
        ("DIANA_GANG_TOKEN", token),
        ("MASTER_ADDR", first),
        ("MASTER_PORT", str(port)),
    )


def of_rank(environment: Environment, rank: int, size: int, spares: int = 0, roster: str = "") -> list[tuple[str, str]]:
    """Return what one component is told: `environment` of all, and its own place among them. `roster`: path of the
    file that says who computes, where there are spares."""
    own = (("DIANA_GANG_RANK", rank), ("DIANA_GANG_SIZE", size), ("RANK", rank), ("WORLD_SIZE", size))
    more = (("NODE_RANK", rank), ("NNODES", size))
    items = dict(environment).get(ITEMS, "").split(",")
    mapped = [("DIANA_ITEMS", items[rank])] if len(items) == size else []
    stands_by = [(SPARES, str(spares)), (ROSTER, roster)] if spares else []
    return [*environment, *((name, str(value)) for name, value in (*own, *more)), *mapped, *stands_by]
