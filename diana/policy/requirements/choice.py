"""Which sites a ranked group takes, which sets of sites are tried for a group that wants something of all of them
together, and which of these comes nearest where none meets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import inf

from diana.model.ids import SiteId
from diana.model.views.decision import FailedRequirement
from diana.policy.requirements.judge import Shortfall

MOST_TRIED = 16
"""Sites of the largest set that is tried."""
EVERY_SET = 8
"""Sites of which every set is tried."""
EVERY_PAIR = 48
"""Sites of which every pair, and each alone, is tried, and which a set grows from."""
MOST_NAMED = 8
"""Sites of the nearest set that are named in a line."""
MOST_TOLD = 3
"""Conditions of it of which the values are told in a line."""


def first_ranked(ranks: Mapping[SiteId, float | None], startable: Mapping[SiteId, int], jobs: int) -> frozenset[SiteId]:
    """Return the sites that may have the jobs: the fewest of highest rank where all can start at once, those of equal
    rank together. Where they cannot, all may: then the first end decides, as nobody waits for a rank."""
    key = {site: -inf if rank is None else rank for site, rank in ranks.items()}
    room, kept = 0, set[SiteId]()
    for level in sorted(set(key.values()), reverse=True):
        some = [site for site in key if key[site] == level]
        kept.update(some)
        room += sum(startable.get(site, 0) for site in some)
        if room >= jobs:
            break
    return frozenset(kept)


def sets(order: Sequence[SiteId], jobs: int, pairs: int = EVERY_PAIR) -> Iterator[tuple[SiteId, ...]]:
    """Yield the sets of sites to try, each of no more sites than jobs, the larger first: the best by the order given,
    every set of the best few, and every pair of the first `pairs` and each of these alone."""
    few, known = order[:EVERY_SET], frozenset(order[:EVERY_SET])
    for size in range(min(len(order), MOST_TRIED, jobs), 0, -1):
        yield tuple(order[:size])
        yield from (some for some in combinations(few, size) if some != tuple(order[:size]))
        if size <= 2:
            yield from (some for some in combinations(order[:pairs], size) if not known.issuperset(some))


def grown(
    order: Sequence[SiteId], jobs: int, shortfall: Callable[[tuple[SiteId, ...]], Shortfall]
) -> Iterator[tuple[SiteId, ...]]:
    """Yield sets that grow by the site which most lessens the shortfall, from the best one alone to `MOST_TRIED` sites;
    it ends where no site lessens it. Of those alike the first by the order given. At most `EVERY_PAIR` sites are looked
    at in each step."""
    some: tuple[SiteId, ...] = ()
    before, left = Shortfall(len(order) + jobs), list(order[:EVERY_PAIR])
    while left and len(some) < min(MOST_TRIED, jobs):
        best = min(left, key=lambda site: shortfall((*some, site)))
        reached = shortfall((*some, best))
        if some and reached >= before:
            return
        left.remove(best)
        some, before = (*some, best), reached
        yield some


class NearestSet:
    """The set of sites that comes nearest to what is wanted, among those looked at: the one that meets most
    conditions, then with the least shortfall, then of fewer sites, then the first by their ids."""

    def __init__(self) -> None:
        self.sites: tuple[SiteId, ...] = ()
        """Sorted; empty: none was looked at."""
        self.failed: tuple[FailedRequirement, ...] = ()
        """Conditions that it does not meet."""
        self._key: tuple[Shortfall, int, tuple[SiteId, ...]] | None = None

    def look(
        self,
        sites: tuple[SiteId, ...],
        shortfall: Shortfall,
        failed: Callable[[], tuple[FailedRequirement, ...]],
    ) -> None:
        """Keep the set, sorted, if it comes nearer than those before; `failed` is called then."""
        key = (shortfall, len(sites), sites)
        if self._key is None or key < self._key:
            self._key, self.sites, self.failed = key, sites, failed()

    def told(self, none: str = "no set of sites", among: str = "") -> str:
        """Say that no set meets what is wanted, and what the nearest lacks. `none` and `among`: words on the sets that
        there were."""
        first, *more = self.failed
        and_more = f" (and {len(more)} more)" if more else ""
        found = "; ".join(one.found for one in self.failed[:MOST_TOLD] if one.found)
        best = f"the best{among} is {named(self.sites)}" + f": {found}" * bool(found)
        return f"{none} meets: {first.text}{and_more}; {best}"

    def near(self) -> str:
        """Return the comparison that would let the nearest set do; empty: one change does not."""
        return self.failed[0].near if len(self.failed) == 1 else ""


def named(sites: Sequence[SiteId]) -> str:
    """Name the sites of a set in a line."""
    return " + ".join(sites[:MOST_NAMED]) + (f" and {len(sites) - MOST_NAMED} more" if len(sites) > MOST_NAMED else "")
