"""The samples of one scrape, by metric, and the durations a node takes down between two."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable

Reader = Callable[["Samples"], Awaitable[None]]
"""Puts down what it knows."""

COMMIT_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Timings:
    """A histogram of durations. Noting one costs a search among a dozen bounds."""

    def __init__(self, buckets_s: tuple[float, ...] = COMMIT_BUCKETS_S) -> None:
        self._buckets_s = buckets_s
        self._counts = [0] * (len(buckets_s) + 1)
        self.sum_s = 0.0

    def note(self, took_s: float) -> None:
        self._counts[bisect_left(self._buckets_s, took_s)] += 1
        self.sum_s += took_s

    def cumulated(self) -> list[tuple[str, float]]:
        """(upper bound, how many took no longer), the last bound infinite."""
        out, total = [], 0
        for bound, count in zip((*map(str, self._buckets_s), "+Inf"), self._counts, strict=True):
            total += count
            out.append((bound, float(total)))
        return out


class Samples:
    """A metric that nothing is put down for is not told."""

    def __init__(self) -> None:
        self.values: dict[str, list[tuple[tuple[str, ...], float]]] = {}
        self.timings: dict[str, Timings] = {}

    def put(self, name: str, value: float, *labels: str) -> None:
        """`labels`: their values, in the order of `names.METRICS`."""
        self.values.setdefault(name, []).append((labels, float(value)))

    def take(self, other: Samples) -> None:
        """Add the other's samples to these."""
        for name, values in other.values.items():
            self.values.setdefault(name, []).extend(values)
        self.timings |= other.timings


Calls = Counter[tuple[str, str]]
"""(call, what was decided) -> how many."""
