"""Contracts: whether a job keeps to the run time that was foretold of it (SPEC G5; papers/grads-scheduling).

A job reports how far it is. Seconds per step over the last reports, against those that the forecast allows for a step,
give the ratio; a contract is violated when both the latest ratio and the mean of the window are beyond the tolerance.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from math import inf
from typing import Literal, NamedTuple

State = Literal["", "kept", "slow", "fast"]


UNLIKE = 0.3
"""Part of the mean by which the latest step may differ from it in a window that speaks of one pace."""


class StepPace(NamedTuple):
    """The pace of a job, in seconds per step."""

    last_s: float
    mean_s: float

    def settled(self) -> bool:
        """Whether the mean may be taken for the steps to come: a load that has just begun, or a short one, leaves the
        window with steps of both paces, and the mean between them."""
        return abs(self.last_s - self.mean_s) <= UNLIKE * self.mean_s


class Steps:
    """The latest reports of one attempt, at most `window` and the one before them.

    Reports are ordinary input: one that is older than the last or goes backwards begins anew, and what is no number, or
    beyond the total, is none.
    """

    def __init__(self, window: int) -> None:
        self._kept: deque[tuple[float, float, float]] = deque(maxlen=window + 1)
        """(time of the report, steps done, time when it was heard), all rising."""
        self.total = 0.0

    @property
    def done(self) -> float:
        return self._kept[-1][1] if self._kept else 0.0

    def take(self, at_s: float, done: float, total: float, heard_s: float | None = None) -> bool:
        """Take a report, heard at `heard_s` (None: at once). False: it says nothing new, or nothing that can be."""
        if not (0 <= done <= total < inf and total > 0 and -inf < at_s < inf):
            return False
        if self._kept:
            last_s, last, _ = self._kept[-1]
            if at_s <= last_s or (done, total) == (last, self.total):
                return False
            if done < last or total != self.total:
                self._kept.clear()
        self.total = total
        self._kept.append((at_s, done, at_s if heard_s is None else max(at_s, heard_s)))
        return True

    def pace(self, now_s: float) -> StepPace | None:
        """Return the pace, the step under way counted where it is the slowest; None: there were not two reports."""
        if len(self._kept) < 2:
            return None
        first_s, first, _ = self._kept[0]
        before_s, before, _ = self._kept[-2]
        at_s, done, _ = self._kept[-1]
        last_s = (at_s - before_s) / (done - before)
        mean_s = (at_s - first_s) / (done - first)
        looked_s = now_s - self._unseen_s()
        open_s = looked_s - at_s if done < self.total else 0.0
        if open_s > last_s:
            last_s, mean_s = open_s, max(mean_s, (looked_s - first_s) / (done - first + 1))
        return StepPace(last_s, mean_s)

    def _unseen_s(self) -> float:
        """Return the latest seconds of which nothing is known, since the job is looked at now and then: the way of a
        report, and the time between two looks where these found several steps. They are no step that lasts."""
        way_s = max(heard_s - at_s for at_s, _, heard_s in self._kept)
        several = [
            heard_s - before_s
            for (_, before, before_s), (_, done, heard_s) in pairwise(self._kept)
            if done > before + 1
        ]
        return way_s + max(several, default=0.0)


class Kept(NamedTuple):
    """How a job keeps to its contract."""

    state: State
    """Empty: nothing was foretold of it."""
    last: float
    """Ratio of achieved to foretold seconds per step, of the latest step; 0: nothing was foretold."""
    mean: float
    """The same over the window."""
    remaining_s: float
    """Steps left at the mean pace."""


def judge(pace: StepPace, done: float, total: float, foretold_s: float, tolerance: tuple[float, float]) -> Kept:
    """Judge a job that was foretold to run `foretold_s` for all its steps; 0: nothing was foretold."""
    remaining_s = (total - done) * pace.mean_s
    if not 0 < foretold_s < inf:
        return Kept("", 0.0, 0.0, remaining_s)
    allowed_s = foretold_s / total
    last, mean = pace.last_s / allowed_s, pace.mean_s / allowed_s
    low, high = tolerance
    state: State = "slow" if min(last, mean) > high else "fast" if max(last, mean) < low else "kept"
    return Kept(state, last, mean, remaining_s)
