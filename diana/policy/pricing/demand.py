"""Demand and candidates of a placement: the input of cost and splitting."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from diana.model.data import DataFile
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.views.decision import JobClass

MAX_BLOCKS = 4096
Holders = tuple[SiteId, ...]


class LinkForecast(msgspec.Struct, frozen=True, kw_only=True):
    """Forecast of fetching over one link."""

    bytes_per_s: float = 0.0
    """Measured throughput; 0: nothing comes over it."""
    rtt_s: float = 0.0
    loss: float = 0.0
    """Fraction of packets lost."""
    backlog_bytes: float = 0.0
    """Bytes queued on the link before ours."""
    error: float = 0.0
    """Past relative error of the forecast; 0.5: up to half as long again."""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Input data that always go together, and the jobs that read them."""

    files: tuple[DataFile, ...]
    """Units of data: one per file, or one for a whole dataset however many files it has."""
    readers: IndexSet
    holders: frozenset[SiteId]
    """Sites that have every one of the files; also pseudo-sites (`url:HOST`) others may have a link to."""

    def size_bytes(self) -> int:
        return sum(f.size_bytes for f in self.files)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A site as its quote describes it."""

    site: SiteId
    rejected: str = ""
    alive: bool = True
    """False if the site does not answer: it then takes nothing, however cheap."""
    slots: int = 0
    speed: float = 1.0
    work_ahead_s: float = 0.0
    """Processor-seconds at reference speed that stand before this group."""
    age_s: float = 0.0
    rtt_s: float = 0.0
    """Round trip from the origin; 0 at home."""
    fetch_bytes_per_s: dict[SiteId, float] = {}
    """Forecast of fetching from each other site, for holders that have no entry in `links`."""
    links: dict[SiteId, LinkForecast] = {}
    """Link for fetching from each other site."""
    link: LinkForecast = LinkForecast()
    """Link to and from the origin, and from holders that stand in neither of the above."""
    out_bytes_per_s: float = 0.0
    """Throughput from the site to the origin; 0: outputs stay there, or nothing is known."""
    uplink_bytes_per_s: float = 0.0
    """Throughput that all transfers leaving this site share; 0: unknown."""
    wait_s: float = -1.0
    """Seconds until this work would start there, as the site predicts at this priority. Negative: unknown, then
    work_ahead_s / (slots * speed) counts."""
    wait_low_s: float = -1.0
    wait_high_s: float = -1.0
    run_s: float = 0.0
    """Seconds per job there, learned; 0: unknown, then work_s / speed counts."""
    run_low_s: float = 0.0
    run_high_s: float = 0.0
    runs_seen: int = 0
    jobs_ahead: int = 0
    """Jobs ahead of this group there, at its priority."""
    queued_jobs: int = 0
    busy_fraction: float = 0.0
    max_jobs: int = 0
    """Most jobs of this group that the site takes; 0: no limit."""
    widest: int = 0
    """Processors of its widest machine; 0: as many as the site has."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    indices: IndexSet
    processors: int
    work_s: float
    """Run time per job at reference speed; > 0."""
    needs: tuple[Need, ...] = ()
    max_subgroup: int
    max_parallel: int = 0
    output_bytes: float = 0.0
    """Output bytes per job, gathered at the origin; 0: none, or unknown."""
    division: int = 0
    """Division factor: at least so many subgroups; 0: none asked."""
    executable_bytes: float = 0.0
    """Bytes of programs that travel with the group and are not among `needs`."""
    job_class: JobClass = ""
    """Class declared for the group; empty: it is derived."""

    def subgroup_jobs(self) -> int:
        """Size of the units a split is placed in, one by one; 0: as finely as pays (SPEC D6)."""
        jobs = len(self.indices)
        size = min(self.max_subgroup, -(-jobs // self.division) if self.division > 1 else jobs)
        return size if size < jobs else 0


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are alike in their data: `needs` are positions in `Demand.needs`.

    `divisible`: each job reads its own share of those bytes, so that part of the block moves part of them; needs in
    `shared` always move whole.
    """

    indices: IndexSet
    needs: tuple[int, ...]
    divisible: bool = False
    shared: tuple[int, ...] = ()

    def parted(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(needs that must be there before any of its jobs starts, needs of which each job has its own share)."""
        if not self.divisible:
            return self.needs, ()
        shared = set(self.shared)
        return self.shared, tuple(n for n in self.needs if n not in shared)


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
    return out if len(out) <= MAX_BLOCKS else by_holders(demand, out)


def _add_range(ranges: dict[tuple[int, ...], list[int]], active: set[int], start: int, stop: int) -> None:
    if stop <= start:
        return
    bounds = ranges.setdefault(tuple(sorted(active)), [])
    if bounds and bounds[-1] == start:
        bounds[-1] = stop
    else:
        bounds += (start, stop)


def by_holders(demand: Demand, fine: Sequence[Block], most: int = 0) -> list[Block]:
    """Join the blocks whose needs lie at the same sites; a need that all of them have stays undivided.

    If that leaves more than `most` blocks (0: no limit), only one holder of each need counts, the first by id; if still
    more, only the holder of the largest need. Data joined so still lie at one site.
    """
    holders = [tuple(sorted(need.holders)) for need in demand.needs]
    first = [some[:1] for some in holders]
    sizes = [need.size_bytes() for need in demand.needs] if most else []

    def together(where: Sequence[Holders], largest: bool = False) -> dict[tuple[Holders, ...], list[Block]]:
        out: dict[tuple[Holders, ...], list[Block]] = {}
        for block in fine:
            needs = [max(block.needs, key=lambda n: (sizes[n], -n))] if largest and block.needs else block.needs
            out.setdefault(tuple(sorted({where[n] for n in needs})), []).append(block)
        return out

    found = together(holders)
    if 0 < most < len(found):
        found = together(first)
    if 0 < most < len(found):
        found = together(first, largest=True)
    return [_joined(some) for _, some in sorted(found.items())]


def _joined(some: list[Block]) -> Block:
    if len(some) == 1:
        return some[0]
    common = set(some[0].needs).intersection(*(b.needs for b in some[1:]))
    return Block(
        indices=IndexSet.union(b.indices for b in some),
        needs=tuple(sorted({n for b in some for n in b.needs})),
        divisible=True,
        shared=tuple(sorted(common)),
    )
