"""Messages about sites as they are shown (`client.proto`), with the entries of the black-hole guard at each."""

from __future__ import annotations

from diana.wire.client.base import Message


class Guarded(Message, frozen=True):
    group: str = ""
    """The group held back; empty: any group that is new there."""
    machine: str = ""
    """The machine of the site; empty: the whole site."""
    stand: str = ""
    """probation (one job is tried now and then), barred (no more of the group)."""
    since_wall_s: float = 0.0
    until_wall_s: float = 0.0
    """Time of the next try; 0: there is none by itself. Both times in seconds since 1970."""
    why: str = ""
    lifts: str = ""
    """The event that ends it, in words."""


class Site(Message, frozen=True):
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
    """Note on the site: why it takes no work (drained or banned), or its fault (refused, two nodes), and the reason."""
    machines: int = 0
    """Number of machines of the site; 0: it has not said."""
    guarded: tuple[Guarded, ...] = ()
    """Entries of the black-hole guard for that site, as the node that is asked knows them; the latest first."""
    guarded_more: int = 0
    """Number of further entries of the guard."""


class SitesResponse(Message, frozen=True):
    sites: tuple[Site, ...] = ()
