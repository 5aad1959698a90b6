"""What a site remembers: the fold of its records, nothing else. `fold.py` is the only writer."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from diana.engine.machine_records import Machine as Machine
from diana.engine.messages import Authorisation
from diana.errors import StoreNewer, of_newer
from diana.model.contact import KnownAt
from diana.model.data import DataFile, Dataset
from diana.model.decision import Decision
from diana.model.facts import FactsKey
from diana.model.history import Errors, OutputSizes, RunTimes, outputs_key, template_key
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, SubgroupId
from diana.model.indexset import FinishedSet, IndexSet
from diana.model.invitation import Invitation
from diana.model.ledger import Signed
from diana.model.link import LinkHistory
from diana.model.maintenance import Window
from diana.model.register import Register
from diana.model.settings import Settings
from diana.model.spec import GroupSpec, decode_spec

CustodyKey = tuple[SubgroupId, int]
"""(subgroup, epoch)."""


class Step(StrEnum):
    """Where a placement stands at its origin."""

    OFFERED = "offered"
    COMMITTED = "committed"


class Subgroup(msgspec.Struct, kw_only=True):
    """O: one placement of part of a group. It ends when all its results are accepted or it is taken back."""

    part: SubgroupId
    epoch: int
    site: SiteId
    indices: IndexSet
    step: Step
    files: tuple[DataFile, ...] = ()
    sources: tuple[tuple[SiteId, ...], ...] = ()
    readers: tuple[IndexSet, ...] = ()
    max_parallel: int = 0
    attempt_base: int = 0
    exported: bool = False
    room: int = 0
    unguarded: bool = False
    """To be run there however many fail at once."""
    db_uuid: str = ""
    acked: bool = False
    """The destination said it is runnable there."""
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
    """Not to start there until released."""
    recalled: IndexSet = IndexSet()
    """To come back unless they have started; once the order is acknowledged, those left here have."""
    ordered_by: str = ""
    """The database that gave an older one's order as its own (`stocktaking.py`)."""
    decision: int = 0
    """Which of the group's it came from."""
    first_start_s: float = -1.0
    last_end_s: float = -1.0
    """Of its jobs so far, in seconds after submission; negative: none."""
    gathered_s: float = -1.0
    """When the last outputs came home, in seconds after submission; negative: none yet."""
    bytes_in: int = 0
    """Staged there for it, as told with its results."""
    superseded: IndexSet = IndexSet()
    """Were its jobs, and ended; placed anew since. No longer among `indices`."""
    disowned: IndexSet = IndexSet()
    """Were its jobs, and had no result when they were placed anew. No longer among `indices`."""

    def open_jobs(self) -> int:
        return len(self.indices) - self.finished


class Past(msgspec.Struct, kw_only=True):
    """O: a placement that was taken back, and which of its batches arrived all the same."""

    site: SiteId
    batches: IndexSet = IndexSet()
    disowned: IndexSet = IndexSet()
    """As of the placement."""


class Disowned(msgspec.Struct, frozen=True):
    """O: what a site may have still, and is to start no more."""

    epoch: int
    control_seq: int
    """Of the standing order that says so."""
    cancel: IndexSet
    recall: IndexSet = IndexSet()


class Moving(msgspec.Struct, frozen=True):
    """O: jobs that are called back, or have come back, to be placed anew."""

    indices: IndexSet
    to: SiteId
    """Empty: wherever it is best."""
    why: str
    room: int = 0
    """That `to` keeps for them; 0: none."""


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
    """Rises with every offer."""
    subgroups: dict[SubgroupId, Subgroup] = {}
    past: dict[SubgroupId, Past] = {}
    """The latest placements that were taken back."""
    moving: tuple[Moving, ...] = ()
    """Disjoint; what is placed is moved no more."""
    exported: IndexSet = IndexSet()
    """Jobs a congested site let go once; none does so again."""
    on_hold: str = ""
    """Why nothing more of it is placed; empty: it is."""
    holding: IndexSet = IndexSet()
    """Unplaced jobs that are not placed until released."""
    retried: IndexSet = IndexSet()
    """Jobs whose earlier attempts ended otherwise than done."""
    attempts: int = 0
    """The highest attempt of any result so far."""
    done: FinishedSet = msgspec.field(default_factory=FinishedSet)
    failed: FinishedSet = msgspec.field(default_factory=FinishedSet)
    cancelled: FinishedSet = msgspec.field(default_factory=FinishedSet)
    held: FinishedSet = msgspec.field(default_factory=FinishedSet)
    decisions: list[Decision] = []
    gathers: list[FactsKey] = []
    """Batches whose outputs are not here yet."""
    not_gathered: list[FactsKey] = []
    """Batches given up; their executing sites keep the files."""
    merge: str = ""
    """Empty, running, done, failed, cancelled or held."""
    merge_spec: bytes = b""
    registered: bool = False
    """Its outputs stand in the catalogue as the dataset the spec names."""
    after: tuple[GroupId, ...] = ()
    """Not placed before these are done (`dependencies.py`)."""
    chain: tuple[GroupId, ...] = ()
    """All groups of the submission it was the first of."""
    first_start_s: float = -1.0
    last_end_s: float = -1.0
    bytes_moved: int = 0
    stale_results: int = 0
    state: str = ""
    """done, failed, cancelled or held once closed."""
    closed_s: float = -1.0
    note: str = ""

    @cached_property
    def spec(self) -> GroupSpec:
        return decode_spec(self.spec_bytes)

    @cached_property
    def template(self) -> str:
        return template_key(self.spec)

    @cached_property
    def outputs_key(self) -> str:
        return outputs_key(self.spec)

    def ended_s(self) -> float:
        """When its last job ended or its last outputs were home, in seconds after submission; negative: none did."""
        return max([self.last_end_s, *(part.gathered_s for part in self.subgroups.values())])

    def finished(self) -> int:
        return len(self.done) + len(self.failed) + len(self.cancelled) + len(self.held)

    def settled(self, indices: IndexSet) -> bool:
        """Whether any of them has its result."""
        return any(kind.overlaps(indices) for kind in (self.done, self.failed, self.cancelled, self.held))

    def open_of(self, indices: IndexSet) -> IndexSet:
        """Those of them that have no result."""
        kinds = (self.done, self.failed, self.cancelled, self.held)
        return indices - IndexSet.union(kind.within(indices) for kind in kinds)

    def attempt_base(self, indices: IndexSet) -> int:
        """Where the attempts of a new placement of these jobs count on from."""
        return 0 if self.retried.isdisjoint(indices) else self.attempts


class Outgoing(msgspec.Struct, kw_only=True):
    """D: a batch of ended jobs on its way to the origin."""

    cancelled: IndexSet
    has_outputs: bool
    bytes_staged: int = 0
    revoked: IndexSet = IndexSet()
    acked: bool = False
    ended: IndexSet = IndexSet()


class Custody(msgspec.Struct, kw_only=True, dict=True):
    """D: a subgroup this site has been given to run."""

    subgroup: SubgroupId
    epoch: int
    origin: SiteId
    owner: str
    spec_bytes: bytes
    indices: IndexSet
    submitted_s: float
    files: tuple[DataFile, ...] = ()
    sources: tuple[tuple[SiteId, ...], ...] = ()
    readers: tuple[IndexSet, ...] = ()
    max_parallel: int = 0
    attempt_base: int = 0
    exported: bool = False
    """Came from a congested site, by its origin's word: not let go again."""
    raised: bool = False
    """Room was kept here for them: they stand one level higher (section IX)."""
    unguarded: bool = False
    """Started however many fail at once (`guard.py`)."""
    origin_db: str = ""
    """The origin's database that gave the last order about it; empty: this site's own, or an older release's."""
    runnable: bool = False
    on_hold: bool = False
    """Restored from a backup: nothing starts."""
    pending: IndexSet = IndexSet()
    running: dict[int, int] = {}
    """index -> attempt, from STARTING until its end is durable."""
    given: dict[str, IndexSet] = {}
    """Machine -> jobs it was given; those of them that run are with it, all other running ones are with the machine
    called `main`."""
    attempts: dict[int, int] = {}
    """Attempts used, for pending indices that were started before."""
    unbegun: IndexSet = IndexSet()
    """Of those that were started before, the ones whose every attempt but the one at hand was given back unbegun."""
    next_batch: int = 0
    outgoing: dict[int, Outgoing] = {}
    control_seq: int = 0
    cancelled: IndexSet = IndexSet()
    held: IndexSet = IndexSet()
    """Do not start; those that had started run on."""
    recalled: IndexSet = IndexSet()
    """Go back to the origin unless they started."""

    @cached_property
    def spec(self) -> GroupSpec:
        return decode_spec(self.spec_bytes)

    @cached_property
    def template(self) -> str:
        return template_key(self.spec)

    @property
    def key(self) -> CustodyKey:
        return (self.subgroup, self.epoch)

    def startable(self) -> IndexSet:
        """Pending jobs that nobody holds."""
        return self.pending - self.held

    def revocable(self) -> IndexSet:
        """Recalled jobs that were never given to a machine, or were given back unbegun each time. Any other counts as
        started, whatever came of it: it would start anew elsewhere as an attempt that was made here."""
        back = self.recalled & self.pending
        return back - IndexSet.of(i for i in self.attempts if i in back and i not in self.unbegun) if back else back

    def never_begun(self) -> IndexSet:
        """Running jobs no attempt of which began before the one at hand."""
        first = self.attempt_base + 1
        return IndexSet.of(i for i, attempt in self.running.items() if attempt == first or i in self.unbegun)

    def over(self) -> bool:
        return self.runnable and not self.pending and not self.running

    def by_machine(self, indices: Iterable[int]) -> dict[str, list[int]]:
        """Which machine has which of these running jobs; machines in order of their names."""
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
    """What one job started now counts."""
    jobs: dict[str, float] = {}
    started: float = 0.0
    """Of all users."""
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
        """Decayed jobs, in units of a job started now."""
        return self.started / self.weight


class Tombstone(msgspec.Struct, frozen=True):
    """D: this transfer is over here. `done`: it ran and was acknowledged; else it never can run."""

    done: bool
    at_s: float
    origin: SiteId
    indices: IndexSet = IndexSet()
    """Jobs whose results were acknowledged."""


class PeerMemory(msgspec.Struct, frozen=True):
    db_uuid: str
    generation: int
    boot_nonce: str
    seq: int
    """The longest journal heard of."""
    former: tuple[str, ...] = ()
    """db_uuids it had before this one, the latest last: whoever comes back with one of them is an older copy."""


class SiteState(msgspec.Struct, kw_only=True):
    seq: int = 0
    """Records folded into this: the journal's own count."""
    db_uuid: str = ""
    generation: int = 0
    boot_nonce: str = ""
    settings: Settings = Settings()
    next_group: int = 1
    groups: dict[GroupId, Group] = {}
    keys: dict[str, GroupId] = {}
    """`OWNER KEY` -> group."""
    custodies: dict[CustodyKey, Custody] = {}
    machines: dict[str, Machine] = {}
    """Member machines of this site; its own is not among them."""
    service: Service = msgspec.field(default_factory=Service)
    tombstones: dict[CustodyKey, Tombstone] = {}
    datasets: dict[str, Dataset] = {}
    produced: dict[str, str] = {}
    """Datasets that groups made -> whose groups: only theirs may make the next version."""
    peers: dict[SiteId, PeerMemory] = {}
    links: dict[SiteId, LinkHistory] = {}
    """What was measured of this site's links."""
    contacts: dict[SiteId, KnownAt] = {}
    """Where sites were reached; not all of a large VO."""
    run_times: RunTimes = msgspec.field(default_factory=RunTimes)
    """D: of jobs that ended here."""
    work_times: RunTimes = msgspec.field(default_factory=RunTimes)
    """O: of jobs whose results came from other sites, at reference speed."""
    output_sizes: OutputSizes = msgspec.field(default_factory=OutputSizes)
    """O: of jobs whose results were accepted."""
    errors: Errors = msgspec.field(default_factory=Errors)
    """O: of predicted ends."""
    disowned: dict[SiteId, dict[SubgroupId, Disowned]] = {}
    """O: placed anew, and its old site has not said yet that it starts none of it (`leases.py`)."""
    registers: dict[SiteId, Register] = {}
    """Of the sites this one is the witness of (`witness.py`)."""
    ledger: dict[str, Signed] = {}
    """What the VO's signers said, by what it is about: the newest."""
    invitations: dict[str, Invitation] = {}
    """That this site gave out, by their ids."""
    reported: dict[SiteId, bool] = {}
    """O: since this store was put back, who has told what it holds (True), and who is waited for (False)."""
    recovering: bool = False
    """The store was put back once; whoever was not asked since is."""
    forgotten: tuple[tuple[int, int], ...] = ()
    """Group numbers, from and up to, that may have been given out since it was copied."""
    drained: str = ""
    """Why the site takes no new work, by its operator's word; empty: it does."""
    maintenance: tuple[Window, ...] = ()
    """Windows that operators announced."""


SNAPSHOT_VERSION = 1


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
    return bytes([SNAPSHOT_VERSION]) + _encoder.encode(state)


def decode_state(snapshot: bytes, by: str = "") -> SiteState:
    """Inverse of `encode_state` for this and every older version; StoreNewer for a later one. `by`: the release that
    wrote it, where that is known."""
    if snapshot[0] != SNAPSHOT_VERSION:
        raise StoreNewer(f"snapshot: {of_newer(snapshot[0], SNAPSHOT_VERSION, by)}; start the newer release")
    return _decoder.decode(memoryview(snapshot)[1:])
