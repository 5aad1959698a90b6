"""DIANA's priority and its four levels (papers/diana-bulk-scheduling sections VI, VII and X; SPEC D4, D5).

A job's priority depends only on its user, its processors and totals over the queue, so it is computed per *class*:
all queued jobs of one (user, processors) share it. Arrays are over classes; nothing here is per job.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

AGE_STEP = 0.25
"""Added per `time_threshold_s` waited: half a level's width."""
MOST_STEPS = 8
"""From the bottom of Q4 to the top of Q1; more would change nothing."""
LEVEL_WIDTH = 0.5
BELOW_ONE = float(np.nextafter(1.0, 0.0))


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
    """N = q T / (Q t): how many jobs of this size the user's quota is worth just now (section X).

    `processors` t of one job, `quota` q of its user, `total_processors` T of all queued jobs, `total_quota` Q of the
    distinct users present.
    """
    return quota * total_processors / (total_quota * processors)


def served_weight(served_jobs: float, slots: float) -> float:
    """a = S/(S + K): how much past service counts against present demand; 0 while nothing was served."""
    return served_jobs / (served_jobs + max(slots, 1.0)) if served_jobs > 0 else 0.0


def burden(
    quota: Floats, total_quota: float, queued_share: Floats, served_share: Floats | float = 0.0, weight: float = 0.0
) -> Floats:
    """(U,) per user: r = n/N of a job of one processor.

    r = (Q / q) ((1 - a) n/T + a n_served/T_served). With `weight` a = 0 this is the paper's n/N; the default mode mixes
    in the share of past service, so that in the long run shares follow the quotas whatever the backlogs.
    """
    out: Floats = total_quota / quota * ((1.0 - weight) * queued_share + weight * served_share)
    return out


def priority(ratio: Floats) -> Floats:
    """Pr = (N - n)/N for n <= N, else (N - n)/n, over r = n/N: 1 - r, then 1/r - 1. Inside (-1, 1). Section X."""
    out: Floats = 1.0 / np.maximum(ratio, 1.0) - np.minimum(ratio, 1.0)
    return out


def effective(base: Floats, added: Floats) -> Floats:
    """Pr + ageing + offsets, clamped to [-1, 1)."""
    out: Floats = np.clip(base + added, -1.0, BELOW_ONE)
    return out


def age_steps(waited_s: float, time_threshold_s: float) -> int:
    """Whole thresholds waited; 0 when ageing is off (threshold 0)."""
    return int(max(0.0, waited_s) // time_threshold_s) if time_threshold_s > 0 else 0
