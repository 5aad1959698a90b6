"""The placement of a gang by its predicted end: the wait for its last claim, or for its files where that is longer, and
a run as long as at its slowest site, slower by the number of sites combined (SPEC K2). It searches the papers'
placements over all sites and over the faster ones alone, with the room of now and of later: faster sites are worth
waiting for, and so is room at few sites where a program slows down over several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from diana.policy.gang.requests import FlexibleRequest, GangPlacement, GangRequest, Rooms, Unplaced
from diana.policy.gang.soonest import GrowingRoom, Place, soonest, waits_s

TURNAROUND = "turnaround"
"""Name of the placement."""
MOST_TIMES = 16
"""Times at which room grows that are looked at, an even choice of more."""
MOST_SPEEDS = 8
"""Groups of faster sites that are looked at, an even choice of more."""
MOST_WORK = 1_000_000
"""Components times sites of all placements that are tried beside the soonest ones: it bounds what one gang costs the
engine."""


def tried(request: GangRequest) -> tuple[str, ...]:
    """Return the papers' policies that place such a request otherwise than each other."""
    if isinstance(request, FlexibleRequest):
        few_sites, reads = "flexible-min", bool(request.files or request.own_files)
    else:
        few_sites, reads = "cluster-min", any(each.files for each in request)
    return (few_sites, "worst-fit", "close-to-files") if reads else (few_sites, "worst-fit")


class GangEnd(NamedTuple):
    """The predicted end of a placement, in seconds from now."""

    seconds: float
    claimed_s: float
    """Until the processors of all components are expected to be free."""
    run_s: float
    """Run time at its slowest site."""
    factor: float
    """By the number of sites."""


class TurnaroundChoice(NamedTuple):
    """The outcome of a search."""

    answer: GangPlacement | Unplaced
    end: GangEnd | None = None
    """None: there is no place."""


def factor_of(slowdown: Sequence[float], sites: int) -> float:
    """Return how much longer a program runs over so many sites. `slowdown`: for 1, 2, 3.. sites, the last of them for
    all more; empty: 1."""
    return slowdown[min(sites, len(slowdown)) - 1] if slowdown else 1.0


def end_of(
    answer: GangPlacement,
    request: GangRequest,
    rooms: Mapping[str, GrowingRoom],
    run_s: Mapping[str, float],
    slowdown: Sequence[float] = (),
) -> GangEnd:
    """Return the predicted end of a placement. `rooms`: by site; `run_s`: seconds of its run, were all of it as fast as
    at this site; infinite where it is left out."""
    claimed_s = max(waits_s(answer, request, rooms).values())
    slowest_s = max(run_s.get(site, inf) for site in answer.sites)
    factor = factor_of(slowdown, len(answer.sites))
    return GangEnd(max(claimed_s, answer.transfer_s) + slowest_s * factor, claimed_s, slowest_s, factor)


def turnaround(
    request: GangRequest,
    places: Sequence[Place],
    sites: Sequence[GrowingRoom],
    run_s: Mapping[str, float],
    slowdown: Sequence[float] = (),
) -> TurnaroundChoice:
    """Place a gang where its predicted end is least; equals go to fewer sites, then to the earlier claim, then to
    names. It is never later than that of any of `places`, policies with this request, where they find room soonest.
    Where none finds any, the reason is that of the first."""
    rooms = {site.now.name: site for site in sites}
    found: list[tuple[tuple[float, int, float, tuple[str, ...], tuple[int, ...]], GangPlacement, GangEnd]] = []

    def tell(answer: GangPlacement | Unplaced) -> None:
        if isinstance(answer, GangPlacement):
            end = end_of(answer, request, rooms, run_s, slowdown)
            sizes = tuple(part.processors for part in answer.parts)
            where = tuple(part.site for part in answer.parts)
            found.append(((end.seconds, len(answer.sites), end.claimed_s, where, sizes), answer, end))

    answers = [soonest(place, sites).answer for place in places]
    for answer in answers:
        tell(answer)
    if not found:
        return TurnaroundChoice(answers[0])
    components = 1 if isinstance(request, FlexibleRequest) else len(request)
    left = MOST_WORK // (components * len(sites))
    for some in _faster(sites, run_s):
        times = _times(some)
        for place in places:
            left -= len(times)
            if left < 0 or isinstance(place(Rooms([site.after(times[-1]) for site in some])), Unplaced):
                continue
            tell(soonest(place, some).answer)
            for after_s in times:
                tell(place(Rooms([site.after(after_s) for site in some])))
    _, answer, end = min(found, key=lambda each: each[0])
    return TurnaroundChoice(answer, end)


def _faster(sites: Sequence[GrowingRoom], run_s: Mapping[str, float]) -> list[list[GrowingRoom]]:
    """Return all sites, then fewer and fewer of them, the faster ones."""
    limits = sorted({run_s.get(site.now.name, inf) for site in sites}, reverse=True)
    return [
        [site for site in sites if run_s.get(site.now.name, inf) <= limit_s] for limit_s in _some(limits, MOST_SPEEDS)
    ]


def _times(sites: Sequence[GrowingRoom]) -> list[float]:
    return _some(sorted({0.0, *(step.after_s for site in sites for step in site.later)}), MOST_TIMES)


def _some(every: list[float], most: int) -> list[float]:
    """Return at most so many, the first and the last among them."""
    if len(every) <= most:
        return every
    return [every[at * (len(every) - 1) // (most - 1)] for at in range(most)]
