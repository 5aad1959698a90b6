"""A history replayed as it was and under changes, side by side: differences group by group, with intervals from days
that are drawn again and again (the bootstrap: B. Efron, "Bootstrap methods: another look at the jackknife", Annals of
Statistics 7, 1979)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np

from diana.sim.kernel import chance
from diana.sim.load.past import DAY_S
from diana.sim.past.changes import Change, changed
from diana.sim.past.replay import GroupRow, Replayed, Tell, replayed
from diana.sim.past.waits import observed
from diana.sim.report.drawing import QUANTILES
from diana.sim.report.figures import jain
from diana.sim.report.intervals import Interval
from diana.sim.specs.scenario_spec import Scenario

DRAWS = 2000
MOST_DRAWN = 4_000_000
"""Units drawn at once, eight bytes each."""
LEAST_DAYS = 7
"""Days below which single groups are drawn instead: fewer say nothing about other days."""
_TAIL = 0.025


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one side, over the seeds. Times are seconds."""

    groups: int
    unfinished: int
    turnaround_mean_s: float
    """From a group's submission to the end of its last job, mean over groups."""
    turnaround_median_s: float
    turnarounds_s: list[float]
    """Turnarounds of groups at `QUANTILES` of `sim/report/drawing.py`; none: no group ended."""
    wait_mean_s: float
    """From a job's submission to its start, mean over jobs."""
    slowdown_mean: float
    makespan_s: float
    """From the first submission to the last end."""
    core_hours: float
    bytes_moved: float
    fairness: float
    """Jain's index over the users' mean slowdowns: 1 is equal."""


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    history: str
    changes: list[str]
    seeds: list[int]
    base: Side
    changed: Side
    turnaround_difference_s: Interval
    """Changed minus base, mean over groups; its interval from days, or groups, drawn again and again."""
    wait_difference_s: Interval
    drawn: str
    """Units that the intervals draw: days or groups."""
    users: dict[str, float]
    """User -> difference of the mean turnaround, in seconds."""


def whatif(
    scenario: Scenario, changes: Sequence[Change], seeds: range, workers: int = 0, tell: Tell | None = None
) -> WhatIf:
    """Replay both sides under the same seeds. UsageError for a change that cannot be made."""
    scenario = observed(scenario)
    other = changed(scenario, changes)
    base, new = replayed([scenario, other], seeds, workers, tell)
    pairs = [
        (rows.groups[name], more.groups[name])
        for rows, more in zip(base, new, strict=True)
        for name in sorted(rows.groups.keys() & more.groups.keys())
    ]
    drawn = units(pairs)
    of_user: dict[str, list[float]] = defaultdict(list)
    for before, after in pairs:
        of_user[before.user].append(after.end_s - before.end_s)
    return WhatIf(
        history=scenario.name,
        changes=[f"--{option} {word}" for option, word in changes],
        seeds=list(seeds),
        base=side(base),
        changed=side(new),
        turnaround_difference_s=difference(pairs, [after.end_s - before.end_s for before, after in pairs], drawn),
        wait_difference_s=difference(pairs, [after.wait_s - before.wait_s for before, after in pairs], drawn),
        drawn=drawn,
        users={user: math.fsum(some) / len(some) for user, some in sorted(of_user.items())},
    )


def side(runs: Sequence[Replayed]) -> Side:
    """Figures over the runs of one side; those of several seeds are means."""
    rows = [row for one in runs for row in one.groups.values()]
    if not rows:
        return Side(
            groups=0, unfinished=runs[0].unfinished, turnaround_mean_s=0.0, turnaround_median_s=0.0, turnarounds_s=[],
            wait_mean_s=0.0, slowdown_mean=0.0, makespan_s=0.0, core_hours=0.0, bytes_moved=0.0, fairness=1.0,
        )  # fmt: skip
    ends = np.array([row.end_s for row in rows])
    jobs = np.array([row.jobs for row in rows], np.float64)
    slowdown = np.array([row.slowdown for row in rows])
    users = sorted({row.user for row in rows})
    of_user = [np.array([row.user == user for row in rows]) for user in users]
    spans = [
        max(row.submit_s + row.end_s for row in one.groups.values()) - min(row.submit_s for row in one.groups.values())
        for one in runs
        if one.groups
    ]
    return Side(
        groups=len(rows) // len(runs),
        unfinished=sum(one.unfinished for one in runs) // len(runs),
        turnaround_mean_s=float(ends.mean()),
        turnaround_median_s=float(np.median(ends)),
        turnarounds_s=np.quantile(ends, QUANTILES, method="inverted_cdf").tolist(),
        wait_mean_s=float(np.average([row.wait_s for row in rows], weights=jobs)),
        slowdown_mean=float(np.average(slowdown, weights=jobs)),
        makespan_s=float(np.mean(spans)),
        core_hours=math.fsum(row.run_s for row in rows) / 3600.0 / len(runs),
        bytes_moved=float(np.mean([one.bytes_moved for one in runs])),
        fairness=jain(np.array([np.average(slowdown[its], weights=jobs[its]) for its in of_user])),
    )


def units(pairs: Sequence[tuple[GroupRow, GroupRow]]) -> str:
    """Return the unit that the bootstrap draws: days where there are enough of them, since groups of one day are not
    independent."""
    return "days" if len({int(before.submit_s // DAY_S) for before, _ in pairs}) >= LEAST_DAYS else "groups"


def difference(pairs: Sequence[tuple[GroupRow, GroupRow]], values: Sequence[float], drawn: str) -> Interval:
    """The mean of `values`, one per pair, and its interval over `DRAWS` samples of the same size."""
    if not values:
        return Interval(0.0, None, None)
    table = np.array(values)
    if drawn == "days":
        keys = np.array([int(before.submit_s // DAY_S) for before, _ in pairs])
    else:
        # The same group under several seeds is one unit.
        places = {name: at for at, name in enumerate(sorted({before.name for before, _ in pairs}))}
        keys = np.array([places[before.name] for before, _ in pairs])
    _, which = np.unique(keys, return_inverse=True)
    sums, counts = np.bincount(which, table), np.bincount(which)
    if len(sums) < 2:
        return Interval(float(table.mean()), None, None)
    rng = chance.columns(len(table), "bootstrap")
    means = np.empty(DRAWS)
    # Some draws at a time: all of them at once would be two thousand times the history.
    at_once = max(1, MOST_DRAWN // len(sums))
    for first in range(0, DRAWS, at_once):
        picked = rng.integers(0, len(sums), (min(at_once, DRAWS - first), len(sums)))
        means[first : first + at_once] = sums[picked].sum(axis=1) / counts[picked].sum(axis=1)
    low, high = np.quantile(means, (_TAIL, 1 - _TAIL)).tolist()
    return Interval(float(table.mean()), low, high)
