"""Site time: seconds that never run backwards, also over restarts. The wall clock only gives the first value."""

from __future__ import annotations

import time


class SiteClock:
    """Starts at the later of the wall clock and `last_s`, the latest site time in the journal; then runs with the
    monotonic clock, so that a wall clock that jumps changes nothing."""

    def __init__(self, last_s: float) -> None:
        self._base = max(last_s, time.time()) - time.monotonic()

    def now_s(self) -> float:
        return self._base + time.monotonic()
