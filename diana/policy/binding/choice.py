"""The choice of jobs at a call: a site whose turn came is handed jobs whose data it has, before others take them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.policy.pricing.demand import Need

MOST_LOTS = 64
"""Lots that a choice looks at, the largest first. Data beyond them count as present everywhere."""


class Lot(NamedTuple):
    """Data that the same waiting sites hold, and the jobs that read some of them."""

    holders: frozenset[SiteId]
    readers: IndexSet


def lots(needs: Iterable[Need], indices: IndexSet, sites: Collection[SiteId]) -> tuple[Lot, ...]:
    """Return the data of the jobs by the sites that hold them; `sites`: those at which the jobs wait. Data that every
    job reads are left out, and data that all or none of these sites hold: they weigh the same whoever takes which
    job."""
    waiting = frozenset(sites)
    readers: dict[frozenset[SiteId], list[IndexSet]] = {}
    size: dict[frozenset[SiteId], int] = {}
    for need in needs:
        holders = need.holders & waiting
        if holders and holders != waiting and not indices.issubset(need.readers):
            readers.setdefault(holders, []).append(need.readers)
            size[holders] = size.get(holders, 0) + need.size_bytes()
    largest = sorted(readers, key=lambda holders: (-size[holders], sorted(holders)))[:MOST_LOTS]
    return tuple(Lot(holders, IndexSet.union(readers[holders])) for holders in largest)


def choose(left: IndexSet, jobs: int, site: SiteId, others: Collection[SiteId], some: tuple[Lot, ...]) -> IndexSet:
    """Return the `jobs` of `left` that `site` is handed; `others`: the other sites at which they wait. First go jobs
    that have all their data here and nowhere else, then those that have them here, those without, those that must fetch
    wherever they run, and last those that another of the sites has the data of."""
    if not some:
        return left.take(jobs)[0]
    here = _whole_at(site, left, some)
    elsewhere = IndexSet.union(_whole_at(other, left, some) for other in others if other != site)
    reading = IndexSet.union(lot.readers for lot in some) & left
    local, remote = here & reading, reading - here
    chosen = IndexSet()
    for rank in (local - elsewhere, local & elsewhere, left - reading, remote - elsewhere, remote & elsewhere):
        chosen |= rank.take(jobs - len(chosen))[0]
        if len(chosen) >= jobs:
            break
    return chosen


def _whole_at(site: SiteId, left: IndexSet, some: tuple[Lot, ...]) -> IndexSet:
    """Return the jobs that need fetch nothing at the site."""
    return left - IndexSet.union(lot.readers for lot in some if site not in lot.holders)
