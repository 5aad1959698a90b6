"""The lines of a site's journal: facts that happened, never requests. State is their fold (`engine/journal/fold.py`);
`engine/journal/codec.py` says how they are stored. `O` and `D` mark records of an origin and of an executing site
(PROMISES section 2).
"""

from __future__ import annotations

import msgspec

from diana.engine.messages.messages import Authorisation
from diana.model.assignment import Assignment
from diana.model.bygone import GroupOrder
from diana.model.data import RegisteredDataset
from diana.model.facts import FactsKey
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, SubgroupId, group_of
from diana.model.indexset import IndexSet
from diana.model.job.checkpoint import SavedJob
from diana.model.learned import RunSample
from diana.model.maintenance import Window
from diana.model.presence import LeadGiven, RollCall
from diana.model.settings import Settings
from diana.model.sketch import Batch
from diana.model.trust.contact import KnownAt
from diana.model.trust.invitation import Invitation
from diana.model.trust.ledger import Signed
from diana.model.trust.register import Register
from diana.model.views.decision import Decision, Foretold
from diana.model.views.link import LinkSamples


class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True): ...


class _OfTransfer(_Record, frozen=True, kw_only=True):
    subgroup: SubgroupId
    epoch: int


class _OfGroup(_Record, frozen=True, kw_only=True):
    group: GroupId


class _Standing(_OfTransfer, frozen=True, kw_only=True):
    control_seq: int
    cancel: IndexSet = IndexSet()
    hold: IndexSet = IndexSet()
    recall: IndexSet = IndexSet()
    origin_db: str = ""
    """The origin's database, where it gives an older one's order as its own; else empty."""
    save: IndexSet = IndexSet()
    """Jobs that save their state and stop if they run."""
    save_seq: int = 0
    """Number of the order that said so last: jobs that start after it are not meant."""


class Opened(_Record, frozen=True, kw_only=True):
    """The node started."""

    generation: int
    boot_nonce: str
    db_uuid: str
    restored: bool = False
    """True if the store is a restored backup: everything not terminal is held."""
    first_group: int = 0
    """Number of the next group of a restored store. 0, as in older journals: `SKIPPED_GROUPS` on."""
    seal_key: bytes = b""
    """Secret of this site's seals from now on (`policy/trust/seals.py`). Empty: it has one, or makes none."""


class SettingsChanged(_Record, frozen=True, kw_only=True):
    settings: Settings
    at_s: float = 0.0
    """Site time; 0: written by 0.1.0."""


class GroupSubmitted(_OfGroup, frozen=True, kw_only=True):
    """O: acknowledged to the user once durable."""

    owner: str
    key: str
    spec: bytes
    jobs: int
    refs: tuple[tuple[str, IndexSet], ...]
    submitted_s: float
    wall_s: float
    authorisation: Authorisation
    after: tuple[GroupId, ...] = ()
    """Groups that must be done before it is placed."""
    chain: tuple[GroupId, ...] = ()
    """All groups of a submission of several, in the order written; only in the first of them."""
    notify: tuple[str, ...] = ()
    """Targets that are told when it is over."""
    returned: bool = False
    """True: the journal lost it with its end, and a site that was offered jobs of it showed the receipt."""


class Part(Assignment, frozen=True, kw_only=True, omit_defaults=True):
    """One subgroup of a placement."""

    site: SiteId
    room: int = 0
    """Number of the room that the site keeps for them; 0: none."""


class GroupPlaced(_OfGroup, frozen=True, kw_only=True):
    """O: unplaced -> OFFERED at other sites; parts placed at home are committed and runnable with this record."""

    decision: Decision
    parts: tuple[Part, ...]
    foretold: Foretold | None = None
    """Forecast of the whole group, where it was made before this placement: its jobs waited for their turn."""


class TransferCommitted(_OfTransfer, frozen=True, kw_only=True):
    """O, step 3: the commit point."""

    db_uuid: str


class ClaimedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A component that is let go: its transfer, and the database in which its claim stands."""

    subgroup: SubgroupId
    epoch: int
    db_uuid: str
    made_way: str = ""
    """Who made way for it at its site, in words; empty: nobody."""


class GangGo(_OfGroup, frozen=True, kw_only=True):
    """O: the commit point of a gang. All its components are let go, or none is (SPEC K5)."""

    parts: tuple[ClaimedPart, ...]
    environment: tuple[tuple[str, str], ...]
    unused: IndexSet = IndexSet()
    """Indices that a flexible gang, as it was divided, has no component for."""


class ProcessExchanged(_OfGroup, frozen=True, kw_only=True):
    """O: a spare of a gang that runs takes the place of a slow component (SPEC G6). The components are told after
    this, again and again until they compute so."""

    gang: int
    """Number of the gang within the group."""
    epoch: int
    """Epoch of its attempt: that of its latest part."""
    number: int
    """Exchanges of the attempt, this one counted: the higher one counts, whichever word comes last."""
    active: tuple[int, ...]
    """Ranks that compute from then on, by their places."""
    slow: int
    spare: int
    reason: str
    at_s: float


class CommitAcked(_OfTransfer, frozen=True, kw_only=True):
    """O, step 4."""


class TakenBack(_OfTransfer, frozen=True, kw_only=True):
    """O: the offer was refused, aborted or never arrived; the indices are unplaced again."""

    reason: str
    unrestored: bool = False
    """True: the checkpoint that its gang was to go on from is not used any more."""


class PartUnreachable(_OfTransfer, frozen=True, kw_only=True):
    """O: the destination lost its database; what was committed there is neither run again nor forgotten."""

    reason: str


class ResultAccepted(_OfTransfer, frozen=True, kw_only=True):
    """O, step 8."""

    batch: int
    done: IndexSet = IndexSet()
    failed: IndexSet = IndexSet()
    cancelled: IndexSet = IndexSet()
    held: IndexSet = IndexSet()
    has_outputs: bool = False
    first_start_s: float = -1.0
    """Seconds after submission by the executing site's account; negative: nothing started."""
    last_end_s: float = -1.0
    last_start_s: float = -1.0
    """As `first_start_s`, of the last to start; only of components."""
    bytes_staged: int = 0
    attempts: int = 0
    """The highest attempt among them."""
    note: str = ""
    """The first error line of the batch."""
    took: Batch = ()
    """Run times of those that were done, at reference speed; only of another site's jobs."""
    ratios: Batch = ()
    """Run times of those that were done over that of the group's model; empty: it has none."""
    output_bytes: int = 0
    """Bytes of outputs of those that were done."""
    learned: RunSample | None = None
    """Run time of those that were done over processors and sites; None: the group's model is not learned."""
    revoked: IndexSet = IndexSet()
    """Jobs recalled before they started: unplaced again."""
    db_uuid: str = ""
    seq: int = 0
    """Records in another site's journal when it told; `db_uuid` is its database."""
    seal: bytes = b""
    """The seal that the site itself gave to this length."""
    saved: tuple[SavedJob, ...] = ()
    """Jobs that stopped at a checkpoint, or could not begin from one: unplaced again. Those with files wait until these
    are here."""
    timed_out: IndexSet = IndexSet()
    """Those of `failed` that took too long."""
    out_of_memory: IndexSet = IndexSet()
    """Those of `failed` that used more memory than they may."""
    made_way: IndexSet = IndexSet()
    """Those of `saved` that their site ended for a gang; `note` says for which."""
    unrestored: IndexSet = IndexSet()
    """Those of `saved` that never began, since their checkpoint is not as it was saved: it is not used any more. `note`
    says which, and why."""


class ResultStale(_OfTransfer, frozen=True, kw_only=True):
    """O: a late result of a placement that no longer counts, kept aside."""

    batch: int
    jobs: int


class OutputsGathered(_OfTransfer, frozen=True, kw_only=True):
    """O: the batch's output files stand in the group's folder; or `error` says why they never will."""

    batch: int
    bytes_moved: int
    error: str = ""
    at_s: float = -1.0
    """Time of it, in seconds after submission."""


class JobsFailed(_OfGroup, frozen=True, kw_only=True):
    """O: components cannot begin where their gang may have them, and no site has them any more."""

    indices: IndexSet
    note: str


class JobsCancelled(_OfGroup, frozen=True, kw_only=True):
    """O: jobs were cancelled while no site had them."""

    indices: IndexSet
    asked: IndexSet = IndexSet()
    """Jobs that are also cancelled at sites which have yet to tell that they have some (`recovery/stocktaking.py`)."""
    ordered: GroupOrder | None = None
    """The user's order that this is the first record of; None: it is another's record, or nobody's order."""


class JobsMoved(_OfGroup, frozen=True, kw_only=True):
    """O: jobs are to go to the site `to` once no site has them; empty: wherever it is best."""

    indices: IndexSet
    to: SiteId
    why: str
    exported: bool = False
    """True if they count as exported from now on, which happens once (section IX)."""
    room: int = 0
    """Number of the room that `to` keeps for them; 0: none."""
    gain_s: float = 0.0
    """Seconds within which they are to start there, so that the move pays."""
    behind: bool = False
    """True if they get no raise there."""
    ordered: GroupOrder | None = None
    """The user's order that this is the first record of; None: it is another's record, or nobody's order."""


class HoldingChanged(_OfGroup, frozen=True, kw_only=True):
    """O: the held ones among the jobs that no site has."""

    holding: IndexSet
    ordered: GroupOrder | None = None
    """The user's order that this is the first record of; None: it is another's record, or nobody's order."""


class JobsRetried(_OfGroup, frozen=True, kw_only=True):
    """O: jobs that ended otherwise than done, or whose outputs are lost, are unplaced again; old results count no more.
    Index `jobs`: the merge."""

    indices: IndexSet
    by_itself: bool = False
    """True if nobody asked: the group's own `retries` did."""
    kinds: tuple[str, ...] = ()
    """Kinds of failures that its `retry` rules had tried again."""
    memory_bytes: int = 0
    """Memory of each job that is placed from now on; 0: as before."""
    not_before_s: float = 0.0
    """Site time before which none of the group is placed."""
    ordered: GroupOrder | None = None
    """The user's order that this is the first record of; None: it is another's record, or nobody's order."""


class ControlIssued(_Standing, frozen=True, kw_only=True):
    """O: the standing order for a placement, whole."""

    ordered: GroupOrder | None = None
    """The user's order that this is the first record of; None: it is another's record, or nobody's order."""


class ControlAcked(_OfTransfer, frozen=True, kw_only=True):
    """O: the destination acknowledged the standing order."""

    control_seq: int


ORDERED = (JobsCancelled, JobsMoved, HoldingChanged, JobsRetried, ControlIssued)
"""Records that take a user's order along."""


class MergeStarted(_OfGroup, frozen=True, kw_only=True):
    """O: all jobs are done and gathered; the merge runs at home as job number `jobs`."""

    part: Part
    spec: bytes


class OutputsRegistered(_OfGroup, frozen=True, kw_only=True):
    """O: the group's outputs stand in the catalogue here, durably; told in one transaction with the dataset."""

    dataset: str


class GroupClosed(_OfGroup, frozen=True, kw_only=True):
    """O: the group is over; nothing more will happen to it by itself."""

    state: str
    at_s: float
    note: str = ""


class GroupExpired(_OfGroup, frozen=True, kw_only=True):
    """O: the group is over, and nothing of it is kept any more: it was so for long, or its user dropped it."""


class CustodyTaken(Assignment, frozen=True, kw_only=True, tag_field="t", omit_defaults=False):
    """D, step 2: PREPARED, inert. Every field is written: a standby of release 0.1.0 does not do without."""

    origin: SiteId
    owner: str
    spec: bytes
    submitted_s: float
    raised: bool = False
    origin_db: str = ""
    arrived_s: float = 0.0
    """Site time of a move's arrival, from which its place among equals counts; 0: from the submission."""
    offer: bytes = b""
    """The origin's seal of the offer."""
    receipt: bytes = b""
    """The origin's, of the group."""


class CustodyRunnable(_OfTransfer, frozen=True, kw_only=True):
    """D, step 4. A component that was claimed is let go with this record."""

    environment: tuple[tuple[str, str], ...] = ()
    """Environment that all components of its gang are told."""


class CustodyDropped(_OfTransfer, frozen=True, kw_only=True):
    """D: tombstone ABORTED; this epoch can never run here."""

    at_s: float


class CustodyClosed(_OfTransfer, frozen=True, kw_only=True):
    """D, step 9: every result acknowledged; tombstone DONE."""

    at_s: float


class TombstoneExpired(_OfTransfer, frozen=True, kw_only=True):
    """D: the tombstone is forgotten."""


class ControlTaken(_Standing, frozen=True, kw_only=True):
    """D: the standing order that counts now."""


class RunsStarted(_OfTransfer, frozen=True, kw_only=True):
    """D, step 5: STARTING. Each index's attempt rises by one."""

    indices: IndexSet
    worker: str = MAIN_MACHINE
    """The machine they are given to."""


class RunsVoided(_OfTransfer, frozen=True, kw_only=True):
    """D: jobs given to the LRM but never claimed there are pending again."""

    indices: IndexSet


class RunsReturned(_OfTransfer, frozen=True, kw_only=True):
    """D: jobs that a worker gave back unbegun are pending again: those attempts never ran and never will."""

    indices: IndexSet


class RunsRepeated(_OfTransfer, frozen=True, kw_only=True):
    """D: jobs whose outcome is unknown or interrupted are pending again, under on_crash = rerun."""

    indices: IndexSet


class RunsMakeWay(_OfTransfer, frozen=True, kw_only=True):
    """D: running jobs are to end for a gang that waits for their processors. Durable before their machine is told."""

    indices: IndexSet
    gang: str
    """`GROUP.NUMBER`."""
    why: str
    """As the jobs' user is told it."""
    reason: str = ""
    """Why these and no others."""


class RunsEnded(_OfTransfer, frozen=True, kw_only=True):
    """D, step 7: a batch of ended jobs, their facts kept beside it. At home the origin's ResultAccepted follows."""

    batch: int
    ended: IndexSet
    """Jobs that had started, and those that could not be staged."""
    cancelled: IndexSet = IndexSet()
    """Jobs cancelled before they started; they have no facts."""
    revoked: IndexSet = IndexSet()
    """Jobs recalled before they started; this epoch never starts them."""
    has_outputs: bool = False
    bytes_staged: int = 0
    """Input bytes brought here since the last batch."""
    took: Batch = ()
    """Run times of those that ran and were done."""


class BatchAcked(_OfTransfer, frozen=True, kw_only=True):
    """D, step 8."""

    batch: int
    outputs_taken: bool


class DatasetAdded(_Record, frozen=True, kw_only=True):
    """A dataset was added, or another version of it is the newest now."""

    dataset: RegisteredDataset


class DatasetRemoved(_Record, frozen=True, kw_only=True):
    name: str


class PeerSeen(_Record, frozen=True, kw_only=True):
    """A peer showed itself with a database or a boot not seen before, or work was committed to a longer journal."""

    site: SiteId
    db_uuid: str
    generation: int
    boot_nonce: str
    seq: int
    seal: bytes = b""
    """The peer's own, of that length."""
    names: tuple[str, ...] = ()
    """Names that its journal had before, by its own word."""
    sealing: bool = False
    """True if its release makes seals, and keeps those of others."""


class LinksRecorded(_Record, frozen=True, kw_only=True):
    """Measurements of links since the last such record; in order of the site."""

    links: tuple[LinkSamples, ...]


class RegisterChanged(_Record, frozen=True, kw_only=True):
    """This site is the witness of `site`, whose register is now this one."""

    site: SiteId
    register: Register


class StatementKept(_Record, frozen=True, kw_only=True):
    """A statement of the VO's ledger: the newest about its subject."""

    signed: Signed


class DrainChanged(_Record, frozen=True, kw_only=True):
    """The operator's word: the site takes no new work, or again."""

    on: bool
    reason: str = ""
    at_s: float = 0.0
    """Site time; 0: written by 0.1.0."""


class MaintenancePlanned(_Record, frozen=True, kw_only=True):
    """All windows that operators have announced and that are not over."""

    windows: tuple[Window, ...] = ()


class InvitationNoted(_Record, frozen=True, kw_only=True):
    invitation: Invitation


class ContactsLearned(_Record, frozen=True, kw_only=True):
    """Contacts of sites, so that a restart finds the VO again whoever else is gone; of many sites only some. Also how
    the contact with this site's own machines was: 0.1.0 falls over a kind of record of its own, and reads past a field.
    """

    contacts: tuple[KnownAt, ...] = ()
    gone: tuple[SiteId, ...] = ()
    machines: RollCall | None = None
    """How long machines of this site were there so far (SPEC D8): those that came or went, hourly all of them."""
    lead: LeadGiven | None = None


# --- machines of a site ---------------------------------------------------------------------------------


class _OfMachine(_Record, frozen=True, kw_only=True):
    machine: str


class MachineKnown(_OfMachine, frozen=True, kw_only=True):
    """D: a machine of this site is ready, for the first time or with other figures than before."""

    slots: int
    memory_bytes: int = 0
    widest: int = 0
    gpus: tuple[int, int] = (0, 0)
    identity: str = ""
    software: tuple[str, ...] | None = None
    scratch_bytes: int = 0
    claim_log: str = ""
    speed: float = 0.0
    resources: tuple[tuple[str, int], ...] = ()


class MachineGone(_OfMachine, frozen=True, kw_only=True):
    """D: an operator gave the machine up; should it come back, the jobs it still runs are told to end."""


# --- work placed anew because its site is silent (`handover/leases.py`) ----------------------------------


class PartDisowned(_OfTransfer, frozen=True, kw_only=True):
    """O: these jobs, which have no result, no longer belong to the part's site; they are unplaced again. The standing
    order that cancels them there was issued with this."""

    indices: IndexSet
    held: IndexSet = IndexSet()
    """The disowned jobs that are not to start until released."""


class PartClosed(_OfTransfer, frozen=True, kw_only=True):
    """O: the lease under which the site ran the part's disowned components is surely over: their gang may begin anew
    before the site has said anything."""

    site: SiteId


class PartDropped(_OfTransfer, frozen=True, kw_only=True):
    """O: the site has said that it starts none of the part's disowned jobs."""

    site: SiteId


# --- a site whose store is an older one than it had (`site/journal_doubt.py`) ----------------------------


class PartReported(_Record, frozen=True, kw_only=True):
    """O: how a transfer stands at its destination, which outlived this site's own memory of it."""

    subgroup: SubgroupId
    epoch: int
    site: SiteId
    db_uuid: str
    open: IndexSet = IndexSet()
    told: IndexSet = IndexSet()
    """Their results were given to the database that is gone: held."""
    revoked: IndexSet = IndexSet()
    dropped: bool = False
    control_seq: int = 0
    """Number of the standing order that is obeyed there."""
    cancelled: IndexSet = IndexSet()
    holding: IndexSet = IndexSet()
    recalled: IndexSet = IndexSet()


class PeerReported(_Record, frozen=True, kw_only=True):
    """O: that site has told all that it holds; or, `waived`, an operator waits for it no longer."""

    site: SiteId
    waived: bool = False


class HoldLifted(_Record, frozen=True, kw_only=True):
    """O: its user lets a group of a restored store go on; what of it may have run since may run again."""

    group: GroupId


RecoveryRecord = PartReported | PeerReported | HoldLifted
Record = (
    RegisterChanged
    | Opened
    | SettingsChanged
    | GroupSubmitted
    | GroupPlaced
    | TransferCommitted
    | GangGo
    | ProcessExchanged
    | CommitAcked
    | TakenBack
    | PartUnreachable
    | PartDisowned
    | PartClosed
    | PartDropped
    | ResultAccepted
    | ResultStale
    | OutputsGathered
    | JobsFailed
    | JobsCancelled
    | HoldingChanged
    | JobsMoved
    | JobsRetried
    | ControlIssued
    | ControlAcked
    | MergeStarted
    | OutputsRegistered
    | GroupClosed
    | GroupExpired
    | CustodyTaken
    | CustodyRunnable
    | CustodyDropped
    | CustodyClosed
    | TombstoneExpired
    | ControlTaken
    | RunsStarted
    | MachineKnown
    | MachineGone
    | RunsVoided
    | RunsReturned
    | RunsRepeated
    | RunsMakeWay
    | RunsEnded
    | BatchAcked
    | DatasetAdded
    | DatasetRemoved
    | PeerSeen
    | LinksRecorded
    | ContactsLearned
    | StatementKept
    | DrainChanged
    | MaintenancePlanned
    | InvitationNoted
    | PartReported
    | PeerReported
    | HoldLifted
)


def facts_key(subgroup: SubgroupId, epoch: int, batch: int) -> FactsKey:
    return FactsKey(group=group_of(subgroup), subgroup=subgroup, epoch=epoch, batch=batch)
