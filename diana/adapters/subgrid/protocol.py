"""The messages between a RootGrid and its member machines, and their encoding: frames of msgpack lists.

Both ends are of one site, but may be of different releases for a while. The first message each way carries the
schema version; fields are only ever added at the end, with a default. Runs travel in columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from diana.bounds import decoded
from diana.engine.journal.events import Run
from diana.model.data import DataFile
from diana.model.facts import Facts
from diana.model.ids import SubgroupId
from diana.model.job import declared
from diana.model.job import resources as res
from diana.model.job.checkpoint import SavedJob
from diana.model.job.resources import ResourceOffer
from diana.model.kept_log import LiveLog
from diana.model.run_columns import Runs
from diana.model.signals import MOST_SIGNAL

VERSION = 1
MOST_FRAME_BYTES = 1 << 20
"""Bytes up to about which messages go together in a frame; one message never needs much more."""
FRAME_LIMIT_BYTES = 4 << 20
RUNS_PER_MESSAGE = 10_000
FILES_PER_MESSAGE = 2_000


class _Message(msgspec.Struct, array_like=True, tag=True):
    pass


# --- member to RootGrid ------------------------------------------------------------------------------


class Hello(_Message):
    """The first message. `identity` belongs to the data directory: another one under the same machine name is
    another machine."""

    version: int
    machine: str
    identity: str
    release: str
    term: int
    """Highest term that this machine ever obeyed."""
    slots: int
    memory_bytes: int
    may_lead: bool = False
    """True if it keeps the site's journal: outputs it gathered while it led stay there as long as anybody may ask
    for them."""


class Ready(_Message):
    """Beginning of an inventory: runs that the machine has claimed and not been told to forget follow in `Known`,
    the last of which says so. Every order of an older session that is not among them was dropped and will never be
    claimed."""

    session: int
    slots: int
    memory_bytes: int
    subgroups: list[str] = []
    """Subgroups whose files lie here."""
    software: list[str] = []
    """Software that jobs may ask for there (`model/job/software.py`). An older release tells none: it would run them
    without."""
    gpus: int = 0
    """GPUs that jobs may ask for, each of which has its own. An older release tells none."""
    recalls: bool = False
    """True if it heeds `Recall`."""
    scratch_bytes: int = 0
    """Size of the disk where jobs have their scratch directories. An older release tells none."""
    scratch_free_bytes: int = -1
    """Bytes of it that are free; -1: not known."""
    claim_log: str = ""
    """Identity of its spawner's claim log. An older release tells none."""
    shows_logs: bool = False
    """True if it answers `ShowLog`."""
    resources: list[tuple[str, int]] = []
    """(name, how many) of what its operator declares for jobs (`model/job/declared.py`). An older release tells none.
    """

    @property
    def offer(self) -> ResourceOffer:
        """Return the offer of the machine to one job, without what makes no sense. Its licences are its site's."""
        sizes = {res.MEMORY: self.memory_bytes, res.SCRATCH: self.scratch_bytes}
        most = res.of({**dict(declared.sane(self.resources)), **sizes, res.GPUS: self.gpus})
        return ResourceOffer(max(0, self.slots), dict(most), tuple(self.software))


class Known(_Message):
    session: int
    runs: list[Runs]
    last: bool


class SpawnerLost(_Message, tag="Lost"):
    """The machine's spawner is gone; a `Ready` follows when it has another."""


class Load(_Message):
    """Sign of life, sent now and then."""

    busy: float
    """Load average per processor."""
    sent_s: float = -1.0
    """Time of sending by the machine's clock; the next `Beat` repeats it."""
    scratch_free_bytes: int = -1
    """Bytes free of the disk that `Ready` told of; -1: about as many as said last."""


class LogShown(_Message):
    """Answer to `ShowLog`."""

    number: int
    log: LiveLog


class HeldRuns(_Message):
    """Runs that wait at the barrier; said again after each `Ready` of those that still do. Only said of orders that had
    a barrier, which an older RootGrid does not give."""

    runs: list[Runs]
    port: int
    """A port that is free there just now."""


class StepsTold(_Message):
    """Progress of running jobs with a contract, which an older RootGrid does not give: at most one a second of each."""

    runs: list[Runs]
    steps: list[list[tuple[float, float, float]]]
    """For each run of `runs`: (seconds since it was reported, steps done, steps in all)."""
    own: list[list[tuple[float, int]]] = []
    """For each run of `runs`: (seconds of its own part of a step, number of the roster that it computes by); empty:
    none tells it."""


# --- RootGrid to member ------------------------------------------------------------------------------


class Welcome(_Message):
    version: int
    term: int
    link: int
    """Number of the stream, to be named in deliveries."""
    now_s: float
    """Site time."""
    urls: list[str] = []
    """Beginnings of the URLs that jobs of this site may read."""
    leaders: list[str] = []
    """host:port of all machines that may lead the site, this one first."""


class Refused(_Message):
    """Answer to Hello; the stream ends."""

    reason: str
    leader: str = ""
    """host:port of the machine that leads the site, where this one knows it."""


class Spec(_Message):
    """Spec of a subgroup, sent once per subgroup and stream, before its first order."""

    subgroup: str
    spec: bytes
    """Spec as canonical JSON."""


class Files(_Message):
    """Inputs of a subgroup that the orders after this one read: to be fetched from the RootGrid, by content."""

    subgroup: str
    files: list[DataFile]


class Order(_Message):
    """Order to claim and run these jobs. Dropped where `session` is not the last one told, or `term` is not the one
    greeted with."""

    session: int
    term: int
    subgroup: str
    epoch: int
    owner: str
    bounds: tuple[int, ...]
    """Bounds of the IndexSet of indices."""
    attempts: list[tuple[int, int]]
    """(index, attempt) where the attempt is not 1."""
    refs: list[str]
    """Refs of the told files that these jobs read."""
    lease: str = ""
    """Origin whose lease they run under; empty: none."""
    hold_s: float = -1.0
    """Seconds, when this was made, for which the jobs hold their slots and wait for `LetGo`; negative: they do not.
    Only for a member that offers `BARRIER`."""
    saved: list[SavedJob] = []
    """Checkpoints that some of the jobs go on from. Only for a member that offers `CHECKPOINT`."""


class Kill(_Message):
    term: int
    subgroup: str
    epoch: int
    bounds: tuple[int, ...]


class Recall(_Message):
    """Order to give jobs back: those that have not begun never will, and are delivered UNBEGUN; the others run on."""

    term: int
    subgroup: str
    epoch: int
    bounds: tuple[int, ...]


class AskToSave(_Message):
    """Order to ask jobs that run to save their state and stop. Only for a member that offers `CHECKPOINT`."""

    term: int
    subgroup: str
    epoch: int
    bounds: tuple[int, ...]
    signal: str
    """Name of the signal, without SIG."""
    wait_s: float
    """Seconds within which a job must have come to heed it."""


class LetGo(_Message):
    """Order to let jobs go that wait at the barrier."""

    term: int
    subgroup: str
    epoch: int
    bounds: tuple[int, ...]
    environment: list[tuple[str, str]]
    """Environment that all of the gang are told, beside their ranks."""
    size: int
    """Components of the gang."""
    spares: int = 0
    """Those of them that stand by at first."""


class RosterTold(_Message):
    """Word to components that run on who of their gang computes. Only for a member that offers `SPARES`."""

    term: int
    subgroup: str
    epoch: int
    bounds: tuple[int, ...]
    number: int
    active: tuple[int, ...]


class Forget(_Message):
    runs: list[Runs]


class Drop(_Message):
    """Notice that nothing of these subgroups is needed any more."""

    subgroups: list[str]


class Expired(_Message):
    """Notice that nobody knows these groups any more. Only told to a machine that may lead."""

    groups: list[str]


class ShowLog(_Message):
    """Question for at most `most` bytes of the log of a run that has not ended (`staging/refs.py`, LiveRef)."""

    number: int
    subgroup: str
    epoch: int
    index: int
    attempt: int
    start: int
    most: int


class Beat(_Message):
    now_s: float
    """Site time."""
    leases: list[tuple[str, float]] = []
    """(origin, seconds left when this was made)."""
    load_sent_s: float = -1.0
    """Time of sending of the last `Load` heard, by the machine's clock. It lies before this message was made, so
    leases that count from it end no later than they should, however long the message was on its way."""


FromMember = Hello | Ready | Known | SpawnerLost | Load | HeldRuns | LogShown | StepsTold
FromRoot = (
    Welcome
    | Refused
    | Spec
    | Files
    | Order
    | Kill
    | Recall
    | AskToSave
    | RosterTold
    | LetGo
    | Forget
    | Drop
    | Expired
    | ShowLog
    | Beat
)


# --- deliveries --------------------------------------------------------------------------------------


class DeliveredRuns(msgspec.Struct, array_like=True):
    """Ended runs of one subgroup and epoch. Log positions are the member's; times are site time."""

    link: int
    ticket: int
    subgroup: str
    epoch: int
    facts: Facts

    def data_bytes(self) -> int:
        """Return the bytes of data that follow."""
        return sum(self.facts.log_lengths) + sum(output.size_bytes for output in self.facts.outputs)


_encoder = msgspec.msgpack.Encoder()
_from_member: msgspec.msgpack.Decoder[list[FromMember]] = msgspec.msgpack.Decoder(list[FromMember])
_from_root: msgspec.msgpack.Decoder[list[FromRoot]] = msgspec.msgpack.Decoder(list[FromRoot])
_batch = msgspec.msgpack.Decoder(DeliveredRuns)


def encode_one(message: FromMember | FromRoot) -> bytes:
    return _encoder.encode(message)


def pack(encoded: Sequence[bytes]) -> bytes:
    """Make a frame of messages already encoded."""
    return _encoder.encode([msgspec.Raw(each) for each in encoded])


def from_member(frame: bytes) -> list[FromMember]:
    """Decode a frame; ValueError for nonsense."""
    return decoded(_from_member.decode, frame)


def from_root(frame: bytes) -> list[FromRoot]:
    """Decode a frame; ValueError for nonsense."""
    return decoded(_from_root.decode, frame)


def encode_batch(batch: DeliveredRuns) -> bytes:
    return _encoder.encode(batch)


def decode_batch(data: bytes) -> DeliveredRuns:
    """Decode a batch. ValueError for nonsense, columns of unequal length and sizes below zero among it."""
    batch = decoded(_batch.decode, data)
    facts = batch.facts
    columns: tuple[Sequence[object], ...] = (
        *(facts.attempts, facts.outcomes, facts.exit_codes, facts.started_s, facts.ended_s, facts.cpu_s),
        *(facts.max_rss_bytes, facts.log_segments, facts.log_offsets, facts.log_lengths, facts.log_truncated),
    )
    if facts.signals:
        columns = (*columns, facts.signals)
    if any(len(column) != len(facts.indices) for column in columns):
        raise ValueError("columns of unequal length")
    if min([0, *facts.log_lengths, *(output.size_bytes for output in facts.outputs)]) < 0:
        raise ValueError("a size below zero")
    if facts.signals and not 0 <= min(facts.signals) <= max(facts.signals) <= MOST_SIGNAL:
        raise ValueError("a number that no signal has")
    return batch


def columns(runs: Iterable[Run]) -> list[Runs]:
    """Make columns of runs, in order of their names."""
    out: dict[tuple[str, int], Runs] = {}
    for subgroup, epoch, index, attempt in sorted((r.subgroup, r.epoch, r.index, r.attempt) for r in runs):
        named = out.get((subgroup, epoch))
        if named is None:
            named = out[subgroup, epoch] = Runs(subgroup, epoch, [], [])
        named.indices.append(index)
        named.attempts.append(attempt)
    return list(out.values())


def runs_of(named: Iterable[Runs]) -> list[Run]:
    """Return the runs of columns, the inverse of `columns`; ValueError for columns of unequal length."""
    return [
        Run(SubgroupId(each.subgroup), each.epoch, index, attempt)
        for each in named
        for index, attempt in zip(each.indices, each.attempts, strict=True)
    ]


def in_parts(runs: Sequence[Run]) -> list[list[Run]]:
    """Cut runs into pieces that fit a message each; at least one."""
    return [list(runs[at : at + RUNS_PER_MESSAGE]) for at in range(0, len(runs), RUNS_PER_MESSAGE)] or [[]]
