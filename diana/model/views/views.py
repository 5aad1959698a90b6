"""Answers to reads: values made for people and programs outside, never the engine's own state."""

from __future__ import annotations

from typing import Any

import msgspec

from diana.model.facts import FactsKey
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.trust.invitation import Invitation
from diana.model.views.decision import Decision
from diana.model.views.figures import Figures
from diana.model.views.link import LinkMap
from diana.model.views.peers import Peers
from diana.model.views.queue import QueueView, Waiting


class SiteShare(msgspec.Struct, frozen=True, kw_only=True):
    """The share of a group at one site."""

    site: SiteId
    jobs: int
    staging: int
    queued: int
    running: int
    done: int
    failed: int
    state: str
    """local, offered, committed, closed, cancelling, holding, moving, releasing or unreachable."""
    age_s: float
    """Seconds since the site was last heard of; 0 at home."""
    held: int = 0
    """Number of jobs that wait until they are released."""
    level: str = ""
    """Best level of the jobs that wait there, Q1 to Q4; empty: none waits, or the site has not said."""
    priority: float = 0.0


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    group: GroupId
    name: str
    owner: str
    state: str
    """waiting (for other groups), placing, queued, running, merging or registering; then done, failed, cancelled or
    held."""
    jobs: int
    unplaced: int
    staging: int
    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    held: int
    """Number of jobs whose outcome is unknown, or that wait until they are released."""
    unreachable: int
    gathering: int
    """Batches of outputs still on their way here."""
    final: bool
    """True once nothing more will happen by itself."""
    submitted_wall_s: float
    age_s: float
    """Site time since submission."""
    first_start_s: float
    """Seconds after submission; negative: not started."""
    last_end_s: float
    bytes_moved: int
    shares: tuple[SiteShare, ...]
    note: str
    """Reason why it waits or failed, one line; empty when there is none."""
    level: str = ""
    """Best level of its waiting jobs anywhere, Q1 to Q4; empty: none waits in a queue."""
    priority: float = 0.0
    after: tuple[GroupId, ...] = ()
    """Groups it waits for, or waited for."""
    dataset: str = ""
    """Name of the dataset its outputs are registered as once it is done; empty: none."""
    expected_end_s: float = -1.0
    """Expected end by its plans, seconds after submission; negative: it has no plan yet."""
    durability: int = 1
    outputs_to: str = ""
    """`Outputs.to` of the spec; empty: the group's own folder. For the node's own use, not shown."""
    superseded: tuple[tuple[SubgroupId, IndexSet], ...] = ()
    """Subgroups whose results of these jobs count no more, because the jobs were retried. For the node's own use, not
    shown."""
    on_their_way: tuple[FactsKey, ...] = ()
    """Batches whose outputs are not all here yet. For the node's own use, not shown."""


ENDINGS = ("done", "failed", "cancelled", "held")
"""Endings of jobs, as a group's view counts them; `held` stands for an unknown outcome."""


class EndedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a group's jobs that have ended. For the node's own use."""

    jobs: int
    """Number of jobs of the group."""
    by_ending: tuple[tuple[str, IndexSet], ...]
    superseded: tuple[tuple[SubgroupId, IndexSet], ...] = ()
    """The same as in `GroupView`."""
    next: int = -1
    """Start of the next page; negative: there is none."""


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the black-hole guard: the work it holds back at a site."""

    group: str
    """The group held back; empty: any group that is new there."""
    machine: str
    """The machine of the site; empty: the whole site."""
    stand: str
    """probation (one job is tried now and then), barred (no more of the group)."""
    since_s: float
    until_s: float
    """Time of the next try; negative: there is none."""
    why: str
    lifts: str
    """The event that ends it, in words."""


class SiteView(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    home: bool
    state: str
    """alive, suspect (missed, others are asked), unreachable (from here), lost (by everybody), left (said goodbye)."""
    age_s: float
    slots: int
    free_slots: int
    speed: float
    queued_jobs: int
    running_jobs: int
    work_ahead_s: float
    rtt_s: float
    """Negative: not measured."""
    bytes_per_s: float
    """Negative: not measured."""
    release: str
    datasets: tuple[str, ...]
    note: str = ""
    """Reason why it takes no work: drained or banned, and why."""
    machines: int = 0
    """Number of machines of the site; 0: it has not said."""
    guarded: tuple[Guarded, ...] = ()
    """Entries of the guard for that site, the latest first."""
    guarded_more: int = 0
    """Number of further entries of the guard."""


class DatasetView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    site: SiteId
    files: int
    """-1: known by name only, from the site's summary."""
    size_bytes: int


class Groups(msgspec.Struct, frozen=True):
    groups: tuple[GroupView, ...]
    """Groups in the order of their numbers."""
    left_out: int = 0
    """Number of groups asked for that are left out, beyond the limit."""


class PartOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a group that one decision gave one site: predicted against achieved, in seconds after the
    decision."""

    decision: int
    """Number of the decision among the group's, from 0."""
    site: SiteId
    jobs: int
    predicted_wait_s: float
    predicted_stage_in_s: float
    predicted_run_s: float
    predicted_end_s: float
    predicted_bytes_in: int
    started_s: float
    """Start of the first job; negative: none yet."""
    ended_s: float
    """End of the last job so far, or its outputs' arrival at home; negative: none yet."""
    bytes_in: int
    over: bool
    """True once all its jobs have ended."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    group: GroupId
    decisions: tuple[Decision, ...]
    """Oldest first; one per placement."""
    achieved_s: float
    """Seconds from submission to the last end, or to the last outputs' arrival at home; negative while it runs."""
    waiting: tuple[Waiting, ...] = ()
    """The jobs that still wait, and why."""
    outcomes: tuple[PartOutcome, ...] = ()
    predicted_s: float = -1.0
    """Seconds from submission to the predicted end of the whole; negative: it was placed in more than one go."""
    stays: tuple[str, ...] = ()
    """Reasons why work that waits at a congested site was not moved, at the last look."""


class Sites(msgspec.Struct, frozen=True):
    sites: tuple[SiteView, ...]


class Datasets(msgspec.Struct, frozen=True):
    datasets: tuple[DatasetView, ...]


class Info(msgspec.Struct, frozen=True, kw_only=True):
    site: SiteId
    db_uuid: str
    generation: int
    groups: int
    queued_jobs: int
    running_jobs: int
    slots: int = 0
    free_slots: int = 0
    jobs_done: int = 0
    """Jobs done, of all groups, since the node started; the next two fields count likewise."""
    jobs_exported: int = 0
    jobs_imported: int = 0


class BannedView(msgspec.Struct, frozen=True, kw_only=True):
    who: str
    since_wall_s: float
    reason: str
    by: SiteId


class LedgerView(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions of the VO's signers, as this site knows them."""

    values: dict[str, Any] = {}
    """The policy's settings by name."""
    by: str = ""
    since_wall_s: float = 0.0
    here: tuple[str, ...] = ()
    """Settings of the policy that this site's operator set otherwise; the operator's count here."""
    banned: tuple[BannedView, ...] = ()
    drained: str = ""


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """State of a site's name."""

    taken: str = ""
    """Reason why the name is taken: who gave it out, or that its site is known; empty: it is free, or is given to the
    asker now."""
    signers: tuple[str, ...] = ()
    """Sites of the VO that are signers, as the signers say."""


class Invitations(msgspec.Struct, frozen=True):
    """Invitations that this site gave out, by their ids."""

    known: dict[str, Invitation]


class Ok(msgspec.Struct, frozen=True):
    """Done. `count`: jobs concerned, or what is left to do, where that means something."""

    count: int = 0
    started: int = 0
    """After a hold: number of jobs that had started already and run on."""
    jobs: IndexSet = IndexSet()
    """After a cancel of held jobs only: those that will never run."""
    unsure: int = 0
    """After a cancel of held jobs only: number of jobs whose site has not said yet whether it still held them when the
    order came."""


Answer = (
    Groups
    | GroupView
    | EndedJobs
    | Explanation
    | Sites
    | Datasets
    | Info
    | LinkMap
    | QueueView
    | Ok
    | LedgerView
    | Peers
    | Figures
    | Named
    | Invitations
)
