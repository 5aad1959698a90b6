"""The messages between node and spawner over the socket, and their frames: a 4-byte big-endian length, then msgpack.

The two may be of different releases, since a spawner outlives a restart of the node. The first message each way
carries the schema version; `decode` is the one place where older messages are brought up to date. Jobs travel in
columns: data they share stand once, and a column that says nothing is left empty.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from diana.model.job.grace import GRACE_S
from diana.model.run_columns import Runs

VERSION = 1
MAX_FRAME_BYTES = 64 << 20
MOST_PROCESSES = 8192
"""Processes that a job may have where nothing else is said."""

Collected = tuple[str, str, bool]
"""Path below the job's directory, output name, and True if it is kept whatever the exit (own stdout, stderr). More
stands in these texts (`adapters/lrm/wanted.py`), which a spawner hands through as they are."""


class _Message(msgspec.Struct, array_like=True, tag=True):
    pass


# --- node to spawner ---------------------------------------------------------------------------------


class Hello(_Message):
    """The first message. `term`: a spawner that saw a higher one refuses (a superseded leader may give no orders)."""

    version: int
    term: int
    site: str
    slots: int
    machine: str = ""
    """Name of this machine within its site."""
    run_as: str = ""
    """Path of the root program that becomes other accounts."""
    gpus: list[str] = []
    """Devices of this machine that are handed out to jobs, as CUDA names them."""
    hears_steps: bool = False
    """True if it takes `StepsDone`."""
    pins: bool = False
    """True: a job runs on the processors of its slots alone."""
    max_processes: int = 0
    """Most processes that a job may have; 0: `MOST_PROCESSES`."""


UNREADY_EXIT = 125
"""Exit code of the words before a command when they could not make ready what it needs."""
UNREADY_FILE = ".diana-unready"
"""File in TMPDIR, with job and attempt behind its name; while it is there the command was not executed, whatever the
exit code. It says why not."""
UNREADY = (
    "a module, the container, its launcher or runner, or the folder (cwd) it needs could not be made ready; its log "
    "says why"
)


class Order(_Message):
    """Order to claim these runs and start them as slots come free. Runs already claimed are passed over."""

    subgroup: str
    epoch: int
    group: str
    processors: int
    time_limit_s: float
    memory_bytes: int
    log_limit_bytes: int
    own_directory: bool
    directory: str
    """Working folder for all; empty: the job's own directory, or the slot's scratch."""
    indices: list[int]
    attempts: list[int]
    """Attempt of each run; empty: all 1."""
    argv: list[str]
    argvs: list[list[str]]
    """Command of each run; empty: all run `argv`."""
    environment: list[tuple[str, str]]
    environments: list[list[tuple[str, str]]]
    """Environment of each run; empty: all have `environment`."""
    stdouts: list[str]
    """Own files below the job's directory; empty list: the shared segment."""
    stderrs: list[str]
    collects: list[list[Collected]]
    """Kept for the node, which may have restarted when the job ends; empty: nothing to collect."""
    account: str = ""
    """Account that the jobs run as; empty: the account of the spawner."""
    lease: str = ""
    """Lease by whose name alone they may run; empty: for ever."""
    gpus: int = 0
    """GPUs of each run."""
    before: list[str] = []
    """Words before each argv, which make the software it needs ready or say that they cannot (`UNREADY_EXIT`)."""
    contained: bool = False
    """True if the runs' processes are a container's."""
    licences: list[tuple[str, int]] = []
    """Licences of each run; the node that gives the order counts them."""
    mpi: bool = False
    """True if each run has a process on each of its processors, started by `before`."""
    barrier_s: float = 0.0
    """CLOCK_BOOTTIME until which each run holds its slots and waits for `Go`; then it ends UNBEGUN. 0: it begins at
    once. Only for a spawner that `holds`. In the order of a cluster's array: seconds since 1970 by the node's clock."""
    checkpoints: list[str] = []
    """Name of the checkpoint that each run goes on from, as DIANA_CHECKPOINT tells it; empty text: it begins anew.
    Empty list: all do. Only for a spawner that `saves`."""
    reports: bool = False
    """True if the runs report how far they are, in the file that DIANA_REPORT names."""
    saves: bool = False
    """True if the runs may be asked to save their state: a task of a cluster must know it beforehand."""
    grace_s: float = GRACE_S
    """Seconds between TERM and KILL of a run that is ended; where its lease is over, `GRACE_S`."""
    scratch_bytes: int = 0
    """Room on the disk that each run asked for; 0: none, and it may take what there is."""


class LetGo(_Message):
    """Order to begin runs that are held; any that are not held are passed over."""

    subgroup: str
    epoch: int
    indices: list[int]
    environments: list[list[tuple[str, str]]]
    """Environment that each run is told beside that of its order."""


class Lease(_Message):
    """End of a lease (CLOCK_BOOTTIME); runs of orders that name it may run until then. A lease nobody told of is
    over."""

    name: str
    until_s: float


class Kill(_Message):
    subgroup: str
    epoch: int
    bounds: tuple[int, ...]
    """Bounds of the IndexSet of indices."""


class Recall(_Message):
    """Order to give runs back: those that have not begun never will, and end UNBEGUN; the others run on. Only for a
    spawner that `gives_back`."""

    subgroup: str
    epoch: int
    bounds: tuple[int, ...]
    """Bounds of the IndexSet of indices."""


class Save(_Message):
    """Order to ask runs that have begun to save their state and stop. Only for a spawner that `saves`."""

    subgroup: str
    epoch: int
    bounds: tuple[int, ...]
    """Bounds of the IndexSet of indices."""
    signal: str
    """Name of the signal, without SIG."""
    wait_s: float
    """Seconds within which a run must have come to heed it; then it is left alone."""


class Forget(_Message):
    runs: list[Runs]


class AskLog(_Message):
    """Question where the log of a run that has not ended is. Only for a spawner that `shows_logs`."""

    number: int
    """Number that the answer repeats."""
    subgroup: str
    epoch: int
    index: int
    attempt: int


class SetSlots(_Message):
    slots: int


class Shutdown(_Message):
    """Order to end now if no job runs or waits."""


# --- spawner to node ---------------------------------------------------------------------------------


class Welcome(_Message):
    """Answer to Hello: all that is claimed and not forgotten. Every order of older connections that is not among
    them was dropped and never will be claimed."""

    version: int
    generation: int
    known: list[Runs]
    makes_ready: bool = False
    """True if it heeds `Order.before`. A spawner of an older release may outlive its node's upgrade, and would run
    jobs without."""
    hands_out: bool = False
    """True if it heeds `Hello.gpus`: no device has two jobs at once."""
    gives_back: bool = False
    """True if it heeds `Recall`."""
    log: str = ""
    """Identity of its claim log. Another one than before: what the log said is not known any more, so runs that are not
    among the known may have been claimed all the same. Empty: a spawner of a release that cannot tell."""
    lost: str = ""
    """Line saying why that log is another one than before; empty: it is not."""
    holds: bool = False
    """True if it heeds `Order.barrier_s`."""
    shows_logs: bool = False
    """True if it answers `AskLog`."""
    saves: bool = False
    """True if it heeds `Save` and `Order.checkpoints`."""
    hears_own: bool = False
    """True if it tells `StepsDone.own`."""


class Refused(_Message):
    """Answer to Hello; the connection ends."""

    reason: str


class LogPlace(_Message):
    """Answer to `AskLog`."""

    number: int
    stand: str
    """As `model/kept_log.py` names them."""
    segment: str = ""
    offset: int = 0
    size: int = 0
    """Bytes that the run has written."""
    limit: int = 0
    """Bytes that are kept of its log."""
    runs_for_s: float = 0.0
    """Seconds since it began; 0: it has not, or a spawner of an older release does not say."""


class HeldRuns(_Message):
    """Runs that hold their slots and wait for `Go`; their claims are durable. Told again after each `Welcome`."""

    runs: list[Runs]


class StepsDone(_Message):
    """Progress of runs whose orders said that they report it: at most one a second of each, and only news."""

    runs: list[Runs]
    steps: list[list[tuple[float, float, float]]]
    """For each run of `runs`: (CLOCK_BOOTTIME, steps done, steps in all)."""
    own: list[list[tuple[float, int]]] = []
    """For each run of `runs`: (seconds of its own part of a step, number of the roster that it computes by); empty:
    none tells it."""


class EndedRuns(msgspec.Struct, array_like=True):
    """Ended runs of one subgroup and epoch, in columns. Times are seconds of CLOCK_BOOTTIME."""

    subgroup: str
    epoch: int
    own_directory: bool
    indices: list[int]
    attempts: list[int]
    outcomes: list[int]
    exit_codes: list[int]
    started_s: list[float]
    ended_s: list[float]
    cpu_s: list[float]
    max_rss_bytes: list[int]
    log_segments: list[str]
    log_offsets: list[int]
    log_lengths: list[int]
    log_truncated: list[bool]
    errors: list[tuple[int, str]]
    """(position in the columns, one line)."""
    collects: list[list[Collected]]
    """Collected files as in the order; empty: nothing to collect."""
    account: str = ""
    signals: list[int] = []
    """Signal that ended each run's process; 0: none did, or nobody knows. Empty: of all of them."""


class Ended(_Message):
    batches: list[EndedRuns]


FromNode = Hello | Order | LetGo | Lease | Kill | Recall | Save | Forget | AskLog | SetSlots | Shutdown
FromSpawner = Welcome | Refused | LogPlace | HeldRuns | StepsDone | Ended
Message = FromNode | FromSpawner

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def frame(message: Message) -> bytes:
    payload = _encoder.encode(message)
    return len(payload).to_bytes(4, "big") + payload


def decode(payload: bytes | memoryview, version: int = VERSION) -> Message:
    """Decode a message as a peer of schema `version` wrote it, brought up to date; ValueError for nonsense."""
    if not 1 <= version <= VERSION:
        raise ValueError(f"spawner protocol {version}: this release speaks 1 to {VERSION}")
    return _decoder.decode(payload)


class Frames:
    """Cuts a byte stream into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.version = VERSION
        """Schema version of the other end, once its first message told."""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages completed by `data`; ValueError for nonsense, then the connection is of no more use."""
        self._buffer += data
        at = 0
        view = bytes(self._buffer)
        try:
            while len(view) - at >= 4:
                size = int.from_bytes(view[at : at + 4], "big")
                if size > MAX_FRAME_BYTES:
                    raise ValueError(f"spawner socket: a frame of {size} bytes, at most {MAX_FRAME_BYTES}")
                if len(view) - at - 4 < size:
                    break
                message = decode(view[at + 4 : at + 4 + size], self.version)
                at += 4 + size
                if isinstance(message, Hello | Welcome):
                    self.version = message.version
                yield message
        finally:
            del self._buffer[:at]


def columns(runs: dict[tuple[str, int], list[tuple[int, int]]]) -> list[Runs]:
    """Make columns from (subgroup, epoch) -> [(index, attempt), ...]."""
    return [
        Runs(subgroup, epoch, [index for index, _ in members], [attempt for _, attempt in members])
        for (subgroup, epoch), members in runs.items()
    ]
