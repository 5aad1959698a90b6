"""The time each entry has waited, in whole time thresholds (SPEC D5; paper section VII, figure 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from diana.engine.journal.state import CustodyKey
from diana.engine.queue.entries import QueueEntry
from diana.model.settings import Settings
from diana.policy.queueing import priority

_GANGS = 0
"""Stands for the size of components of gangs."""


class Ageing:
    """Keeps `Entry.steps`, the age steps of every queued entry.

    Components of gangs wait by themselves: a claim that is given its processors may come to nothing, so only those that
    were let go count as started.

    In the paper's mode waiting counts from the submission. In the default mode it counts from the last start of a job
    of the same user and size, if that was later: jobs whose like still start do not starve, and a backlog of hours
    would otherwise lift everybody to the top, where only submission decides and quotas no longer do.
    """

    def __init__(self) -> None:
        self.now = 0.0
        """Site time of the last look."""
        self._entries: dict[CustodyKey, QueueEntry] = {}
        self._due: list[tuple[float, CustodyKey]] = []
        self._moved_s: dict[tuple[str, int], float] = {}
        self._aged: dict[tuple[str, int], dict[CustodyKey, QueueEntry]] = {}
        """Entries above step 0, in the default mode."""
        self._threshold_s = 0.0
        self._from_start = False

    def configure(self, settings: Settings) -> None:
        """Take the settings; to be called before entries enter, or enter again."""
        self._threshold_s = settings.time_threshold_s
        self._from_start = settings.priority_mode != "paper"
        self._due.clear()

    def enter(self, entry: QueueEntry, now: float) -> None:
        self.now = now
        self._entries[entry.key] = entry
        entry.steps = 0
        self._lift(entry, now)

    def leave(self, entry: QueueEntry) -> None:
        del self._entries[entry.key]
        self._forget(entry)

    def lifted(self, now: float) -> Sequence[QueueEntry]:
        """Return the entries whose steps rose since the last call. It is called at every event; mostly none is."""
        self.now = now
        return list(self._risen(now)) if self._due and self._due[0][0] <= now else ()

    def _risen(self, now: float) -> Iterator[QueueEntry]:
        while self._due and self._due[0][0] <= now:
            due_s, key = heappop(self._due)
            entry = self._entries.get(key)
            if entry is not None and entry.due_s == due_s:
                before = entry.steps
                self._lift(entry, now)
                if entry.steps != before:
                    yield entry

    def moved(self, entry: QueueEntry) -> list[QueueEntry]:
        """Note that one of its jobs started; return the entries of its user and size whose waiting begins anew."""
        return self._moved(_like(entry))

    def let_go(self, user: str) -> list[QueueEntry]:
        """As `moved`, for a component of one of the user's gangs."""
        return self._moved((user, _GANGS))

    def _moved(self, size: tuple[str, int]) -> list[QueueEntry]:
        if not self._from_start:
            return []
        self._moved_s[size] = self.now
        fallen = list(self._aged.pop(size, {}).values())
        for one in fallen:
            one.steps = 0
            self._lift(one, self.now)
        return fallen

    def since_s(self, entry: QueueEntry) -> float:
        """Site time from which its waiting counts."""
        if not self._from_start:
            return entry.submitted_s
        return max(entry.submitted_s, self._moved_s.get(_like(entry), 0.0))

    def _lift(self, entry: QueueEntry, now: float) -> None:
        """Set the steps and when to look again."""
        if self._threshold_s <= 0:
            return
        size, since_s = _like(entry), self.since_s(entry)
        entry.steps = min(priority.age_steps(now - since_s, self._threshold_s), priority.MOST_STEPS)
        # A multiple of the threshold may come out a rounding short of the due time that was set for it.
        if entry.steps < priority.MOST_STEPS and since_s + (entry.steps + 1) * self._threshold_s <= now:
            entry.steps += 1
        if entry.steps and self._from_start:
            self._aged.setdefault(size, {})[entry.key] = entry
        if entry.steps < priority.MOST_STEPS:
            entry.due_s = since_s + (entry.steps + 1) * self._threshold_s
            heappush(self._due, (entry.due_s, entry.key))

    def _forget(self, entry: QueueEntry) -> None:
        size = _like(entry)
        aged = self._aged.get(size)
        if aged is not None:
            aged.pop(entry.key, None)
            if not aged:
                del self._aged[size]


def _like(entry: QueueEntry) -> tuple[str, int]:
    """Return (user, size): the entries whose waiting begins anew together."""
    return entry.user, _GANGS if entry.claims else entry.processors
