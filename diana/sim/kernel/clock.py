"""Virtual time: one heap of callbacks in the total order (time, sequence); a run is its seed, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Clock:
    """Callbacks due at the same time run in the order in which they were asked for."""

    __slots__ = ("_heap", "_sequence", "now_s", "steps")

    def __init__(self) -> None:
        self.now_s = 0.0
        self.steps = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    def at(self, when_s: float, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action(*arguments)` at `when_s`; a time gone by means now. There is no cancelling: an action that may
        have become void carries a number that its receiver compares."""
        self._sequence += 1
        heappush(self._heap, (max(when_s, self.now_s), self._sequence, action, arguments))

    def after(self, delay_s: float, action: Callable[..., None], *arguments: Any) -> None:
        self._sequence += 1
        heappush(self._heap, (self.now_s + delay_s, self._sequence, action, arguments))

    def reserve(self, count: int) -> int:
        """Reserve `count` places in the order of callbacks due at one time, for `at_place`, and return the first of
        them. Callbacks that are made lazily so come in the order in which they would have come."""
        self._sequence += count
        return self._sequence - count + 1

    def at_place(self, place: int, when_s: float, action: Callable[..., None], *arguments: Any) -> None:
        """As `at`, in a reserved place; each place is for one use."""
        heappush(self._heap, (max(when_s, self.now_s), place, action, arguments))

    def step(self) -> bool:
        """Run the next callback; False when none is left."""
        if not self._heap:
            return False
        self.now_s, _, action, arguments = heappop(self._heap)
        self.steps += 1
        action(*arguments)
        return True

    def run_until(self, end_s: float) -> None:
        """Run everything due up to and including `end_s`; `now_s` is `end_s` afterwards."""
        heap = self._heap
        while heap and heap[0][0] <= end_s:
            self.now_s, _, action, arguments = heappop(heap)
            self.steps += 1
            action(*arguments)
        self.now_s = max(self.now_s, end_s)
