"""The state of a site's disk. Whoever lets faults happen changes it; the site asks at each commit."""

from __future__ import annotations

from collections.abc import Callable

LOW = "100 MiB are left on its disk (ordered by the simulation)"


class Disk:
    """`draw_s` gives how long one commit takes while the disk is slow."""

    __slots__ = ("_commit_s", "_draw_s", "breaks", "full_until_s", "slow_until_s")

    def __init__(self, commit_s: float, draw_s: Callable[[], float]) -> None:
        self._commit_s = commit_s
        self._draw_s = draw_s
        self.slow_until_s = 0.0
        self.full_until_s = 0.0
        self.breaks: bool | None = None
        """True or False: the next commit fails; True: it is kept all the same, and nobody learns it. None: it does not
        fail."""

    def commit_s(self, now_s: float) -> float:
        return self._draw_s() if now_s < self.slow_until_s else self._commit_s

    def low(self, now_s: float) -> str:
        """The shortage of room as `RoomChecked` says it; empty: there is room."""
        return LOW if now_s < self.full_until_s else ""

    def heal(self) -> None:
        self.slow_until_s = self.full_until_s = 0.0
        self.breaks = None
