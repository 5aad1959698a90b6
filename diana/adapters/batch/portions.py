"""The share of waiting tasks that is submitted, where the operator limited the processors that may be ours. Pure.

A submitted task starts when the batch system likes, so only as many leave as may run. A batch system that can be
told how many tasks of an array may run together is given more: each array has so many lanes, which stay its own
until fewer of its tasks are left.
"""

from __future__ import annotations

from typing import NamedTuple


class Limit(NamedTuple):
    """`processors`: most that may be ours at once; 0: all there are. `throttles`: as in `ClusterCapacity`."""

    processors: int = 0
    throttles: bool = False


NO_LIMIT = Limit()


class Portion(NamedTuple):
    tasks: int
    at_once: int
    """Most of these tasks that may run together; 0: all of them."""


NOTHING = Portion(0, 0)


def portion(limit: Limit, waiting: int, width: int, taken: int, held: int) -> Portion:
    """Return the portion to submit of `waiting` tasks, each of `width` processors. `taken`: processors that may be
    ours by what was submitted before; `held`: processors of all that is not over."""
    if not limit.processors:
        return Portion(waiting, 0)
    lanes = min(waiting, max(0, limit.processors - taken) // width)
    if not lanes:
        return NOTHING
    # Every lane gets as much as any other, so that none is left with work while others idle: near a group's end, one.
    each = max(1, int(held / limit.processors + 0.5)) if limit.throttles else 1
    tasks = min(waiting, lanes * each)
    return Portion(tasks, lanes if tasks > lanes else 0)
