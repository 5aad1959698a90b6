"""A site's memory of moves in the making. Volatile, since whatever is lost is looked at again (SPEC D7)."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from diana.engine.messages.migration import SurplusGroup
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.settings import Settings
from diana.policy.migration.migrants import Budget, MigrationSettings

MOST_LOOKED = 10_000


class Export(NamedTuple):
    """The waiting jobs of one group that a congested site would let go."""

    told: SurplusGroup
    site: SiteId
    """The site where they wait."""
    parts: tuple[tuple[SubgroupId, IndexSet], ...]
    """(subgroup, jobs that may move), in queue order there."""
    among: tuple[SiteId, ...]
    """Other sites that may have them through earlier, by their summaries."""
    reason: str
    invited: tuple[SiteId, ...] = ()
    """Those of `among` that invited its work."""


class Asked(NamedTuple):
    """Jobs that room was asked for at `to`."""

    group: GroupId
    to: SiteId
    parts: tuple[tuple[SubgroupId, IndexSet], ...]
    why: str
    gain_s: float
    behind: bool
    """True if they get no raise there."""
    invited: bool = False
    """True if `to` had invited work."""


class LongerPause(NamedTuple):
    """A pause that doubles with each try in vain."""

    tries: int = 0
    until_s: float = -inf

    def again(self, now: float, first_s: float, most_s: float) -> LongerPause:
        return LongerPause(self.tries + 1, now + min(most_s, first_s * 2.0 ** min(self.tries, 30)))


class MigrationBook:
    def __init__(self, settings: Settings, now: float) -> None:
        self.look_due_s = -inf
        """Site time of the next look which jobs of its queues might go."""
        self.priced: set[GroupId] = set()
        """Groups of this site for which quotes or room are awaited."""
        self.asked: dict[int, Asked] = {}
        """Number of the room -> the jobs it was asked for."""
        self.kept: dict[GroupId, tuple[str, ...]] = {}
        """Group -> why its jobs that might have moved stay, by the last look."""
        self.idle_since_s: float | None = None
        """Site time since when it has idle slots and nothing waits; None: it does not."""
        self.invite_due_s = -inf
        self.invite_round = 0
        self.inviting: dict[SiteId, LongerPause] = {}
        """Peer -> pause before it is invited again."""
        self.inviters: set[SiteId] = set()
        """Idle sites that invited work since the last look at the queues."""
        self.heard: dict[SiteId, float] = {}
        """Idle site -> site time at which an invitation of its was taken in last."""
        self.invited_look_s = -inf
        """Site time before which no invitation makes this site look at its queues."""
        self.vain: dict[SiteId, LongerPause] = {}
        """Site that invited work and refused it -> pause in which its invitations count for nothing."""
        self._looked_s: dict[tuple[GroupId, SiteId], float] = {}
        self._budget = Budget.full(migration_settings(settings), now)

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
    return MigrationSettings(migration_gain_s=settings.migration_gain_s, moves_per_minute=settings.moves_per_minute)
