"""Everything that can happen to an engine. The driver makes these; `Engine.handle` is their only door."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from diana.engine.messages.messages import Authorisation, Hello, Message
from diana.model.data import DataFile, RegisteredDataset
from diana.model.facts import Facts
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.model.job.urls import DEFAULT_ALLOWED
from diana.model.maintenance import Window
from diana.model.settings import Settings
from diana.model.trust.invitation import Invitation
from diana.model.trust.principal import Principal
from diana.model.trust.register import Register


class Tick(msgspec.Struct, frozen=True):
    """The deadline the engine asked for has come. Early or spurious ticks do no harm."""


class SettingsLoaded(msgspec.Struct, frozen=True):
    """The settings were loaded, at start or at SIGHUP; they are validated already."""

    settings: Settings
    urls: tuple[str, ...] = DEFAULT_ALLOWED
    """Beginnings of the URLs jobs may read here."""
    software: tuple[str, ...] = ()
    """Software jobs may ask for at machines that do not say it themselves (`model/job/software.py`)."""


class CalendarTold(msgspec.Struct, frozen=True, kw_only=True):
    """The windows in which the site takes no work, by its configuration: told at start, at SIGHUP, and as time goes
    on."""

    windows: tuple[Window, ...] = ()
    wall_ahead_s: float = 0.0
    """Seconds by which the wall clock is ahead of site time."""


class RoomChecked(msgspec.Struct, frozen=True):
    """The driver looked at its disk. `low`: one line saying what is short; empty: there is room."""

    low: str


# --- clients -----------------------------------------------------------------------------------------


class SubmitGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A client submits a group. Answered by `Reply(GroupAccepted | DecisionMade | Refusal)`. `wall_s` is a label
    only."""

    request: int
    principal: Principal
    key: str
    """Idempotency key; empty: none."""
    spec: GroupSpec
    jobs: int
    """The sweep's size."""
    refs: tuple[tuple[str, IndexSet], ...]
    """Rendered input refs, each with the jobs that read it (`model/job/sweep.py` makes these)."""
    wall_s: float
    plan_only: bool = False
    permit: Authorisation | None = None
    """The user's signature for it, without the group's name; None: this site vouches."""
    notify: tuple[str, ...] = ()
    """Targets that are told when it is over (`model/job/notices.py`). It stays here: other sites need not know."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One group of a submission of several; fields as in `SubmitGroup`."""

    spec: GroupSpec
    jobs: int
    refs: tuple[tuple[str, IndexSet], ...]
    after: tuple[int, ...] = ()
    """Members it waits for, by their place; no cycles."""
    after_groups: tuple[GroupId, ...] = ()
    """Groups of earlier submissions it waits for."""
    permit: Authorisation | None = None
    notify: tuple[str, ...] = ()


class SubmitChain(msgspec.Struct, frozen=True, kw_only=True):
    """Groups that wait for each other or for earlier ones: all are accepted, in one transaction, or none. Answered
    by `Reply(GroupsAccepted | Refusal)`."""

    request: int
    principal: Principal
    key: str
    members: tuple[Member, ...]
    wall_s: float


class CancelJobs(msgspec.Struct, frozen=True, kw_only=True):
    request: int
    principal: Principal
    group: GroupId
    indices: IndexSet | None
    """Jobs meant; None: all of the group."""
    dependents: bool = False
    """True: cancel also every group that waits for it, directly or not."""
    held: bool = False
    """True: cancel only jobs that are held and can no longer start."""
    release: bool = False
    """With `held`: also lift the orders to hold the other jobs, whether they wait, run or are over."""


class HoldJobs(msgspec.Struct, frozen=True, kw_only=True):
    request: int
    principal: Principal
    group: GroupId
    indices: IndexSet | None


class MoveJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that have not started, or can save their state, are to run at another site."""

    request: int
    principal: Principal
    group: GroupId
    indices: IndexSet | None
    to: SiteId
    """Empty: wherever it is best, from a checkpoint of each that runs."""


class ReleaseJobs(msgspec.Struct, frozen=True, kw_only=True):
    request: int
    principal: Principal
    group: GroupId
    indices: IndexSet | None


class RetryJobs(msgspec.Struct, frozen=True, kw_only=True):
    request: int
    principal: Principal
    group: GroupId
    indices: IndexSet | None
    held: bool = False
    """True: retry also jobs held because nobody knows their outcome."""
    cancelled: bool = False
    """True: retry also cancelled jobs."""
    unreachable: bool = False
    """True: retry also jobs at sites out of reach; with the whole of a group only."""
    memory_bytes: int = 0
    """Retry those alone that ran out of memory, each with so much; 0: not asked for."""
    memory_factor: float = 0.0
    """The same, with so many times what they had."""


class DropGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Groups that are over are to be forgotten."""

    request: int
    principal: Principal
    groups: tuple[GroupId, ...]
    outputs: bool = False
    """True: with the outputs that lie in the node's own folder."""
    have_files: frozenset[GroupId] = frozenset()
    """Groups among these for which files lie there."""
    each: bool = False
    """True: those of them that can be; False: all, or none."""


class AddDataset(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset is added; its files were hashed and registered with the stager before."""

    request: int
    principal: Principal
    dataset: RegisteredDataset


class RemoveDataset(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset is removed: the stager's catalogue has forgotten all its versions. Jobs placed before that need it fail
    staging."""

    request: int
    principal: Principal
    name: str


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A read. `what` is one of groups, group, ended, job, explain, history, history-site, sites, datasets, info, links,
    paths, queue, ledger, peers, figures (asked again while the answer is an Ok that says how much is left), or may-...
    for a right."""

    request: int
    principal: Principal
    what: str
    group: GroupId | None = None
    site: SiteId | None = None
    """For queue: another site's."""
    mine: bool = False
    """For groups: only the principal's own."""
    active: bool = False
    """For groups: only those that are not final."""
    limit: int = 0
    """For groups: at most so many, open ones before ended ones, newest first; 0: all. For ended: jobs at most."""
    first: int = 0
    """For ended: from this job on, in order of their indices. For job: its index. For history: from this place on,
    `group` being the one before it."""
    from_wall_s: float = 0.0
    """For history: only groups submitted from then on."""
    to_wall_s: float = 0.0
    """For history: only groups submitted before then; 0: all."""
    job: int = -1
    """For explain: of gangs only that of the job with this index; negative: of the whole group."""
    outcome: str = "ended"
    """For ended: one of `views.ENDINGS`, or all of them."""
    named: tuple[GroupId, ...] = ()
    """For groups: these alone, in this order, as far as they exist and the principal may read them; empty: no such
    wish. Costs by how many are named, not by how many there are."""


class BindAll(msgspec.Struct, frozen=True):
    """The node is about to stop in good order: jobs that wait here for their turn are bound to sites now, since nobody
    answers calls while it is away."""


class Leaving(msgspec.Struct, frozen=True):
    """The node is about to stop in good order: say goodbye."""


# --- peers -------------------------------------------------------------------------------------------


class PeerUp(msgspec.Struct, frozen=True):
    """A stream to a peer stands; its certificate proved `hello.site`."""

    hello: Hello


class PeerDown(msgspec.Struct, frozen=True):
    site: SiteId


class Received(msgspec.Struct, frozen=True):
    """A message came from a peer whose certificate proved `sender`."""

    sender: SiteId
    message: Message


class SayStatement(msgspec.Struct, frozen=True, kw_only=True):
    """An operator decides something for the whole VO (`model/trust/ledger.py`). Answered by `Reply(Ok | Refusal)`."""

    request: int
    principal: Principal
    kind: Literal["revoke", "lift", "policy"]
    about: str
    reason: str = ""
    values: dict[str, Any] = {}
    wall_s: float


class NameSite(msgspec.Struct, frozen=True, kw_only=True):
    """An inviter asks whether a name of a site is free, or has given it out. Answered by `Reply(Named | Refusal)`."""

    request: int
    name: SiteId
    give: bool
    """True: keep it in the VO's ledger, before the answer; False: only look."""
    again: bool = False
    """True: an operator gives it to the site that had it before."""
    signer: bool = False
    """True: it becomes a signer."""
    wall_s: float


class NoteInvitation(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation was given out, used or withdrawn, as an operator or its bearer may. Answered by
    `Reply(Invitations)`, durable."""

    request: int
    invitation: Invitation


class DrainSite(msgspec.Struct, frozen=True, kw_only=True):
    """An operator has the site take no new work, or take work again. Answered by `Reply(Ok | Refusal)`."""

    request: int
    principal: Principal
    on: bool
    reason: str = ""
    from_wall_s: float = 0.0
    to_wall_s: float = 0.0
    """With `on`: only between the two times; `from_wall_s` 0: from now. Both 0: until it is told otherwise."""


class GiveUpSite(msgspec.Struct, frozen=True, kw_only=True):
    """An operator gives up what a site out of reach has of this one's jobs: they are placed anew, whatever becomes of
    them there. Answered by `Reply(Ok | Refusal)`."""

    request: int
    principal: Principal
    site: SiteId


class GoOn(msgspec.Struct, frozen=True, kw_only=True):
    """An operator has this site wait no longer for the word of another, after a database was put back. Answered by
    `Reply(Ok | Refusal)`."""

    request: int
    principal: Principal
    site: SiteId


class RegisterAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of `site` reads its register here, or changes it by compare-and-set. Answered by
    `Reply(RegisterIs | Refusal)`."""

    request: int
    by: SiteId
    """The site whose certificate was shown."""
    site: SiteId
    expect_term: int = 0
    register: Register | None = None
    """The new register; None: only read."""


class LinkMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement towards a peer; None: not measured this time."""

    site: SiteId
    rtt_s: float | None = None
    bytes_per_s: float | None = None
    """Throughput towards here, all concurrent transfers together."""
    sent: int = 0
    lost: int = 0
    """Pings sent (`sent`), and those of them that nobody answered in time (`lost`)."""


# --- local resource manager --------------------------------------------------------------------------


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Names one attempt of one job at this site."""

    subgroup: SubgroupId
    epoch: int
    index: int
    attempt: int


class LrmReady(msgspec.Struct, frozen=True, kw_only=True):
    """A worker (one machine's spawner) can be used, now or again. `known`: every run it has claimed and not been told
    to forget, running or finished. A run the engine gave to this worker that is not among them was never claimed and
    never will be: the adapter drops every `Start` for it whose `session` is not this one."""

    worker: str = MAIN_MACHINE
    """The machine's name within its site."""
    session: int
    """Rises with every LrmReady of this worker."""
    slots: int
    known: tuple[Run, ...]
    memory_bytes: int = 0
    """The most memory one job may want there; 0: as the settings say."""
    widest: int = 0
    """Processors one job may want there, where that is less than its slots; 0: all of them."""
    gpus: int = 0
    """The most GPUs one job may want there."""
    all_gpus: int = 0
    """GPUs of all its machines together, where it stands for several."""
    trouble: str = ""
    """Line saying why it has no slots; empty: nothing is wrong."""
    identity: str = ""
    """Identity of the machine's data directory; empty: this site keeps no count of them."""
    software: tuple[str, ...] | None = None
    """Software jobs may ask for there (`model/job/software.py`); None: as the site's settings say."""
    ahead: int = -1
    """Processors' worth of jobs it is given beyond its slots, of whatever length; -1: as the settings say."""
    recalls: bool = False
    """True if it gives back jobs it has not begun when it is asked to (`Recall`)."""
    scratch_bytes: int = 0
    """Size of the disk where its jobs have their scratch directories; 0: not known, nothing is checked."""
    scratch_free_bytes: int = -1
    """Bytes of it that are free; -1: not known."""
    cluster: bool = False
    """True for a batch system: it stands for several machines, none of which could lead this site."""
    claim_log: str = ""
    """Identity of the log behind `known`; empty: this worker keeps none that could be told from another. Under another
    identity than before, a run that is not among the known may have been claimed and forgotten."""
    looks: bool = False
    """True if nobody knows when a job on its slots begins, and ends are told late: only `RunsSeen` says what ran."""
    speed: float = 0.0
    """Speed of its processors relative to the reference; 0: the site's."""
    resources: tuple[tuple[str, int], ...] = ()
    """(name, how many) of what its operator declares for jobs, by name (`model/job/declared.py`)."""


class LrmSized(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is ready has more or fewer slots for this site than before, is to be given more or less beyond
    them, or will start what it is given sooner or later. The jobs it has keep their places."""

    worker: str
    session: int
    """The session of its `LrmReady`."""
    slots: int
    ahead: int
    delay_s: float = 0.0
    """Seconds until something of ours starts there, though slots stand free: others are before us."""
    trouble: str = ""
    """As in `LrmReady`."""


class ScratchSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The disk where a worker's jobs have their scratch directories is fuller or emptier than it said last."""

    worker: str = MAIN_MACHINE
    session: int
    """The session of its `LrmReady`."""
    free_bytes: int
    """-1: not known."""


class LrmLost(msgspec.Struct, frozen=True):
    """The worker does not answer; its `LrmReady` follows when it does. Nothing is concluded about its runs."""

    worker: str = MAIN_MACHINE
    why: str = ""
    """One line; empty: it is silent."""


class MachineRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """An operator gives a member machine up: what it was given counts as interrupted, and `on_crash` decides."""

    request: int
    principal: Principal
    machine: str


class PairStands(msgspec.Struct, frozen=True, kw_only=True):
    """The site's other machine has all that is acknowledged, or it does not; told when that changes."""

    standby: str
    in_sync: bool


class LeadLeft(msgspec.Struct, frozen=True, kw_only=True):
    """An operator has this machine hand over to its standby. Answered once that is durable."""

    request: int
    to: str
    """Empty: it came to nothing."""


class HandOverFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A hand-over came to nothing; this machine goes on leading."""

    error: str


class JobsEnded(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts of one subgroup ended; told again until `ForgetRuns`. Collected outputs are durable."""

    subgroup: SubgroupId
    epoch: int
    facts: Facts
    worker: str = ""
    """The member machine that says so: of jobs that are with another it is not believed. Empty: this node itself."""


class AtBarrier(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of a subgroup hold their slots and wait for `Go`; the claim is durable there. Told again after each
    `LrmReady` for those that still wait."""

    worker: str
    subgroup: SubgroupId
    epoch: int
    runs: tuple[Run, ...]
    port: int = 0
    """A port that is free there just now."""
    host: str = ""
    """Address of the machine where they are; empty: the site's own."""


class HostsMet(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `MeetHosts`."""

    subgroup: SubgroupId
    epoch: int
    hosts: tuple[str, ...]
    out_of_reach: str = ""
    """The first of them that is not reached; empty: all are."""


class RunsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of a subgroup as a worker that `looks` saw them last; those that ended before were told."""

    worker: str
    subgroup: SubgroupId
    epoch: int
    ages: tuple[tuple[float, int], ...]
    """(seconds for which they were seen to run, how many)."""


class StepsReported(msgspec.Struct, frozen=True, kw_only=True):
    """Progress that running jobs of a subgroup reported."""

    worker: str
    subgroup: SubgroupId
    epoch: int
    steps: tuple[tuple[int, int, float, float, float], ...]
    """(index, attempt, site time, steps done, steps in all), as the jobs said: anything."""
    own: tuple[tuple[float, int], ...] = ()
    """For each of `steps`: (seconds of its own part of a step, number of the roster that it computes by), likewise;
    empty: none of them tells it."""


# --- data --------------------------------------------------------------------------------------------


class StageDone(msgspec.Struct, frozen=True, kw_only=True):
    """Ends a `StageIn`, `Gather` of the same ticket. `error` empty: all is there, verified and durable."""

    ticket: int
    bytes_moved: int
    error: str = ""
    final: bool = False
    """With `error`: trying again would not help."""
    away: str = ""
    """With `error`: the machine of the source's site on which the files lie, and which is not in touch."""
    lacking: IndexSet = IndexSet()
    """With `error`, of outputs this very site has collected: the jobs whose outputs are not on this machine."""
    spoilt: str = ""
    """With `error`: ref of a file that no site which is to have it has as it was promised; each was asked."""


class OutputsInCatalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Answers a `RegisterOutputs`: the dataset as registered, or why it is not."""

    ticket: int
    dataset: RegisteredDataset | None
    error: str = ""


class LookedUp(msgspec.Struct, frozen=True, kw_only=True):
    """Answers a `LookUp`. A ref in none of the fields is of a dataset this site does not know."""

    ticket: int
    found: tuple[DataFile, ...] = ()
    """Files registered here (or that can be described, for a URL), each under the very ref that was asked."""
    cached: tuple[DataFile, ...] = ()
    """Replicas this site fetched before and may evict: they count where the content is the registered one."""
    unknown: tuple[str, ...] = ()
    """Files that are not in their dataset, though the dataset is registered here."""
    failed: tuple[tuple[str, str], ...] = ()
    """(ref, why): it should be here and cannot be read, or its store does not answer."""


Event = (
    Tick
    | SettingsLoaded
    | CalendarTold
    | RoomChecked
    | AtBarrier
    | HostsMet
    | RunsSeen
    | StepsReported
    | SubmitGroup
    | SubmitChain
    | CancelJobs
    | HoldJobs
    | MoveJobs
    | ReleaseJobs
    | RetryJobs
    | DropGroups
    | AddDataset
    | RemoveDataset
    | Ask
    | BindAll
    | Leaving
    | PeerUp
    | PeerDown
    | Received
    | RegisterAsked
    | SayStatement
    | NameSite
    | NoteInvitation
    | DrainSite
    | GiveUpSite
    | GoOn
    | LinkMeasured
    | LrmReady
    | LrmSized
    | ScratchSeen
    | LrmLost
    | MachineRemoved
    | PairStands
    | LeadLeft
    | HandOverFailed
    | JobsEnded
    | StageDone
    | OutputsInCatalogue
    | LookedUp
)
