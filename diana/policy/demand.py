"""What a placement has to place and where it could go: the input of cost and splitting."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from diana.model.data import DataFile
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet

MAX_BLOCKS = 4096


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Input files that always go together, and who reads them."""

    files: tuple[DataFile, ...]
    readers: IndexSet
    holders: frozenset[SiteId]
    """Sites that have every one of the files."""

    def size_bytes(self) -> int:
        return sum(f.size_bytes for f in self.files)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A site as its quote describes it."""

    site: SiteId
    rejected: str = ""
    slots: int = 0
    speed: float = 1.0
    work_ahead_s: float = 0.0
    """Processor-seconds at reference speed that stand before this group."""
    age_s: float = 0.0
    rtt_s: float = 0.0
    """From the origin; 0 at home."""
    fetch_bytes_per_s: dict[SiteId, float] = {}
    """Forecast of fetching from each other site."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    indices: IndexSet
    processors: int
    work_s: float
    """Per job, at reference speed; > 0."""
    needs: tuple[Need, ...] = ()
    max_subgroup: int
    max_parallel: int = 0


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are alike in their data: `needs` are positions in `Demand.needs`.

    `divisible`: each job reads its own share of those bytes, so part of the block moves part of them.
    """

    indices: IndexSet
    needs: tuple[int, ...]
    divisible: bool = False


def blocks(demand: Demand) -> list[Block]:
    """Partition the demand's jobs by the needs they share; in order of their lowest index.

    Costs O(R log R) in the number R of ranges of all reader sets, not in jobs. Beyond `MAX_BLOCKS`
    blocks whose needs lie at the same sites are taken together.
    """
    edges: list[tuple[int, int]] = []
    for number, need in enumerate(demand.needs):
        for start, stop in (need.readers & demand.indices).ranges():
            edges.append((start, number))
            edges.append((stop, ~number))
    cuts = sorted(edges, key=lambda e: e[0])
    ranges: dict[tuple[int, ...], list[int]] = {}
    active: set[int] = set()
    at, position = 0, 0
    while position < len(cuts):
        here = cuts[position][0]
        _add_range(ranges, active, at, here)
        while position < len(cuts) and cuts[position][0] == here:
            number = cuts[position][1]
            active.add(number) if number >= 0 else active.discard(~number)
            position += 1
        at = here
    end = demand.indices.bounds[-1] if demand.indices else 0
    _add_range(ranges, active, at, end)
    out = [Block(indices=IndexSet(tuple(bounds)) & demand.indices, needs=needs) for needs, bounds in ranges.items()]
    out = sorted((b for b in out if b.indices), key=lambda b: b.indices.bounds[0])
    return out if len(out) <= MAX_BLOCKS else _by_holders(demand, out)


def _add_range(ranges: dict[tuple[int, ...], list[int]], active: set[int], start: int, stop: int) -> None:
    if stop <= start:
        return
    bounds = ranges.setdefault(tuple(sorted(active)), [])
    if bounds and bounds[-1] == start:
        bounds[-1] = stop
    else:
        bounds += (start, stop)


def _by_holders(demand: Demand, fine: Sequence[Block]) -> list[Block]:
    together: dict[tuple[tuple[SiteId, ...], ...], list[Block]] = {}
    for block in fine:
        where = tuple(sorted({tuple(sorted(demand.needs[n].holders)) for n in block.needs}))
        together.setdefault(where, []).append(block)
    return [
        Block(
            indices=IndexSet.union(b.indices for b in some),
            needs=tuple(sorted({n for b in some for n in b.needs})),
            divisible=True,
        )
        for _, some in sorted(together.items())
    ]
