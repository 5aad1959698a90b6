"""Everything an engine can ask of its driver.

The records of one `handle` call are one transaction. The driver makes them durable, then releases the other
effects in order; nothing leaves before the records that stand before it are durable.
"""

from __future__ import annotations

import msgspec

from diana.engine.journal.events import Run
from diana.engine.journal.records import Record
from diana.engine.messages.messages import Message
from diana.model.data import Fetch
from diana.model.facts import Facts, FactsKey
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.checkpoint import SavedJob
from diana.model.job.spec import GroupSpec
from diana.model.trust.register import Register
from diana.model.views.decision import Decision
from diana.model.views.views import Answer


class Persist(msgspec.Struct, frozen=True):
    """Append to the journal."""

    record: Record


class KeepFacts(msgspec.Struct, frozen=True):
    """Store a chunk of facts in the same transaction as the records. The same key again changes nothing."""

    key: FactsKey
    facts: Facts


class Send(msgspec.Struct, frozen=True):
    """Send a message, best effort: it may be lost, doubled, reordered. The engine resends what matters."""

    to: SiteId
    message: Message


class SendResult(msgspec.Struct, frozen=True):
    """Send `Result` with the facts chunk of this key, read from the store (empty columns if there is none)."""

    to: SiteId
    key: FactsKey
    cancelled: IndexSet
    bytes_staged: int = 0
    revoked: IndexSet = IndexSet()
    db_uuid: str = ""
    seq: int = 0
    seal: bytes = b""


class Contact(msgspec.Struct, frozen=True, kw_only=True):
    """The ways to reach a site; told anew, whole, when any of them changes."""

    site: SiteId
    address: str
    """host:port; empty: it can only dial out, or nobody knows."""
    via: tuple[SiteId, ...] = ()
    """Sites that have streams to it, one of which may relay."""
    keep: bool = False
    """True: hold a stream to it, and make it again when it falls. False: make one when something is sent there."""


class TrustChanged(msgspec.Struct, frozen=True):
    """All that the VO has revoked, told whole: (who, since when in seconds since 1970, why). Their streams end."""

    revoked: tuple[tuple[str, float, str], ...]


class ForgetContact(msgspec.Struct, frozen=True):
    """Forget a site: no stream to it is wanted, nor will anything be sent there."""

    site: SiteId


class GroupAccepted(msgspec.Struct, frozen=True):
    group: GroupId
    jobs: int


class GroupsAccepted(msgspec.Struct, frozen=True):
    """The groups of one submission, in the order written."""

    groups: tuple[GroupAccepted, ...]


class DecisionMade(msgspec.Struct, frozen=True):
    decision: Decision
    waits: bool = False
    """True if jobs that cannot start at once would wait for their turn."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """`code`: usage, denied, unplaceable, unreachable, retry. `text`: what, where, the mend."""

    code: str
    text: str
    retry_after_s: float = 0.0
    decision: Decision | None = None
    """Each site, and why it does not take the group; None: that is not what was asked, or not known."""


class RegisterIs(msgspec.Struct, frozen=True):
    """The register of a site this one is the witness of; None: nothing was recorded yet."""

    register: Register | None


class Reply(msgspec.Struct, frozen=True):
    request: int
    body: GroupAccepted | GroupsAccepted | DecisionMade | Answer | RegisterIs | Refusal


class Notify(msgspec.Struct, frozen=True):
    """The group changed in a way its watchers want to see."""

    group: GroupId


GATHERED = "@gathered"
"""`Start.directory` for the group's own output folder, wherever the driver keeps it."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Run these jobs, in order, as slots come free. Durable as STARTING before this leaves."""

    worker: str = MAIN_MACHINE
    """The machine that is to run them."""
    session: int
    """The session of the worker's `LrmReady` this order relies on; the adapter drops it when another session stands."""
    term: int = 0
    """The term of the leader that gives the order; a worker that saw a higher one refuses it. 0: there is no
    standby."""
    subgroup: SubgroupId
    epoch: int
    owner: str
    spec: GroupSpec
    indices: IndexSet
    attempts: tuple[tuple[int, int], ...] = ()
    """(index, attempt) where the attempt is not 1."""
    directory: str = ""
    """The folder to run in instead of the job's own (the merge command); empty: the job's own."""
    lease: str = ""
    """The origin whose lease the jobs need: they run only while it stands (`RenewLease`). Empty: for ever."""
    barrier_s: float = 0.0
    """Site time until which the jobs hold their slots, and wait for `Go` to begin; then they end UNBEGUN, whatever
    becomes of this process. 0: they begin at once. Only for workers with the software `BARRIER`."""
    saved: tuple[SavedJob, ...] = ()
    """Checkpoints that some of them go on from; their files are staged in. Only for workers with the software
    `CHECKPOINT`."""


class Go(msgspec.Struct, frozen=True, kw_only=True):
    """Let jobs go that wait at the barrier. Those that are gone from it end UNBEGUN, or have; those that were let go
    run on. While the worker is away the order need not be kept: `AtBarrier` is told again when it is back."""

    worker: str
    subgroup: SubgroupId
    epoch: int
    indices: IndexSet
    environment: tuple[tuple[str, str], ...]
    """Environment that all of the gang are told, beside their ranks (`model/job/gang.py`)."""
    size: int
    """Components of the gang: a job's rank is its index modulo this."""
    spares: int = 0
    """Those of them that stand by at first."""


class MeetHosts(msgspec.Struct, frozen=True, kw_only=True):
    """Look whether this machine reaches the hosts of a gang's other components, and say so by `HostsMet`: a connection
    that is made, or refused by the host itself, is enough, and carries nothing."""

    subgroup: SubgroupId
    epoch: int
    hosts: tuple[str, ...]
    ports: tuple[int, ...]


class RenewLease(msgspec.Struct, frozen=True, kw_only=True):
    """Let jobs under the lease of this origin, started or yet to start, run until then and no longer, whatever becomes
    of this process: TERM, grace, KILL by each machine itself. Such runs end LEASE_OVER."""

    origin: SiteId
    until_s: float
    """Site time; only ever later than told before."""


class KillRuns(msgspec.Struct, frozen=True, kw_only=True):
    """End these runs (TERM, grace, KILL) or drop them unstarted; each still reports JobsEnded, CANCELLED."""

    worker: str = MAIN_MACHINE
    """The machine that was given them. While it is away the order need not be kept: it is given again when the machine
    is ready."""
    subgroup: SubgroupId
    epoch: int
    indices: IndexSet


class RecallRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Give back those of these runs that have not begun: none of them ever begins, and each reports JobsEnded, UNBEGUN.
    The others run on, and nothing is said of them. For workers that said they can (`LrmReady.recalls`); while one is
    away the order need not be kept: it is given again when the worker is ready."""

    worker: str
    subgroup: SubgroupId
    epoch: int
    indices: IndexSet


class SaveRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Ask those of these runs that have begun to save their state and stop; each that does reports JobsEnded,
    CHECKPOINTED, the others run on. For workers with the software `CHECKPOINT`; while one is away the order need not be
    kept: it is given again when the worker is ready."""

    worker: str
    subgroup: SubgroupId
    epoch: int
    indices: IndexSet
    signal: str
    """Name of the signal, without SIG."""
    wait_s: float
    """Seconds within which a run must have come to heed the signal; else it is left alone."""


class TellRoster(msgspec.Struct, frozen=True, kw_only=True):
    """Tell these components of a gang, which run, who of it computes. For workers with the software `SPARES`; while one
    is away the word need not be kept: the origin says it again until the components compute so."""

    worker: str
    subgroup: SubgroupId
    epoch: int
    indices: IndexSet
    number: int
    active: tuple[int, ...]


class ForgetRuns(msgspec.Struct, frozen=True):
    """Forget these runs: their end is durable here, and the worker need not tell it again. An attempt was given to one
    worker only, so other workers may be told too."""

    runs: tuple[Run, ...]
    worker: str = ""
    """The worker that told of runs that are none of its own, which alone is to forget them; empty: whoever has them."""


class StageIn(msgspec.Struct, frozen=True, kw_only=True):
    """Have these files at hand for the subgroup's jobs (verified, pinned until `DropSubgroup`)."""

    ticket: int
    subgroup: SubgroupId
    files: tuple[Fetch, ...]
    owner: str = ""
    """Owner of the jobs, whose account reads what only an account of this machine may read."""


class Gather(msgspec.Struct, frozen=True, kw_only=True):
    """Bring the output files of one facts chunk into the group's output folder, verified and durable."""

    ticket: int
    source: SiteId
    key: FactsKey
    to: str
    """`Outputs.to`; empty: the group's own folder."""
    skip: IndexSet = IndexSet()
    """Jobs of the batch that were retried since: their outputs count no more."""
    saved: bool = False
    """True if the files are checkpoints: each becomes a blob that the group uses, and stands in no folder."""
    replaces: tuple[tuple[SubgroupId, IndexSet], ...] = ()
    """Parts with those of their jobs that were tried again: what earlier attempts of the batch's jobs left, and the
    batch does not, goes out of the folder first."""


class RegisterOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """Put what the group left into this site's catalogue, durably. Answered by `OutputsInCatalogue` of the same
    ticket; told again for the same content it changes nothing."""

    ticket: int
    group: GroupId
    dataset: str
    to: str
    """`Outputs.to`; with an absolute folder of the user's only outputs the results name belong to it."""
    superseded: tuple[tuple[SubgroupId, IndexSet], ...] = ()
    """(subgroup, jobs) whose results from there count no more."""
    new_version: bool = False
    """True if the name stands for other content of the same owner's, which stays as an older version."""


class LookUp(msgspec.Struct, frozen=True, kw_only=True):
    """Ask what this site holds of these refs. Answered by `LookedUp` of the same ticket; changes nothing."""

    ticket: int
    refs: tuple[str, ...]
    """`dataset:NAME` (as one unit), `dataset:NAME/FILE`, `url:URL`."""
    owner: str = ""
    """Owner of the group that would read them; empty where a peer asks, who is told of datasets alone."""


class CancelStage(msgspec.Struct, frozen=True):
    ticket: int


class DropOutputs(msgspec.Struct, frozen=True):
    """The origin has them: delete the local copies of this chunk's outputs."""

    key: FactsKey
    dataset: str = ""
    """The dataset they are about to be files of: keep them as cached replicas, as far as the cache has room. Empty:
    none."""


class DropSubgroup(msgspec.Struct, frozen=True):
    """Drop a subgroup that is over here: unpin its inputs, delete its directories. Logs and facts stay until
    `DropGroup`."""

    subgroup: SubgroupId


class DropGroup(msgspec.Struct, frozen=True):
    """Drop a group: delete facts, logs and uploaded blobs; never outputs in a folder the user named."""

    group: GroupId
    outputs: bool = False
    """True: also what was gathered in the node's own folder for it; its user said so."""


class StartAnew(msgspec.Struct, frozen=True):
    """The journal is an older copy than this site had: give the store this name, mark it as restored, start again."""

    db_uuid: str


class Confirmed(msgspec.Struct, frozen=True):
    """Mark the store as the newest: nobody could tell at the start whether it had all it ever held, and now all sites
    it knew have said that it lacks nothing. Without this mark a later start must not take it for the newest."""


class HandOver(msgspec.Struct, frozen=True):
    """Have the standby lead in this machine's place, in an orderly way; `HandOverFailed` if it comes to nothing."""

    to: str


class Warn(msgspec.Struct, frozen=True):
    """Write to the node's log, and of a peer to the audit trail: nonsense it said, an invariant that looks wrong."""

    text: str
    by: SiteId = SiteId("")
    """The peer that said it; empty: none did."""
    machine: str = ""
    """The machine of this site that said it; empty: none did."""


Effect = (
    Persist
    | KeepFacts
    | Send
    | SendResult
    | Contact
    | ForgetContact
    | TrustChanged
    | Reply
    | Notify
    | Start
    | Go
    | RenewLease
    | KillRuns
    | RecallRuns
    | SaveRuns
    | TellRoster
    | ForgetRuns
    | StageIn
    | Gather
    | MeetHosts
    | RegisterOutputs
    | LookUp
    | CancelStage
    | DropOutputs
    | DropSubgroup
    | DropGroup
    | StartAnew
    | Confirmed
    | HandOver
    | Warn
)
