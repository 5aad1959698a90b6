"""Many calls of one function, whose first few tell how long one takes: the others then share jobs, or do not.

A call much shorter than the way to its slot would spend nearly all of its time on that way.
"""

from __future__ import annotations

import math
import threading
from typing import Any

from diana.client.calls.gathering import CallGroup, GridFuture
from diana.client.calls.packing import Call, Outcome

FIRST = 64
"""Calls that are jobs of their own in any case."""
ENOUGH = 8
"""Measured calls by which the others' size is decided."""
WAIT_S = 2.0
"""Seconds for which the others wait to be measured; then each is a job of its own."""
JOB_S = 0.25
"""Work that a job of several calls is to have."""
SHORT_S = 0.1
"""Calls this long, or longer, share no job."""
MOST_WAITING_BYTES = 16 << 20
"""Arguments that wait in memory at most."""
MOST_CALLS = 1000
LEAST_JOBS = 64
"""Jobs that the others are at least, so that they spread over slots."""


def calls_a_job(mean_s: float, calls: int) -> int:
    """How many calls of `mean_s` seconds a job has, where so many are left."""
    if mean_s >= SHORT_S:
        return 1
    fair = min(MOST_CALLS, math.ceil(calls / LEAST_JOBS))
    return max(1, min(fair, math.ceil(JOB_S / max(mean_s, 1e-6))))


class Rest:
    """Calls that wait until the first of their kind were measured. The driver's lock guards `futures` and `dropped`."""

    def __init__(self, title: str, function: bytes, calls: list[bytes], first: CallGroup, now_s: float) -> None:
        self.title, self.function, self.calls, self.first = title, function, calls, first
        self.since_s = now_s
        self.sent = threading.Event()
        """Set once they are a group, or never will be."""
        self.group: CallGroup | None = None
        self.futures: list[GridFuture[list[Outcome]]] = []
        self.error: BaseException | None = None
        self.dropped = False

    def size(self, now_s: float) -> int:
        """How many of them are a job; 0: it is not known yet."""
        first = self.first
        measured = first.measured
        if measured >= min(ENOUGH, first.payload.jobs) or (measured and not first.open):
            return calls_a_job(first.spent_s / measured, len(self.calls))
        return 1 if now_s >= self.since_s + WAIT_S or not first.open else 0

    def make(self, size: int, withdraw: Any) -> CallGroup:
        """Make the group of all of them. OSError: there is no room for its files."""
        group = CallGroup(self.title, whole=True)
        try:
            for at in range(0, len(self.calls), size):
                future: GridFuture[list[Outcome]] = GridFuture(withdraw)
                group.add(future, Call(self.function, b"".join(self.calls[at : at + size])))
                self.futures.append(future)
            group.payload.finish()
        except BaseException:
            group.drop_files()
            raise
        self.group, self.calls = group, []
        return group
