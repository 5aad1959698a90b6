"""The horizon of late binding: how long before its start a job is bound to a site, and how many jobs that is."""

from __future__ import annotations

from math import ceil, floor, isfinite
from typing import NamedTuple

from diana.policy.queueing.forecast import Slots

HAND_OVER_S = 1.0
"""Seconds that a hand-over takes beside its messages: records are made durable, and written in batches."""
ROUND_TRIPS = 3
"""Round trips of a hand-over: call and offer, prepared and commit, and one for what is lost on the way."""
BATCH_RUNS = 2
SHORT_S = 10.0
"""Jobs that run shorter than this are called in batches of `BATCH_RUNS` runs: a call brings several."""
MOST_BATCH_S = 4.0
CHUNKS = 16
"""A call brings at least this part of what a site would get in all, so that a group of a million jobs is called in
some hundred pieces. What is bound then lasts a sixteenth of what is left, so that the sites end together."""
PLACE_PART = 0.2
"""A site keeps processors idle for a wide job no longer than this part of the time that the job has waited."""

SPARE = 2
LEAST_S = 0.1
"""Jobs shorter than this are counted as so long."""


class Ahead(NamedTuple):
    """The work that stands before a job."""

    processors: float
    """Processors of the jobs that would all start before it."""
    work_s: float
    """Processor-seconds of these jobs."""


def seconds(stage_s: float, rtt_s: float) -> float:
    """Return how long before its start a job is bound: the seconds until it can start at that site."""
    return stage_s + HAND_OVER_S + ROUND_TRIPS * rtt_s


def batch_s(run_s: float) -> float:
    """Return the seconds beyond the horizon for which jobs are called too, once one of them is due. So short jobs come
    several at a time, a few runs a processor."""
    return min(MOST_BATCH_S, BATCH_RUNS * run_s) if run_s < SHORT_S else 0.0


def fitting(slots: Slots, processors: int, run_s: float, ahead: Ahead, until_s: float) -> int:
    """Return how many jobs of `processors` each would start within `until_s`, one after the other on each processor.

    Jobs ahead take one start each, or as many as their work fills: long ones do not come twice on a processor.
    """
    if slots.starts_s(processors, 0.0) > until_s or not (isfinite(run_s) and isfinite(ahead.work_s)):
        return 0
    starts = slots.starts(run_s, 0.0, until_s) - ceil(min(ahead.processors, ahead.work_s / run_s))
    return max(0, starts // processors)


def passing(slots: Slots, processors: int, run_s: float, kept: int, others: float, until_s: float) -> int:
    """Return how many jobs of `processors` each would start within `until_s` in the room that is kept for jobs with a
    place, without delaying these (EASY backfilling): jobs that are over before so many processors are free, and longer
    ones on processors that are left over then. `kept`: processors of the jobs with a place; `others`: those that other
    jobs take first."""
    start_s, then = slots.first(kept)
    if not isfinite(start_s):
        return 0
    free = slots.free(until_s)
    if until_s + run_s > start_s:
        free = min(free, then - kept)
    return max(0, floor(free - others)) // processors


def chunk(share: int, whole: int) -> int:
    """Return the least number of jobs that a call brings, where `share` / `whole` jobs are expected there in all."""
    return share // (whole * CHUNKS)


def most_open(lanes: int, each_s: float, stage_s: float, rtt_s: float, jobs: int) -> int:
    """Return how many jobs of a group a site may have that have not ended, if its origin believes its quote: those that
    run on its `lanes`, and `SPARE` times what it would call for at once, which is at least `jobs` (its chunk). The
    origin knows the length of a job less well than the site does, hence the spare."""
    within_s = seconds(stage_s, rtt_s) + batch_s(each_s)
    each = 1 + ceil(within_s / max(each_s, LEAST_S))
    return lanes + SPARE * max(jobs, lanes * each)


def is_worth_a_place(drains_s: float, waited_s: float) -> bool:
    """Return whether a wide job that waited so long is given a place at a site where enough processors come free
    within `drains_s`. All sites go by the time of submission, so the one that drains first is the first to give it."""
    return drains_s <= PLACE_PART * waited_s
