"""The number of jobs that a cluster is given beyond its slots, so that it never idles and little is bound to it.
Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

OWN_PAUSE_S = 1.5
"""Seconds, about, that a batch system takes to start a waiting job once another ended."""
_REMEMBERED_S = 10.0
_MARGIN = 2.0
_LEAST_S = 0.001


class Feeding:
    """`look_s`: seconds between two looks of ours. Until as many jobs ended as there are slots, nobody knows how
    long they run, and as many wait there as run."""

    def __init__(self, look_s: float) -> None:
        self._look_s = look_s
        self._submit_s = 0.0
        self._jobs = self._weight = 0.0
        """Ends and seconds, the older the less they count: their quotient is the number of ends a second."""
        self._run_s = -1.0
        """Mean run time of jobs that ended lately, seconds; negative: none ended."""
        self._at_s = -1.0
        self._ended = 0

    def submitted(self, took_s: float) -> None:
        """Note that one order was handed to the batch system."""
        self._submit_s = took_s if not self._submit_s else 0.8 * self._submit_s + 0.2 * took_s

    def idle(self) -> None:
        """Note that it had nothing of ours: such time says nothing about how fast it is."""
        self._at_s = -1.0

    def ended(self, run_s: Sequence[float], now_s: float) -> None:
        """Note the jobs that ended since the last call, by the seconds each ran."""
        gap_s, self._at_s = now_s - self._at_s if self._at_s >= 0.0 else 0.0, now_s
        self._ended += len(run_s)
        if gap_s > 0.0:
            keep = math.exp(-gap_s / _REMEMBERED_S)
            self._jobs = keep * self._jobs + len(run_s)
            self._weight = keep * self._weight + gap_s
        if run_s:
            mean_s, fresh = sum(run_s) / len(run_s), min(0.5, len(run_s) / 100)
            self._run_s = mean_s if self._run_s < 0.0 else (1.0 - fresh) * self._run_s + fresh * mean_s

    def depth(self, slots: int) -> int:
        """Return the number of jobs to keep waiting there beyond `slots`, in processors' worth."""
        if self._ended < slots:
            return slots
        # All slots together end so many jobs a second; the ends seen bound it where jobs run for no time at all.
        seen = self._jobs / self._weight if self._weight else 0.0
        rate = min(slots / max(self._run_s, _LEAST_S), 2 * seen + slots / self._look_s)
        # An end is seen after a look, its successor leaves at the next, and starts when the batch system gets to it.
        latency_s = 2 * self._look_s + self._submit_s + OWN_PAUSE_S
        return max(1, math.ceil(_MARGIN * rate * latency_s))
