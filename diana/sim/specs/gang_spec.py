"""Questions put to the code that places gangs, with the answers expected: idle processors and a request, claiming
times, the order of scans; no grid is run for them (SPEC K2, K4, K5). And what communication between sites costs the
gangs of a grid that is run (SPEC K9)."""

from __future__ import annotations

import msgspec


class PlacementQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sites: dict[str, int]
    """Idle processors of each site, in order."""
    request: str
    """`3x8`: three components of 8 processors; `2x16+1x8`: unlike ones; `flexible 24`: 24 in components of any size."""
    policy: str
    """WF, CF, CM or FCM, or the policy's whole name."""
    expect: tuple[str, ...] = ()
    """The site of each component; in a flexible request `18@C1`. Empty: it must find no place."""


class ClaimQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    placed_s: float
    """JPT."""
    transfer_s: float
    """FTT."""
    part: float = 0.75
    """L."""
    tries: int = 4
    """Number of tries that are told."""
    expect: tuple[float, ...] = ()
    """JCT of each try."""


class ScanQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    higher: int = 1
    """N_h."""
    lower: int = 1
    """N_l."""
    n1: int = 1
    """Scans of the super-high queue each time."""
    n2: int = 2
    """Scans of the high queue."""
    n3: int = 1
    """Scans of the low queue."""
    n4: int = 1
    """Scans of the super-low queue."""
    expect: tuple[str, ...] = ()
    """Levels of one round: SH, H, L, SL."""


class GangTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    placements: tuple[PlacementQuestion, ...] = ()
    """Requests, each with the idle processors of the sites."""
    claims: ClaimQuestion | None = None
    """Times at which a gang claims its processors."""
    scan: ScanQuestion | None = None
    """Levels in the order in which their queues are scanned."""


class CommunicationSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A gang runs as long as declared, times a factor by the number of sites that its components run at."""

    slowdown: tuple[float, ...] = ()
    """Factors over 1, 2, 3, ... sites, the last for all more; of gangs that name no application. None: they run as fast
    over many sites."""
    applications: dict[str, tuple[float, ...]] = {}
    """Name of an application -> its factors."""
