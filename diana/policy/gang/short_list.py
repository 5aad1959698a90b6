"""The sites that are worth a question about a gang, by what all sites last told of themselves (SPEC K8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import ceil

from diana.model.arrays import Floats, np
from diana.model.ids import SiteId
from diana.policy.gang.requests import FlexibleRequest, GangRequest
from diana.policy.pricing.sites import SiteTable

SPARE = 2
"""Room is looked for so many times over: what sites told is some seconds old."""
MOST_ASKED = 256
MOST_LOOKS = 8
"""Sizes, and splits of a flexible gang, that are looked at."""


def short_list(table: SiteTable, request: GangRequest, wanted: Callable[[SiteId], bool]) -> list[SiteId]:
    """Return at most `MOST_ASKED` sites that are wanted: those that tell of most idle processors, until they hold the
    gang `SPARE` times, and the largest, until they do when they are idle; never more than `SPARE` for each component.
    Components whose site is given need no other."""
    idle = np.rint(table.slots * (1.0 - table.busy_fraction))
    found = dict.fromkeys(
        site
        for sizes, most in _divisions(request)
        for room in (idle, table.slots)
        for site in _holding(table, room, sizes, most, wanted)
    )
    return list(found)[:MOST_ASKED]


def _divisions(request: GangRequest) -> Iterator[tuple[Counter[int], int]]:
    """Yield the ways in which the request may be cut: the number of components by size, and at most how many sites
    these can use."""
    if not isinstance(request, FlexibleRequest):
        sizes = Counter(each.processors for each in request if not each.site)
        yield sizes, sizes.total()
    elif request.splits:
        for split in request.splits[:MOST_LOOKS]:
            yield Counter(split), len(split)
    else:
        pieces = ceil(request.processors / request.minimum)
        yield Counter({request.minimum: pieces}), min(pieces, request.most_components or pieces)


def _holding(
    table: SiteTable, room: Floats, sizes: Counter[int], most: int, wanted: Callable[[SiteId], bool]
) -> dict[SiteId, None]:
    """Return the sites of most room. Components of a size are looked at together with all larger ones, the largest
    first: the sites of the narrow ones may be too narrow for the wide."""
    order = np.lexsort((table.ranks(), -room))
    found: dict[SiteId, None] = {}
    for size in _looked_at(sorted(sizes, reverse=True)):
        need = sum(each * count for each, count in sizes.items() if each >= size)
        rows = order[(table.widest[order] >= size) & (room[order] >= size)]
        held, used = 0.0, 0
        for row in rows:
            if held >= SPARE * need or used >= SPARE * most:
                break
            site = table.sites[row]
            if site in found or wanted(site):
                found[site] = None
                held += room[row] // size * size
                used += 1
    return found


def _looked_at(sizes: list[int]) -> list[int]:
    """Return some of the sizes, the largest and the smallest among them."""
    if len(sizes) <= MOST_LOOKS:
        return sizes
    return [sizes[round(at * (len(sizes) - 1) / (MOST_LOOKS - 1))] for at in range(MOST_LOOKS)]
