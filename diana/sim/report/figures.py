"""The figures of one run in a comparison, from the columns of its jobs.

Jobs submitted while the grid filled or emptied are left out (warm-up trimming): the first and the last `warm_up` share
of the span of submissions. Medians and tails stand beside means; a quantile is the smallest value that its share of the
jobs do not exceed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
import numpy as np

from diana.errors import UsageError
from diana.sim.report.outcome import Floats, JobTimes
from diana.sim.specs.capacity import machines
from diana.sim.specs.scenario_spec import Scenario

BOUND_S = 10.0
"""Least run time in a slowdown: a shorter job counts as one of this length."""
TAIL = 0.95


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Times in simulated seconds, over the jobs that are measured."""

    jobs: int
    """Jobs that were done and are measured."""
    unfinished: int
    """Jobs not done at the end, of all that were submitted."""
    wait_mean_s: float
    wait_median_s: float
    wait_p95_s: float
    turnaround_mean_s: float
    turnaround_median_s: float
    turnaround_p95_s: float
    slowdown_mean: float
    """Bounded slowdown: turnaround over the run time on the grid's fastest machine, counted as 10 s at least."""
    slowdown_median: float
    slowdown_p95: float
    response_mean_s: float
    """Time from a submission to the end of its first job."""
    group_turnaround_mean_s: float
    """Time from a submission to the end of its last job that was done; each submission counts once, however many jobs
    it has."""
    makespan_s: float
    """Time from the first submission to the last end, of all jobs."""
    throughput_per_h: float
    """Jobs that ended while those measured were submitted; per hour."""
    utilisation: float
    """Share of all processors that were busy meanwhile."""
    jain_slowdown: float
    """Jain's index over the users' mean bounded slowdowns: 1 is equal, 1/users the least."""
    jain_share: float
    """The same over the share of their work that users had been given when the last of the measured jobs came."""
    bytes_moved: float
    """Bytes moved between sites, for all jobs."""
    messages_per_job: float | None = None
    """Messages between sites, over all jobs submitted; None: nothing was sent, as with a central policy."""


NAMES = tuple(name for name in Figures.__struct_fields__ if name != "jobs")
"""Figures that are compared."""


class GridCapacity(NamedTuple):
    """The capacity of a scenario's machines."""

    processors: tuple[int, ...]
    """Processors by site, in the scenario's order."""
    fastest: float
    """Speed of the fastest machine."""


def grid(scenario: Scenario) -> GridCapacity:
    rows = [machines(scenario, site) for site in scenario.sites]
    speeds = [speed for row in rows for slots, speed in row if slots]
    return GridCapacity(tuple(sum(slots for slots, _ in row) for row in rows), max(speeds, default=1.0))


class MeasuredSpan(NamedTuple):
    """Stretch of time in which what comes is measured."""

    begin_s: float
    end_s: float
    at_once: bool
    """True if all came at the same moment: the window lasts until the last end."""


def window(outcome: JobTimes, warm_up: float) -> MeasuredSpan:
    span = trimmed(outcome.submit_s, warm_up)
    return span._replace(end_s=float(outcome.end_s.max())) if span.at_once else span


def trimmed(submit_s: Floats, warm_up: float) -> MeasuredSpan:
    """Stretch of time in which the measured submissions came."""
    first_s, last_s = float(submit_s.min()), float(submit_s.max())
    trim_s = warm_up * (last_s - first_s)
    return MeasuredSpan(first_s + trim_s, last_s - trim_s, first_s == last_s)


def slowdowns(outcome: JobTimes, fastest: float) -> Floats:
    run_s = np.maximum(BOUND_S, outcome.run_s / fastest)
    bounded: Floats = np.maximum(1.0, (outcome.end_s - outcome.submit_s) / run_s)
    return bounded


def measured(
    outcome: JobTimes, its: GridCapacity, warm_up: float, submitted: int, messages: int | None = None
) -> Figures:
    """`submitted`: jobs of all groups. UsageError where trimming leaves no job to measure."""
    if not len(outcome.submit_s):
        nothing = dict.fromkeys((n for n in NAMES if n not in ("unfinished", "messages_per_job")), 0.0)
        return Figures(jobs=0, unfinished=submitted, **nothing)
    span = window(outcome, warm_up)
    inside = (outcome.submit_s >= span.begin_s) & (outcome.submit_s <= span.end_s)
    if not inside.any():
        late = submitted - len(outcome.submit_s)
        more = f", and {late} jobs did not end; set it lower or limit_s higher" if late else "; set it lower"
        raise UsageError(f"compare: warm_up = {warm_up:g} leaves out every job of this workload that ended{more}")
    wait_s = (outcome.start_s - outcome.submit_s)[inside]
    took_s = (outcome.end_s - outcome.submit_s)[inside]
    slowdown = slowdowns(outcome, its.fastest)[inside]
    groups = [one for one in submissions(outcome) if span.begin_s <= one.submit_s <= span.end_s]
    users = outcome.user[inside]
    ended = int(np.count_nonzero((outcome.end_s > span.begin_s) & (outcome.end_s <= span.end_s)))
    lasts_s = max(1e-9, span.end_s - span.begin_s)
    return Figures(
        jobs=int(inside.sum()),
        unfinished=submitted - len(inside),
        wait_mean_s=float(wait_s.mean()),
        wait_median_s=quantile(wait_s, 0.5),
        wait_p95_s=quantile(wait_s, TAIL),
        turnaround_mean_s=float(took_s.mean()),
        turnaround_median_s=quantile(took_s, 0.5),
        turnaround_p95_s=quantile(took_s, TAIL),
        slowdown_mean=float(slowdown.mean()),
        slowdown_median=quantile(slowdown, 0.5),
        slowdown_p95=quantile(slowdown, TAIL),
        response_mean_s=float(np.mean([one.first_s for one in groups])),
        group_turnaround_mean_s=float(np.mean([one.last_s for one in groups])),
        makespan_s=float(outcome.end_s.max() - outcome.submit_s.min()),
        throughput_per_h=3600.0 * ended / lasts_s,
        utilisation=busy_s(outcome, span.begin_s, span.end_s) / max(1e-9, sum(its.processors) * lasts_s),
        jain_slowdown=jain(_means(users, slowdown)),
        jain_share=jain(_shares(outcome, span)),
        bytes_moved=outcome.bytes_moved,
        messages_per_job=None if messages is None else messages / max(1, submitted),
    )


def quantile(values: Floats, share: float) -> float:
    """The smallest value that `share` of them do not exceed."""
    place = max(0, math.ceil(share * len(values)) - 1)
    return float(np.partition(values, place)[place])


def busy_s(outcome: JobTimes, begin_s: float, end_s: float) -> float:
    """Processor-seconds of jobs between two times."""
    overlap_s = np.minimum(outcome.end_s, end_s) - np.maximum(outcome.start_s, begin_s)
    return float(np.dot(np.maximum(0.0, overlap_s), outcome.processors))


def jain(values: Floats) -> float:
    """R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and discrimination", DEC TR-301, 1984."""
    squares = float(np.dot(values, values))
    return float(values.sum()) ** 2 / (len(values) * squares) if squares > 0 else 1.0


def _means(users: np.ndarray[tuple[int], np.dtype[np.int32]], values: Floats) -> Floats:
    """Mean of each user that has some values."""
    counts = np.bincount(users)
    means: Floats = np.bincount(users, values)[counts > 0] / counts[counts > 0]
    return means


def _shares(outcome: JobTimes, span: MeasuredSpan) -> Floats:
    """Share that was done of each user's work that had come by the end of the window (its middle, if all came at
    once)."""
    at_s = (span.begin_s + span.end_s) / 2 if span.at_once else span.end_s
    came = outcome.submit_s <= at_s
    work_s = (outcome.processors * outcome.run_s)[came]
    start_s, end_s = outcome.start_s[came], outcome.end_s[came]
    given = np.clip((at_s - start_s) / np.maximum(1e-9, end_s - start_s), 0.0, 1.0)
    wanted = np.bincount(outcome.user[came], work_s)
    got = np.bincount(outcome.user[came], work_s * given)
    shares: Floats = got[wanted > 0] / wanted[wanted > 0]
    return shares


class SubmissionTimes(NamedTuple):
    """Jobs of one submission that were done. Times of its jobs are means, in seconds."""

    submit_s: float
    jobs: int
    wait_s: float
    run_s: float
    """Execution time at the site where it ran."""
    turnaround_s: float
    first_s: float
    """Time from the submission to the end of its first job."""
    last_s: float
    """Time from the submission to the end of its last job: the turnaround of the group."""


def submissions(outcome: JobTimes) -> list[SubmissionTimes]:
    """A row for each submission of which a job was done, by user, home and time. Jobs of one user that came at one site
    at one moment are one submission."""
    if not len(outcome.submit_s):
        return []
    order = np.lexsort((outcome.end_s, outcome.submit_s, outcome.home, outcome.user))
    user, home, submit_s = outcome.user[order], outcome.home[order], outcome.submit_s[order]
    start_s, end_s = outcome.start_s[order], outcome.end_s[order]
    new = (user[1:] != user[:-1]) | (home[1:] != home[:-1]) | (submit_s[1:] != submit_s[:-1])
    at = np.concatenate([[0], np.flatnonzero(new) + 1])
    jobs = np.diff(np.append(at, len(order)))
    came_s = submit_s[at]
    columns = (
        came_s,
        jobs,
        np.add.reduceat(start_s - submit_s, at) / jobs,
        np.add.reduceat(end_s - start_s, at) / jobs,
        np.add.reduceat(end_s - submit_s, at) / jobs,
        end_s[at] - came_s,
        end_s[at + jobs - 1] - came_s,
    )
    return [SubmissionTimes(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
