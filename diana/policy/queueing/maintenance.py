"""Forecasts around maintenance: correct a forecast for times at which nothing runs (beyond the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf

USEFUL = 4.0
"""Least work over the seconds that a stop and a restart cost, for which a job begins that a closing will stop: at most
a fifth of the processors' time is lost."""


def begins_before_s(save_s: float, cost_s: float) -> float:
    """Return how long before a closing a job begins at the latest, however long it takes, which is stopped at a
    checkpoint `save_s` before the closing. `cost_s`: seconds that its stop and its restart cost."""
    return save_s + USEFUL * cost_s


def around(
    closed: Sequence[tuple[float, float]], first_s: float, end_s: float, run_s: float, hold_s: float
) -> tuple[float, float]:
    """(start of the first job, end of the last) if the site is closed from `closed[k][0]` to `closed[k][1]`, seconds
    from now in rising order without overlap. `first_s` and `end_s` are the two without any closing.

    Jobs run `run_s` each. None starts within `hold_s` before the site closes, since it could still be running then. So
    before that jobs start in whole rounds, and the rest go on when the site opens.
    """
    if first_s == inf:
        return inf, inf
    for from_s, to_s in closed:
        from_s = max(0.0, from_s)
        if max(first_s, end_s - run_s) + hold_s <= from_s:
            break
        if first_s + hold_s > from_s:
            # None starts before it: until then only the work ahead of them gets on.
            start_s = to_s + max(0.0, first_s - from_s)
            first_s, end_s = start_s, start_s + (end_s - first_s)
            continue
        rounds = 1 + floor((from_s - hold_s - first_s) / run_s) if run_s > 0 else 1
        end_s = to_s + max(0.0, end_s - (first_s + rounds * run_s)) if end_s > first_s + rounds * run_s else end_s
    return first_s, end_s
