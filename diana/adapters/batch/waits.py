"""The time that jobs of ours wait for others', learned where a batch system makes no estimate. Pure."""

from __future__ import annotations

_FRESH = 0.5
"""Weight of the newest wait."""


class QueueWaits:
    """A wait counts for an array that found nothing of ours before it: what it waited for was others'. Times are
    seconds of one clock."""

    def __init__(self) -> None:
        self._since_s: dict[int, float] = {}
        self._mean_s = 0.0

    def submitted(self, array: int, now_s: float, *, alone: bool) -> None:
        if alone:
            self._since_s.setdefault(array, now_s)

    def began(self, array: int, now_s: float) -> None:
        """Note that an array's first task was seen to run, or to be over."""
        since_s = self._since_s.pop(array, None)
        if since_s is not None:
            self._mean_s += _FRESH * (now_s - since_s - self._mean_s)

    def gone(self, array: int) -> None:
        """Note that an array never began."""
        self._since_s.pop(array, None)

    def expected_s(self, now_s: float) -> float:
        """Return the wait of a job that came now: as of late, and no less than waiting jobs have waited already."""
        return max((self._mean_s, *(now_s - since_s for since_s in self._since_s.values())))
