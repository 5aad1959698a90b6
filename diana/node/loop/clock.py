"""Site time: seconds that never run backwards, also over restarts. The wall clock only gives the first value."""

from __future__ import annotations

import time


class SiteClock:
    """Starts at the later of the wall clock and `last_s`, the latest site time in the journal; then runs with the
    machine's clock since boot, so that a wall clock that jumps changes nothing, and a machine that slept knows how
    long: leases do not wait for it."""

    def __init__(self, last_s: float) -> None:
        self._base = max(last_s, time.time()) - _boot_s()

    def now_s(self) -> float:
        return self._base + _boot_s()


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
