"""Congestion of a site's queues, and the level of them it then offers to other sites (SPEC D7;
papers/diana-bulk-scheduling section X)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from diana.model.durations import seconds
from diana.policy.queueing.priority import Level
from diana.policy.ranges import check

BUCKETS = 60
"""Buckets of a window: events leave it in steps of a sixtieth."""

Mode = Literal["default", "paper"]


class CongestionSettings(msgspec.Struct, frozen=True, kw_only=True):
    mode: Mode = "default"
    """`paper`: the two rates alone decide and only Q4 is offered; `default`: work that waits long enough is offered,
    the lowest level that has work first (a lone burst arrives once, and then A = 0)."""
    threshold: float = 0.2
    """Thrs: share of the arrivals by which they may outrun starts; higher means less migration, 1 none. A fifth is more
    than the noise of a few hundred arrivals, and too little to fill a queue for long."""
    window_s: float = 300.0
    """Seconds over which rates are taken. With less, the waves in which equal jobs start look like congestion; with
    more, a burst is noticed only when most of it is through."""

    def __post_init__(self) -> None:
        if self.mode not in ("default", "paper"):
            raise ValueError(f"mode = {self.mode!r}: want default or paper")
        check(self, ("threshold", 0.0, 1.0), ("window_s", 1.0, 86400.0))


class Rates(NamedTuple):
    """Arrivals and starts over the window that ends now."""

    window_s: float
    """Seconds the window covers; less than asked until so much time has passed."""
    arrived: int
    started: int

    @property
    def arrivals_per_s(self) -> float:
        """A; 0 while nothing is covered."""
        return self.arrived / self.window_s if self.window_s > 0 else 0.0

    @property
    def starts_per_s(self) -> float:
        """S; 0 while nothing is covered."""
        return self.started / self.window_s if self.window_s > 0 else 0.0


class ArrivalWindow:
    """Jobs that came into a site's queues and jobs that started, in a ring of buckets: neither memory nor the cost of
    an event depends on their number. `now` never runs backwards."""

    __slots__ = ("_arrived", "_began_s", "_bucket", "_started", "_width_s")

    def __init__(self, now: float, window_s: float, buckets: int = BUCKETS) -> None:
        self._width_s = window_s / buckets
        self._began_s = now
        self._bucket = int(now // self._width_s)
        """Number of the current bucket since time 0; its place is that number modulo the ring's length."""
        self._arrived = array("q", bytes(8 * buckets))
        self._started = array("q", bytes(8 * buckets))

    def arrived(self, jobs: int, now: float) -> None:
        """Count jobs that were submitted here or handed over to here."""
        self._advance(now)
        self._arrived[self._bucket % len(self._arrived)] += jobs

    def started(self, jobs: int, now: float) -> None:
        self._advance(now)
        self._started[self._bucket % len(self._started)] += jobs

    def rates(self, now: float) -> Rates:
        self._advance(now)
        oldest_s = (self._bucket - len(self._arrived) + 1) * self._width_s
        return Rates(max(0.0, now - max(self._began_s, oldest_s)), sum(self._arrived), sum(self._started))

    def _advance(self, now: float) -> None:
        bucket, size = int(now // self._width_s), len(self._arrived)
        # However long nothing happened, there are no more buckets to empty than the ring has.
        for stale in range(max(self._bucket + 1, bucket - size + 1), bucket + 1):
            self._arrived[stale % size] = self._started[stale % size] = 0
        self._bucket = max(self._bucket, bucket)


def congested(arrivals_per_s: float, starts_per_s: float, threshold: float) -> bool:
    """(A - S) / A > Thrs, as A - S > Thrs * A; false at A = 0. Section X. `threshold` in [0, 1]."""
    return arrivals_per_s > 0 and arrivals_per_s - starts_per_s > threshold * arrivals_per_s


class Verdict(NamedTuple):
    congested: bool
    reason: str


def judge(rates: Rates, settings: CongestionSettings) -> Verdict:
    """Judge congestion by the rates alone. Whether a backlog would end earlier elsewhere is judged by its origin, which
    has the prices."""
    arrivals, starts = rates.arrivals_per_s, rates.starts_per_s
    told = f"{arrivals:.3g} jobs/s come and {starts:.3g} start, over {seconds(rates.window_s)}"
    if congested(arrivals, starts, settings.threshold):
        return Verdict(True, f"{told}: more than {settings.threshold:.0%} of what comes stays")
    return Verdict(False, told)


def offered(queued: Mapping[Level, int], mode: Mode) -> Level | None:
    """Return the level whose work other sites are asked to take; None: none. `queued`: jobs per level that may still
    move.

    The paper offers Q4 only, since those wait longest. A user alone never gets there (Pr = 0 of a lone burst), so by
    default the lowest level that has any is offered.
    """
    if mode == "paper":
        return Level.Q4 if queued.get(Level.Q4, 0) > 0 else None
    return max((level for level, jobs in queued.items() if jobs > 0), default=None)
