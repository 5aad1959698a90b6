"""EASY backfilling: the best job that does not fit gets a reservation; others pass only if they do not delay it."""

from __future__ import annotations

from collections.abc import Sequence


class Reservation:
    """A reservation for one job. `start_s`: the time at which enough is free for it; `spare`, `spare_gpus`: the
    processors and GPUs it leaves over then."""

    def __init__(self, start_s: float, spare: int, spare_gpus: int = 0) -> None:
        self.start_s = start_s
        self.spare = spare
        self.spare_gpus = spare_gpus

    def lets_pass(
        self, processors: int, run_s: float, free: int, now: float, *, gpus: int = 0, free_gpus: int = 0
    ) -> int:
        """Number of jobs of this width, with so many GPUs and this expected run time, that may start in the free
        processors."""
        if now + run_s > self.start_s:
            free, free_gpus = min(free, self.spare), min(free_gpus, self.spare_gpus)
        passing = max(0, free) // processors
        return min(passing, max(0, free_gpus) // gpus) if gpus else passing

    def passed(self, processors: int, run_s: float, now: float, *, gpus: int = 0) -> None:
        """Record that jobs with so many processors and GPUs in all have passed the reserved one."""
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
    """Reserve for a job of this width and so many GPUs. `free`: processors free now (negative: jobs wait in the LRM
    already); `ends`: the running jobs' (expected end, processors, GPUs) in rising order. If these do not suffice, the
    job starts when all have ended."""
    at = now
    for end_s, width, devices in ends:
        if free >= processors and free_gpus >= gpus:
            break
        at, free, free_gpus = end_s, free + width, free_gpus + devices
    return Reservation(at, max(0, free - processors), max(0, free_gpus - gpus))
