"""Messages about work that is bound to no site yet: its origin reserves a turn at several sites, and the site whose
turn comes calls for it.

None of them is kept: whatever is lost is said again, and the origin's commit alone binds a job.
"""

from __future__ import annotations

import msgspec

from diana.model.ids import GroupId


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """Origin to site: so many jobs of this group are bound to no site and wait for their turn here too. The other
    fields are as in a QuoteRequest."""

    group: GroupId
    seq: int
    """The highest counts."""
    jobs: int
    """Jobs that may be called; 0: none any more."""
    share: int
    """Thousandths of a job that they count here, all together: over all sites each job counts once."""
    called: int
    """Number of the site's last call that the origin has answered."""
    processors: int
    submitted_s: float
    stage_s: float
    """Seconds to bring one job's inputs there, as the origin expects."""
    memory_bytes: int = 0
    gpus: int = 0
    owner: str = ""
    template: str = ""
    work_s: float = 0.0
    time_limit_s: float = 0.0
    urls: tuple[str, ...] = ()
    software: tuple[str, ...] = ()
    program: str = ""
    group_work_s: float = 0.0
    group_bytes: int = 0
    scratch_bytes: int = 0
    begins_before_s: float = 0.0


class TurnCall(msgspec.Struct, frozen=True, kw_only=True):
    """Site to origin: the turn of so many jobs of the group has come here, or none may begin here."""

    group: GroupId
    call: int
    """Number of the call; it rises with each, from boot to boot too."""
    jobs: int
    stopped: str = ""
    """Why the guard lets none begin here (`jobs` is 0 then); empty: it does."""
