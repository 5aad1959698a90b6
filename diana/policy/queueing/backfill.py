"""EASY backfilling: the best job that does not fit gets a reservation; others pass only if they do not delay it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diana.model.job.resources import Amounts, give_back, how_many, take

NOTHING: Mapping[str, int] = {}


class Reservation:
    """A reservation for one job. `start_s`: the time at which enough is free for it; `spare`, `spare_left`: the
    processors, and of each resource that it asks for, what it leaves over then."""

    def __init__(self, start_s: float, spare: int, spare_left: Mapping[str, int] = NOTHING) -> None:
        self.start_s = start_s
        self.spare = spare
        self.spare_left = dict(spare_left)

    def lets_pass(
        self,
        processors: int,
        run_s: float,
        free: int,
        now: float,
        amounts: Amounts = (),
        left: Mapping[str, int] = NOTHING,
    ) -> int:
        """Return how many jobs of this width, with these amounts and this expected run time, may start in the free
        processors. `left`: what is free of each resource that they ask for."""
        outlasts = now + run_s > self.start_s
        passing = max(0, min(free, self.spare) if outlasts else free) // processors
        if not amounts:
            return passing
        passing = min(passing, how_many(left, amounts))
        return min(passing, how_many(self.spare_left, amounts)) if outlasts else passing

    def passed(self, processors: int, run_s: float, now: float, amounts: Amounts = (), jobs: int = 1) -> None:
        """Record that jobs with so many processors in all, and these amounts each, have passed the reserved one."""
        if now + run_s > self.start_s:
            self.spare -= processors
            take(self.spare_left, amounts, jobs)


def reserve(
    processors: int,
    free: int,
    ends: Sequence[tuple[float, int, Amounts]],
    now: float,
    amounts: Amounts = (),
    left: Mapping[str, int] = NOTHING,
) -> Reservation:
    """Reserve for a job of this width and these amounts. `free`: processors free now (negative: jobs wait in the LRM
    already), `left`: the same of each resource that it asks for; `ends`: the running jobs' (expected end, processors,
    amounts) in rising order. If these do not suffice, the job starts when all have ended."""
    at, rest = now, dict(left)
    for end_s, width, held in ends:
        if free >= processors and how_many(rest, amounts) > 0:
            break
        at, free = end_s, free + width
        give_back(rest, held)
    take(rest, amounts)
    return Reservation(at, max(0, free - processors), {name: max(0, count) for name, count in rest.items()})
