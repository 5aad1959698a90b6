"""Ports: the interfaces a driver must provide. Each port has one conformance suite in tests/contract, run against the
real adapter and its simulated twin. Events come back through the `emit` callable each adapter is built with.

Adapters' methods do not block: they take the order and answer with an event, except `Store`, whose methods run
on the store's own thread in the node, and `Keyring`, which only computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from diana.engine.journal.effects import (
    Contact,
    Gather,
    Go,
    KillRuns,
    LookUp,
    RecallRuns,
    RegisterOutputs,
    RenewLease,
    SaveRuns,
    StageIn,
    Start,
    TellRoster,
)
from diana.engine.journal.events import Event, Run
from diana.engine.messages.messages import Hello, Message
from diana.engine.site.surroundings import Journal, Keyring
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId

__all__ = [
    "Batch",
    "Emit",
    "Entry",
    "Journal",
    "JournalTerm",
    "Keyring",
    "LocalResourceManager",
    "LogEnd",
    "Stager",
    "Store",
    "Transport",
    "with_term",
]

Emit = Callable[[Event], None]


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction of the journal."""

    at_s: float
    """Site time."""
    records: tuple[bytes, ...]
    """Records as `engine/journal/records.py` encodes them."""
    facts: tuple[tuple[FactsKey, Facts], ...] = ()
    term: int = 0
    """Term of the leader that made it; 0: the site never had a standby."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction in the form sent to the other replica."""

    seq: int
    """Number of its last record."""
    batch: Batch


class JournalTerm(msgspec.Struct, frozen=True, array_like=True):
    first_seq: int
    term: int


class LogEnd(msgspec.Struct, frozen=True, kw_only=True):
    """End of a journal, and the terms of its parts."""

    seq: int
    starts: tuple[JournalTerm, ...]
    """Beginnings of terms, rising in both fields; before the first the term is 0."""
    folded: int = 0
    """Number of the last record that is in the snapshot."""

    def term_at(self, seq: int) -> int:
        return next((start.term for start in reversed(self.starts) if start.first_seq <= seq), 0)

    @property
    def term(self) -> int:
        """Term of the last record."""
        return self.term_at(self.seq)


MOST_TERM_STARTS = 256
"""Beginnings of terms remembered; a standby whose journal is older is seeded anew."""


def with_term(starts: tuple[JournalTerm, ...], first_seq: int, term: int) -> tuple[JournalTerm, ...]:
    """Return `starts` with a new term that begins at `first_seq`. ValueError for a lower term."""
    if starts and term < starts[-1].term:
        raise ValueError(f"a record of term {term} after one of term {starts[-1].term}")
    return (*starts, JournalTerm(first_seq, term))[-MOST_TERM_STARTS:]


Standing = Literal["newest", "unsure", "older"]
"""Standing of a store. `newest`: it lacks nothing it once held; `unsure`: that cannot be told; `older`: it lacks
something, because an older copy was put back."""


class Store(Protocol):
    """The only keeper of durable state. Errors: `errors.StoreFull` (nothing of it was stored: the same may be
    tried again), `errors.StoreFailed` (then the node stops and says why), `errors.StoreNewer` for a store of a later
    schema, `errors.StoreBusy` when another process holds it."""

    def load(self) -> Journal: ...

    def commit(self, batch: Batch) -> int:
        """Write the batch, durable on return; return the seq of the last record."""
        ...

    def snapshot(self, payload: bytes, seq: int) -> None:
        """Replace the older snapshot and drop the records up to `seq`, in one transaction."""
        ...

    def facts(self, group: GroupId) -> Iterator[tuple[FactsKey, Facts]]:
        """Yield the chunks of a group in order of their arrival."""
        ...

    def facts_chunk(self, key: FactsKey) -> Facts | None: ...

    def jobs_of_chunks(self, group: GroupId, after: int = 0) -> Iterator[tuple[int, list[int]]]:
        """Yield (number, jobs) of the group's chunks numbered above `after`, in order of their arrival. Numbers are
        above 0 and rise with arrival; a store that was opened anew gives the same. Reads far less than the facts."""
        ...

    def numbered_chunk(self, group: GroupId, number: int) -> tuple[FactsKey, Facts] | None:
        """Return the chunk of this number; None: it was dropped, or never was."""
        ...

    def drop_group(self, group: GroupId) -> None: ...

    def meta(self, key: str) -> str:
        """Return a durable text by name; empty: not set. Minted at creation: `db_uuid` (the journal's, the same in a
        standby's copy) and `replica_uuid` (this disk's). Left by a restore: `restored_from`, the db_uuid of the store
        that was backed up."""
        ...

    def set_meta(self, key: str, value: str) -> None:
        """Set a text by name, durable on return."""
        ...

    def standing(self) -> Standing:
        """Return the store's standing as found at opening, by a mark that lies beside it and is not part of any copy.
        Once unsure it stays so over restarts, until `trust` or another db_uuid."""
        ...

    def trust(self) -> None:
        """Mark the store as the newest, as others have confirmed."""
        ...

    def log_end(self) -> LogEnd:
        """Return the end of the journal, which is kept with the transactions themselves."""
        ...

    def entries(self, after: int, most_bytes: int) -> list[Entry] | None:
        """Return whole transactions after `after`, in order, as many as fit (one at least), without their facts; None:
        they are folded into a snapshot already, or `after` is no end of a transaction."""
        ...

    def free_bytes(self) -> int: ...

    def close(self) -> None: ...


def call_restored(store: Store, db_uuid: str) -> None:
    """Give a store that lacks something it once held a new db_uuid, by which peers notice, and note it as restored, so
    that the next start holds jobs that are not over. Durable on return; if cut off between the two steps, it is done
    again."""
    store.set_meta("restored_from", store.meta("db_uuid"))
    store.set_meta("db_uuid", db_uuid)


class Transport(Protocol):
    """Streams to other sites. Emits PeerUp, PeerDown, Received."""

    def send(self, to: SiteId, message: Message) -> None:
        """Send at best effort, never blocking. Without a stream, one is made to a site that `contact` told of. The
        message is dropped when none can be had within seconds or the bounded queue is full."""
        ...

    def contact(self, order: Contact) -> None:
        """Set the addresses of a site and whether a stream to it is held; replaces an earlier order about the site."""
        ...

    def forget_contact(self, site: SiteId) -> None: ...

    def hello(self) -> Hello: ...


class LocalResourceManager(Protocol):
    """The LRM of the site: runs its jobs. Emits LrmReady, LrmLost, JobsEnded."""

    def start(self, order: Start) -> None: ...

    def go(self, order: Go) -> None:
        """Let jobs go that wait at the barrier; asked only of workers that offer `BARRIER`. Emits AtBarrier before."""
        ...

    def lease(self, order: RenewLease) -> None:
        """Set a lease; it is kept for every machine, and told again to one that is back."""
        ...

    def kill(self, order: KillRuns) -> None: ...

    def recall(self, order: RecallRuns) -> None:
        """Call jobs back; asked only of workers whose LrmReady says `recalls`."""
        ...

    def save(self, order: SaveRuns) -> None:
        """Ask runs to save their state and stop; asked only of workers that offer `CHECKPOINT`."""
        ...

    def tell_roster(self, order: TellRoster) -> None:
        """Tell components who of their gang computes; asked only of workers that offer `SPARES`."""
        ...

    def forget(self, runs: tuple[Run, ...], worker: str = "") -> None:
        """`worker`: the one that is to forget them, whoever has them; empty: the one that told of them."""
        ...


class Stager(Protocol):
    """Stage in and out. Emits StageDone, LookedUp and OutputsInCatalogue."""

    def look_up(self, order: LookUp) -> None: ...

    def stage_in(self, order: StageIn) -> None: ...

    def gather(self, order: Gather, facts: Facts, replaced: Sequence[OutputFile] = ()) -> None:
        """`replaced`: outputs of earlier attempts of the batch's jobs."""
        ...

    def register_outputs(self, order: RegisterOutputs, outputs: Callable[[], Iterator[OutputFile]]) -> None:
        """Register a group's outputs as a dataset. `outputs` yields the files that its results name, read from the
        store; it blocks on the disk."""
        ...

    def cancel(self, ticket: int) -> None: ...

    def drop_outputs(self, key: FactsKey, facts: Facts, dataset: str = "") -> None: ...

    def drop_subgroup(self, subgroup: SubgroupId) -> None: ...

    def drop_group(self, group: GroupId, *, outputs: bool = False) -> None:
        """Delete what the group left; with `outputs` also what it gathered in the node's own folder."""
        ...
