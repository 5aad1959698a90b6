"""Answers to reads: values made for people and programs outside, never the engine's own state."""

from __future__ import annotations

import msgspec

from diana.model.facts import FactsKey
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.trust.invitation import Invitation
from diana.model.views.decision import Decision
from diana.model.views.figures import NodeFigures
from diana.model.views.group import GroupStatus, PartOutcome
from diana.model.views.ledger import LedgerView
from diana.model.views.link import LinkMap
from diana.model.views.peers import Peers
from diana.model.views.queue import QueueView, Waiting


class GroupView(GroupStatus, frozen=True):
    """Status of a group, with what the node itself wants to know."""

    outputs_to: str = ""
    """`Outputs.to` of the spec; empty: the group's own folder."""
    superseded: tuple[tuple[SubgroupId, IndexSet], ...] = ()
    """Subgroups whose results of these jobs count no more, because the jobs were retried."""
    on_their_way: tuple[FactsKey, ...] = ()
    """Batches whose outputs are not all here yet."""


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


class GuardEntry(msgspec.Struct, frozen=True, kw_only=True):
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
    guarded: tuple[GuardEntry, ...] = ()
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
    """Seconds from submission to the end of the whole as it was foretold first; negative: it was not known."""
    predicted_low_s: float = -1.0
    predicted_high_s: float = -1.0
    """Range of it; negative: not known."""
    placed_s: float = -1.0
    """Seconds from submission to the placement that foretold it; negative: none did."""
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
    | NodeFigures
    | Named
    | Invitations
)
