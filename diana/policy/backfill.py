"""EASY backfilling: the best job that does not fit gets a reservation; others pass only if they do not delay it."""

from __future__ import annotations

from collections.abc import Sequence


class Reservation:
    """`start_s`: when enough is free for the kept job; `spare`, `spare_gpus`: the processors and GPUs that it leaves
    over at that time."""

    def __init__(self, start_s: float, spare: int, spare_gpus: int = 0) -> None:
        self.start_s = start_s
        self.spare = spare
        self.spare_gpus = spare_gpus

    def lets_pass(
        self, processors: int, run_s: float, free: int, now: float, *, gpus: int = 0, free_gpus: int = 0
    ) -> int:
        """How many jobs of this width, of so many GPUs and this expected run time may start in what is free."""
        if now + run_s > self.start_s:
            free, free_gpus = min(free, self.spare), min(free_gpus, self.spare_gpus)
        passing = max(0, free) // processors
        return min(passing, max(0, free_gpus) // gpus) if gpus else passing

    def passed(self, processors: int, run_s: float, now: float, *, gpus: int = 0) -> None:
        """Jobs that took so many processors and GPUs in all have passed."""
        if now + run_s > self.start_s:
            self.spare -= processors
            self.spare_gpus -= gpus


def reserve(
    processors: int,
    free: int,
    ends: Sequence[tuple[float, int, int]],
    now: float,
    *,
    gpus: int = 0,
    free_gpus: int = 0,
) -> Reservation:
    """For a job of this width and so many GPUs, with `free` processors now (negative: jobs wait in the LRM already) and
    the running jobs' (expected end, processors, GPUs) in rising order. If they do not suffice it starts when all have
    ended."""
    at = now
    for end_s, width, devices in ends:
        if free >= processors and free_gpus >= gpus:
            break
        at, free, free_gpus = end_s, free + width, free_gpus + devices
    return Reservation(at, max(0, free - processors), max(0, free_gpus - gpus))
