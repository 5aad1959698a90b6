"""Sites as they are shown, with the entries of the black-hole guard at each."""

from __future__ import annotations

import msgspec

from diana.model.views.shown import Shown


class Guarded(Shown, frozen=True):
    """An entry of the black-hole guard: the work it holds back at a site."""

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


class Site(Shown, frozen=True):
    site: str
    home: bool = False
    state: str = ""
    """alive, suspect (missed, others are asked), unreachable (from here), lost (by everybody), left (said goodbye)."""
    age_s: float = 0.0
    slots: int = 0
    free_slots: int = 0
    speed: float = 0.0
    queued_jobs: int = 0
    running_jobs: int = 0
    work_ahead_s: float = 0.0
    rtt_s: float = 0.0
    bytes_per_s: float = 0.0
    """This and the round trip are negative where they were not measured."""
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
    domain: str = ""
    """Name that requirements know it by; empty: none."""
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    """Name -> text that its operator declares, for requirements."""
    memory_bytes: int = 0
    """Most memory of one job; 0: not known."""
    gpus: int = 0
    """GPUs of all its machines."""
    resources: dict[str, int] = msgspec.field(default_factory=dict)
    """Declared resource -> most of it that one job may have."""
