"""What a site tells of its queues: to its users, and to other sites that ask for theirs. Values, never state."""

from __future__ import annotations

import msgspec

from diana.model.ids import SiteId, SubgroupId


class QueueClass(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that share a priority: one (user, processors, offset, age step, demoted or not, local or global)."""

    user: str
    processors: int
    """t, of one job."""
    queue: str
    """local or global."""
    level: str
    """Q1 to Q4."""
    priority: float
    """Effective: base, ageing and offset, half a level's width less when demoted; in [-1, 1)."""
    base: float
    """Pr when everything was last re-prioritised."""
    ageing: float
    offset: float
    demoted: bool
    allowance: float
    """N then."""
    n: int
    """Jobs the user has queued here now."""
    jobs: int
    ready: int
    """Of them, those whose inputs are here."""
    parts: tuple[SubgroupId, ...]
    """At most some; empty where the asker may not see whose they are."""
    low_s: float
    high_s: float
    """Range from now in which its next job is predicted to start; negative: nothing is predicted."""


class QueueUser(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    quota: float
    queued: int
    """n."""
    running: int
    queued_share: float
    """Of the processors all queued jobs want."""
    quota_share: float
    """Of the quotas of those who have jobs here."""
    served_share: float
    """Of the jobs started here, decaying."""


class LittlesCheck(msgspec.Struct, frozen=True, kw_only=True):
    """N = R W, each measured by itself over a sliding window."""

    window_s: float
    mean_queued: float
    """N, in jobs."""
    arrivals_per_s: float
    """R."""
    mean_wait_s: float
    """W, of those who left the queue."""
    deviation: float
    """N - R W, in jobs; 0 when as many leave as come."""
    arrived: int
    left: int


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    mode: str
    """default or paper."""
    slots: int
    running: int
    claimed: int
    """Jobs given to the LRM ahead of free slots: they wait for a slot, no more for their turn."""
    queued: int
    total_processors: int
    """T: of all queued jobs."""
    total_quota: float
    """Q: of the distinct users that have queued jobs."""
    classes: tuple[QueueClass, ...]
    """Best first."""
    classes_left_out: int
    """Behind those."""
    users: tuple[QueueUser, ...]
    littles: LittlesCheck
    error_low: float
    error_high: float
    """Factors by which past waits differed from what was predicted: nine of ten at least, at most."""
    predictions: int
    """How many were compared; 0: none yet, the factors are a guess."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one group that wait at one site at one priority, why they stand there and what would raise them."""

    site: SiteId
    """Empty: not placed yet."""
    jobs: int
    note: str = ""
    """What else they wait for; with no `level`, why nothing more is known."""
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
    """What stood for n in the formula: n itself in the paper's mode, else n weighed against the service had."""
    quota: float = 0.0
    total_quota: float = 0.0
    ready: int = 0
    job_threshold: int = 0
    rises_to: str = ""
    """The next level; empty: stands in the highest."""
    rises_after_s: float = 0.0
    """By waiting alone, which in the default mode begins anew when a job of this user and size starts; negative:
    never."""
    rises_at_n: float = 0.0
    """If the user's n fell to this with all else as it is; negative: no n would do."""
    low_s: float = 0.0
    high_s: float = 0.0
    predictions: int = 0
    """That the range rests on; 0: a guess."""
    mode: str = ""
    """default or paper."""


def unranked(site: SiteId, part: str, user: str, jobs: int, note: str) -> Waiting:
    """Jobs that stand at no level, or of which nothing more is known."""
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
