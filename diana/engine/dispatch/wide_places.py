"""Places of wide jobs: the best job that fits nowhere is the first to have the processors that come free, until it
starts. Jobs that come later pass it only where they do not delay it, whatever their priority: else those with a better
one take each processor as it comes free, and so many are never free at once.

Volatile: after a restart the best job of that moment has the place.
"""

from __future__ import annotations

from typing import NamedTuple

from diana.engine.journal.state import CustodyKey
from diana.engine.queue.entries import QueueEntry
from diana.engine.site.context import Context


class WidePlaces:
    """The parts whose next job has a place, in the order in which they got it."""

    def __init__(self) -> None:
        self.kept: dict[CustodyKey, None] = {}


class KeptRoom(NamedTuple):
    """The room that is kept for jobs with a place."""

    processors: int
    work_s: float
    """Processor-seconds of these jobs."""


def standing(core: Context) -> list[QueueEntry]:
    """Return the entries whose next job has a place. Those that wait no more lose it."""
    kept, entries = core.book(WidePlaces).kept, core.queues.entries
    gone = [key for key in kept if key not in entries or not entries[key].ready]
    for key in gone:
        del kept[key]
    return [entries[key] for key in kept]


def processors(core: Context) -> int:
    """Return the processors of all jobs with a place."""
    return sum(one.processors for one in standing(core))


def behind(core: Context, least: float) -> KeptRoom:
    """Return the room kept for jobs whose priority is below `least`: a job of that priority waits for them too."""
    some = [one for one in standing(core) if core.queues.best(one.key)[1] < least]
    return KeptRoom(sum(one.processors for one in some), sum(one.processors * one.run_s for one in some))
