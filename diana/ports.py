"""What a driver must bring. Each port has one conformance suite in tests/contract, run against the real adapter
and its simulated twin. Events come back through the `emit` callable each adapter is built with.

Adapters' methods do not block: they take the order and answer with an event, except `Store`, whose methods run
on the store's own thread in the node, and `Keyring`, which only computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, Protocol

import msgspec

from diana.engine.effects import Contact, Gather, Kill, Lease, LookUp, Recall, RegisterOutputs, StageIn, Start
from diana.engine.events import Event, Run
from diana.engine.messages import Hello, Message
from diana.engine.surroundings import Journal, Keyring
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId

__all__ = [
    "Batch",
    "Emit",
    "Entry",
    "Journal",
    "Keyring",
    "LocalResourceManager",
    "LogEnd",
    "Stager",
    "Store",
    "TermStart",
    "Transport",
    "with_term",
]

Emit = Callable[[Event], None]


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction."""

    at_s: float
    """Site time."""
    records: tuple[bytes, ...]
    """As `engine/records.py` encodes them."""
    facts: tuple[tuple[FactsKey, Facts], ...] = ()
    term: int = 0
    """Of the leader that made it; 0: the site never had a standby."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction as the other replica gets it."""

    seq: int
    """Of its last record."""
    batch: Batch


class TermStart(msgspec.Struct, frozen=True, array_like=True):
    first_seq: int
    term: int


class LogEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How far a journal goes, and who made what of it."""

    seq: int
    starts: tuple[TermStart, ...]
    """Rising in both; before the first of them the term is 0."""
    folded: int = 0
    """Records up to here are in the snapshot."""

    def term_at(self, seq: int) -> int:
        return next((start.term for start in reversed(self.starts) if start.first_seq <= seq), 0)

    @property
    def term(self) -> int:
        """Of the last record."""
        return self.term_at(self.seq)


MOST_TERM_STARTS = 256
"""Remembered; a standby whose journal is older is seeded anew."""


def with_term(starts: tuple[TermStart, ...], first_seq: int, term: int) -> tuple[TermStart, ...]:
    """`starts` where a record of a new term follows. ValueError for a lower one."""
    if starts and term < starts[-1].term:
        raise ValueError(f"a record of term {term} after one of term {starts[-1].term}")
    return (*starts, TermStart(first_seq, term))[-MOST_TERM_STARTS:]


Standing = Literal["newest", "unsure", "older"]
"""Whether a store lacks what it once held: surely not; it cannot be told; it does, for an older copy was put back."""


class Store(Protocol):
    """The only keeper of durable state. Errors: `errors.StoreFailed` (then the node stops and says why),
    `errors.StoreNewer` for a store of a later schema, `errors.StoreBusy` when another process holds it."""

    def load(self) -> Journal: ...

    def commit(self, batch: Batch) -> int:
        """Durable on return; gives the seq of the last record."""
        ...

    def snapshot(self, payload: bytes, seq: int) -> None:
        """Replace the older snapshot and drop the records up to `seq`, in one transaction."""
        ...

    def facts(self, group: GroupId) -> Iterator[tuple[FactsKey, Facts]]:
        """Chunks of a group in order of their arrival."""
        ...

    def facts_chunk(self, key: FactsKey) -> Facts | None: ...

    def jobs_of_chunks(self, group: GroupId, after: int = 0) -> Iterator[tuple[int, list[int]]]:
        """Of the group's chunks numbered above `after`, in order of their arrival: number and jobs. Numbers are above 0
        and rise with arrival; a store that was opened anew gives the same. Reads far less than the facts."""
        ...

    def numbered_chunk(self, group: GroupId, number: int) -> tuple[FactsKey, Facts] | None:
        """None: it was dropped, or never was."""
        ...

    def drop_group(self, group: GroupId) -> None: ...

    def meta(self, key: str) -> str:
        """A durable text by name; empty: not set. Minted at creation: `db_uuid` (the journal's, the
        same in a standby's copy) and `replica_uuid` (this disk's). Left by a restore:
        `restored_from`, the db_uuid of the store that was backed up."""
        ...

    def set_meta(self, key: str, value: str) -> None:
        """Durable on return."""
        ...

    def standing(self) -> Standing:
        """As it was found at opening, by a mark that lies beside it and is not part of any copy. Once it is unsure it
        stays so over restarts, until `trust` or another db_uuid."""
        ...

    def trust(self) -> None:
        """It is the newest, as others have said."""
        ...

    def log_end(self) -> LogEnd:
        """Kept with the transactions themselves."""
        ...

    def entries(self, after: int, most_bytes: int) -> list[Entry] | None:
        """Whole transactions behind `after`, in order, as many as fit (one at least), without their facts; None: they
        are folded into a snapshot already, or `after` is no end of a transaction."""
        ...

    def free_bytes(self) -> int: ...

    def close(self) -> None: ...


def call_restored(store: Store, db_uuid: str) -> None:
    """The store lacks something that it once held: give it another name, by which peers notice, and have the next start
    hold what is not over. Durable on return; cut off between the two, it is done again."""
    store.set_meta("restored_from", store.meta("db_uuid"))
    store.set_meta("db_uuid", db_uuid)


class Transport(Protocol):
    """Emits PeerUp, PeerDown, Received."""

    def send(self, to: SiteId, message: Message) -> None:
        """Best effort, never blocks. Without a stream one is made to a site that `contact` told of; dropped when none
        can be had within seconds or the bounded queue is full."""
        ...

    def contact(self, order: Contact) -> None:
        """How a site is reached and whether a stream to it is held; replaces what was told of it before."""
        ...

    def forget_contact(self, site: SiteId) -> None: ...

    def hello(self) -> Hello: ...


class LocalResourceManager(Protocol):
    """Emits LrmReady, LrmLost, JobsEnded."""

    def start(self, order: Start) -> None: ...

    def lease(self, order: Lease) -> None:
        """Kept for every machine, and told again to one that is back."""
        ...

    def kill(self, order: Kill) -> None: ...

    def recall(self, order: Recall) -> None:
        """Asked only of workers whose LrmReady says `recalls`."""
        ...

    def forget(self, runs: tuple[Run, ...]) -> None: ...


class Stager(Protocol):
    """Emits StageDone, LookedUp and OutputsInCatalogue."""

    def look_up(self, order: LookUp) -> None: ...

    def stage_in(self, order: StageIn) -> None: ...

    def gather(self, order: Gather, facts: Facts) -> None: ...

    def register_outputs(self, order: RegisterOutputs, outputs: Callable[[], Iterator[OutputFile]]) -> None:
        """`outputs` gives what the group's results name, read from the store: blocks on the disk."""
        ...

    def cancel(self, ticket: int) -> None: ...

    def drop_outputs(self, key: FactsKey, facts: Facts, dataset: str = "") -> None: ...

    def drop_subgroup(self, subgroup: SubgroupId) -> None: ...

    def drop_group(self, group: GroupId) -> None: ...
