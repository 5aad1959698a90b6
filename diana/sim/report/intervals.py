"""Means with their confidence intervals, by Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import msgspec

CONFIDENCE = 0.95


class Interval(msgspec.Struct, frozen=True):
    """A mean and the interval where it lies with probability `CONFIDENCE`; of a single value only that value is
    known."""

    mean: float
    low: float | None
    high: float | None

    def times(self, factor: float) -> Interval:
        """The interval of values that are `factor` times as large; `factor` is above 0."""
        return Interval(
            self.mean * factor,
            None if self.low is None else self.low * factor,
            None if self.high is None else self.high * factor,
        )

    def zero_lies_outside(self) -> bool:
        """True if the mean differs from 0 significantly."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def interval(values: Sequence[float]) -> Interval | None:
    """The interval of values drawn independently, such as one per seed; None: there are none."""
    count = len(values)
    if not count:
        return None
    mean = math.fsum(values) / count
    if count == 1:
        return Interval(mean, None, None)
    variance = math.fsum((one - mean) ** 2 for one in values) / (count - 1)
    half = students_t(0.5 + CONFIDENCE / 2, count - 1) * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half)


@cache
def students_t(share: float, freedom: int) -> float:
    """The value that Student's t with so many degrees of freedom stays below with probability `share`, 0.5 to 1."""
    if not (0.5 <= share < 1 and freedom >= 1):
        raise ValueError(f"share = {share}, freedom = {freedom}: want 0.5 to below 1 and at least 1")
    low, high = 0.0, 1.0
    while _below(high, freedom) < share:
        low, high = high, 2 * high
    # Bisection down to the last bit: the function is monotone, and nobody waits for this.
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _below(middle, freedom) < share else (low, middle)
    return high


def _below(t: float, freedom: int) -> float:
    """Distribution function for t >= 0: the finite sums of Abramowitz and Stegun, Handbook of Mathematical Functions,
    26.7.3 and 26.7.4."""
    angle = math.atan2(t, math.sqrt(freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2
    term, total = (math.cos(angle), 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= square * k / (k + 1)
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + inside / 2
