"""Messages between engines. `wire/peer_codec.py` maps each class to the protobuf message of the same name in
`proto/diana/v1/peer.proto`; field names are equal there.

`Hello` and `Retry` belong to the connection; the rest is handled by the engine, every handler idempotent.
The hand-over messages are those of PROMISES section 2: (subgroup, epoch) names the transfer.
"""

from __future__ import annotations

import msgspec

from diana.engine.messages.binding import Reserve, TurnCall
from diana.engine.messages.exchange import GangRoster
from diana.engine.messages.leases import Renew, Renewed
from diana.engine.messages.migration import RoomGrant, RoomRequest, Surplus, WorkInvited
from diana.engine.messages.orders import OriginOrder
from diana.engine.messages.recovery import Holdings, Met
from diana.engine.messages.wanted import Wanted
from diana.model.assignment import Assignment
from diana.model.data import DataFile
from diana.model.facts import Facts
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.trust.ledger import Signed
from diana.model.views.queue import QueueView, Waiting


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """First envelope on a stream, each way."""

    site: SiteId
    protocol: int
    release: str
    capabilities: tuple[str, ...]
    db_uuid: str
    generation: int
    """Boot generation: one more at every start of the node, journaled before it is said."""
    boot_nonce: str
    """Differs at every start, so that a copied database that boots to a seen generation shows."""
    seq: int
    """Records in the journal before this start: never fewer than a peer has heard of, unless an older copy was put
    back."""
    term: int
    data_address: str
    """host:port of the node's data service."""
    former: tuple[str, ...] = ()
    """Names that its journal had before, the latest last."""
    begun: tuple[int, ...] = ()
    """Records in its journal before each of its latest starts, this one last."""
    seal: bytes = b""
    """Its own, of `seq` (`policy/trust/seals.py`). Empty: its release makes none, and keeps none of others."""


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """The receiver is overloaded and dropped one message; ask again after this long."""

    after_s: float


class Summary(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    site: SiteId
    generation: int
    counter: int
    """Newer (generation, counter) replaces older."""
    seq: int
    """Records in the site's journal when it said this."""
    slots: int
    free_slots: int
    speed: float
    queued_jobs: int
    running_jobs: int
    work_ahead_s: float
    datasets: tuple[str, ...]
    accepting: bool
    links: tuple[LinkEstimate, ...] = ()
    """The site's links measured last, at most 16. Only some summaries carry them; those told last stand until told
    anew."""
    address: str = ""
    """host:port where it is reached; empty: it can only dial out."""
    via: tuple[SiteId, ...] = ()
    """Sites it has streams to, at most 4: one of them may relay."""
    release: str = ""
    protocol: int = 0
    named_at: int = 0
    """Counter, in this generation, at which `datasets` last changed."""
    unnamed: bool = False
    """True if `datasets` is left out here: whoever has those of the same `named_at` keeps them, others ask."""
    left: bool = False
    """True for a goodbye: the site stopped, and comes back with a later generation if at all."""
    loose: bool = False
    """First hand: the sender does not hold the stream this comes over."""
    known: int = 0
    """First hand: sites it knows of that are not lost, itself included."""
    members: int = 0
    """First hand: fingerprint of the sites that `known` counts, combined of `policy.membership.mark` of each."""
    complete: bool = False
    """First hand: it has streams to all of them."""
    ledger: str = ""
    """First hand: digest of the VO's ledger as the site has it."""
    drained: str = ""
    """Why it takes no new work, if its operator said so."""
    machines: int = 0
    """Machines of the site; 0: its release does not say."""
    notice: str = ""
    """Announcement of its maintenance, next or under way, in one line; empty: none is planned."""
    seal: bytes = b""
    """First hand: its own, of `seq`."""
    memory_bytes: int = 0
    """The most memory one job can have there; 0: not known."""
    gpus: int = 0
    """GPUs of all its machines."""
    domain: str = ""
    """Name that requirements know the site by; empty: none."""
    widest: int = 0
    """Processors of its widest machine, where that has fewer than the site; 0: as many, or its release does not say."""
    resources: dict[str, int] = {}
    """Declared resource -> the most that one job can have there, of at most `declared.MOST_DECLARED`; of so many there
    may be others. A site whose release does not say has none."""
    properties: dict[str, str] = {}
    """Name -> text that its operator declares, of `properties.MOST_BYTES` together at most."""
    declares: bool = False
    """True if these are all that it declares, though they be none. False: its release does not say, or that of a site
    which passed this on left them out."""


class Rumour(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The state of a site at this version of its summary, by the word of others."""

    site: SiteId
    generation: int
    counter: int
    state: int
    """`policy.membership.State`."""
    by: SiteId
    """The site that missed it first-hand; in a digest, the sender."""


class LedgerNews(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of the VO's ledger, between peers whose digests differ, or as soon as one is made. Idempotent."""

    statements: tuple[Signed, ...] = ()
    asks: tuple[str, ...] = ()
    """Statements wanted, by `Signed.ident`."""
    told: bool = False
    """True if `has` is all that the sender knows: the statements it lacks are to be sent."""
    has: tuple[str, ...] = ()


class HeardFrom(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The way of an entry to the sender, by the sites that passed it on and never met its site."""

    sites: tuple[SiteId, ...] = ()
    """The latest first; none: the sender has met it, or does not say."""


class Gossip(msgspec.Struct, frozen=True, kw_only=True):
    """Part of what the sender knows of others: idempotent, in any order."""

    entries: tuple[Summary, ...] = ()
    ages_s: tuple[float, ...] = ()
    """Per entry: seconds since its site said so, as far as the sites it passed through know."""
    rumours: tuple[Rumour, ...] = ()
    digest: tuple[Rumour, ...] = ()
    """States of some sites here: a receiver that knows newer ones says so, one that knows less asks."""
    asks: tuple[SiteId, ...] = ()
    """Sites whose entries are wanted whole."""
    asks_all: bool = False
    """True if the sender is new: it wants everything, a part at a time."""
    heard_from: tuple[HeardFrom, ...] = ()
    """Per entry; empty as a whole where none has a way. Who vouches for a site that nobody has met is known by it."""


MOST_COMPONENT_KINDS = 64
"""Kinds of components that a site is asked about; of a gang with more nothing is known of the others."""


class ComponentKind(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Request of one component, beside what all of its gang ask alike. `amounts`: resource -> amount."""

    processors: int
    amounts: dict[str, int] = {}


class QuoteRequest(Wanted, frozen=True, kw_only=True):
    quote: int
    """Chosen by the asker; the answer repeats it."""
    refs: tuple[str, ...]
    """`dataset:NAME` or `dataset:NAME/FILE`."""
    part: int = 0
    """Number of this stretch of the asker's refs, from 0; the next one is asked when this one was answered."""
    raised: bool = False
    """True if they would come from a congested site in paper mode, and stand one level higher (section IX)."""
    behind: bool = False
    """True if they would come from another site without a raise: the quote counts all that waits, and all that is
    promised room, as before them."""
    coming: bool = False
    """True: tell when processors come free for such jobs (`Quote.coming`)."""
    kinds: bool = False
    """True: tell the kinds of machines (`Quote.kinds`)."""
    components: tuple[ComponentKind, ...] = ()
    """Kinds of components of gangs whose components differ, at most `MOST_COMPONENT_KINDS`; the jobs are as the least
    of them."""
    offers: tuple[str, ...] = ()
    """Names, as in `software`, that the group's requirements ask about; the jobs need none of them."""


class LinkEstimate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The answering site's forecast of fetching from `site`. Negative: not measured."""

    site: SiteId
    rtt_s: float
    bytes_per_s: float
    jitter_s: float = 0.0
    loss: float = 0.0
    """Share of pings that went unanswered."""
    error: float = 0.0
    """Past error of the throughput forecast, relative; negative: fewer than two samples."""
    age_s: float = 0.0
    """Seconds since the newest throughput sample; since the newest round trip where throughput was never measured."""
    backlog_bytes: int = 0
    """Bytes ordered from there and not here yet, as far as the answering site knows: they share the link."""
    predictor: str = ""
    """Predictor that made the throughput forecast (or else that of the round trip), of `samples` samples."""
    samples: int = 0


class ComingRoom(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Room that jobs of the asker would find some time from now, behind all that stands before them."""

    after_s: float
    processors: int
    gpus: int = 0
    free: dict[str, int] = {}
    """As in `Quote`, by then."""


class MachineKind(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Machines of a site that are alike. `speed`: of one processor, relative to the reference; `memory_bytes` and
    `gpus`: of one machine, memory 0 where it is not known; `platform`: as `uname -m` names it, empty where it is not
    known; `idle`: processors of all of them that nobody holds."""

    count: int
    processors: int
    speed: float
    memory_bytes: int = 0
    gpus: int = 0
    platform: str = ""
    idle: int = 0


class Quote(msgspec.Struct, frozen=True, kw_only=True):
    quote: int
    rejected: str
    slots: int
    free_slots: int
    speed: float
    work_ahead_s: float
    files: tuple[DataFile, ...]
    """Every asked ref that is registered at this site, as one unit each."""
    cached: tuple[DataFile, ...] = ()
    """Asked refs of which this site has a replica it may evict."""
    unknown_refs: tuple[str, ...]
    """Asked files that are not in their dataset, though it is registered here."""
    links: tuple[LinkEstimate, ...]
    """Links to the asker, to holders of the asked data as far as they are known here, and the freshest others."""
    run_low_s: float = 0.0
    run_s: float = 0.0
    run_high_s: float = 0.0
    """`run_low_s`, `run_s` and `run_high_s`: 10, 50 and 90 % of the asker's jobs of this template that ended here took
    less."""
    run_mean_s: float = 0.0
    runs_seen: int = 0
    """Jobs that the four run times rest on; 0: none, they mean nothing."""
    wait_s: float = 0.0
    wait_low_s: float = 0.0
    wait_high_s: float = 0.0
    """`wait_s`, and its range `wait_low_s` to `wait_high_s`: seconds that the jobs would lose to all that stands before
    them at their priority."""
    jobs_ahead: int = 0
    priority: float = 0.0
    """Priority that the jobs would get."""
    queued_jobs: int = 0
    busy_fraction: float = 0.0
    near_miss: str = ""
    """With `rejected`: the one thing about the jobs that would have to be otherwise; empty: it is not up to them."""
    uplink_bytes_per_s: float = 0.0
    """Bytes per second of the site's uplink, which all its transfers share; 0: not known."""
    part: int = 0
    """`part` of the request."""
    max_jobs: int = 0
    """The most of the asked jobs that are taken; 0: all of them."""
    reach: tuple[SiteId, ...] = ()
    """Sites in its reach, where they are few enough to be named: it can fetch from no other. Empty: not said."""
    software: tuple[str, ...] = ()
    """The asked software and licences that it has. A site of an older release names none: it would run jobs without."""
    reserves: bool = False
    """True if the site takes reservations: jobs may wait for their turn there and stay unbound."""
    startable: int = 0
    """Asked jobs that would start at once, behind all that stands and is reserved there."""
    widest: int = 0
    """The most processors that one job can have there. 0: its release does not say."""
    free_gpus: int = 0
    """GPUs that nobody has asked for."""
    memory_bytes: int = 0
    """The most memory one job can have there; 0: not known."""
    gpus: int = 0
    """GPUs of all its machines."""
    domain: str = ""
    """Name that requirements know the site by; empty: none."""
    coming: tuple[ComingRoom, ...] = ()
    """Room as it grows, at most `forecast.MOST_STEPS` steps. Empty: not asked for, or its release does not say."""
    kinds: tuple[MachineKind, ...] = ()
    """Kinds of its machines, at most `machines.kinds.MOST_KINDS`, those of most processors first. Empty: not asked for,
    or its release does not say."""
    free: dict[str, int] = {}
    """Asked resource without a field of its own -> how much of it nobody has asked for, over all machines. Empty: none
    was asked for, or its release does not say."""
    whole: dict[str, int] = {}
    """The same -> how much there is in all."""
    unfit: tuple[str, ...] = ()
    """Reasons why no machine could ever run a component, one for each asked kind; empty text: one could."""
    gang_most: int = 0
    """Processors that components of gangs may hold there at one time, all gangs together, by the site's quota. 0: all,
    or its release does not say."""
    gang_held: int = 0
    """Those that they hold."""
    properties: dict[str, str] = {}
    """As in `Summary`."""
    offers: tuple[str, ...] = ()
    """Names among the `offers` of the request that it has."""
    lacks: tuple[str, ...] = ()
    """The others. Neither is told by a site of an older release."""


class Authorisation(msgspec.Struct, frozen=True, kw_only=True):
    """A signed statement: `owner` asks for the spec with this hash. Verified by `ports.Keyring`."""

    owner: str
    """VO principal, `name@vo`."""
    spec_sha256: str
    group: GroupId
    expires_wall_s: float
    signer: str
    """The signer: `site:SITE` or `user:NAME@VO`."""
    certificate: bytes
    """PEM chain of the signer."""
    signature: bytes
    signed_wall_s: float = 0.0
    """Time of signing: the certificate must have been in date then. 0: not said, it must be in date when it is
    checked."""
    audience: str = ""
    """The site that a user signed it for, where the group was submitted. Empty: a site signed."""
    submission: str = ""
    """Signed by a user instead of `group`, which had no name yet: the submission's key and the place within it."""


class Prepare(Assignment, frozen=True, kw_only=True):
    """Step 1: take this, inert. An order as the others are."""

    spec: bytes
    """Canonical bytes of the GroupSpec, opaque on the way."""
    authorisation: Authorisation
    submitted_s: float
    """The origin's site time; capped at receipt."""
    room: int = 0
    """Number of the room that the receiver keeps for them (RoomGrant). 0: none."""
    origin_db_uuid: str = ""
    origin_seq: int = 0
    seal: bytes = b""
    """The origin's, of that length."""
    offer: bytes = b""
    """The origin's, of this offer to this site: who shows it again was offered these jobs."""
    receipt: bytes = b""
    """The origin's, of the group: who shows it again with the spec brings the group back to an origin that lost it."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """Step 2."""

    subgroup: SubgroupId
    epoch: int
    db_uuid: str
    seq: int
    """Records in the destination's journal, this PREPARED among them."""
    seal: bytes = b""
    """The sender's, of `seq`."""
    staged: bool = False
    """True once all inputs of a component are there; False for ordinary jobs."""


class GangClaim(OriginOrder, frozen=True, kw_only=True):
    """Hold processors for a component, all that the offer names, until all of its gang are let go by Commit (SPEC K5).
    Said again until it is answered by Claimed, or by Aborted."""

    db_uuid: str
    """The database the PREPARED stands in; another one answers Lost."""
    wait_s: float
    """Seconds, from when it comes, after which a claim that waits for processors lapses unless it is asked for again.
    An origin gives up before."""
    hold_s: float = 0.0
    """Seconds for which its processors are held at most, from when the first of them are. 0: `wait_s`."""
    meet_hosts: tuple[str, ...] = ()
    """Once all components are claimed: addresses of the others, which a site that looks tries before it answers."""
    meet_ports: tuple[int, ...] = ()
    """A port at each of them."""


class GangClaimed(msgspec.Struct, frozen=True, kw_only=True):
    """The component's processors are held, its task waits to be let go."""

    subgroup: SubgroupId
    epoch: int
    host: str
    """Address at which other components reach it."""
    port: int
    """A port that is free there for the gang's own use."""
    left_s: float = 0.0
    """Seconds after which its processors are free again unless it is let go; 0: the site was restarted meanwhile and
    does not know."""
    hosts: tuple[str, ...] = ()
    """Where its indices are on several machines: the address of each, in their order; `host` is the first's. An older
    release tells none."""
    looks: bool = False
    """True if the site looks for the hosts of a claim before its component is let go; older releases do not."""
    met: bool = False
    """True if it has, and every one was reached or `out_of_reach` names one."""
    out_of_reach: str = ""
    """The first of these hosts that it does not reach; empty: it reaches all."""
    made_way: str = ""
    """Who made way for the claim there, in words; empty: nobody."""


class GangYield(msgspec.Struct, frozen=True, kw_only=True):
    """A better gang waits for what this component holds; its origin gives the gang up, unless it was let go."""

    subgroup: SubgroupId
    epoch: int


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Instead of Prepared: not taken, nothing kept. The origin places the work elsewhere."""

    subgroup: SubgroupId
    epoch: int
    reason: str


class Commit(OriginOrder, frozen=True, kw_only=True):
    """Step 3."""

    db_uuid: str
    """The database the PREPARED stands in; another one answers Lost."""
    hosts: tuple[str, ...] = ()
    """Addresses of all components of its gang, by rank: it is let go with them. Empty for ordinary jobs."""
    port: int = 0
    """Port that is free at the first of them."""
    token: str = ""
    """Secret of the gang, by which its processes know each other."""
    items: tuple[int, ...] = ()
    """Items of data of each component, by rank; empty: none are divided."""


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """Step 4: runnable there."""

    subgroup: SubgroupId
    epoch: int


class Abort(OriginOrder, frozen=True, kw_only=True):
    """The origin took an offer back before its commit point."""


class Aborted(msgspec.Struct, frozen=True, kw_only=True):
    """A tombstone stands at the destination; this epoch can never run there."""

    subgroup: SubgroupId
    epoch: int
    db_uuid: str = ""
    """Database the tombstone stands in: it frees nothing that was committed to another one."""
    seq: int = 0
    seal: bytes = b""
    """The sender's, of `seq`."""
    reason: str = ""
    """Why a component came to nothing there; one line."""
    unrestored: bool = False
    """True: a file of the checkpoint that it was to go on from is not to be had as it was saved."""
    unable: bool = False
    """True: a machine there could not begin a component: its command is not there, say."""


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to Commit or Control for a transfer this database has never seen."""

    subgroup: SubgroupId
    epoch: int
    db_uuid: str


class JobSteps(msgspec.Struct, frozen=True):
    """Progress of a running job, by its own reports."""

    index: int
    attempt: int
    done: float
    """Steps done."""
    total: float
    """Steps in all."""
    last_s: float
    """Seconds of the latest step, or of the one under way if that takes longer."""
    mean_s: float
    """Mean seconds of a step over the window of its contract."""
    own_last_s: float = 0.0
    """Seconds of its own part of the latest step, without waiting for others; of a spare, those that it would take for
    such a part. 0: it does not tell, or told it too seldom."""
    own_mean_s: float = 0.0
    """Their mean over the latest reports."""
    roster: int = 0
    """Number of the roster that the process computes by."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """State of a transfer at its destination; advisory, newest `counter` wins."""

    subgroup: SubgroupId
    epoch: int
    counter: int
    staging: int
    queued: int
    running: int
    """Jobs on slots."""
    claimed: int = 0
    """Queued jobs that the LRM has already: they count as started."""
    held: IndexSet
    """Waiting jobs that do not start until they are released."""
    level: str = ""
    """Level of the best of its queued jobs, Q1 to Q4; empty: none is queued."""
    priority: float = 0.0
    """Priority of the best of its queued jobs."""
    note: str = ""
    """Why its jobs wait for their inputs longer than they should; one line."""
    stopped: str = ""
    """Why no more of them start there, as too many failed at once: they are to be called back. Empty: they start."""
    control_seq: int = 0
    """Number of the standing order it obeyed when it counted; 0: none yet, or a release that does not tell."""
    steps: tuple[JobSteps, ...] = ()
    """Progress of running jobs with a contract, the first ones of many."""
    db_uuid: str = ""
    seq: int = 0
    """Records in the destination's journal, as in Prepared."""
    seal: bytes = b""
    """The sender's, of `seq`."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Step 7: one batch of finished jobs. An empty one, of a batch that was acknowledged, asks: are its outputs there
    yet?"""

    subgroup: SubgroupId
    epoch: int
    batch: int
    facts: Facts
    cancelled: IndexSet
    """Jobs cancelled before they started: they have no facts."""
    revoked: IndexSet = IndexSet()
    """Recalled jobs that had not started: this epoch never starts them, the origin has them again."""
    bytes_staged: int = 0
    """Input bytes brought to the site since the last batch."""
    db_uuid: str = ""
    seq: int = 0
    """Records in the destination's journal, as in Prepared."""
    seal: bytes = b""
    """The sender's, of `seq`."""


class ResultAck(OriginOrder, frozen=True, kw_only=True):
    """Step 8. `outputs_taken`: the batch's output files stand at the origin, the copies may go."""

    batch: int
    outputs_taken: bool


class Control(OriginOrder, frozen=True, kw_only=True):
    """The standing order for a transfer, whole each time: the highest `control_seq` replaces what stood before."""

    control_seq: int
    cancel: IndexSet
    hold: IndexSet
    """Jobs that do not start, if they have not."""
    recall: IndexSet = IndexSet()
    """Jobs that go back to the origin if they have not started; those that have, stay."""
    export: IndexSet = IndexSet()
    """Those of `recall` that go to another site as an export. What came as one stays."""
    anew: bool = False
    """True if the origin's database took the work over from an older one, and gives the order as its own."""
    save: IndexSet = IndexSet()
    """Jobs that save their state, stop and come back if they run."""
    save_seq: int = 0
    """Number of the order that said so last: whoever took one as late has asked them."""


class ControlAck(msgspec.Struct, frozen=True, kw_only=True):
    subgroup: SubgroupId
    epoch: int
    control_seq: int


class QueueRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Question of a client of the asker, how the queues stand; read-only and answered at once."""

    query: int
    """Chosen by the asker; the answer repeats it."""
    whole: bool
    """True if the site's queues as a whole are asked for."""
    parts: tuple[SubgroupId, ...]
    """Parts that the asker handed over, whose waiting jobs are asked for."""


class QueueReport(msgspec.Struct, frozen=True, kw_only=True):
    query: int
    queue: QueueView | None = None
    """The site's queues as a whole, if they were asked for."""
    parts: tuple[Waiting, ...]


Message = (
    Summary
    | Gossip
    | LedgerNews
    | QuoteRequest
    | Quote
    | Prepare
    | Prepared
    | GangClaim
    | GangClaimed
    | GangYield
    | GangRoster
    | Refused
    | Commit
    | Committed
    | Abort
    | Aborted
    | Lost
    | Progress
    | Result
    | ResultAck
    | Control
    | ControlAck
    | QueueRequest
    | QueueReport
    | Met
    | Holdings
    | Surplus
    | WorkInvited
    | RoomRequest
    | RoomGrant
    | Reserve
    | TurnCall
    | Renew
    | Renewed
)
"""All messages that `Send` carries and `Received` brings."""
