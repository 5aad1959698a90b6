"""Forecast of the start of waiting work: the work ahead of it is poured over the slots as they come free, with a range
from the errors of earlier forecasts (SPEC D4, D10)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import ceil, floor, inf
from typing import NamedTuple

from diana.model.arrays import np

MANY = 24
"""Running jobs from which on arrays are faster than a loop."""
SMALL_S = 1.0
"""Seconds added to prediction and outcome before they are divided, so that smaller errors do not count."""
LOW, HIGH = 0.1, 0.9
"""Quantiles of past errors that the range spans."""
LEAST_SAMPLES = 5
GUESS = (0.5, 2.0)
"""Factors used while there is no history."""


class WaitFactors(NamedTuple):
    """Range of the factors between predicted and achieved waits."""

    low: float
    high: float
    samples: int
    """Number of waits compared; 0: none yet, the factors are a guess."""

    def around(self, wait_s: float) -> tuple[float, float]:
        """(low, high) in seconds from now; (-1, -1) where nothing is predicted."""
        if not 0 <= wait_s < inf:
            return -1.0, -1.0
        if wait_s == 0:
            return 0.0, 0.0
        low_s, high_s = ((wait_s + SMALL_S) * factor - SMALL_S for factor in (self.low, self.high))
        return max(0.0, low_s), max(0.0, high_s)


def error(predicted_s: float, achieved_s: float) -> float:
    """Error of a prediction as a factor; 1: it came as predicted."""
    return (achieved_s + SMALL_S) / (predicted_s + SMALL_S)


def spread(errors: Sequence[float]) -> WaitFactors:
    """Return the range of past errors, given in any order. It always includes 1, the prediction itself."""
    if len(errors) < LEAST_SAMPLES:
        return WaitFactors(*GUESS, 0)
    rising = sorted(errors)
    last = len(rising) - 1
    return WaitFactors(min(1.0, rising[int(LOW * last)]), max(1.0, rising[ceil(HIGH * last - 1e-9)]), len(rising))


class Slots:
    """Processors that come free one after the other, as a fluid: how long until so much work is through.

    `free`: free now; `ends`: (seconds from now, processors) of what runs.
    """

    def __init__(self, free: int, ends: Sequence[tuple[float, int]]) -> None:
        self._at_s = [0.0]
        self._processors = [max(0, free)]
        """Processors free from `_at_s` on, if nothing new started."""
        self._through = [0.0]
        """Processor-seconds of work that can be through by `_at_s`."""
        for end_s, width in sorted(ends):
            end_s = max(0.0, end_s)
            self._through.append(self._through[-1] + self._processors[-1] * (end_s - self._at_s[-1]))
            self._at_s.append(end_s)
            self._processors.append(self._processors[-1] + width)

    @classmethod
    def of_columns(cls, free: int, left_s: Sequence[float], widths: Sequence[int]) -> Slots:
        """As `Slots(free, zip(left_s, widths))`, to the last bit; of many faster."""
        if len(left_s) < MANY:
            return cls(free, list(zip(left_s, widths, strict=True)))
        ends_s = np.maximum(0.0, np.asarray(left_s, np.float64))
        order = np.argsort(ends_s, kind="stable")
        at_s = np.concatenate(([0.0], ends_s[order]))
        free = max(0, free)
        processors = np.concatenate(([free], free + np.cumsum(np.asarray(widths, np.int64)[order])))
        # A running sum of numpy adds from left to right, as the loop does.
        through = np.concatenate(([0.0], np.cumsum(processors[:-1] * np.diff(at_s))))
        made = cls(0, ())
        made._at_s, made._processors, made._through = at_s.tolist(), processors.tolist(), through.tolist()
        return made

    def starts_s(self, processors: int, work_ahead_s: float) -> float:
        """Return the start of a job of this width, in seconds from now, with `work_ahead_s` processor-seconds of
        waiting work ahead of it; inf: never."""
        wide = bisect_left(self._processors, processors)
        if wide == len(self._processors):
            return inf
        if work_ahead_s <= 0:
            return self._at_s[wide]
        step = bisect_right(self._through, work_ahead_s) - 1
        if not self._processors[step]:
            return inf
        done_s = self._at_s[step] + (work_ahead_s - self._through[step]) / self._processors[step]
        return max(self._at_s[wide], done_s)

    def free(self, at_s: float) -> int:
        """Return the processors that are free after so many seconds if nothing new starts."""
        return self._processors[max(0, bisect_right(self._at_s, at_s) - 1)]

    def first(self, processors: int) -> tuple[float, int]:
        """(seconds until so many processors are free at once with nothing ahead, how many are free then); (inf, 0):
        never."""
        wide = bisect_left(self._processors, processors)
        return (self._at_s[wide], self._processors[wide]) if wide < len(self._processors) else (inf, 0)

    def steps(self, work_ahead_s: float) -> list[tuple[float, int]]:
        """(seconds from now, processors) as they come free behind so much waiting work; both rise."""
        out: list[tuple[float, int]] = []
        for processors in self._processors:
            at_s = self.starts_s(processors, work_ahead_s) if processors else inf
            if at_s == inf:
                continue
            if out and out[-1][0] == at_s:
                out.pop()
            if not out or out[-1][1] < processors:
                out.append((at_s, processors))
        return out

    def starts(self, run_s: float, after_s: float, until_s: float) -> int:
        """Number of jobs of one processor, `run_s` each, that start from `after_s` to `until_s` with nothing ahead of
        them: one after the other on each processor, so that those that begin together end together."""
        found, before = 0, 0
        for at_s, processors in zip(self._at_s, self._processors, strict=True):
            begin_s = max(at_s, after_s)
            if begin_s > until_s:
                # Those that come free later begin later.
                break
            found += (processors - before) * (1 + floor((until_s - begin_s) / run_s))
            before = processors
        return found
