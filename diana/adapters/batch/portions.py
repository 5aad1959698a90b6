"""How much of what waits is submitted, where the operator said how many processors may be ours at once. Pure.

What was submitted starts when the batch system likes, so only as much leaves as may run. A batch system that can be
told how many tasks of an array may run together is given more: each array has so many lanes, which stay its own until
fewer of its tasks are left.
"""

from __future__ import annotations

from typing import NamedTuple


class Limit(NamedTuple):
    """`processors`: as many may be ours at once; 0: all there are. `throttles`: as in `Capacity`."""

    processors: int = 0
    throttles: bool = False


NO_LIMIT = Limit()


class Portion(NamedTuple):
    tasks: int
    at_once: int
    """0: all of them."""


NOTHING = Portion(0, 0)


def portion(limit: Limit, waiting: int, width: int, taken: int, held: int) -> Portion:
    """Of so many `waiting` tasks, each of `width` processors, where `taken` processors may be ours by what was
    submitted before, and all that is not over has `held`."""
    if not limit.processors:
        return Portion(waiting, 0)
    lanes = min(waiting, max(0, limit.processors - taken) // width)
    if not lanes:
        return NOTHING
    # Every lane gets as much as any other, so that none is left with work while others idle: near a group's end, one.
    each = max(1, int(held / limit.processors + 0.5)) if limit.throttles else 1
    tasks = min(waiting, lanes * each)
    return Portion(tasks, lanes if tasks > lanes else 0)
