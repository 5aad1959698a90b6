"""State of the other sites and of this site's own machines, as an operator asks for it (SPEC U2, U10)."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId


class PeerStanding(msgspec.Struct, frozen=True, kw_only=True):
    """Another site, as this site's engine knows it."""

    site: SiteId
    state: str
    """alive, suspect, unreachable, lost, left or banned."""
    note: str
    """Reason why it is banned or takes no work."""
    age_s: float
    """Seconds since anything was heard of it."""
    summary_age_s: float
    """Seconds since its newest summary came, from itself or through others; negative: none came."""
    address: str
    """host:port; empty: it can only dial out, or nobody said."""
    via: tuple[SiteId, ...]
    """Sites it says it has streams to."""
    release: str
    rtt_s: float
    """Negative: not measured."""
    held_here: bool
    """True while this site wants a stream to it to stand."""
    held_there: bool
    """True while the other site wants one, as far as it has told."""


class MachineStanding(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of this site, as a worker."""

    machine: str
    own: bool
    """True for the machine that answers, which leads."""
    here: bool
    away_s: float
    """Seconds since it went away; negative: it is here, or has not been here since this node started."""
    slots: int
    used_slots: int
    jobs: int
    """Jobs the machine holds, those claimed ahead of a free slot included."""
    trouble: str = ""
    """Fault of the machine, one line; empty: none."""
    scratch_bytes: int = 0
    """Size of the disk where its jobs have their scratch directories; 0: not known."""
    scratch_free_bytes: int = -1
    """Bytes of it that are there for jobs and promised to none; -1: not known."""
    availability: float = -1.0
    """Share of time for which the machine may be counted on; negative: this site does not count that machine."""
    known_s: float = 0.0
    """Seconds for which it is known whether it was there; older ones count less."""
    here_s: float = 0.0
    """Those of them for which it was."""
    goings: float = 0.0
    """Times it went away unplanned; older ones count less."""
    has: tuple[tuple[str, int], ...] = ()
    """(name, how many) of what it hands out to jobs by number: `gpus`, and what its operator declares."""


class Peers(msgspec.Struct, frozen=True):
    peers: tuple[PeerStanding, ...]
    machines: tuple[MachineStanding, ...]
    twins: tuple[tuple[SiteId, str], ...] = ()
    """Sites whose name two nodes show, this site included, and the nodes' addresses."""
    nonsense: int = 0
    """Messages of peers refused since this node started: from the wrong site, or about something impossible."""
    late_words: int = 0
    """Messages about placements that count no more, since this node started."""
    fallen: str = ""
    """Who knows that this site's database is an older copy, in words: nothing is taken, placed or started any more.
    Empty: it is not known to be one."""
    waits_for: str = ""
    """Why nothing of this site's own is taken or placed yet, which a peer's word or an operator's ends."""
    denied_by: tuple[SiteId, ...] = ()
    """Sites that say that they know a later state of this site's database: their own jobs wait here."""
    maintenance: str = ""
    """Maintenance of this site that is under way or planned next: one line."""
    to_lead: str = ""
    """Machine that ought to lead in the leader's place, being more available; empty: the leader goes on."""
    why_to_lead: str = ""
    """Reason why that machine ought to, or why the leader goes on: one line."""
    to_stand_by: str = ""
    """Machine that ought to be the standby by its availability, the present one included; empty: nothing is counted."""
    elects: bool = False
    """True where the leader hands over by itself."""
    forecast_error: float = 0.0
    """Median of |true / foretold end - 1| over the groups scored last; they are this site's own."""
    forecasts: int = 0
    """Number of groups that this rests on; 0: too few, the error means nothing."""
    ranges_held: float = 0.0
    """Share of the ranges of ends told last that held the true end; 0.8 is meant."""
    ranges: int = 0
    """Number of ranges that this rests on."""
