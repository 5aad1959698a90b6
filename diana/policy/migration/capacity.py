"""Capacity of a site: the jobs it can start within a time, less those promised already. Many sites decide on the same
quotes at once, and none knows of the others (SPEC D7, beyond the paper).

The receiver remembers the grants whose jobs have not yet come, and grants no more than it can start within the gain
that justified the move: however many exporters see it idle, it is filled and not flooded.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

from diana.model.durations import seconds
from diana.model.words import counted


def startable(
    processors: int, within_s: float, free_processors: int, processors_per_s: float, promised_processors: int, most: int
) -> int:
    """Number of jobs of `processors` processors each that a site can start `within_s` from now, `most` at most.

    `processors_per_s`: processors that come free for them per second, on average, once `free_processors` are taken;
    `promised_processors` have been given away and are not used yet.
    """
    # Nothing coming free for an endless time is nothing.
    coming = processors_per_s * within_s if processors_per_s > 0 and within_s > 0 else 0.0
    room = (free_processors - promised_processors + coming) / processors
    return most if room >= most else max(0, floor(room))


class Grant(NamedTuple):
    jobs: int
    """Jobs granted; 0: none."""
    reason: str
    """Reason why not all were granted; empty: all were."""


def handed_on(exported: int) -> str:
    """Say why work exported so often may not be exported once more; empty: it may. Both the exporter and the receiver
    ask. Its first placement away from the submitter's site is no export, nor is pulling it back."""
    return f"was exported {counted(exported, 'time')} already" if exported > 0 else ""


def grant(
    jobs: int,
    processors: int,
    gain_s: float,
    *,
    exported: int,
    free_processors: int,
    processors_per_s: float,
    promised_processors: int,
) -> Grant:
    """Return the receiver's answer to an export: the number of `jobs` it takes.

    `gain_s` is the gain the exporter's decision rested on; `exported` the number of earlier exports; the others are as
    in `startable`, as of now and not as of the quote.
    """
    again = handed_on(exported)
    if again:
        return Grant(0, again)
    takes = startable(processors, gain_s, free_processors, processors_per_s, promised_processors, jobs)
    if takes == jobs:
        return Grant(jobs, "")
    within = f"within the {seconds(gain_s)} the move was to save"
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
