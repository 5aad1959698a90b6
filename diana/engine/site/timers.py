"""Named deadlines. The driver arms one timer, at the earliest of them."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

TimerKey = tuple[str, ...]
"""Name of a deadline: what is due, then whom it concerns, as in ("commit", "alpha-1/0")."""


class Timers:
    """Deadlines, at most one per key; setting a key again moves it."""

    def __init__(self) -> None:
        self._due: dict[TimerKey, float] = {}
        self._heap: list[tuple[float, TimerKey]] = []
        self._popped: dict[TimerKey, None] = {}
        """Keys that are due at once, and not handled yet."""

    def set(self, key: TimerKey, due_s: float) -> None:
        self._popped.pop(key, None)
        self._due[key] = due_s
        heappush(self._heap, (due_s, key))
        if len(self._heap) > 64 + 4 * len(self._due):
            self._heap = [(due, k) for k, due in self._due.items()]
            heapify(self._heap)

    def cancel(self, key: TimerKey) -> None:
        self._due.pop(key, None)
        self._popped.pop(key, None)

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._due

    def earliest(self) -> float | None:
        heap = self._heap
        while heap and self._due.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now: float) -> Iterator[TimerKey]:
        """Yield the keys due by `now`, earliest first, ties by key, and drop them. A key that is cancelled or set again
        while those before it are handled is left out: many are due at once after a node stood still."""
        while (at := self.earliest()) is not None and at <= now:
            key = heappop(self._heap)[1]
            del self._due[key]
            self._popped[key] = None
        while self._popped:
            key = next(iter(self._popped))
            del self._popped[key]
            yield key
