"""What a site can start within a time, less what was promised of it already: many decide on the same quotes at once,
and none knows of the others (SPEC D7, beyond the paper).

The receiver keeps what it granted and has not yet got, and grants no more than it can start within the gain that
justified the move: however many exporters see it idle, it is filled and not flooded.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

from diana.model.durations import seconds
from diana.model.words import counted


def startable(
    processors: int, within_s: float, free_processors: int, processors_per_s: float, promised_processors: int, most: int
) -> int:
    """How many jobs of so many `processors` each a site starts `within_s` from now, `most` at most.

    `processors_per_s`: what comes free there for them as jobs end, on average, once `free_processors` are taken;
    `promised_processors` have been given away and are not used yet.
    """
    # Nothing coming free for an endless time is nothing.
    coming = processors_per_s * within_s if processors_per_s > 0 and within_s > 0 else 0.0
    room = (free_processors - promised_processors + coming) / processors
    return most if room >= most else max(0, floor(room))


class Grant(NamedTuple):
    jobs: int
    """0: none."""
    reason: str
    """Why not all that was asked for; empty: all."""


def handed_on(exported: int) -> str:
    """Why work exported so often may not be exported once more; empty: it may. Whoever is to export it asks, and
    whoever is to receive it. Its first placement away from the submitter's site is no export, nor is pulling it
    back."""
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
    """The receiver's answer to an export: how many of `jobs` it takes.

    `gain_s` is what the exporter's decision rested on; `exported` how often the work was exported before; the others
    are as in `startable`, as they are now and not as they were when the quote was given.
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

    Each ends when it is told to be over or used up, or after `lasts_s`: a lost word blocks no capacity for ever. `now`
    never runs backwards.
    """

    def __init__(self, lasts_s: float) -> None:
        self._lasts_s = lasts_s
        self._of: dict[str, _Promise] = {}
        """In order of their making, which is that of their ends."""
        self._total = 0

    def make(self, key: str, processors: int, now: float) -> None:
        """The same key again replaces what stood."""
        self.over(key)
        self._of[key] = _Promise(processors, now + self._lasts_s)
        self._total += processors

    def over(self, key: str) -> None:
        """It was taken back, or what it was for is here."""
        promise = self._of.pop(key, None)
        if promise is not None:
            self._total -= promise.processors

    def use(self, key: str, processors: int, now: float) -> bool:
        """So many of what was promised under this key are taken; False: not so many are."""
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
        """Processors, to all."""
        self._forget(now)
        return self._total

    def _forget(self, now: float) -> None:
        while self._of and (first := next(iter(self._of.items())))[1].until_s <= now:
            self.over(first[0])
