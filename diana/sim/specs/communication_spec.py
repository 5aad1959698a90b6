"""What communication between sites costs the gangs of a scenario (SPEC K9)."""

from __future__ import annotations

import msgspec


class CommunicationSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A gang runs as long as declared, times a factor by the number of sites that its components run at."""

    slowdown: tuple[float, ...] = ()
    """Factors over 1, 2, 3, ... sites, the last for all more; of gangs that name no application. None: they run as fast
    over many sites."""
    applications: dict[str, tuple[float, ...]] = {}
    """Name of an application -> its factors."""
