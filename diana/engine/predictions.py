"""How past predictions of starts came out: what a predicted range rests on. Volatile."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from diana.engine.state import CustodyKey
from diana.policy import forecast

MOST_OPEN = 256
"""Predictions waiting for their outcome."""
MOST_PAST = 200
SAMPLE_S = 5.0
"""Between two predictions made only to learn from them: one costs a look over everything that waits."""


class Predictions:
    """Those that were made and what became of them.

    A start is where the job itself began, as its site's LRM says; being given to the LRM is not enough.
    """

    def __init__(self) -> None:
        self._open: dict[CustodyKey, tuple[float, float]] = {}
        """(made at, seconds to the custody's next start)."""
        self._given: dict[CustodyKey, tuple[int, float, float]] = {}
        """The same, of index: with the LRM, its start not known yet."""
        self._errors: deque[float] = deque(maxlen=MOST_PAST)
        self._spread: forecast.Spread | None = None
        self._next_sample_s = -inf

    def predicted(self, key: CustodyKey, wait_s: float, now: float) -> None:
        """One at a time per custody. What starts at once teaches nothing."""
        if 0 < wait_s < inf and key not in self._given and len(self._open) < MOST_OPEN:
            self._open.setdefault(key, (now, wait_s))

    def given(self, key: CustodyKey, index: int) -> None:
        """The custody's next job to start is this one."""
        made = self._open.pop(key, None)
        if made is not None:
            self._given[key] = (index, *made)

    def began(self, key: CustodyKey, indices: Sequence[int], started_s: Sequence[float]) -> None:
        """When jobs of the custody started."""
        made = self._given.get(key)
        if made is not None and made[0] in indices:
            _, at_s, wait_s = self._given.pop(key)
            self._spread = None
            self._errors.append(forecast.error(wait_s, max(0.0, started_s[indices.index(made[0])] - at_s)))

    def forget(self, key: CustodyKey) -> None:
        """It waits no more."""
        self._open.pop(key, None)
        self._given.pop(key, None)

    def spread(self) -> forecast.Spread:
        if self._spread is None:
            self._spread = forecast.spread(self._errors)
        return self._spread

    def sample_due(self, key: CustodyKey, now: float) -> bool:
        if now < self._next_sample_s or key in self._open:
            return False
        self._next_sample_s = now + SAMPLE_S
        return True
