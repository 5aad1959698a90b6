"""DIANA's priority and its four levels (papers/diana-bulk-scheduling sections VI, VII and X; SPEC D4, D5).

A job's priority depends only on its user, its processors and totals over the queue, so it is computed per *class*:
all queued jobs of one (user, processors) share it. Arrays are over classes; nothing here is per job.
"""

from __future__ import annotations

from enum import IntEnum
from math import nextafter

from diana.model.arrays import Floats, np

AGE_STEP = 0.25
"""Added per `time_threshold_s` waited: half a level's width."""
MOST_STEPS = 10
"""Most age steps: they lift from a level below the bottom of Q4 to the top of Q1; more would change nothing."""
DIGITS = 11
"""Decimal places of a priority. Priorities equal to these are first come, first served, so that rounding errors decide
nothing."""
LEVEL_WIDTH = 0.5
DEMAND_FRACTION = 1 / 200
"""Upper bound of K in `served_weight`, as a share of the half-life. At quotas 2:1 it costs 1 % of the share at most."""
BELOW_ONE = nextafter(1.0, 0.0)
LOWEST = -1.0
"""Lowest effective priority."""


class Level(IntEnum):
    """Q1 [0.5, 1), Q2 [0, 0.5), Q3 [-0.5, 0), Q4 [-1, -0.5)."""

    Q1 = 1
    Q2 = 2
    Q3 = 3
    Q4 = 4


def level(priority: float) -> Level:
    if priority >= 0.5:
        return Level.Q1
    if priority >= 0.0:
        return Level.Q2
    return Level.Q3 if priority >= -0.5 else Level.Q4


def allowance(processors: float, quota: float, total_processors: float, total_quota: float) -> float:
    """N = q T / (Q t): the number of jobs of this size that the user's quota is worth just now (section X).

    `processors` t of one job, `quota` q of its user, `total_processors` T of all queued jobs, `total_quota` Q of the
    distinct users present.
    """
    return quota * total_processors / (total_quota * processors)


def served_weight(served_jobs: float, slots: float, half_life: float) -> float:
    """a = S/(S + K): the weight of past service against present demand; 0 while nothing was served.

    K is about the number of slots, but never so large beside S (at most half_life / ln 2) that backlogs outweigh
    quotas.
    """
    demand = max(1.0, min(slots, half_life * DEMAND_FRACTION))
    return served_jobs / (served_jobs + demand) if served_jobs > 0 else 0.0


def demand(queued: Floats, total_processors: float, served: Floats, served_processors: float, weight: float) -> Floats:
    """(U,) value per user that replaces n in the default mode, so that in the long run shares follow the quotas.

    n/T becomes (1 - a) n/T + a n_served/T_served, `weight` being a; n itself for a = 0.
    """
    out: Floats = (1.0 - weight) * queued + weight * total_processors / served_processors * served
    return out


def burden(jobs: Floats, processors: Floats, quota: Floats, total_processors: float, total_quota: float) -> Floats:
    """r = n/N = (n t Q)/(q T), over rows: `jobs` n of the row's user.

    Multiplied out with one division at the end: with whole quotas only that division rounds. So values that are equal
    on paper are equal here (first come, first served among them), and r of one user with equal jobs is 1 whatever the
    quota.
    """
    out: Floats = jobs * processors * total_quota / (quota * total_processors)
    return out


def priority(ratio: Floats) -> Floats:
    """Pr = (N - n)/N for n <= N, else (N - n)/n, over r = n/N: 1 - r, then 1/r - 1. Inside (-1, 1). Section X."""
    out: Floats = 1.0 / np.maximum(ratio, 1.0) - np.minimum(ratio, 1.0)
    return out


def effective(base: Floats, added: Floats) -> Floats:
    """Pr + ageing + offsets, clamped to [-1, 1), to `DIGITS` digits."""
    out: Floats = np.clip(np.round(base + added, DIGITS), LOWEST, BELOW_ONE)
    return out


def age_steps(waited_s: float, time_threshold_s: float) -> int:
    """Whole thresholds waited; 0 when ageing is off (threshold 0)."""
    return int(max(0.0, waited_s) // time_threshold_s) if time_threshold_s > 0 else 0
