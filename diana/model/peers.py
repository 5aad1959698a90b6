"""How the other sites and this site's own machines stand, as an operator asks for it (SPEC U2, U10)."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId


class PeerStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A site, by what this one's engine knows of it."""

    site: SiteId
    state: str
    """alive, suspect, unreachable, lost, left or banned."""
    note: str
    """Why it is banned or takes no work."""
    age_s: float
    """Since anything was heard of it."""
    summary_age_s: float
    """Since its newest summary came, from itself or by others; negative: none did."""
    address: str
    """host:port; empty: it can only dial out, or nobody said."""
    via: tuple[SiteId, ...]
    """Sites it says it has streams to."""
    release: str
    rtt_s: float
    """Negative: not measured."""
    held_here: bool
    """This site wants a stream to it to stand."""
    held_there: bool
    """The other one does, as far as it has told."""


class MachineStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of this site, as a worker."""

    machine: str
    own: bool
    """The one that answers, which leads."""
    here: bool
    away_s: float
    """Negative: it is here, or never was since this node started."""
    slots: int
    used_slots: int
    jobs: int
    """It holds, those claimed ahead of a free slot included."""
    trouble: str = ""
    """What is wrong with it: one line."""


class Peers(msgspec.Struct, frozen=True):
    peers: tuple[PeerStanding, ...]
    machines: tuple[MachineStanding, ...]
    twins: tuple[tuple[SiteId, str], ...] = ()
    """Sites whose name two nodes show, this one's too, and where these are."""
    nonsense: int = 0
    """Words of peers that were refused since this node started: from the wrong site, or about what cannot be."""
    late_words: int = 0
    """About placements that count no more."""
    maintenance: str = ""
    """What is planned next for this site, or lasts now: one line."""
