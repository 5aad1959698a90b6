"""A site's memory of moves in the making. Volatile, since whatever is lost is looked at again (SPEC D7)."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.settings import Settings
from diana.policy.migration.capacity import Promises
from diana.policy.migration.congestion import Window
from diana.policy.migration.migrants import Budget, MigrationSettings

ROOM_S = 60.0
"""Seconds until room that was kept and not used is free again: a recall with its retries is through or given up."""
MOST_LOOKED = 10_000


class Asked(NamedTuple):
    """Jobs that room was asked for at `to`."""

    group: GroupId
    to: SiteId
    parts: tuple[tuple[SubgroupId, IndexSet], ...]
    why: str
    gain_s: float


class MigrationBook:
    def __init__(self, settings: Settings, now: float) -> None:
        self.rates = Window(now, settings.migration_window_s)
        self._window_s = settings.migration_window_s
        self.look_due_s = -inf
        """Site time of the next look which jobs of its queues might go."""
        self.priced: set[GroupId] = set()
        """Groups of this site for which quotes or room are awaited."""
        self.asked: dict[int, Asked] = {}
        """Number of the room -> the jobs it was asked for."""
        self.kept: dict[GroupId, tuple[str, ...]] = {}
        """Group -> why its jobs that might have moved stay, by the last look."""
        self.rooms = Promises(ROOM_S)
        """Rooms kept here for others, in processors."""
        self._due_s: list[float] = []
        """Heap of the site times by which jobs that room was made for are to have started."""
        self._looked_s: dict[tuple[GroupId, SiteId], float] = {}
        self._budget = Budget.full(migration_settings(settings), now)

    def configure(self, settings: Settings, now: float) -> None:
        if settings.migration_window_s != self._window_s:
            self._window_s = settings.migration_window_s
            self.rates = Window(now, settings.migration_window_s)

    def due(self, now: float, gain_s: float) -> None:
        """Note that room was made for work that is to start within `gain_s`."""
        if len(self._due_s) < MOST_LOOKED:
            heappush(self._due_s, now + gain_s)

    def within_s(self, now: float) -> float:
        """Return the seconds within which further work is to start here: the shortest time that any work with room has
        left; inf: none has room. Later work may push back none that came before it: the queue knows nothing of the
        gains, and the work with the larger gain may stand first."""
        while self._due_s and self._due_s[0] <= now:
            heappop(self._due_s)
        return self._due_s[0] - now if self._due_s else inf

    def looked(self, group: GroupId, site: SiteId, now: float, again_s: float) -> bool:
        """True if the group was looked at for this site within `again_s`; if not, note that it is looked at now."""
        key = (group, site)
        if self._looked_s.get(key, -inf) > now - again_s:
            return True
        if len(self._looked_s) >= MOST_LOOKED:
            self._looked_s = {one: at for one, at in self._looked_s.items() if at > now - again_s}
        self._looked_s[key] = now
        return False

    def moves_left(self, settings: Settings, now: float) -> int:
        self._budget = self._budget.at(migration_settings(settings), now)
        return int(self._budget.left)

    def moved(self) -> None:
        self._budget = self._budget.spent(1)


def migration_settings(settings: Settings) -> MigrationSettings:
    return MigrationSettings(minimum_gain_s=settings.migration_gain_s, moves_per_minute=settings.moves_per_minute)
