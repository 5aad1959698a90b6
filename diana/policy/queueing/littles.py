"""Little's law N = R W over a sliding window (papers/diana-bulk-scheduling section VII, formula [17]; SPEC D10).

N is measured from the length of the queue, W from the waits of the jobs that leave it, R by counting: three figures
from three sources, so that their deviation is a real check. The cost is per event, never per waiting job.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

WINDOW_S = 3600.0
BUCKETS = 60


class LittlesFigures(NamedTuple):
    window_s: float
    """Seconds the figures cover; less than `WINDOW_S` until so much time has passed."""
    mean_queued: float
    """N: mean length of the queue, in jobs."""
    arrivals_per_s: float
    """R: arrivals per second."""
    mean_wait_s: float
    """W: mean wait of the jobs that left."""
    arrived: int
    left: int

    @property
    def deviation(self) -> float:
        """N - R W in jobs: 0 over a history that begins and ends with an empty queue. Jobs that waited before the
        window began, or still wait, make it differ."""
        return self.mean_queued - self.arrivals_per_s * self.mean_wait_s


class _Bucket:
    __slots__ = ("area", "arrived", "left", "start_s", "waited_s")

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.area = 0.0
        """Integral of the queue's length, in job-seconds."""
        self.arrived = 0
        self.left = 0
        self.waited_s = 0.0
        """Sum of the waits of all jobs that left, in job-seconds."""


class QueueFlow:
    """Jobs coming into a queue and leaving it. `now` never runs backwards."""

    def __init__(self, now: float, window_s: float = WINDOW_S, buckets: int = BUCKETS) -> None:
        self.queued = 0
        self._width_s = window_s / buckets
        self._window_s = window_s
        self._now = now
        self._buckets: deque[_Bucket] = deque([_Bucket(now)], maxlen=buckets)

    def arrive(self, jobs: int, now: float) -> None:
        self._advance(now)
        self._buckets[-1].arrived += jobs
        self.queued += jobs

    def leave(self, jobs: int, waited_s: float, now: float) -> None:
        """Count `jobs` that left. `waited_s`: the sum of their waits, in job-seconds."""
        self._advance(now)
        bucket = self._buckets[-1]
        bucket.left += jobs
        bucket.waited_s += waited_s
        self.queued -= jobs

    def figures(self, now: float) -> LittlesFigures:
        self._advance(now)
        span = self._now - self._buckets[0].start_s
        arrived = sum(bucket.arrived for bucket in self._buckets)
        left = sum(bucket.left for bucket in self._buckets)
        return LittlesFigures(
            window_s=span,
            mean_queued=sum(bucket.area for bucket in self._buckets) / span if span > 0 else float(self.queued),
            arrivals_per_s=arrived / span if span > 0 else 0.0,
            mean_wait_s=sum(bucket.waited_s for bucket in self._buckets) / left if left else 0.0,
            arrived=arrived,
            left=left,
        )

    def _advance(self, now: float) -> None:
        """Add the area up to `now`, bucket by bucket; a silence longer than the window costs one window."""
        if now <= self._now:
            return
        if now - self._now > self._window_s:
            self._now = now - self._window_s
            self._buckets.clear()
            self._buckets.append(_Bucket(self._now))
        while (end_s := self._buckets[-1].start_s + self._width_s) <= now:
            self._buckets[-1].area += self.queued * (end_s - self._now)
            self._now = end_s
            self._buckets.append(_Bucket(end_s))
        self._buckets[-1].area += self.queued * (now - self._now)
        self._now = now
