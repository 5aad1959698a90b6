"""Messages about the state of sites, machines and the node itself, for its operator."""

from __future__ import annotations

from diana.wire.client.base import Message


class PeerRow(Message, frozen=True):
    site: str
    state: str = ""
    """alive, suspect, unreachable, lost, left or banned."""
    note: str = ""
    """Note on the site: why it is banned or takes no work, that it refuses us, or that two nodes have its name."""
    age_s: float = 0.0
    summary_age_s: float = 0.0
    """Age of its newest summary; negative: none came."""
    address: str = ""
    """host:port; empty: it can only dial out, or nobody said."""
    via: tuple[str, ...] = ()
    """Sites it says it has streams to."""
    release: str = ""
    rtt_s: float = 0.0
    """Round trip; negative: not measured."""
    held: str = ""
    """Side that wants the stream to stand: here, there, both; empty: neither."""
    link: str = ""
    """out (dialled from here), in (dialled from there), `via SITE` (a tunnel); empty: no stream stands."""
    streams: int = 0
    """Number of connections to it now: one for messages, one for data."""
    dials_out_only: bool = False
    """True if, seen from here, its address does not answer."""


class Count(Message, frozen=True):
    what: str
    count: int = 0


class MachineRow(Message, frozen=True):
    machine: str
    role: str = ""
    """RootGrid, standby or member."""
    state: str = ""
    """here or away."""
    away_s: float = 0.0
    """Seconds since it went away; negative: it is here."""
    slots: int = 0
    used_slots: int = 0
    jobs: int = 0
    note: str = ""
    """Note on a standby: whether it has every acknowledged entry."""
    scratch_bytes: int = 0
    """Size of the disk where its jobs have their scratch directories; 0: not known, nothing is checked."""
    scratch_free_bytes: int = 0
    """Bytes of it that are there for jobs and promised to none; of a known disk only, negative: not known."""
    availability: float = 0.0
    """Share of time for which the machine may be counted on, recent time most; 0: not counted."""
    known_s: float = 0.0
    """Seconds for which it is known whether it was there; older ones count less."""
    goings: float = 0.0
    """Times it went away unplanned; older ones count less."""
    here_s: float = 0.0
    """Seconds of `known_s` for which it was there."""
    has: tuple[Count, ...] = ()
    """Devices that it hands out to jobs: `gpus`, and what its operator declares."""


class PeersResponse(Message, frozen=True):
    site: str
    """The site that answers."""
    peers: tuple[PeerRow, ...] = ()
    machines: tuple[MachineRow, ...] = ()
    counts: tuple[Count, ...] = ()
    """Counts of peer streams since the node started."""
    witness: str = ""
    """Site that arbitrates between the leading machine and the standby; empty: none."""
    relayed_by: tuple[str, ...] = ()
    """Neighbours that cannot dial this site and relay to it."""
    relays_to: tuple[str, ...] = ()
    """Sites this one relays to."""
    to_lead: str = ""
    """Machine that ought to lead in the leader's place, being more available; empty: the leader goes on."""
    why_to_lead: str = ""
    """Reason why that machine ought to lead, or why the leader goes on."""
    to_stand_by: str = ""
    """Machine that ought to be the standby by its availability; empty: the site counts none."""
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
    more: bool = False
    """True if there are more sites than one answer holds: these are the first, sites that were met before others."""


class CheckResult(Message, frozen=True):
    name: str
    state: str
    """ok, warn or fail."""
    found: str = ""
    mend: str = ""
    """Advice to mend it; empty: none is needed."""


class DoctorResponse(Message, frozen=True):
    checks: tuple[CheckResult, ...] = ()


class MetricsResponse(Message, frozen=True):
    text: str = ""
    """Metrics in Prometheus's text format 0.0.4."""
