"""Status of a group, and how its parts went, for its users."""

from __future__ import annotations

from diana.model.ids import GroupId, SiteId
from diana.model.views.shown import Shown


class SiteShare(Shown, frozen=True):
    """The share of a group at one site."""

    site: SiteId
    jobs: int = 0
    staging: int = 0
    queued: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    state: str = ""
    """local, offered, committed, closed, cancelling, holding, moving, releasing or unreachable."""
    age_s: float = 0.0
    """Seconds since the site was last heard of; 0 at home."""
    held: int = 0
    """Number of jobs that wait until they are released."""
    level: str = ""
    """Best level of the jobs that wait there, Q1 to Q4; empty: none waits, or the site has not said."""
    priority: float = 0.0


class GroupStatus(Shown, frozen=True):
    group: GroupId
    name: str = ""
    owner: str = ""
    state: str = ""
    """waiting (for other groups), placing, queued, running, merging or registering; then done, failed, cancelled or
    held."""
    jobs: int = 0
    """A flexible gang without a place counts with as many components as it may have at most."""
    unplaced: int = 0
    staging: int = 0
    queued: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    held: int = 0
    """Number of jobs whose outcome is unknown, or that wait until they are released."""
    unreachable: int = 0
    gathering: int = 0
    """Batches of outputs still on their way here."""
    final: bool = False
    """True once nothing more will happen by itself."""
    submitted_wall_s: float = 0.0
    age_s: float = 0.0
    """Site time since submission."""
    first_start_s: float = 0.0
    """Seconds after submission; negative: not started."""
    last_end_s: float = 0.0
    bytes_moved: int = 0
    shares: tuple[SiteShare, ...] = ()
    note: str = ""
    """Reason why it waits or failed, one line; empty when there is none."""
    durability: int = 0
    """Disks that hold the group."""
    level: str = ""
    """Best level of its waiting jobs anywhere, Q1 to Q4; empty: none waits in a queue."""
    priority: float = 0.0
    after: tuple[GroupId, ...] = ()
    """Groups it waits for, or waited for."""
    dataset: str = ""
    """Name of the dataset its outputs are registered as once it is done; empty: none."""
    expected_end_s: float = 0.0
    """Expected end, seconds after submission; negative: not known yet."""
    expected_low_s: float = 0.0
    expected_high_s: float = 0.0
    """Range of it that is to hold eight of ten; negative, or both 0: not known yet."""
    components: int = 0
    """Components of each gang, which the group's jobs are; 0: they are ordinary jobs, or are divided when placed."""
    gangs: int = 0
    """Gangs of the group; 0: its jobs are ordinary ones."""
    gangs_waiting: int = 0
    """Those of them that were not let go, or are to begin again."""
    gangs_running: int = 0
    """Those of which some component has not ended."""
    notices: tuple[str, ...] = ()
    """Whether each of those it is to tell that it is over was told, a line each; only of a group asked for by name."""


class PartOutcome(Shown, frozen=True):
    """The part of a group that one decision gave one site: predicted against achieved, in seconds after the
    decision."""

    decision: int
    """Number of the decision among the group's, from 0."""
    site: SiteId
    jobs: int = 0
    predicted_wait_s: float = 0.0
    predicted_stage_in_s: float = 0.0
    predicted_run_s: float = 0.0
    predicted_end_s: float = 0.0
    predicted_bytes_in: int = 0
    started_s: float = 0.0
    """Start of the first job; negative: none yet."""
    ended_s: float = 0.0
    """End of the last job so far, or its outputs' arrival at home; negative: none yet."""
    bytes_in: int = 0
    over: bool = False
    """True once all its jobs have ended."""
