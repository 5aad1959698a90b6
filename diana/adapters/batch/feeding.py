"""How many jobs a cluster is given beyond its slots, so that it never idles and little is bound to it. Pure."""

from __future__ import annotations

import math

OWN_PAUSE_S = 1.5
"""A batch system takes so long, about, to start what waits once something ended."""
_REMEMBERED_S = 20.0
_MARGIN = 2.0


class Feeding:
    """`look_s`: between two looks of ours. Until as many jobs ended as there are slots it is not known how long they
    run, and as many wait there as run."""

    def __init__(self, look_s: float) -> None:
        self._look_s = look_s
        self._submit_s = 0.0
        self._rate = 0.0
        self._at_s = 0.0
        self._ended = 0

    def submitted(self, took_s: float) -> None:
        """One order was handed to the batch system."""
        self._submit_s = took_s if not self._submit_s else 0.8 * self._submit_s + 0.2 * took_s

    def ended(self, jobs: int, now_s: float) -> None:
        """So many ended since the last call."""
        gap_s = now_s - self._at_s if self._at_s else 0.0
        self._at_s = now_s
        self._ended += jobs
        if gap_s > 0.0:
            keep = math.exp(-gap_s / _REMEMBERED_S)
            self._rate = keep * self._rate + (1.0 - keep) * (jobs / gap_s)

    def depth(self, slots: int) -> int:
        """Processors' worth of jobs."""
        if self._ended < slots:
            return slots
        # What ends is seen after a look, its successor leaves at the next, and starts when the batch system gets to it.
        latency_s = 2 * self._look_s + self._submit_s + OWN_PAUSE_S
        return max(1, math.ceil(_MARGIN * self._rate * latency_s))
