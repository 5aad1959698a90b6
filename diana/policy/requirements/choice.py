"""Which sites a ranked group takes, and which sets of sites are tried for a group that wants something of all of them
together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import inf

from diana.model.ids import SiteId

MOST_TRIED = 16
"""Sites of the largest set that is tried."""
EVERY_SET = 8
"""Sites of which every set is tried."""
EVERY_PAIR = 48
"""Sites of which every pair, and each alone, is tried."""


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
