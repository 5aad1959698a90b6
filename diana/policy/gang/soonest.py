"""The earliest time at which a gang finds places for all its components, by what the sites say of processors that come
free (SPEC K2, K5)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from diana.policy.gang.requests import GangPlacement, Rooms, SiteRoom, Unplaced

MOST_AHEAD_S = 1e7
"""Room that comes later than this counts for nothing."""

Place = Callable[[Rooms], GangPlacement | Unplaced]
"""A policy with its request; it uses the rooms up."""


class LaterRoom(NamedTuple):
    """Idle processors and GPUs of a site some time from now."""

    after_s: float
    idle: int
    idle_gpus: int


class GrowingRoom(NamedTuple):
    """The room of a site as it grows: what is idle now, and what will be."""

    now: SiteRoom
    later: tuple[LaterRoom, ...] = ()
    """In the order of time."""

    def after(self, after_s: float) -> SiteRoom:
        """Return the room by that time, in seconds from now; never less than that of now."""
        idle, gpus = self.now.idle, self.now.idle_gpus
        for step in self.later:
            if step.after_s > after_s:
                break
            idle, gpus = max(idle, step.idle), max(gpus, step.idle_gpus)
        return SiteRoom(self.now.name, min(idle, self.now.total), self.now.total, self.now.widest, gpus)

    def holds_after_s(self, processors: int) -> float:
        """Return the seconds until so many are idle there; those of the last step where they never are."""
        if self.now.idle >= processors or not self.later:
            return 0.0
        return next((step.after_s for step in self.later if step.idle >= processors), self.later[-1].after_s)


class Soonest(NamedTuple):
    answer: GangPlacement | Unplaced
    after_s: float
    """Seconds from now until the processors of all components are idle."""


def growing(now: SiteRoom, steps: Iterable[LaterRoom]) -> GrowingRoom:
    """Return the room of a site by its own word, of which what makes no sense is left out."""
    sane = (s for s in steps if 0 <= s.after_s <= MOST_AHEAD_S and s.idle > 0)
    return GrowingRoom(now, tuple(sorted(sane)))


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
    empty = [SiteRoom(s.now.name, s.now.total, s.now.total, s.now.widest, s.now.total) for s in sites]
    whole = place(Rooms(empty))
    answer = whole if isinstance(whole, Unplaced) else now
    return Soonest(replace(answer, never=answer is whole), 0.0)
