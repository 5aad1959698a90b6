"""Like jobs over many sites so that the last one ends as early as possible: water-filling, in whole units.

What a site can take by time T rises with T along straight lines, so the earliest T by which all of them together
take everything is found by halving an interval; the cost is that of some array operations, however many jobs.
"""

from __future__ import annotations

import msgspec
import numpy as np

from diana.policy.sites import Floats, Ints

_ROUNDING = 1e-9
_HALVINGS = 100
_PRECISION = 1e-8
"""Of the end; what differs less is equal, and the sites that come first get more."""


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """By time T each of S sites takes so many jobs more: the least of

    (T - start_s) * rate - had, but `first - had` are free of that, and none before T = start_s + least_s;
    (T - tail_start_s) * tail_rate - tail_had, none before T = tail_start_s + tail_least_s;
    room.
    """

    start_s: Floats
    """Infinite: takes none."""
    rate: Floats
    had: Floats
    least_s: Floats
    tail_start_s: Floats
    tail_rate: Floats
    """May be infinite."""
    tail_had: Floats
    tail_least_s: Floats
    room: Floats
    first: Floats

    def of(self, at: Ints) -> Lines:
        """Some of the sites only."""
        return Lines(**{name: getattr(self, name)[at] for name in self.__struct_fields__})

    def takes(self, time_s: float, unit: int) -> Floats:
        """(S,) jobs, whole units."""
        free, tail = time_s - self.start_s, time_s - self.tail_start_s
        jobs = np.maximum(free * self.rate, self.first) - self.had
        # 0 * inf is no number; the other line counts.
        jobs = np.fmin(jobs, tail * self.tail_rate - self.tail_had)
        jobs = np.minimum(jobs * (1 + _ROUNDING) + _ROUNDING, self.room)
        runs = (free >= self.least_s - _ROUNDING) & (tail >= self.tail_least_s - _ROUNDING)
        whole = np.floor(jobs / unit) * unit if unit > 1 else np.floor(jobs)
        out: Floats = np.maximum(whole, 0.0) * runs
        return out


def fill(lines: Lines, jobs: int, unit: int = 1) -> Ints:
    """(S,) how many of `jobs` (a multiple of `unit`) each site gets; all 0 when they cannot take that many. Where
    several answers end at the same time the sites that come first get more."""
    out = np.zeros(len(lines.start_s), dtype=np.int64)
    usable = np.isfinite(lines.start_s) & np.isfinite(lines.tail_start_s) & (lines.rate > 0) & (lines.room >= unit)
    at = np.flatnonzero(usable)
    if not len(at) or np.floor(np.minimum(lines.room[at], jobs) / unit).sum() * unit < jobs:
        return out
    some = lines.of(at)
    with np.errstate(invalid="ignore"):
        low, high = _bracket(some, jobs, unit)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            if not low < middle < high or high - low < _PRECISION * high:
                break
            if some.takes(middle, unit).sum() >= jobs:
                high = middle
            else:
                low = middle
        sure = some.takes(low, unit)
        more = some.takes(high, unit) - sure
    left = jobs - sure.sum()
    out[at] = (sure + np.clip(left - (np.cumsum(more) - more), 0.0, more)).astype(np.int64)
    return out


def _bracket(lines: Lines, jobs: int, unit: int) -> tuple[float, float]:
    """(a time by which they do not take all, one by which they do)."""
    soonest = np.maximum(lines.start_s + lines.least_s, lines.tail_start_s + np.maximum(lines.tail_least_s, 0.0))
    low = float(soonest.min())
    step = max(jobs / float(lines.rate.sum()), 1e-6)
    if lines.takes(low, unit).sum() >= jobs:
        return low - 1e-8 * max(1.0, abs(low)), low
    high = low + step
    while lines.takes(high, unit).sum() < jobs:
        low, step = high, 2 * step
        high += step
    return low, high
