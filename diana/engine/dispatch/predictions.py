"""Past predictions of starts and their outcomes, on which predicted ranges rest. Volatile."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from diana.engine.journal.state import CustodyKey
from diana.policy.queueing import forecast

MOST_OPEN = 256
"""Predictions waiting for their outcome."""
MOST_PAST = 200
SAMPLE_S = 5.0
"""Seconds between two predictions made only to learn from them: one costs a look over everything that waits."""


class Predictions:
    """Predictions that were made, and their outcomes.

    A start is where the job itself began, as its site's LRM says; being given to the LRM is not enough.
    """

    def __init__(self) -> None:
        self._open: dict[CustodyKey, tuple[float, float]] = {}
        """(made at, seconds to the custody's next start)."""
        self._given: dict[CustodyKey, tuple[int, float, float]] = {}
        """(index, made at, seconds): the predicted start is that of this job, which is with the LRM and has not told
        it yet."""
        self._errors: deque[float] = deque(maxlen=MOST_PAST)
        self._spread: forecast.WaitFactors | None = None
        self._next_sample_s = -inf

    def predicted(self, key: CustodyKey, wait_s: float, now: float) -> None:
        """Note a prediction, one at a time per custody. A start that is due at once teaches nothing."""
        if 0 < wait_s < inf and key not in self._given and len(self._open) < MOST_OPEN:
            self._open.setdefault(key, (now, wait_s))

    def given(self, key: CustodyKey, index: int) -> None:
        """Note that the custody's next job to start is this one."""
        made = self._open.pop(key, None)
        if made is not None:
            self._given[key] = (index, *made)

    def began(self, key: CustodyKey, indices: Sequence[int], started_s: Sequence[float]) -> None:
        """Compare the starts of jobs of the custody with the prediction."""
        made = self._given.get(key)
        if made is not None and made[0] in indices:
            _, at_s, wait_s = self._given.pop(key)
            self._spread = None
            self._errors.append(forecast.error(wait_s, max(0.0, started_s[indices.index(made[0])] - at_s)))

    def forget(self, key: CustodyKey) -> None:
        """Forget a custody that waits no more."""
        self._open.pop(key, None)
        self._given.pop(key, None)

    def spread(self) -> forecast.WaitFactors:
        if self._spread is None:
            self._spread = forecast.spread(self._errors)
        return self._spread

    def sample_due(self, key: CustodyKey, now: float) -> bool:
        if now < self._next_sample_s or key in self._open:
            return False
        self._next_sample_s = now + SAMPLE_S
        return True
