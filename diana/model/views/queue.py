"""Views of a site's queues, for its users and for other sites whose users ask. Values, never state."""

from __future__ import annotations

from diana.model.ids import SiteId, SubgroupId
from diana.model.views.shown import Shown


class QueueClass(Shown, frozen=True):
    """Jobs that share a priority: one (user, processors, offset, age step, demoted or not, local or global)."""

    user: str
    processors: int = 0
    """t: processors of one job."""
    queue: str = ""
    """local or global."""
    level: str = ""
    """Q1 to Q4."""
    priority: float = 0.0
    """Effective: base, ageing and offset, half a level's width less when demoted; in [-1, 1)."""
    base: float = 0.0
    """Pr as of the last time all priorities were computed."""
    ageing: float = 0.0
    offset: float = 0.0
    demoted: bool = False
    allowance: float = 0.0
    """N as of the same time."""
    n: int = 0
    """n: jobs the user has queued here now."""
    jobs: int = 0
    ready: int = 0
    """Those of the jobs whose inputs are here."""
    parts: tuple[SubgroupId, ...] = ()
    """Some of the subgroups they belong to; empty where the asker may not see whose they are."""
    low_s: float = 0.0
    high_s: float = 0.0
    """Range from now in which its next job is predicted to start; negative: nothing is predicted."""
    heavy: bool = False
    """True for groups beyond a threshold of work or bytes: half a level's width less."""


class QueueUser(Shown, frozen=True):
    user: str
    quota: float = 0.0
    queued: int = 0
    """n: jobs the user has queued here."""
    running: int = 0
    queued_share: float = 0.0
    """The user's share of the processors that all queued jobs want."""
    quota_share: float = 0.0
    """The user's share of the quotas of those who have jobs here."""
    served_share: float = 0.0
    """The user's share of the service given here: jobs started, older ones counting less."""


class LittlesCheck(Shown, frozen=True):
    """Little's law N = R W, each term measured by itself over a sliding window."""

    window_s: float = 0.0
    mean_queued: float = 0.0
    """N: mean length of the queue, in jobs."""
    arrivals_per_s: float = 0.0
    """R: arrivals per second."""
    mean_wait_s: float = 0.0
    """W: mean wait of the jobs that left the queue."""
    deviation: float = 0.0
    """N - R W, in jobs; 0 when as many jobs leave as come."""
    arrived: int = 0
    left: int = 0


class QueueView(Shown, frozen=True):
    site: SiteId
    mode: str = ""
    """default or paper."""
    slots: int = 0
    running: int = 0
    claimed: int = 0
    """Jobs given to the LRM that do not run yet: they wait for a slot, not for their turn; or they are components, and
    hold processors until all of their gang do."""
    queued: int = 0
    total_processors: int = 0
    """T: processors of all queued jobs."""
    total_quota: float = 0.0
    """Q: sum of the quotas of the distinct users that have queued jobs."""
    classes: tuple[QueueClass, ...] = ()
    """Classes of queued jobs, the best first."""
    classes_left_out: int = 0
    """Number of classes behind those that are left out."""
    users: tuple[QueueUser, ...] = ()
    littles: LittlesCheck = LittlesCheck()
    error_low: float = 0.0
    error_high: float = 0.0
    """`error_low` and `error_high` are factors between past waits and their predictions: nine of ten exceed the first,
    nine of ten stay below the second."""
    predictions: int = 0
    """Number of predictions compared; 0: none yet, the factors are a guess."""
    note: str = ""
    """Reason why nothing of the site's own is started, whatever the queues say; empty: it may be."""


class Waiting(Shown, frozen=True):
    """Jobs of one group that wait at one site at one priority, with the reasons for it and the ways to a higher
    level."""

    site: SiteId
    """The site where they wait; empty: not placed yet."""
    jobs: int = 0
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
    heavy: str = ""
    """The threshold of work or bytes that the group exceeds, so that it stands half a level lower; empty: none."""


def unranked(site: SiteId, part: str, user: str, jobs: int, note: str) -> Waiting:
    """Return a row for jobs that stand at no level, or of which nothing more is known."""
    return Waiting(
        site=site,
        part=part,
        user=user,
        jobs=jobs,
        note=note,
        # A zero that is given is shown, unlike a default.
        priority=0.0,
        base=0.0,
        ageing=0.0,
        offset=0.0,
        allowance=0.0,
        demand=0.0,
        quota=0.0,
        total_quota=0.0,
        rises_after_s=-1.0,
        rises_at_n=-1.0,
        low_s=-1.0,
        high_s=-1.0,
    )
