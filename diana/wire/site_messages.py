"""Sites as they are shown (`client.proto`), with what the black-hole guard holds back at each."""

from __future__ import annotations

from diana.wire.client_base import Base as _Message


class Guarded(_Message, frozen=True):
    group: str = ""
    """Empty: any group that is new there."""
    machine: str = ""
    """Of the site; empty: all of it."""
    stand: str = ""
    """probation (one job is tried now and then), barred (no more of the group)."""
    since_wall_s: float = 0.0
    until_wall_s: float = 0.0
    """Both in seconds since 1970. The next try is due then; 0: there is none by itself."""
    why: str = ""
    lifts: str = ""
    """What ends it, in words."""


class Site(_Message, frozen=True):
    site: str
    home: bool = False
    state: str = ""
    age_s: float = 0.0
    slots: int = 0
    free_slots: int = 0
    speed: float = 0.0
    queued_jobs: int = 0
    running_jobs: int = 0
    work_ahead_s: float = 0.0
    rtt_s: float = 0.0
    bytes_per_s: float = 0.0
    release: str = ""
    datasets: tuple[str, ...] = ()
    note: str = ""
    """Why it takes no work, drained or banned, or what is wrong with it: refused, two nodes; and the reason."""
    machines: int = 0
    """Of the site; 0: it has not said."""
    guarded: tuple[Guarded, ...] = ()
    """What the black-hole guard holds back there, as the node that is asked knows it; the latest first."""
    guarded_more: int = 0
    """Beyond those."""


class SitesResponse(_Message, frozen=True):
    sites: tuple[Site, ...] = ()
