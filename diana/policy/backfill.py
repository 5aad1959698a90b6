"""EASY backfilling: the best job that does not fit gets a reservation; others pass only if they do not delay it."""

from __future__ import annotations

from collections.abc import Sequence


class Reservation:
    """`start_s`: when enough processors are free for the kept job; `spare`: those it leaves over at that time."""

    def __init__(self, start_s: float, spare: int) -> None:
        self.start_s = start_s
        self.spare = spare

    def lets_pass(self, processors: int, run_s: float, free: int, now: float) -> int:
        """How many jobs of this width and expected run time may start in `free` processors."""
        if now + run_s > self.start_s:
            free = min(free, self.spare)
        return max(0, free) // processors

    def passed(self, processors: int, run_s: float, now: float) -> None:
        """Jobs that took so many processors in all have passed."""
        if now + run_s > self.start_s:
            self.spare -= processors


def reserve(processors: int, free: int, ends: Sequence[tuple[float, int]], now: float) -> Reservation:
    """For a job of this width, with `free` processors now (negative: jobs wait in the LRM already) and the running
    jobs' (expected end, processors) in rising order. If they do not suffice it starts when all have ended."""
    at = now
    for end_s, width in ends:
        if free >= processors:
            break
        at, free = end_s, free + width
    return Reservation(at, max(0, free - processors))
