"""The records of the claim log. Runs are named (claim number, index): one claim never holds an index twice.

Records carry no argv and no environment: a secret given to a job is not written anywhere.
"""

from __future__ import annotations

import msgspec

from diana.adapters.lrm.spawner.identity import MachineIdentity
from diana.adapters.lrm.spawner.protocol import Collected
from diana.bounds import decoded
from diana.errors import of_newer
from diana.model.job.grace import GRACE_S

VERSION = 1
EXIT_UNKNOWN = -1
"""Exit code where nobody knows it."""
LOST_WHILE_RUNNING = (
    "its spawner was lost while it ran, so its exit code is not known; look at its log, then rerun or give up the job"
)


class _Record(msgspec.Struct, array_like=True, tag=True):
    pass


class LogOpened(_Record, tag="Opened"):
    """First record of every log: who wrote what follows. Its first field is the schema version, for ever."""

    version: int
    generation: int
    term: int
    machine: MachineIdentity
    boot_s: float
    wall_s: float
    """Both clocks when this was written: they carry the times of finished runs over a reboot."""
    log: str = ""
    """Identity of the log: another one after it lost something. Empty: its records have no links."""
    before: int = 0
    """Records of this log that were rewritten since."""


class Claimed(_Record):
    """Claim of runs: from here on they count as started. Durable before any of them is executed."""

    number: int
    subgroup: str
    epoch: int
    group: str
    processors: int
    time_limit_s: float
    log_limit_bytes: int
    own_directory: bool
    indices: list[int]
    attempts: list[int]
    collects: list[list[Collected]]
    account: str = ""
    """Account whose processes its jobs are; empty: ours."""
    lease: str = ""
    """Lease without which they may not run; empty: none is needed."""
    made_ready: bool = False
    """True if its order had words before each argv."""
    contained: bool = False
    gpus: int = 0
    memory_bytes: int = 0
    """Memory that each run may use with all its children; 0: no limit."""
    grace_s: float = GRACE_S
    """Seconds between TERM and KILL."""
    scratch_bytes: int = 0
    """Room on the disk that each run may take; 0: no limit."""


class Begin(msgspec.Struct, array_like=True):
    number: int
    index: int
    slots: list[int]
    at_s: float
    """CLOCK_BOOTTIME just before the start."""
    segment: str
    offset: int
    gpus: list[str] = []
    """Devices that are the run's own while it runs."""


class Starting(_Record):
    """Runs about to be executed. Written, not synced: it need only outlive this process. A claim without it was
    never executed as long as the machine's identity is the same, so its successor may void it."""

    runs: list[Begin]


class Proc(msgspec.Struct, array_like=True):
    number: int
    index: int
    pid: int
    by_s: float
    """CLOCK_BOOTTIME just after the start: with `Begin.at_s` this brackets the process's start time."""


class Started(_Record):
    runs: list[Proc]


class End(msgspec.Struct, array_like=True):
    number: int
    index: int
    outcome: int
    exit_code: int
    started_s: float
    ended_s: float
    cpu_s: float
    max_rss_bytes: int
    segment: str
    offset: int
    length: int
    truncated: bool
    error: str
    signal: int = 0
    """Signal that ended its process, by the wait status; 0: none did, or nobody knows."""


class Finished(_Record):
    runs: list[End]


class Dropped(_Record):
    """Runs forgotten by the node, or void: (claim number, indices)."""

    runs: list[tuple[int, list[int]]]


class Term(_Record):
    """The highest term a node came with."""

    term: int


class Leased(_Record):
    """End of a lease, until which runs under its name may run. Written, not synced: with the machine, they end."""

    name: str
    until_s: float
    """CLOCK_BOOTTIME."""


Record = LogOpened | Claimed | Starting | Started | Finished | Dropped | Term | Leased

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


class LogNewer(Exception):
    """A log of a later release."""


def encode(record: Record) -> bytes:
    return _encoder.encode(record)


def decode(payload: bytes, version: int) -> Record:
    """Decode a record as schema `version` wrote it, brought up to date; the one place for that."""
    if version > VERSION:
        raise LogNewer(f"claim log: {of_newer(version, VERSION)}; start the newer release")
    return decoded(_decoder.decode, payload)


def version_of(payload: bytes) -> int:
    """Return the schema version, from the first record of a log: tag, then version."""
    head = decoded(msgspec.msgpack.decode, payload)
    if not isinstance(head, list) or len(head) < 2 or head[0] != "Opened" or not isinstance(head[1], int):
        raise ValueError("claim log does not begin with its version")
    return head[1]
