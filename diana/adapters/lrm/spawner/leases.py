"""Leases as the spawner keeps them: runs that name a lease may run until it ends. The node may be stopped meanwhile,
and the spawner that was told of it gone: its successor finds the same end in the log (PROMISES section 2, "Leases")."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from diana.adapters.lrm.spawner.table import ClaimTable


class Leases:
    """Times are by CLOCK_BOOTTIME, which goes on while the machine sleeps."""

    def __init__(self, table: ClaimTable) -> None:
        self._stand = table.leases
        self._table = table
        self._ends: list[tuple[float, str]] = []

    def begin(self) -> None:
        """Take up the leases of an earlier spawner."""
        self._ends = [(until_s, name) for name, until_s in self._stand.items()]
        heapify(self._ends)

    def told(self, name: str, until_s: float) -> None:
        """Note a lease's end; one that is not later than before changes nothing."""
        if until_s > self._stand.get(name, 0.0):
            self._table.lease(name, until_s)
            heappush(self._ends, (until_s, name))

    def stands(self, name: str, now_s: float) -> bool:
        return now_s < self._stand.get(name, 0.0)

    def names(self) -> set[str]:
        return set(self._stand)

    def next_s(self) -> float:
        """Return the time at which the first lease ends at the earliest; infinite: none stands."""
        return self._ends[0][0] if self._ends else float("inf")

    def over(self, now_s: float) -> list[tuple[str, float]]:
        """Return the leases that have ended since, and when each did."""
        out = []
        while self._ends and self._ends[0][0] <= now_s:
            until_s, name = heappop(self._ends)
            if self._stand.get(name) == until_s:
                del self._stand[name]
                out.append((name, until_s))
        return out
