"""Messages about work that is bound to no site yet: its origin reserves a turn at several sites, and the site whose
turn comes calls for it.

None of them is kept: whatever is lost is said again, and the origin's commit alone binds a job.
"""

from __future__ import annotations

import msgspec

from diana.engine.messages.wanted import Wanted
from diana.model.ids import GroupId


class Reserve(Wanted, frozen=True, kw_only=True):
    """Origin to site: so many jobs of this group are bound to no site and wait for their turn here too."""

    group: GroupId
    seq: int
    """The highest counts."""
    jobs: int
    """Jobs that may be called; 0: none any more."""
    share: int
    """Thousandths of a job that they count here, all together: over all sites each job counts once."""
    called: int
    """Number of the site's last call that the origin has answered."""
    submitted_s: float
    stage_s: float
    """Seconds to bring one job's inputs there, as the origin expects."""


class TurnCall(msgspec.Struct, frozen=True, kw_only=True):
    """Site to origin: the turn of so many jobs of the group has come here, or none may begin here."""

    group: GroupId
    call: int
    """Number of the call; it rises with each, from boot to boot too."""
    jobs: int
    stopped: str = ""
    """Why the guard lets none begin here (`jobs` is 0 then); empty: it does."""
