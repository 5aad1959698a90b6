"""What times at which nothing runs do to a forecast that knows of none (beyond the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf


def around(
    closed: Sequence[tuple[float, float]], first_s: float, end_s: float, run_s: float, hold_s: float
) -> tuple[float, float]:
    """(start of the first job, end of the last) once the site is closed from `closed[k][0]` to `closed[k][1]`, seconds
    from now in rising order without overlap, where they would be `first_s` and `end_s` if it were not.

    Jobs run `run_s` each, and none starts that could still run, for `hold_s`, when the site closes: so the last of them
    before that start in whole rounds, and what is left goes on when it opens.
    """
    if first_s == inf:
        return inf, inf
    for from_s, to_s in closed:
        from_s = max(0.0, from_s)
        if max(first_s, end_s - run_s) + hold_s <= from_s:
            break
        if first_s + hold_s > from_s:
            # None of them before it: only what stands before them gets on until then.
            start_s = to_s + max(0.0, first_s - from_s)
            first_s, end_s = start_s, start_s + (end_s - first_s)
            continue
        rounds = 1 + floor((from_s - hold_s - first_s) / run_s) if run_s > 0 else 1
        end_s = to_s + max(0.0, end_s - (first_s + rounds * run_s)) if end_s > first_s + rounds * run_s else end_s
    return first_s, end_s
