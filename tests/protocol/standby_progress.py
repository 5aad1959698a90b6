"""From where the standby's model makes progress once all that can heal has healed.

Progress is a new record that gets acknowledged (and, where there is a job, its result). Healing begins with every
message lost. "Stuck" would be a state from which no order of events leads there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from tests.protocol.search import stuck
from tests.protocol.standby import Standby
from tests.protocol.standby_setting import Setting, World
from tests.protocol.standby_state import NEW, RESULT, InSync, State

FURTHER_TERMS = 4
"""Terms that healing may need: one to take over, one to go on alone, one to take the other back, one to spare."""


@dataclass(frozen=True)
class Healing:
    """A sentence about progress: of which states, in which world."""

    sentence: str
    begins: Callable[[State], bool]
    world: World

    def stuck(self, on: Setting, reached: Iterable[State]) -> tuple[int, list[State]]:
        """Number of states in `reached` that the sentence speaks of, and those of them from which there is no
        progress."""
        terms = on.bound.terms + FURTHER_TERMS
        healed = Standby(replace(on.with_terms(terms), world=self.world))
        subjects = [s for s in reached if self.begins(s)]
        starts = ((s, healed.after_all_messages_are_lost(s)) for s in subjects)
        return len(subjects), stuck(healed, starts, progressed)


def progressed(s: State) -> bool:
    """A new record is acknowledged, and the job's result if there is a job."""
    told = {what for what, _ in s.acknowledged}
    return NEW in told and (not s.workers or RESULT in told)


def in_sync_still(s: State, i: int) -> bool:
    """The register counts on replica `i` with the disk it has."""
    return InSync(i, s.replicas[i].db_uuid) in s.register.in_sync


def someone_in_sync(s: State) -> bool:
    """A replica that the register counts on still has its disk."""
    return in_sync_still(s, 0) or in_sync_still(s, 1)


def established(s: State) -> bool:
    """The register's leader leads its term and needs nothing of the witness: alone, or with its standby following."""
    leads = s.register.leader
    leader, other = s.replicas[leads], s.replicas[1 - leads]
    if leader.role != "leader" or leader.term != s.register.term:
        return False
    follows = other.role == "follower" and other.term <= s.register.term and other.db_uuid == leader.peer_db
    return leader.durability == 1 or (follows and in_sync_still(s, 1 - leads))


HEALINGS = (
    Healing("all heals, no operator comes", someone_in_sync, World(faults=False, operator=False)),
    Healing("all heals, no disk in sync is left: an operator", lambda s: not someone_in_sync(s), World(faults=False)),
    *(
        Healing(
            f"{dead} is dead for good, the other was in sync",
            lambda s, other=1 - dead: in_sync_still(s, other),  # type: ignore[misc]
            World(faults=False, operator=False, dead=dead),
        )
        for dead in (0, 1)
    ),
    *(
        Healing(
            f"{dead} is dead for good, the other was not in sync but has followed: an operator",
            lambda s, other=1 - dead: not in_sync_still(s, other) and s.replicas[other].term > 0,  # type: ignore[misc]
            World(faults=False, dead=dead),
        )
        for dead in (0, 1)
    ),
    Healing("the witness stays away: an established leader goes on", established, World(faults=False, witness=False)),
)
UNESTABLISHED = Healing(
    "the witness stays away and no leader is established",
    lambda s: not established(s),
    World(faults=False, witness=False),
)
"""The one case without progress: no role changes without the witness."""
