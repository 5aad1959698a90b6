"""Water-filling: spread equal jobs over many sites in whole units, so that the last one ends as early as possible.

The jobs a site can take by time T rise with T along straight lines, so the earliest T by which all sites together take
everything is found by halving an interval; this costs some array operations, however many jobs.
"""

from __future__ import annotations

import msgspec

from diana.model.arrays import Floats, Ints, np

_ROUNDING = 1e-9
_HALVINGS = 100
_PRECISION = 1e-8
"""Precision relative to the end; ends that differ less are equal, and the sites that come first get more."""


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that bound the further jobs each of S sites takes by time T. It takes the least of

    (T - start_s) * rate - had, but `first - had` are free of that, and none before T = start_s + least_s;
    (T - tail_start_s) * tail_rate - tail_had, none before T = tail_start_s + tail_least_s;
    room.
    """

    start_s: Floats
    """Start of the first line; infinite: the site takes none."""
    rate: Floats
    had: Floats
    least_s: Floats
    tail_start_s: Floats
    tail_rate: Floats
    """Jobs per second of the second line; may be infinite."""
    tail_had: Floats
    tail_least_s: Floats
    room: Floats
    first: Floats

    def of(self, at: Ints) -> Lines:
        """Return the lines of some of the sites only."""
        return Lines(**{name: getattr(self, name)[at] for name in self.__struct_fields__})

    def takes(self, time_s: float, unit: int) -> Floats:
        """(S,) jobs each site takes by `time_s`, in whole units."""
        free, tail = time_s - self.start_s, time_s - self.tail_start_s
        jobs = np.maximum(free * self.rate, self.first) - self.had
        # 0 * inf is no number; the other line counts.
        jobs = np.fmin(jobs, tail * self.tail_rate - self.tail_had)
        jobs = np.minimum(jobs * (1 + _ROUNDING) + _ROUNDING, self.room)
        runs = (free >= self.least_s - _ROUNDING) & (tail >= self.tail_least_s - _ROUNDING)
        whole = np.floor(jobs / unit) * unit if unit > 1 else np.floor(jobs)
        out: Floats = np.maximum(whole, 0.0) * runs
        return out

    def ends(self, jobs: Floats, at: Ints) -> Floats:
        """Times by which site `at[i]` has taken `jobs[i]`: the inverse of `takes`."""
        total = self.had[at] + jobs
        least, beyond = self.least_s[at], total > self.first[at]
        run = np.where(beyond, np.maximum(total / self.rate[at], least), least)
        tail = np.maximum((self.tail_had[at] + jobs) / self.tail_rate[at], self.tail_least_s[at])
        out: Floats = np.maximum(self.start_s[at] + run, self.tail_start_s[at] + tail)
        return out


def fill(lines: Lines, jobs: int, unit: int = 1) -> Ints:
    """(S,) number of `jobs` (a multiple of `unit`) that each site gets; all 0 when the sites cannot take that many.
    Where several answers end at the same time, the sites that come first get more."""
    out = np.zeros(len(lines.start_s), dtype=np.int64)
    usable = np.isfinite(lines.start_s) & np.isfinite(lines.tail_start_s) & (lines.rate > 0) & (lines.room >= unit)
    at = np.flatnonzero(usable)
    if not len(at) or np.floor(np.minimum(lines.room[at], jobs) / unit).sum() * unit < jobs:
        return out
    some = lines.of(at)
    with np.errstate(divide="ignore", invalid="ignore"):
        sure, more = _narrowed(some, jobs, unit)
        left = jobs - sure.sum()
        if 0 < left < more.sum() <= unit * _few(len(at)):
            first, more = _soonest(some, sure, more, int(left) // unit, unit)
            sure = sure + first
            left = jobs - sure.sum()
    out[at] = (sure + np.clip(left - (np.cumsum(more) - more), 0.0, more)).astype(np.int64)
    return out


def _few(sites: int) -> int:
    """Number of units below which it is cheaper to look at each than to narrow the interval further."""
    return 64 + 2 * sites


def _narrowed(lines: Lines, jobs: int, unit: int) -> tuple[Floats, Floats]:
    """(jobs the sites take by a time that is too early for all, further jobs they take by a later one that suffices).
    The times tried in between lie in turn on the line between the two and in the middle."""
    low, high = _bracket(lines, jobs, unit)
    sure, most = lines.takes(low, unit), lines.takes(high, unit)
    below, above = sure.sum(), most.sum()
    for step in range(_HALVINGS):
        if above - below <= unit * _few(len(sure)) or high - low < _PRECISION * high:
            break
        part = 0.5 if step % 2 else min(0.99, max(0.01, (jobs - below) / (above - below)))
        middle = low + part * (high - low)
        if not low < middle < high:
            break
        takes = lines.takes(middle, unit)
        if takes.sum() >= jobs:
            high, most, above = middle, takes, takes.sum()
        else:
            low, sure, below = middle, takes, takes.sum()
    return sure, most - sure


def _soonest(lines: Lines, sure: Floats, more: Floats, units: int, unit: int) -> tuple[Floats, Floats]:
    """(S,) jobs of the units in `more`: (those that surely end among the soonest `units`, those that end as late as the
    last of these)."""
    counts = (more / unit).astype(np.int64)
    at = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    ends = lines.ends(sure[at] + (place + 1) * unit, at)
    last = float(np.partition(ends, units - 1)[units - 1])
    near = _PRECISION * max(abs(last), _PRECISION)
    first: Floats = np.bincount(at, ends < last - near, len(counts)).astype(np.float64)
    same: Floats = np.bincount(at, np.abs(ends - last) <= near, len(counts)).astype(np.float64)
    return first * unit, same * unit


def _bracket(lines: Lines, jobs: int, unit: int) -> tuple[float, float]:
    """(a time by which the sites do not take all jobs, one by which they do)."""
    every = np.arange(len(lines.rate))
    low = float(lines.ends(np.full(len(every), float(unit)), every).min())
    step = max(jobs / float(lines.rate.sum()), 1e-6)
    if lines.takes(low, unit).sum() >= jobs:
        return low - 1e-8 * max(1.0, abs(low)), low
    high = low + step
    while lines.takes(high, unit).sum() < jobs:
        low, step = high, 2 * step
        high += step
    return low, high
