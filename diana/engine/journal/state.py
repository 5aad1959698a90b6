"""The state of a site: the fold of its records, nothing else. `fold.py` is the only writer."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from diana.engine.messages.messages import Authorisation
from diana.errors import StoreNewer, of_newer
from diana.model.assignment import Assignment
from diana.model.bygone import GroupOrder, SiteMoment
from diana.model.data import DataFile, RegisteredDataset
from diana.model.facts import FactsKey
from diana.model.history import OutputSizes, RunTimes, group_key, outputs_key, template_key
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, SubgroupId
from diana.model.indexset import FinishedSet, IndexSet
from diana.model.job.checkpoint import SavedJob
from diana.model.job.gang import Environment, of_part
from diana.model.job.spec import GroupSpec, decode_spec, is_newer, may_require
from diana.model.learned import RunFits
from diana.model.maintenance import Window
from diana.model.past_ends import Errors, PastEnds
from diana.model.presence import Presence
from diana.model.settings import Settings
from diana.model.trust.contact import KnownAt
from diana.model.trust.invitation import Invitation
from diana.model.trust.ledger import Signed
from diana.model.trust.register import Register
from diana.model.views.decision import Decision, Foretold
from diana.model.views.link import LinkHistory
from diana.model.views.making_way import MadeWay

CustodyKey = tuple[SubgroupId, int]
"""(subgroup, epoch)."""


class Machine(msgspec.Struct, frozen=True):
    """D: a machine of this site that was ready once."""

    slots: int
    memory_bytes: int = 0
    widest: int = 0
    gpus: tuple[int, int] = (0, 0)
    """(GPUs that one job may want, GPUs in all)."""
    gone: bool = False
    """True while it is given up by an operator, and not back since."""
    identity: str = ""
    """Identity of its data directory. A machine that lost its disk must not be taken for the one that still knows what
    it runs: its inventory is empty, so jobs that still run would be started a second time."""
    software: tuple[str, ...] | None = None
    """Software that jobs may ask for there (names of `model/job/software.py`); None: as the site's settings say."""
    scratch_bytes: int = 0
    """Size of the disk where its jobs have their scratch directories; 0: not known."""
    claim_log: str = ""
    """Identity of its spawner's claim log; empty: not known."""
    speed: float = 0.0
    """Speed of its processors relative to the reference; 0: the site's."""
    resources: tuple[tuple[str, int], ...] = ()
    """(name, how many) of what its operator declares for jobs, by name (`model/job/declared.py`)."""


class Step(StrEnum):
    """The state of a placement at its origin."""

    OFFERED = "offered"
    COMMITTED = "committed"


class Subgroup(Assignment, frozen=False, kw_only=True, omit_defaults=False):  # type: ignore[misc]
    """O: one placement of part of a group. It ends when all its results are accepted or it is taken back. Of its
    assignment, the jobs become fewer where they are placed anew, and the files come when it is offered."""

    subgroup: SubgroupId = msgspec.field(name="part")
    indices: IndexSet
    files: tuple[DataFile, ...] = ()
    sources: tuple[tuple[SiteId, ...], ...] = ()
    readers: tuple[IndexSet, ...] = ()
    saved: tuple[SavedJob, ...] = ()
    site: SiteId
    step: Step
    room: int = 0
    db_uuid: str = ""
    acked: bool = False
    """True once the destination said that it is runnable there."""
    batches: IndexSet = IndexSet()
    """Result batches accepted."""
    finished: int = 0
    done: int = 0
    failed: int = 0
    unreachable: str = ""
    """Why its destination cannot be relied on any more."""
    control_seq: int = 0
    control_acked: int = 0
    cancelling: IndexSet = IndexSet()
    holding: IndexSet = IndexSet()
    """Jobs that are not to start there until released."""
    recalled: IndexSet = IndexSet()
    """Jobs that come back unless they have started; once the order is acknowledged, those left in this set have."""
    saving: IndexSet = IndexSet()
    """Jobs that save their state, stop and come back if they ran when the order came."""
    save_seq: int = 0
    """Number of the order that said so last."""
    ordered_by: str = ""
    """The database that gave an older one's order as its own (`recovery/stocktaking.py`)."""
    decision: int = 0
    """Place of the decision it came from among the group's."""
    first_start_s: float = -1.0
    last_end_s: float = -1.0
    """`first_start_s` and `last_end_s` of its jobs so far, in seconds after submission; negative: none."""
    last_start_s: float = -1.0
    """Likewise, of components alone."""
    gathered_s: float = -1.0
    """Time at which the last outputs came home, in seconds after submission; negative: none yet."""
    bytes_in: int = 0
    """Bytes staged there for it, as told with its results."""
    superseded: IndexSet = IndexSet()
    """Former jobs that ended and were placed anew since. No longer among `indices`."""
    disowned: IndexSet = IndexSet()
    """Former jobs that had no result when they were placed anew. No longer among `indices`."""
    environment: Environment = ()
    """Environment that components are told beside their ranks; empty before their gang is let go."""

    def open_jobs(self) -> int:
        return len(self.indices) - self.finished


class Past(msgspec.Struct, kw_only=True):
    """O: a placement that was taken back, and which of its batches arrived all the same."""

    site: SiteId
    batches: IndexSet = IndexSet()
    disowned: IndexSet = IndexSet()
    """`Subgroup.disowned` of the placement."""
    epoch: int = 0
    """0: not kept, as in older journals."""


class Disowned(msgspec.Struct, frozen=True):
    """O: a transfer that a site may have still, and of which it is to start no more."""

    epoch: int
    control_seq: int
    """Number of the standing order that says so."""
    cancel: IndexSet
    recall: IndexSet = IndexSet()
    closed: bool = False
    """True if nothing of it can run there any more, whatever the site says: its lease is over."""


class Moving(msgspec.Struct, frozen=True):
    """O: jobs that are called back, or have come back, to be placed anew."""

    indices: IndexSet
    to: SiteId
    """The site they are to go to; empty: wherever it is best."""
    why: str
    room: int = 0
    """Number of the room that `to` keeps for them; 0: none."""
    behind: bool = False
    """True if they get no raise there."""


class Saving(msgspec.Struct, frozen=True):
    """O: checkpoints on their way home, which count once all their files are here."""

    key: FactsKey
    jobs: tuple[SavedJob, ...]
    token: str = ""
    """Token of the attempt of a gang that wrote its components' checkpoints (`DIANA_GANG_TOKEN`)."""
    size: int = 1
    """Components of that attempt, whose parts make a checkpoint together."""


class GangSaved(msgspec.Struct, frozen=True):
    """O: parts of a gang's checkpoint that are home, while others are not: it is none yet."""

    token: str
    jobs: tuple[SavedJob, ...]


MOST_REASONS = 16
"""Exchanges of a gang whose reasons are kept."""
MOST_WAYS = 20
"""Lines kept about jobs that made way."""


class ActiveRanks(msgspec.Struct, frozen=True):
    """O: the components of a gang that compute; the others stand by."""

    epoch: int
    """Epoch of the attempt."""
    number: int
    """Exchanges of the attempt."""
    active: tuple[int, ...]
    """Their ranks, by their places."""
    reasons: tuple[str, ...] = ()
    """Why, the latest exchanges of the attempt, the last one last."""


class Group(msgspec.Struct, kw_only=True, dict=True):
    """O: a bulk group as accepted from its user."""

    group: GroupId
    owner: str
    key: str
    spec_bytes: bytes
    jobs: int
    refs: tuple[tuple[str, IndexSet], ...]
    submitted_s: float
    wall_s: float
    authorisation: Authorisation
    unplaced: IndexSet
    next_number: int = 0
    epoch: int = 0
    """The latest epoch given to a placement: it rises with each."""
    subgroups: dict[SubgroupId, Subgroup] = {}
    past: dict[SubgroupId, Past] = {}
    """The latest placements that were taken back."""
    moving: tuple[Moving, ...] = ()
    """Jobs to be moved, in disjoint sets; once placed they are moved no more."""
    exported: IndexSet = IndexSet()
    """Jobs that a congested site let go once; none does so again."""
    on_hold: str = ""
    """Why nothing more of it is placed; empty: it is."""
    holding: IndexSet = IndexSet()
    """Unplaced jobs that are not placed until released."""
    retried: IndexSet = IndexSet()
    """Jobs whose earlier attempts ended otherwise than done."""
    own_retries: int = 0
    """Times that its failed jobs were tried again by its `retries`."""
    attempts: int = 0
    """The highest attempt of any result so far."""
    done: FinishedSet = msgspec.field(default_factory=FinishedSet)
    failed: FinishedSet = msgspec.field(default_factory=FinishedSet)
    cancelled: FinishedSet = msgspec.field(default_factory=FinishedSet)
    held: FinishedSet = msgspec.field(default_factory=FinishedSet)
    cancel_asked: IndexSet = IndexSet()
    """Jobs that were cancelled while sites had still to tell what they have of it."""
    unused: IndexSet = IndexSet()
    """Indices that flexible gangs which were let go have no components for. Nothing runs under them."""
    decisions: list[Decision] = []
    gathers: list[FactsKey] = []
    """Batches whose outputs are not here yet."""
    not_gathered: list[FactsKey] = []
    """Batches given up; their executing sites keep the files."""
    merge: str = ""
    """State of the merge: empty, running, done, failed, cancelled or held."""
    merge_spec: bytes = b""
    registered: bool = False
    """True once its outputs stand in the catalogue as the dataset the spec names."""
    after: tuple[GroupId, ...] = ()
    """Groups that must be done before it is placed (`site/dependencies.py`)."""
    chain: tuple[GroupId, ...] = ()
    """All groups of the submission it was the first of."""
    first_start_s: float = -1.0
    last_end_s: float = -1.0
    bytes_moved: int = 0
    stale_results: int = 0
    state: str = ""
    """Final state once closed: done, failed, cancelled or held; empty: still open."""
    closed_s: float = -1.0
    note: str = ""
    foretold: Foretold | None = None
    """The end of the whole, as foretold when it was placed first; None: it was not."""
    was_held: bool = False
    """True once any of its jobs was held: its end says nothing of forecasts."""
    saving: list[Saving] = []
    checkpoints: dict[int, SavedJob] = {}
    """Index -> the latest whole checkpoint of a job that may need it; of a gang's component its part of that."""
    earlier: dict[int, SavedJob] = {}
    """Index -> the whole checkpoint before that one, for a job whose latest turns out not to be as it was saved."""
    gangs_saved: dict[int, GangSaved] = {}
    """Number of a gang within the group -> what is home of its next checkpoint."""
    rosters: dict[int, ActiveRanks] = {}
    """Number of a gang within the group -> who of it computes, once a spare took a place."""

    timed_out: FinishedSet = msgspec.field(default_factory=FinishedSet)
    out_of_memory: FinishedSet = msgspec.field(default_factory=FinishedSet)
    """`timed_out` and `out_of_memory`: how some of `failed` did."""
    own_retries_of: dict[str, int] = {}
    """Kind of failure -> times that its `retry` rules had jobs tried again for it."""
    memory_bytes: int = 0
    """Memory of each job that is placed now, in place of the spec's: some ran out of that. 0: as the spec says."""
    not_before_s: float = 0.0
    """Site time before which no more of it is placed."""
    notify: tuple[str, ...] = ()
    """Targets that are told when it is over."""
    orders: tuple[GroupOrder, ...] = ()
    """Orders of users, in the order given, at most `MOST_ORDERS`."""
    called_off: IndexSet = IndexSet()
    """Jobs of a group with `retries` that users cancelled, whatever had become of them, and have not had tried again
    since: none of them is tried again by itself."""
    ways: tuple[MadeWay, ...] = ()
    """Jobs of it that were ended for gangs, and its gangs for which others were: the latest `MOST_WAYS`."""

    @cached_property
    def spec(self) -> GroupSpec:
        return decode_spec(self.spec_bytes).with_memory(self.memory_bytes)

    def forget_derived(self) -> None:
        """Have what follows from the spec made anew: what it is made of has changed."""
        for name in ("spec", "template", "outputs_key"):
            self.__dict__.pop(name, None)

    @cached_property
    def template(self) -> str:
        return group_key(self.spec)

    @cached_property
    def outputs_key(self) -> str:
        return outputs_key(self.spec)

    def placeable(self) -> IndexSet:
        """Return the jobs that are to be placed: those that no site has, but for held ones and those whose checkpoint
        is on its way."""
        waiting = self.unplaced - self.holding
        return waiting - IndexSet.of(job.index for one in self.saving for job in one.jobs) if self.saving else waiting

    def ended_s(self) -> float:
        """Return when its last job ended or its last outputs were home, in seconds after submission; negative: none
        did."""
        return max([self.last_end_s, *(part.gathered_s for part in self.subgroups.values())])

    def finished(self) -> int:
        """Return the number of its indices of which nothing more comes, unless they are retried."""
        return len(self.done) + len(self.failed) + len(self.cancelled) + len(self.held) + len(self.unused)

    def all_done(self) -> bool:
        return len(self.done) + len(self.unused) == self.jobs

    def settled(self, indices: IndexSet) -> bool:
        """True if any of them has its result."""
        return any(kind.overlaps(indices) for kind in (self.done, self.failed, self.cancelled, self.held))

    def tell_way(self, jobs: IndexSet, line: str) -> None:
        """Note that some of its jobs made way, or that others did for a gang of these."""
        self.ways = (*self.ways, MadeWay(jobs, line))[-MOST_WAYS:]

    def open_of(self, indices: IndexSet) -> IndexSet:
        """Return those of them that have no result."""
        kinds = (self.done, self.failed, self.cancelled, self.held)
        return indices - IndexSet.union(kind.within(indices) for kind in kinds) - self.unused

    def attempt_base(self, indices: IndexSet) -> int:
        """Return the number from which the attempts of a new placement of these jobs count on."""
        return 0 if self.retried.isdisjoint(indices) else self.attempts


class Outgoing(msgspec.Struct, kw_only=True):
    """D: a batch of ended jobs on its way to the origin."""

    cancelled: IndexSet
    has_outputs: bool
    bytes_staged: int = 0
    revoked: IndexSet = IndexSet()
    acked: bool = False
    ended: IndexSet = IndexSet()


class Custody(Assignment, frozen=False, kw_only=True, dict=True, omit_defaults=False):  # type: ignore[misc]
    """D: a subgroup this site has been given to run. Of its assignment, the jobs become fewer as some go back."""

    indices: IndexSet
    origin: SiteId
    owner: str
    spec_bytes: bytes
    submitted_s: float
    raised: bool = False
    """True if room was kept here for its jobs in paper mode: they stand one level higher (section IX)."""
    arrived_s: float = 0.0
    """Site time of a move's arrival, from which its place among equals counts; 0: from the submission."""
    origin_db: str = ""
    """The origin's database that gave the last order about it; empty: this site's own, or an older release's."""
    offer: bytes = b""
    """The origin's seal of the offer."""
    offered: IndexSet = IndexSet()
    """Jobs of the offer that was sealed."""
    receipt: bytes = b""
    """The origin's, of the group (`handover/receipts.py`). Empty: of a release that gave none."""
    runnable: bool = False
    on_hold: bool = False
    """True if it was restored from a backup: nothing of it starts."""
    pending: IndexSet = IndexSet()
    running: dict[int, int] = msgspec.field(default_factory=dict)
    """Index -> attempt, from STARTING until its end is durable."""
    given: dict[str, IndexSet] = msgspec.field(default_factory=dict)
    """Machine -> jobs it was given. Those of them that run are with it; all other running jobs are with the machine
    called `main`."""
    attempts: dict[int, int] = msgspec.field(default_factory=dict)
    """Attempts used, for pending indices that were started before."""
    unbegun: IndexSet = IndexSet()
    """Jobs that were started before, whose every attempt but the one at hand was given back unbegun."""
    next_batch: int = 0
    outgoing: dict[int, Outgoing] = msgspec.field(default_factory=dict)
    control_seq: int = 0
    cancelled: IndexSet = IndexSet()
    held: IndexSet = IndexSet()
    """Jobs that do not start; those that had started run on."""
    recalled: IndexSet = IndexSet()
    """Jobs that go back to the origin unless they started."""
    went_back: IndexSet = IndexSet()
    """Jobs that came here as an export and went back."""
    saving: IndexSet = IndexSet()
    """Jobs that ran when they were asked to save their state and stop."""
    making_way: dict[str, IndexSet] = msgspec.field(default_factory=dict)
    """The reason that their user is told -> running jobs that are to end for a gang."""

    environment: Environment = ()
    """Environment that its components are told beside their ranks; empty before they are let go."""

    @cached_property
    def spec(self) -> GroupSpec:
        """Spec of its jobs; in a gang the one of its alike components here."""
        return of_part(decode_spec(self.spec_bytes).with_memory(self.memory_bytes), self.indices, self.processors)

    @cached_property
    def gang_size(self) -> int:
        """Indices of each gang of its group; all waiting claims are compared by it, again and again."""
        return self.spec.gang_size

    @cached_property
    def template(self) -> str:
        return template_key(self.spec)

    @property
    def key(self) -> CustodyKey:
        return (self.subgroup, self.epoch)

    def unstarted(self) -> IndexSet:
        """Return its jobs that were given to no machine; before it is runnable, a component may have been."""
        return self.pending if self.runnable or self.spec.is_gang else self.indices

    def startable(self) -> IndexSet:
        """Return the pending jobs that nobody holds."""
        return self.pending - self.held

    def revocable(self) -> IndexSet:
        """Return the recalled jobs that were never given to a machine, or were given back unbegun each time. Any other
        counts as started, whatever came of it: elsewhere it would start anew as an attempt that was made here."""
        back = self.recalled & self.pending
        return back - IndexSet.of(i for i in self.attempts if i in back and i not in self.unbegun) if back else back

    def never_begun(self) -> IndexSet:
        """Return the running jobs no attempt of which began before the one at hand."""
        first = self.attempt_base + 1
        return IndexSet.of(i for i, attempt in self.running.items() if attempt == first or i in self.unbegun)

    def makes_way(self) -> IndexSet:
        """Return the running jobs that are to end for a gang."""
        return IndexSet.union(self.making_way.values()) if self.making_way else IndexSet()

    def over(self) -> bool:
        return self.runnable and not self.pending and not self.running

    def by_machine(self, indices: Iterable[int]) -> dict[str, list[int]]:
        """Return machine -> those of these running jobs that it has; machines in order of their names."""
        left = set(indices)
        out: dict[str, list[int]] = {}
        for machine, mine in self.given.items():
            taken = [index for index in mine if index in left]
            if taken:
                out[machine] = taken
                left.difference_update(taken)
        if left:
            out[MAIN_MACHINE] = sorted((*left, *out.get(MAIN_MACHINE, ())))
        return {machine: out[machine] for machine in sorted(out)}


class Service(msgspec.Struct, kw_only=True):
    """D: jobs started here per user, decaying with every start (SPEC D4, default mode).

    Instead of shrinking all figures, new starts count ever more: only ratios are ever used.
    """

    weight: float = 1.0
    """Weight of one job that starts now."""
    jobs: dict[str, float] = {}
    started: float = 0.0
    """Weighted jobs of all users."""
    processors: float = 0.0

    def give(self, user: str, jobs: int, processors: int, half_life: float) -> None:
        self.jobs[user] = self.jobs.get(user, 0.0) + jobs * self.weight
        self.started += jobs * self.weight
        self.processors += jobs * processors * self.weight
        self.weight *= 2.0 ** (jobs / half_life)
        if self.weight > 1e100:
            self.jobs = {u: j / self.weight for u, j in self.jobs.items() if j / self.weight > 1e-9}
            self.started /= self.weight
            self.processors /= self.weight
            self.weight = 1.0

    def total_jobs(self) -> float:
        """Return the decayed jobs of all users, in units of a job started now."""
        return self.started / self.weight


class Tombstone(msgspec.Struct, frozen=True):
    """D: this transfer is over here. `done`: it ran and was acknowledged; else it never can run."""

    done: bool
    at_s: float
    origin: SiteId
    indices: IndexSet = IndexSet()
    """Jobs whose results were acknowledged."""
    went_back: IndexSet = IndexSet()
    """Jobs that came here as an export and went back: they do not come as one again."""
    offer: bytes = b""
    offered: IndexSet = IndexSet()
    """As of the custody it was."""


class PeerMemory(msgspec.Struct, frozen=True):
    db_uuid: str
    generation: int
    boot_nonce: str
    seq: int
    """Records in its longest journal heard of."""
    former: tuple[str, ...] = ()
    """Databases it had before this one, the latest last: whoever comes back with one of them is an older copy."""
    seal: bytes = b""
    """Its own, of `seq`."""
    names: tuple[str, ...] = ()
    """Names that its journal had before, by its own word."""
    sealing: bool = False
    """True if its release once made seals: then it can show what it heard."""


class SiteState(msgspec.Struct, kw_only=True):
    seq: int = 0
    """Records folded into this: the journal's own count."""
    db_uuid: str = ""
    generation: int = 0
    boot_nonce: str = ""
    former: tuple[str, ...] = ()
    """Names that this journal had before, the latest last."""
    begun: tuple[int, ...] = ()
    """Records in this journal before each of its latest boots, this one last."""
    seal_key: bytes = b""
    """Secret of this site's seals. In the journal, so that both machines of a pair and a restored backup have it."""
    settings: Settings = Settings()
    next_group: int = 1
    groups: dict[GroupId, Group] = {}
    keys: dict[str, GroupId] = {}
    """`OWNER KEY` -> group."""
    custodies: dict[CustodyKey, Custody] = {}
    machines: dict[str, Machine] = {}
    """Member machines of this site; its own is not among them."""
    presences: dict[str, Presence] = {}
    """Machine -> how long it was there, the leading one included. Empty at a site that never had a second machine."""
    led: str = ""
    """Machine that led when they were counted last; empty: they never were."""
    led_process: str = ""
    """Identity of its node's process then."""
    handed_to: str = ""
    """Machine to which that one was about to hand over, as planned; empty: none."""
    handed_s: float = -1.0
    """Site time of the last planned hand-over; negative: there was none."""
    service: Service = msgspec.field(default_factory=Service)
    tombstones: dict[CustodyKey, Tombstone] = {}
    datasets: dict[str, RegisteredDataset] = {}
    produced: dict[str, str] = {}
    """Dataset made by groups -> owner of the groups: only that owner's may make the next version."""
    peers: dict[SiteId, PeerMemory] = {}
    links: dict[SiteId, LinkHistory] = {}
    """Measurements of this site's links, by the other end."""
    contacts: dict[SiteId, KnownAt] = {}
    """Addresses at which sites were reached; not all of a large VO."""
    run_times: RunTimes = msgspec.field(default_factory=RunTimes)
    """D: run times of jobs that ended here."""
    work_times: RunTimes = msgspec.field(default_factory=RunTimes)
    """O: run times of jobs whose results came from other sites, at reference speed."""
    model_ratios: RunTimes = msgspec.field(default_factory=RunTimes)
    """O: run times over those of their groups' models."""
    site_ratios: RunTimes = msgspec.field(default_factory=RunTimes)
    """O: the same by site: `TEMPLATE/SITE`."""
    run_fits: RunFits = msgspec.field(default_factory=RunFits)
    """O: run times over processors and sites, of groups whose model is learned."""
    output_sizes: OutputSizes = msgspec.field(default_factory=OutputSizes)
    """O: outputs of jobs whose results were accepted."""
    errors: Errors = msgspec.field(default_factory=Errors)
    """O: errors of the ends that 0.1.0 predicted, in waves of mean runs."""
    past_ends: PastEnds = msgspec.field(default_factory=PastEnds)
    """O: scores of predicted ends."""
    disowned: dict[SiteId, dict[SubgroupId, Disowned]] = {}
    """O: transfers placed anew, by their old sites, which have not said yet that they start none of them
    (`handover/leases.py`)."""
    registers: dict[SiteId, Register] = {}
    """Registers of the sites that this one is the witness of (`membership/witness.py`)."""
    ledger: dict[str, Signed] = {}
    """Statements of the VO's signers, by what they are about: the newest of each."""
    invitations: dict[str, Invitation] = {}
    """Invitations that this site gave out, by their ids."""
    reported: dict[SiteId, bool] = {}
    """O: site -> whether it has told what it holds (True) or is waited for (False), since this store was put back."""
    recovering: bool = False
    """True once the store was put back: sites that have not told since what they hold are asked."""
    forgotten: tuple[tuple[int, int], ...] = ()
    """Ranges of group numbers, from and up to, that may have been given out since the store was copied."""
    lost_from: int = 0
    """The first of them whose groups peers may still show; 0: of a release that did not ask for these."""
    expired: IndexSet = IndexSet()
    """Those of them whose groups came back, ended, and were forgotten by their age: they do not come back twice."""
    drained: str = ""
    """Why the site takes no new work, by its operator's word; empty: it does."""
    maintenance: tuple[Window, ...] = ()
    """Windows that operators announced."""
    moments: tuple[SiteMoment, ...] = ()
    """Changes of the site, oldest first, at most `MOST_MOMENTS`."""


SNAPSHOT_VERSION = 2
"""1: without gangs, requirements and packages, as 0.1.0 reads it (`codec.py`)."""


def _encode_hook(value: Any) -> Any:
    if isinstance(value, FinishedSet):
        return value.dump()
    raise TypeError(f"no snapshot form for {type(value).__name__}")


def _decode_hook(wanted: type, value: Any) -> Any:
    if wanted is FinishedSet:
        return FinishedSet.load({int(k): v for k, v in value.items()})
    raise TypeError(f"no snapshot form for {wanted.__name__}")


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_hook)
_decoder = msgspec.msgpack.Decoder(SiteState, dec_hook=_decode_hook)


def encode_state(state: SiteState) -> bytes:
    specs = (one.spec_bytes for some in (state.groups, state.custodies) for one in some.values())
    newer = any(map(is_newer, specs)) or any(may_require(one.spec_bytes) for one in state.groups.values())
    version = SNAPSHOT_VERSION if newer else 1
    return bytes([version]) + _encoder.encode(state)


def decode_state(snapshot: bytes, by: str = "") -> SiteState:
    """Inverse of `encode_state` for this and every older version; StoreNewer for a later one. `by`: the release that
    wrote it, where that is known."""
    if snapshot[0] not in (1, SNAPSHOT_VERSION):
        raise StoreNewer(f"snapshot: {of_newer(snapshot[0], SNAPSHOT_VERSION, by)}; start the newer release")
    return _decoder.decode(memoryview(snapshot)[1:])
