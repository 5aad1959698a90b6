"""Rise of waiting jobs to the next level (SPEC D4, D5): section X, solved for the time to wait and for n."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from diana.policy.queueing.priority import AGE_STEP, MOST_STEPS, Level, level

_LOWER = {Level.Q1: 0.5, Level.Q2: 0.0, Level.Q3: -0.5}
_ROUNDING = 1e-9


class Rise(NamedTuple):
    to: Level | None
    """The next level; None: the jobs stand in the highest."""
    steps: int
    """Further age steps needed with all else as it is; -1: waiting alone never suffices."""
    demand: float
    """Highest value in place of n that would suffice; -1: none is low enough."""


def rise(base: float, added: float, steps: int, allowance: float) -> Rise:
    """Work out the rise of jobs with Pr `base`, `added` to it by ageing and offsets, and `steps` age steps reached;
    `allowance` is N."""
    now = level(base + added)
    if now is Level.Q1:
        return Rise(None, -1, -1.0)
    to = Level(now - 1)
    more = max(1, ceil((_LOWER[to] - base - added) / AGE_STEP - _ROUNDING))
    wanted = _LOWER[to] - added
    return Rise(to, more if steps + more <= MOST_STEPS else -1, demand_of(wanted, allowance) if wanted <= 1 else -1.0)


def demand_of(base: float, allowance: float) -> float:
    """Inverse of Pr: the n, or the value in its place, that gives `base` in (-1, 1] for this N."""
    return allowance * (1.0 - base) if base >= 0 else allowance / max(1.0 + base, _ROUNDING)
