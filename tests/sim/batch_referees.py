"""Two slow ways to the schedules of diana/sim/twins/batch.py, written from the definitions and sharing no code with
it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Asked(NamedTuple):
    submit_s: float
    width: int
    run_s: float
    estimate_s: float


def fcfs_by_processors(processors: int, jobs: Iterable[tuple[float, int, float]]) -> list[float]:
    """A referee that shares no thought with the machine: no events, a time at which each processor is free again."""
    free_at_s = [-math.inf] * processors
    starts_s: list[float] = []
    for submit_s, width, run_s in jobs:
        free_at_s.sort()
        start_s = max(submit_s, free_at_s[width - 1], starts_s[-1] if starts_s else -math.inf)
        free_at_s[:width] = [start_s + run_s] * width
        starts_s.append(start_s)
    return starts_s


def easy_by_definition(processors: int, jobs: list[Asked], leaves_s: Mapping[int, float] | None = None) -> list[float]:
    """Begins anew after each start, from the head of the queue and with a reservation made from nothing. `leaves_s`:
    when some are withdrawn, or killed if they run."""
    return _by_definition(processors, jobs, leaves_s or {}, True)


def fcfs_by_definition(processors: int, jobs: list[Asked], leaves_s: Mapping[int, float]) -> list[float]:
    """The same without backfilling."""
    return _by_definition(processors, jobs, leaves_s, False)


def _by_definition(processors: int, jobs: list[Asked], leaves_s: Mapping[int, float], backfills: bool) -> list[float]:
    coming = sorted(range(len(jobs)), key=lambda k: (jobs[k].submit_s, k))
    leaving = dict(leaves_s)
    starts_s = [math.nan] * len(jobs)
    waiting: list[int] = []
    running: list[int] = []
    while coming or running or leaving:
        ends_s = [starts_s[k] + jobs[k].run_s for k in running]
        now_s = min([*ends_s, *(jobs[k].submit_s for k in coming[:1]), *leaving.values()])
        while coming and jobs[coming[0]].submit_s == now_s:
            waiting.append(coming.pop(0))
        gone = {k for k, at_s in leaving.items() if at_s <= now_s}
        leaving = {k: at_s for k, at_s in leaving.items() if k not in gone}
        running = [k for k in running if starts_s[k] + jobs[k].run_s > now_s and k not in gone]
        waiting = [k for k in waiting if k not in gone]
        while (job := _next_by_definition(processors, jobs, waiting, running, starts_s, now_s, backfills)) is not None:
            starts_s[job] = now_s
            waiting.remove(job)
            running.append(job)
    return starts_s


def _next_by_definition(
    processors: int,
    jobs: list[Asked],
    waiting: list[int],
    running: list[int],
    starts_s: list[float],
    now_s: float,
    backfills: bool = True,
) -> int | None:
    if not waiting:
        return None
    free = processors - sum(jobs[k].width for k in running)
    head = jobs[waiting[0]]
    if head.width <= free:
        return waiting[0]
    if not backfills:
        return None
    expected_s = {k: max(now_s, starts_s[k] + jobs[k].estimate_s) for k in running}

    def free_at(time_s: float) -> int:
        return free + sum(jobs[k].width for k in running if expected_s[k] <= time_s)

    shadow_s = min(time_s for time_s in expected_s.values() if free_at(time_s) >= head.width)
    extra = free_at(shadow_s) - head.width
    for k in waiting[1:]:
        if jobs[k].width <= free and (now_s + jobs[k].estimate_s <= shadow_s or jobs[k].width <= extra):
            return k
    return None
