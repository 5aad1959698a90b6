"""The values of the standby's model: two replicas of one site's journal, a witness, workers, and what is on the wire.

The names are those of PROMISES section 2 "Standby" and are meant to be those of the code. All values are tuples,
because a search hashes hundreds of thousands of them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Role = Literal["follower", "candidate", "leader"]
Answer = Literal["unasked", "not started", "started"]

RESULT, NEW = "result", "new record"
STARTS = ("start on worker 0", "start on worker 1")


class Entry(NamedTuple):
    """One entry of the journal: what it records, and the term of the leader that made it."""

    what: str
    term: int


Log = tuple[Entry, ...]


class InSync(NamedTuple):
    """A replica the register counts on, and the database it had then."""

    replica: int
    db_uuid: int


class Register(NamedTuple):
    """The witness's durable record. Every change raises the term by one, so the term is also the version compared."""

    term: int
    leader: int
    in_sync: frozenset[InSync]
    forced: bool
    """An operator once chose the leader: a START may have come from a history nobody has any more."""


class Replica(NamedTuple):
    """One copy of the journal and its process. `term`, `disk` and `db_uuid` survive a crash, the rest does not."""

    role: Role = "follower"
    term: int = 1
    """The highest term followed, asked for or led; durable before anything is said in it."""
    log: Log = ()
    disk: Log = ()
    """The part of the log that is fsynced; a follower's may also lag behind a truncation."""
    db_uuid: int = 0
    """A new one when the disk was lost."""
    durability: int = 0
    """Leader: how many disks an entry must be on before it is acted upon, 1 alone, 2 with the standby."""
    verified: int = 0
    """Follower: how much of its log is known to be the leader's, of this term."""
    peer_fsynced: int = 0
    """Leader: how much of its log the other replica said to have on disk, in this term."""
    peer_db: int = 0
    """Leader: the database that `peer_fsynced` speaks of."""
    lease: bool = False
    """Leader: it may act on entries that are on both disks."""
    granted: bool = False
    """A lease it gave may still run: it asks for no term before that has surely ended."""
    inventory: tuple[Answer, ...] = ()
    """Leader: what each worker answered to HELLO in this term."""


class Worker(NamedTuple):
    """A member's spawner: the highest term it saw (durable) and whether it started the job."""

    term: int = 0
    started: bool = False
    spoken_to: int = 0
    """Ghost, seen by invariants only: the highest term it was ever spoken to in."""
    obeyed_fenced: bool = False
    """Ghost: it honoured a START of a lower term than that."""


class Append(NamedTuple):
    """Leader to follower: the log, shipped per transaction. A longer one stands for its prefixes."""

    term: int
    to: int
    db_uuid: int
    log: Log


class Fsynced(NamedTuple):
    """Follower to leader: so much of your log is on my disk."""

    term: int
    to: int
    db_uuid: int
    length: int


class Propose(NamedTuple):
    """Replica to witness, compare-and-set: change the register if its term is still `expected`."""

    expected: int
    register: Register
    gives_up_other: bool = False
    """An operator's command: the other copy, and what only it has, is given up."""


class Start(NamedTuple):
    """Leader to worker: start the job."""

    term: int
    worker: int


Message = Append | Fsynced | Propose | Start


class Acknowledged(NamedTuple):
    """Ghost: a client was told that this is kept, on so many disks."""

    what: str
    durability: int


class State(NamedTuple):
    """Everything at one instant. The network never forgets a message that can still have an effect: late, lost, doubled
    and reordered all follow."""

    replicas: tuple[Replica, Replica]
    register: Register
    workers: tuple[Worker, ...]
    network: frozenset[Message]
    acknowledged: frozenset[Acknowledged]
    starts: int
    """Ghost: how often the job was started; two stands for more."""
    answered_late: bool
    """Ghost: a leader acknowledged something after another had begun a higher term."""
    losses_left: int
    """Disks that may still be lost."""
    stale_register: Register
    """For the mutant whose witness forgets: what its disk has."""

    def with_replica(self, i: int, replica: Replica) -> State:
        """This state with replica `i` changed."""
        both = (replica, self.replicas[1]) if i == 0 else (self.replicas[0], replica)
        return self._replace(replicas=both)

    def with_worker(self, w: int, worker: Worker) -> State:
        """This state with worker `w` changed."""
        return self._replace(workers=(*self.workers[:w], worker, *self.workers[w + 1 :]))


def records(log: Log) -> set[str]:
    """Records of a log, whoever led."""
    return {entry.what for entry in log}
