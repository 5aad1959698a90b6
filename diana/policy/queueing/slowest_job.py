"""Forecast of the end of a group from the distribution of its slowest job.

A group ends with the job that ends last, and of many jobs one runs much longer than the mean. So the end is that of a
maximum: P(end <= t) is the product, over all jobs, of P(run <= t - start) (H. A. David and H. N. Nagaraja, Order
Statistics, 3rd ed., section 2.1). Starts are those of a list schedule: each job takes the lane that is free first. All
sites have the same distribution of run times, each times its own mean. What comes later and goes before the group is
not counted: past outcomes correct for it (`model/past_ends.py`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from math import ceil, exp, log, pi, sqrt
from typing import NamedTuple

from diana.model.arrays import Floats, np

LEAST_RUNS = 5.0
"""Fewer run times say nothing of how unlike they are."""
POOLED_RUNS = 20.0
"""Number of runs at all sites together that count like as many at the site itself: of a few runs that ended first, the
mean is too short."""
LEAST_SPREAD = 0.02
"""Least standard deviation of the logarithm of run times."""
MOST_STARTS = 128
"""Starts looked at per site; jobs that start one soon after another share one."""
LEAST_RUN_S = 1e-9
"""Shorter runs count as so long."""
_STEPS = 24
"""Halvings of the interval that a start is looked for in: it is found to a part in ten million."""
_PARTS, _DIVISIONS = 17, 6
"""Parts that the interval of an end is divided into, and how often; all at once are cheaper than one after the other,
and it is found as finely."""


class RunSpread:
    """Distribution of run times around their mean, which is 1.

    It is that of the run times seen, and of one more that nobody has seen, with their logarithmic mean and deviation:
    of m runs, the longest is exceeded by the next with a chance of about 1/m, and by no fixed bound.
    """

    def __init__(self, values_s: Sequence[float], weights: Sequence[float]) -> None:
        """`values_s`: run times in seconds, of any order, all > 0; `weights`: number of runs that each stands for."""
        values, weight = np.array(values_s, dtype=np.float64), np.array(weights, dtype=np.float64)
        order = np.argsort(values, kind="stable")
        values, weight = values[order], weight[order]
        self.runs = float(weight.sum())
        self.mean_s = float((values * weight).sum() / self.runs)
        self._values: Floats = values / self.mean_s
        self.deviation = sqrt(float(((self._values - 1.0) ** 2 * weight).sum()) / self.runs)
        """Standard deviation as a part of the mean."""
        logs = np.log(self._values)
        self._log_mean = float((logs * weight).sum() / self.runs)
        spread = sqrt(float(((logs - self._log_mean) ** 2 * weight).sum()) / self.runs)
        self._log_deviation = max(LEAST_SPREAD, spread)
        self._up_to: Floats = (np.cumsum(weight) - 0.5 * weight) / self.runs
        self._columns: tuple[list[float], list[float]] | None = None
        """`_values` and `_up_to`, once they are asked for one by one."""

    def known(self) -> bool:
        return self.runs >= LEAST_RUNS

    def below(self, times: Floats) -> Floats:
        """P(run <= x mean runs) for each x, rising with it; 0 for x <= 0."""
        if len(self._values) > 1:
            seen = np.interp(times, self._values, self._up_to, left=0.0, right=1.0)
        else:
            seen = (times >= self._values[0] * (1.0 - 1e-9)).astype(np.float64)
        unseen = _normal((np.log(np.maximum(times, 1e-12)) - self._log_mean) / self._log_deviation)
        out: Floats = np.where(times > 0, (self.runs * seen + unseen) / (self.runs + 1.0), 0.0)
        return out

    def below_one(self, time: float) -> float:
        """`below` of one time, without arrays."""
        if time <= 0.0:
            return 0.0
        if self._columns is None:
            self._columns = self._values.tolist(), self._up_to.tolist()
        values, up_to = self._columns
        if len(values) == 1:
            seen = float(time >= values[0] * (1.0 - 1e-9))
        elif time < values[0]:
            seen = 0.0
        elif time > values[-1]:
            seen = 1.0
        else:
            at = min(bisect_right(values, time) - 1, len(values) - 2)
            step = values[at + 1] - values[at]
            # The longest run times may be the same.
            seen = (up_to[at + 1] - up_to[at]) / step * (time - values[at]) + up_to[at] if step else up_to[at + 1]
        unseen = _normal_one((log(max(time, 1e-12)) - self._log_mean) / self._log_deviation)
        return (self.runs * seen + unseen) / (self.runs + 1.0)


@cache
def alike() -> RunSpread:
    """Return the spread of jobs that all take the mean: what counts while nothing else is known."""
    return RunSpread([1.0], [1e9])


class GroupShare(NamedTuple):
    """The part of a group that one site runs."""

    jobs: int
    """> 0. All fields are finite."""
    lanes: int
    """Jobs of the group that can run there at once; at least 1."""
    run_s: float
    """Mean run time of a job there."""
    free: int = 0
    """Lanes that nothing holds; 0 to `lanes`."""
    ahead: int = 0
    """Jobs that wait there before the group."""
    wait_s: float = 0.0
    """Mean time the jobs lose to all that stands before them, as the site foretells it."""
    delay: float = 1.0
    """Factor on all waiting, for a bound of what may come."""
    stage_in_s: float = 0.0
    """Time until the input of the last job is there; those of the others come evenly before."""
    after_s: float = 0.0
    """Time from the last end to that of the part: outputs on their way, messages."""


class GroupEnd:
    """When a group ends, as a random variable; seconds from the decision."""

    def __init__(self, shares: Sequence[GroupShare], spread: RunSpread) -> None:
        """`shares`: at least one."""
        self._spread = spread
        self._only: tuple[float, float] | None = None
        """Start and run of a group of one job, with nothing else to go by: most groups are such, and an array
        of one costs twenty times as much."""
        if len(shares) == 1 and shares[0].jobs == 1:
            share = shares[0]
            self._only = _only_start(share) + share.after_s, max(share.run_s, LEAST_RUN_S)
            return
        some = [_starts(share, spread.deviation) for share in shares]
        sizes = [len(starts) for starts, _ in some]
        self._start_s: Floats = np.concatenate([starts for starts, _ in some])
        self._jobs: Floats = np.concatenate([jobs for _, jobs in some])
        self._run_s: Floats = np.repeat([max(share.run_s, LEAST_RUN_S) for share in shares], sizes)
        self._after_s: Floats = np.repeat([share.after_s for share in shares], sizes)

    def quantile(self, part: float) -> float:
        """The time by which the group has ended with the chance `part`, 0 < part < 1; it rises with `part`."""
        if self._only is not None:
            return self._quantile_of_one(part, *self._only)
        least, latest = log(part), self._start_s + self._after_s
        low_s, high_s = 0.0, float((latest + 2.0 * self._run_s).max())
        while self._log_chance(high_s) < least:
            low_s, high_s = high_s, 2.0 * high_s
        for _ in range(_DIVISIONS):
            ends_s = np.linspace(low_s, high_s, _PARTS + 1)
            # The chance rises with the time.
            at = 1 + int(np.count_nonzero(self._log_chances(ends_s[1:-1]) < least))
            low_s, high_s = float(ends_s[at - 1]), float(ends_s[at])
        return high_s

    def _quantile_of_one(self, part: float, start_s: float, run_s: float) -> float:
        """As `quantile`, in the same grid of times."""
        below = self._spread.below_one
        low_s, high_s = 0.0, start_s + 2.0 * run_s
        while below((high_s - start_s) / run_s) < part:
            low_s, high_s = high_s, 2.0 * high_s
        for _ in range(_DIVISIONS):
            step_s = (high_s - low_s) / _PARTS
            first, last = 1, _PARTS
            while first < last:
                middle = (first + last) // 2
                if below((middle * step_s + low_s - start_s) / run_s) < part:
                    first = middle + 1
                else:
                    last = middle
            high_s = first * step_s + low_s if first < _PARTS else high_s
            low_s = (first - 1) * step_s + low_s
        return high_s

    def _log_chance(self, time_s: float) -> float:
        return float(self._log_chances(np.array([time_s]))[0])

    def _log_chances(self, times_s: Floats) -> Floats:
        left_s = times_s[:, np.newaxis] - (self._after_s + self._start_s)
        out: Floats = np.log(np.maximum(self._spread.below(left_s / self._run_s), 1e-300)) @ self._jobs
        return out


def _starts(share: GroupShare, deviation: float) -> tuple[Floats, Floats]:
    """(times in seconds at which jobs of a share start, the number of jobs that each stands for)."""
    idle = share.free >= share.lanes and not share.ahead
    numbers, counts = _spaced(share.jobs, MOST_STARTS)
    runs = _in_waves(numbers, share.lanes, deviation) if idle else _in_line(numbers, share)
    begin_s = share.run_s * runs
    first = min(share.jobs, share.lanes) - 1
    # A site that is closed, or waits for what is scarcer than processors, foretells more than the line explains.
    more_s = share.wait_s - float(np.interp(first, numbers, begin_s))
    begin_s = (begin_s + max(0.0, more_s)) * share.delay
    return np.maximum(begin_s, share.stage_in_s * (numbers + 1.0) / share.jobs), counts


def _only_start(share: GroupShare) -> float:
    """As `_starts`, of a share of one job."""
    idle = share.free >= share.lanes and not share.ahead
    free = 0 if share.ahead else share.free
    begin_s = 0.0 if idle else share.run_s * (max(0.0, 1.0 + share.ahead - free) / share.lanes)
    begin_s = (begin_s + max(0.0, share.wait_s - begin_s)) * share.delay
    return max(begin_s, share.stage_in_s)


def _in_line(numbers: Floats, share: GroupShare) -> Floats:
    """Starts of these jobs, in mean runs, where others run: those that find a lane free start at once; then one lane
    comes free every `run_s / lanes`, and those ahead take theirs first."""
    free = 0 if share.ahead else share.free
    return np.maximum(0.0, numbers + 1.0 + share.ahead - free) / share.lanes


def _in_waves(numbers: Floats, lanes: int, deviation: float) -> Floats:
    """Starts of these jobs, in mean runs, at a site that is idle: in waves where all runs are alike, more evenly the
    more unlike they are; in the long run `jobs / lanes`, less the renewal theorem's (1 + deviation^2) / 2 (D. R.
    Cox, Renewal Theory, section 4.2)."""
    later = numbers - lanes
    wave, within = np.floor(later / lanes), (np.mod(later, lanes) + 1.0) / (lanes + 1.0)
    even = np.minimum(1.0, sqrt(12.0) * deviation * np.sqrt(np.maximum(0.0, wave + 1.0)))
    return np.where(later < 0, 0.0, np.maximum(0.0, wave + 1.0 + (within - 0.5 - 0.5 * deviation**2) * even))


def first_come(shares: Sequence[GroupShare], jobs: int) -> list[GroupShare]:
    """The shares of a group of which each job goes to the lane that is free first, at whatever site. `shares`: the
    sites, each as if it could take all."""
    # Sites may tell that jobs take no time at all.
    low_s, high_s = 0.0, max(LEAST_RUN_S, *(share.run_s for share in shares))
    while _started(shares, high_s) < jobs:
        low_s, high_s = high_s, 2.0 * high_s
    for _ in range(_STEPS):
        middle_s = 0.5 * (low_s + high_s)
        low_s, high_s = (middle_s, high_s) if _started(shares, middle_s) < jobs else (low_s, middle_s)
    left, out = jobs, []
    # Of lanes that are free at the same time the fastest are taken first.
    for share in sorted(shares, key=lambda share: share.run_s):
        if (count := min(left, ceil(_takes(share, high_s) - 1e-3))) > 0:
            out.append(share._replace(jobs=count))
            left -= count
    return out


def _started(shares: Sequence[GroupShare], time_s: float) -> float:
    return sum(_takes(share, time_s) for share in shares)


def _takes(share: GroupShare, time_s: float) -> float:
    """Jobs of a group that start at a site up to a time."""
    passed = time_s * share.lanes / max(share.run_s, LEAST_RUN_S)
    return max(0.0, passed - share.ahead) + (0 if share.ahead else share.free)


def _spaced(jobs: int, most: int) -> tuple[Floats, Floats]:
    """At most `most` numbers of 0 .. jobs - 1, and how many jobs each stands for; the last ones most finely, because
    they decide."""
    if jobs <= most:
        return np.arange(jobs, dtype=np.float64), np.ones(jobs)
    back = np.unique(np.minimum(jobs, np.ceil(np.geomspace(1.0, jobs, most))))
    counts = np.diff(np.concatenate([[0.0], back]))
    return (jobs - back)[::-1], counts[::-1]


def _normal(z: Floats) -> Floats:
    """The normal distribution function, to 1e-7 (Abramowitz and Stegun, Handbook of Mathematical
    Functions, 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    series = ((((1.330274429 * t - 1.821255978) * t + 1.781477937) * t - 0.356563782) * t + 0.319381530) * t
    tail = series * np.exp(-0.5 * z * z) / sqrt(2.0 * np.pi)
    return np.where(z < 0, tail, 1.0 - tail)


def _normal_one(z: float) -> float:
    t = 1.0 / (1.0 + 0.2316419 * abs(z))
    series = ((((1.330274429 * t - 1.821255978) * t + 1.781477937) * t - 0.356563782) * t + 0.319381530) * t
    tail = series * exp(-0.5 * z * z) / sqrt(2.0 * pi)
    return tail if z < 0 else 1.0 - tail


def mean_run_s(here_s: float, seen: int, pooled_s: float) -> float:
    """Mean run time at a site: that of `seen` runs there, and `pooled_s`, that of all sites' runs at its speed."""
    return (seen * here_s + POOLED_RUNS * pooled_s) / (seen + POOLED_RUNS)
