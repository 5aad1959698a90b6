"""Messages between sites before queued work moves away from a congested one (SPEC D7; paper sections IX, X).

None of them is kept: whatever is lost is said again a few seconds later, or the work stays where it is.
"""

from __future__ import annotations

import msgspec

from diana.engine.messages.wanted import Wanted
from diana.model.ids import GroupId, SiteId, SubgroupId


class Surplus(msgspec.Struct, frozen=True, kw_only=True):
    """Executing site to origin: these wait here and may go to another site, if one has them through earlier."""

    groups: tuple[SurplusGroup, ...]
    reason: str = ""
    """Why the site would let them go, for whoever asks later: its arrivals and starts, or what no machine has."""
    unfit: bool = False
    """True if no machine there has what they need any more, as `reason` says: they can only go."""
    invited: tuple[SiteId, ...] = ()
    """Idle sites that asked for work of late. Their origin asks these for quotes too."""


class WorkInvited(msgspec.Struct, frozen=True, kw_only=True):
    """Idle site to a site with waiting work: it may let some go (section X)."""

    free_slots: int
    """Processors that stand idle and are promised to nobody."""


class SurplusGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one group on one level, alike in all that counts here. The figures are those of the last of them."""

    group: GroupId
    parts: tuple[SubgroupId, ...]
    """Parts the jobs belong to, in queue order."""
    epochs: tuple[int, ...]
    """Epoch of each part."""
    jobs: tuple[int, ...]
    """Number of jobs of each part: its last ones."""
    priority: float
    jobs_ahead: int
    """Jobs ahead of the last of them, its own before it included."""
    ends_s: float
    """Seconds from now until the last of them is through here."""
    processors_per_s: float
    """Processors that come free here for such jobs, per second."""
    data_elsewhere: bool = False
    """True if inputs that they read are not here yet."""


class RoomRequest(Wanted, frozen=True, kw_only=True):
    """Origin to receiver: how many of `jobs` jobs could it start within the gain that justifies their move?"""

    room: int
    """Number of the room that is kept, chosen by the asker. It rises from boot to boot."""
    gain_s: float
    """Seconds within which a job must start, or it is not to come."""
    behind: bool = False
    """True if they get no raise: room is what is left behind all that waits, as in QuoteRequest."""


class RoomGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The receiver's answer: it keeps room for so many, for a while."""

    room: int
    jobs: int
    """Jobs that room is kept for; 0: none."""
    reason: str = ""
    """Why room is not kept for all; empty: it is."""
