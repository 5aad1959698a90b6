"""What a site remembers of moves in the making: volatile, since whatever is lost is looked at again (SPEC D7)."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.settings import Settings
from diana.policy.capacity import Promises
from diana.policy.congestion import Window
from diana.policy.migrants import Budget, MigrationSettings

ROOM_S = 60.0
"""Room that was kept and not used by then is free again: a recall with its retries is through or given up."""
MOST_LOOKED = 10_000


class Asked(NamedTuple):
    """Room was asked for these at `to`."""

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
        """When this site next looks what of its queues might go."""
        self.priced: set[GroupId] = set()
        """Groups of this site for which quotes or room are awaited."""
        self.asked: dict[int, Asked] = {}
        """Room -> for whom."""
        self.kept: dict[GroupId, tuple[str, ...]] = {}
        """Why what might have moved stays, at the last look."""
        self.rooms = Promises(ROOM_S)
        """Kept here for others, in processors."""
        self._due_s: list[float] = []
        """A heap: by when those for whom room was made are to have started."""
        self._looked_s: dict[tuple[GroupId, SiteId], float] = {}
        self._budget = Budget.full(migration_settings(settings), now)

    def configure(self, settings: Settings, now: float) -> None:
        if settings.migration_window_s != self._window_s:
            self._window_s = settings.migration_window_s
            self.rates = Window(now, settings.migration_window_s)

    def due(self, now: float, gain_s: float) -> None:
        """Room was made for work that is to start within so long."""
        if len(self._due_s) < MOST_LOOKED:
            heappush(self._due_s, now + gain_s)

    def within_s(self, now: float) -> float:
        """Who comes next may push none back that came before: the queue knows nothing of their gains, and those with
        the larger may stand first. So it is to start within the shortest time that any of them has left."""
        while self._due_s and self._due_s[0] <= now:
            heappop(self._due_s)
        return self._due_s[0] - now if self._due_s else inf

    def looked(self, group: GroupId, site: SiteId, now: float, again_s: float) -> bool:
        """Whether it was looked at within `again_s`; from now on it was."""
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
