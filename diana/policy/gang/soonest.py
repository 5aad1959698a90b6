"""The earliest time at which a gang finds places for all its components, by what the sites say of processors and other
resources that come free (SPEC K2, K5)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from diana.model.job.resources import PROCESSORS, Amounts, ResourceOffer, ResourceRequest, countable, fits, of
from diana.policy.gang.requests import FlexibleRequest, GangPlacement, GangRequest, Rooms, SiteRoom, Unplaced

MOST_AHEAD_S = 1e7
"""Room that comes later than this counts for nothing."""

Place = Callable[[Rooms], GangPlacement | Unplaced]
"""A policy with its request; it uses the rooms up."""


class LaterRoom(NamedTuple):
    """Idle processors of a site some time from now, and what else is there then."""

    after_s: float
    idle: int
    """Those that gangs may get by its quota."""
    left: Mapping[str, int] = {}
    """As in `SiteRoom`, of resources that are taken."""


class GrowingRoom(NamedTuple):
    """The room of a site as it grows: what is idle now, and what will be."""

    now: SiteRoom
    later: tuple[LaterRoom, ...] = ()
    """In the order of time."""

    def after(self, after_s: float) -> SiteRoom:
        """Return the room by that time, in seconds from now; never less than that of now."""
        idle, left, quota = self.now.idle, dict(self.now.left), self.now.quota
        for step in self.later:
            if step.after_s > after_s:
                break
            idle = max(idle, step.idle)
            if quota is not None:
                quota = quota._replace(left=max(quota.left, min(step.idle, quota.most)))
            for name, count in step.left.items():
                left[name] = max(left.get(name, 0), count)
        return replace(self.now, idle=min(idle, self.now.total), left=left, quota=quota)

    def holds_after_s(self, processors: int, amounts: Amounts = ()) -> float:
        """Return the seconds until so many are idle there and these amounts are left; those of the last step where they
        never are."""
        asked = ResourceRequest(processors, countable(amounts))
        for after_s in (0.0, *(step.after_s for step in self.later)):
            room = self.after(after_s)
            if fits(asked, ResourceOffer(room.usable, room.left)):
                return after_s
        return self.later[-1].after_s if self.later else 0.0


class Soonest(NamedTuple):
    answer: GangPlacement | Unplaced
    after_s: float
    """Seconds from now until what all components ask is idle."""


def waits_s(answer: GangPlacement, request: GangRequest, rooms: Mapping[str, GrowingRoom]) -> dict[str, float]:
    """Return the seconds until each site of a placement has room for all of its components there."""
    used: dict[str, Counter[str]] = {}
    for part in answer.parts:
        amounts = request.amounts if isinstance(request, FlexibleRequest) else request[part.component].amounts
        used.setdefault(part.site, Counter()).update({PROCESSORS: part.processors, **dict(amounts)})
    return {site: rooms[site].holds_after_s(at.pop(PROCESSORS), of(at)) for site, at in used.items()}


def growing(now: SiteRoom, steps: Iterable[LaterRoom]) -> GrowingRoom:
    """Return the room of a site by its own word, of which what makes no sense is left out."""
    sane = (s for s in steps if 0 <= s.after_s <= MOST_AHEAD_S and s.idle > 0)
    return GrowingRoom(now, tuple(sorted(sane, key=lambda step: (step.after_s, step.idle))))


def soonest(place: Place, sites: Sequence[GrowingRoom]) -> Soonest:
    """Place a gang with what is idle now, else with what is idle at the earliest time that will do. Where none will,
    return the reason why there is no place now; `never` says that idle sites would not do either."""

    def tried(after_s: float) -> GangPlacement | Unplaced:
        return place(Rooms([site.after(after_s) for site in sites]))

    now = tried(0.0)
    if isinstance(now, GangPlacement):
        return Soonest(now, 0.0)
    times = sorted({step.after_s for site in sites for step in site.later})
    if times and isinstance(tried(times[-1]), GangPlacement):
        # More room never makes a place worse, or hardly ever: then a later time is taken than would do.
        after_s = times[bisect_left(times, True, key=lambda at_s: isinstance(tried(at_s), GangPlacement))]
        return Soonest(tried(after_s), after_s)
    whole = place(Rooms([site.now.emptied() for site in sites]))
    answer = whole if isinstance(whole, Unplaced) else now
    return Soonest(replace(answer, never=answer is whole), 0.0)
