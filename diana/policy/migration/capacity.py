"""Capacity of a site: the jobs it takes from those who export, less those promised already. Many sites decide on the
same quotes at once, and none knows of the others (SPEC D7, beyond the paper).

The receiver remembers the grants whose jobs have not yet come, and grants no more than it can start within the gain
that justified the move: however many exporters see it idle, it is filled and not flooded.
"""

from __future__ import annotations

from typing import NamedTuple

from diana.model.durations import seconds
from diana.model.words import counted


class Grant(NamedTuple):
    jobs: int
    """Jobs granted; 0: none."""
    reason: str
    """Reason why not all were granted; empty: all were."""


def grant(jobs: int, processors: int, gain_s: float, *, free_processors: int, promised_processors: int) -> Grant:
    """Return the receiver's answer to an export: the number of `jobs`, of `processors` processors each, that it takes.

    `gain_s` is the gain the exporter's decision rested on; `free_processors` the processors on which such jobs start
    within it, as of now and not as of the quote; `promised_processors` have been given away and are not used yet.
    """
    takes = min(jobs, max(0, free_processors - promised_processors) // processors)
    if takes == jobs:
        return Grant(jobs, "")
    within = f"within {seconds(gain_s)}, later than which the move would not pay"
    promised = f", {promised_processors} of its processors being promised" if promised_processors > 0 else ""
    return Grant(takes, f"can start {counted(takes, 'job') if takes else 'none'} {within}{promised}")


class _Promise(NamedTuple):
    processors: int
    until_s: float


class Promises:
    """Processors promised to exporters, by the move they belong to.

    Each ends when it is taken back or used up, or after `lasts_s`, so that a lost message blocks no capacity for ever.
    `now` never runs backwards.
    """

    def __init__(self, lasts_s: float) -> None:
        self._lasts_s = lasts_s
        self._of: dict[str, _Promise] = {}
        """Promises by move, in the order they were made, which is also the order of their ends."""
        self._total = 0

    def make(self, key: str, processors: int, now: float) -> None:
        """Make a promise; it replaces an earlier one of the same key."""
        self.over(key)
        self._of[key] = _Promise(processors, now + self._lasts_s)
        self._total += processors

    def over(self, key: str) -> None:
        """End a promise: it was taken back, or its jobs are here."""
        promise = self._of.pop(key, None)
        if promise is not None:
            self._total -= promise.processors

    def use(self, key: str, processors: int, now: float) -> bool:
        """Take `processors` of those promised under this key; False: fewer are promised."""
        self._forget(now)
        promise = self._of.get(key)
        if promise is None or promise.processors < processors:
            return False
        left = promise._replace(processors=promise.processors - processors)
        if not left.processors:
            self.over(key)
        else:
            self._of[key] = left
            self._total -= processors
        return True

    def total(self, now: float) -> int:
        """Processors promised to all exporters together."""
        self._forget(now)
        return self._total

    def _forget(self, now: float) -> None:
        while self._of and (first := next(iter(self._of.items())))[1].until_s <= now:
            self.over(first[0])
