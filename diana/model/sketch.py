"""Quantiles of durations without keeping them: logarithmic buckets, as in DDSketch (Masson, Rim and Lee, VLDB 2019).

A bucket's edges differ by a tenth, so that a quantile is off by 5 % at most; it also keeps its members' sum, so that
equal durations come back exactly. Older samples fade as new ones come.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from math import ceil, log

import msgspec

GROWTH = 1.1
"""Upper over lower edge of a bucket."""
LEAST_S, MOST_S = 1e-3, 1e9
"""Least and greatest duration with a bucket of its own; durations outside share the outermost buckets, so there are at
most 290. None counts as more than `MOST_S`."""
HALF_LIFE = 500.0
"""Number of samples after which an older one counts half."""
_FORGOTTEN = 1e-3
"""Weight below which a bucket is dropped."""
_LOG = log(GROWTH)

Batch = tuple[tuple[int, int, float], ...]
"""(bucket, samples, their sum in seconds), by rising bucket: the form of many durations in a record."""


def bucket_of(seconds: float) -> int:
    return ceil(log(min(max(seconds, LEAST_S), MOST_S)) / _LOG - 1e-9)


def batch_of(durations_s: Iterable[float]) -> Batch:
    found: dict[int, tuple[int, float]] = {}
    for seconds in durations_s:
        bucket = bucket_of(seconds)
        samples, total_s = found.get(bucket, (0, 0.0))
        found[bucket] = (samples + 1, total_s + min(max(seconds, 0.0), MOST_S))
    return tuple((bucket, *found[bucket]) for bucket in sorted(found))


class Quantiles(msgspec.Struct, frozen=True, array_like=True):
    """Quantiles in seconds, and the number of samples they come from."""

    low_s: float
    """The duration that 10 % of the samples stay below."""
    mid_s: float
    """The median."""
    high_s: float
    """The duration that 90 % of the samples stay below."""
    mean_s: float
    seen: int


class Sketch(msgspec.Struct, array_like=True, dict=True):
    """Weighted samples by bucket. Two sketches merge into the sketch of all their samples."""

    buckets: dict[int, tuple[float, float]] = {}
    """Bucket -> (weight of its samples, their weighted sum in seconds)."""
    seen: int = 0
    """Samples ever added."""

    def add(self, batch: Batch) -> None:
        count = sum(samples for _, samples, _ in batch)
        fade = 0.5 ** (count / HALF_LIFE)
        kept = {b: (w * fade, s * fade) for b, (w, s) in self.buckets.items() if w * fade > _FORGOTTEN}
        for bucket, samples, total_s in batch:
            weight, sum_s = kept.get(bucket, (0.0, 0.0))
            kept[bucket] = (weight + samples, sum_s + total_s)
        self.buckets = kept
        self.seen += count
        self.__dict__.clear()

    def merge(self, other: Sketch) -> None:
        for bucket, (weight, sum_s) in other.buckets.items():
            had, had_s = self.buckets.get(bucket, (0.0, 0.0))
            self.buckets[bucket] = (had + weight, had_s + sum_s)
        self.seen += other.seen
        self.__dict__.clear()

    def quantile(self, part: float) -> float:
        """The duration that `part` of the samples (0 to 1) do not exceed; ValueError when there are none."""
        if not self.buckets:
            raise ValueError("a sketch of nothing has no quantiles")
        left = part * sum(weight for weight, _ in self.buckets.values())
        bucket = 0
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket][0]
            if left <= 0:
                break
        weight, sum_s = self.buckets[bucket]
        return sum_s / weight

    def finer(self, part: float) -> float:
        """The same by the edges of the buckets, as if each one's samples lay evenly between them: nearer where samples
        are close together, and off by as much where they are equal. Of one bucket it is the mean."""
        if len(self.buckets) == 1:
            return self.quantile(part)
        left = part * sum(weight for weight, _ in self.buckets.values())
        for bucket in sorted(self.buckets):
            weight = self.buckets[bucket][0]
            if left <= weight:
                break
            left -= weight
        return float(GROWTH ** (bucket - 1 + min(1.0, left / weight)))

    def finer_quantiles(self) -> Quantiles:
        return Quantiles(self.finer(0.1), self.finer(0.5), self.finer(0.9), self.mean(), self.seen)

    def mean(self) -> float:
        return self._mean

    @cached_property
    def _mean(self) -> float:
        """The mean; cached, because it is read for each running job, many times between two samples."""
        weight = sum(weight for weight, _ in self.buckets.values())
        return sum(sum_s for _, sum_s in self.buckets.values()) / weight

    def quantiles(self) -> Quantiles:
        return Quantiles(self.quantile(0.1), self.quantile(0.5), self.quantile(0.9), self.mean(), self.seen)
