"""What sites say to each other before queued work moves away from a congested one (SPEC D7; paper sections IX, X).

None of it is kept: whatever is lost is said again a few seconds later, or the work stays where it is.
"""

from __future__ import annotations

import msgspec

from diana.model.ids import GroupId, SubgroupId


class Surplus(msgspec.Struct, frozen=True, kw_only=True):
    """Executing site to origin: these wait here and may go to another site, if one has them through earlier."""

    groups: tuple[SurplusGroup, ...]
    reason: str = ""
    """What comes and what starts here, for whoever asks later why they went."""
    unfit: bool = False
    """No machine there has what they need any more, as the reason says: they can only go."""


class SurplusGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one group on one level, alike in all that counts here, told of the last of them."""

    group: GroupId
    parts: tuple[SubgroupId, ...]
    """In queue order."""
    epochs: tuple[int, ...]
    """Of each part."""
    jobs: tuple[int, ...]
    """So many of each part, the last ones of it."""
    priority: float
    jobs_ahead: int
    """Ahead of the last of them, its own before it included."""
    ends_s: float
    """When that one is through here, seconds from now."""
    processors_per_s: float
    """That come free here for such jobs."""
    data_elsewhere: bool = False
    """What they read is not here yet."""


class RoomRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Origin to receiver: how many of so many jobs could it start within the gain that justifies their move? The other
    fields as in a QuoteRequest."""

    room: int
    """Chosen by the asker; names the room that is kept. It rises from boot to boot."""
    jobs: int
    gain_s: float
    processors: int
    memory_bytes: int = 0
    gpus: int = 0
    owner: str = ""
    template: str = ""
    work_s: float = 0.0
    urls: tuple[str, ...] = ()
    software: tuple[str, ...] = ()


class RoomGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The receiver's answer: it keeps room for so many, for a while."""

    room: int
    jobs: int
    """0: for none."""
    reason: str = ""
    """Why not for all."""
