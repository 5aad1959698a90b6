"""Views of a site's queues, for its users and for other sites whose users ask. Values, never state."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId, SubgroupId


class QueueClass(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that share a priority: one (user, processors, offset, age step, demoted or not, local or global)."""

    user: str
    processors: int
    """t: processors of one job."""
    queue: str
    """local or global."""
    level: str
    """Q1 to Q4."""
    priority: float
    """Effective: base, ageing and offset, half a level's width less when demoted; in [-1, 1)."""
    base: float
    """Pr as of the last time all priorities were computed."""
    ageing: float
    offset: float
    demoted: bool
    allowance: float
    """N as of the same time."""
    n: int
    """n: jobs the user has queued here now."""
    jobs: int
    ready: int
    """Those of the jobs whose inputs are here."""
    parts: tuple[SubgroupId, ...]
    """Some of the subgroups they belong to; empty where the asker may not see whose they are."""
    low_s: float
    high_s: float
    """Range from now in which its next job is predicted to start; negative: nothing is predicted."""


class QueueUser(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    quota: float
    queued: int
    """n: jobs the user has queued here."""
    running: int
    queued_share: float
    """The user's share of the processors that all queued jobs want."""
    quota_share: float
    """The user's share of the quotas of those who have jobs here."""
    served_share: float
    """The user's share of the service given here: jobs started, older ones counting less."""


class LittlesCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Little's law N = R W, each term measured by itself over a sliding window."""

    window_s: float
    mean_queued: float
    """N: mean length of the queue, in jobs."""
    arrivals_per_s: float
    """R: arrivals per second."""
    mean_wait_s: float
    """W: mean wait of the jobs that left the queue."""
    deviation: float
    """N - R W, in jobs; 0 when as many jobs leave as come."""
    arrived: int
    left: int


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    mode: str
    """default or paper."""
    slots: int
    running: int
    claimed: int
    """Jobs given to the LRM ahead of free slots: they wait for a slot, not for their turn."""
    queued: int
    total_processors: int
    """T: processors of all queued jobs."""
    total_quota: float
    """Q: sum of the quotas of the distinct users that have queued jobs."""
    classes: tuple[QueueClass, ...]
    """Classes of queued jobs, the best first."""
    classes_left_out: int
    """Number of classes behind those that are left out."""
    users: tuple[QueueUser, ...]
    littles: LittlesCheck
    error_low: float
    error_high: float
    """`error_low` and `error_high` are factors between past waits and their predictions: nine of ten exceed the first,
    nine of ten stay below the second."""
    predictions: int
    """Number of predictions compared; 0: none yet, the factors are a guess."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one group that wait at one site at one priority, with the reasons for it and the ways to a higher
    level."""

    site: SiteId
    """The site where they wait; empty: not placed yet."""
    jobs: int
    note: str = ""
    """Reason why they wait besides the queue; with no `level`, why nothing more is known."""
    part: str = ""
    user: str = ""
    processors: int = 0
    queue: str = ""
    level: str = ""
    priority: float = 0.0
    base: float = 0.0
    ageing: float = 0.0
    offset: float = 0.0
    demoted: bool = False
    n: int = 0
    allowance: float = 0.0
    demand: float = 0.0
    """Value used for n in the formula: n itself in the paper's mode, else n weighed against the service had."""
    quota: float = 0.0
    total_quota: float = 0.0
    ready: int = 0
    job_threshold: int = 0
    rises_to: str = ""
    """The next level; empty: they stand in the highest."""
    rises_after_s: float = 0.0
    """Seconds until they rise by waiting alone; in the default mode the wait begins anew when a job of this user and
    size starts. Negative: never."""
    rises_at_n: float = 0.0
    """The n at which they would rise, all else being equal; negative: no n would do."""
    low_s: float = 0.0
    high_s: float = 0.0
    predictions: int = 0
    """Number of predictions the range rests on; 0: a guess."""
    mode: str = ""
    """default or paper."""


def unranked(site: SiteId, part: str, user: str, jobs: int, note: str) -> Waiting:
    """Return a row for jobs that stand at no level, or of which nothing more is known."""
    return Waiting(
        site=site,
        part=part,
        user=user,
        jobs=jobs,
        note=note,
        rises_after_s=-1.0,
        rises_at_n=-1.0,
        low_s=-1.0,
        high_s=-1.0,
    )
