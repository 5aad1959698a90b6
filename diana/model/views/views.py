"""Answers to reads: values made for people and programs outside, never the engine's own state."""

from __future__ import annotations

import msgspec

from diana.model.facts import FactsKey
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.trust.invitation import Invitation
from diana.model.views.contract import JobContract
from diana.model.views.datasets import Dataset
from diana.model.views.decision import Decision
from diana.model.views.figures import NodeFigures
from diana.model.views.gang import GangRun, GangWait
from diana.model.views.group import GroupStatus, PartOutcome
from diana.model.views.ledger import LedgerView
from diana.model.views.link import LinkMap
from diana.model.views.making_way import MadeWay
from diana.model.views.past import PastGroups, PastSite
from diana.model.views.peers import Peers
from diana.model.views.queue import QueueView, Waiting
from diana.model.views.site import Guarded, Site


class GroupView(GroupStatus, frozen=True):
    """Status of a group, with what the node itself wants to know."""

    indices: int = 0
    """Its jobs have indices below this one; flexible gangs leave some without a job."""
    outputs_to: str = ""
    """`Outputs.to` of the spec; empty: the group's own folder."""
    leaves: bool = False
    """True if its jobs are to leave any files."""
    superseded: tuple[tuple[SubgroupId, IndexSet], ...] = ()
    """Subgroups whose results of these jobs count no more, because the jobs were retried."""
    on_their_way: tuple[FactsKey, ...] = ()
    """Batches whose outputs are not all here yet."""
    merge: str = ""
    """Stand of its merge command: waits, running, done, failed, cancelled or held; empty: it has none."""


ENDINGS = ("done", "failed", "cancelled", "held")
"""Endings of jobs, as a group's view counts them; `held` stands for an unknown outcome."""


class JobPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a job that has not ended. For the node's own use."""

    site: SiteId | None
    """The site it was given to; None: none yet, or none any more."""
    subgroup: SubgroupId = SubgroupId("")
    epoch: int = 0
    note: str = ""
    """Why it is with none, or what is known of its site."""
    decision: int = -1
    """Place of the decision that gave it to the site among the group's; negative: none did."""
    held: bool = False


class EndedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a group's jobs that have ended. For the node's own use."""

    jobs: int
    """Number of jobs of the group."""
    by_ending: tuple[tuple[str, IndexSet], ...]
    with_gangs: tuple[tuple[int, str], ...] = ()
    """Those of them that ended with their gangs, and why."""
    superseded: tuple[tuple[SubgroupId, IndexSet], ...] = ()
    """The same as in `GroupView`."""
    next: int = -1
    """Start of the next page; negative: there is none."""


class GuardEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the guard, with its times by the site's clock, from which the node makes those of the entry."""

    shown: Guarded
    since_s: float
    until_s: float
    """Time of the next try; negative: there is none."""


class SiteView(msgspec.Struct, frozen=True, kw_only=True):
    """A site, with what the node itself wants to know."""

    shown: Site
    guarded: tuple[GuardEntry, ...] = ()
    """Entries of the guard for that site, the latest first."""


GROUPS_AT_ONCE = 32
"""Groups of which one answer tells: more would take so long that others notice."""


class Groups(msgspec.Struct, frozen=True):
    groups: tuple[GroupView, ...]
    """Groups in the order of their numbers."""
    left_out: int = 0
    """Number of groups asked for that are left out, beyond the limit."""
    more: tuple[GroupId, ...] = ()
    """The groups after these, which are to be asked for by name."""


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
    gangs: tuple[GangWait, ...] = ()
    """Its gangs that have not begun, the first ones of many."""
    begun: tuple[GangRun, ...] = ()
    """Its gangs that were let go: those that run, then the latest that are over, not all of many."""
    contracts: tuple[JobContract, ...] = ()
    """Its running jobs that report their steps, the slowest first."""
    ways: tuple[MadeWay, ...] = ()
    """Jobs that made way: its own for gangs, and others for its gangs, the latest last."""
    refused: Decision | None = None
    """The last look for a place for its jobs that found none, where that is why they wait and it has requirements."""
    exchanges: tuple[str, ...] = ()
    """Processes of its running gangs that were exchanged for spares, and why; or why none was."""


class Sites(msgspec.Struct, frozen=True):
    sites: tuple[SiteView, ...]


class Datasets(msgspec.Struct, frozen=True):
    datasets: tuple[Dataset, ...]


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
    queue_wait_s: float = 0.0
    """Mean wait of the jobs that left the queue lately (Little's law)."""


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


class GroupsDropped(msgspec.Struct, frozen=True):
    """Groups that are forgotten."""

    groups: tuple[GroupId, ...]
    left: tuple[tuple[GroupId, str], ...] = ()
    """Groups that stay, each with the reason in one line."""


Answer = (
    Groups
    | GroupView
    | EndedJobs
    | PastGroups
    | PastSite
    | JobPlace
    | Explanation
    | Sites
    | Datasets
    | Info
    | LinkMap
    | QueueView
    | Ok
    | GroupsDropped
    | LedgerView
    | Peers
    | NodeFigures
    | Named
    | Invitations
)
