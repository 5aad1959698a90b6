"""Transactions as they go to the other replica: encoded once, the latest kept at hand until they are shipped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from diana.bounds import decoded
from diana.engine.journal import codec, records
from diana.model.facts import Facts, FactsKey
from diana.ports import Batch, Store

KEPT_BYTES = 64 << 20
"""Bytes of transactions kept; a replica that lacks an older one is given a copy of the whole journal."""
LOADED_BYTES = 32 << 20


class _Shipped(msgspec.Struct, frozen=True, array_like=True):
    """A batch on the wire; its term goes beside it."""

    at_s: float
    records: tuple[bytes, ...]
    facts: tuple[tuple[FactsKey, Facts], ...] = ()


class ShelfEntry(NamedTuple):
    after: int
    """Seq of the transaction before it."""
    seq: int
    of_term: int
    payload: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Shipped).decode


def packed(batch: Batch) -> bytes:
    return _encode(_Shipped(batch.at_s, batch.records, batch.facts))


def unpacked(payload: bytes, term: int) -> Batch:
    """ValueError when it is none."""
    try:
        found = decoded(_decode, payload)
    except ValueError as error:
        raise ValueError(f"a transaction that cannot be read: {error}") from None
    return Batch(at_s=found.at_s, records=found.records, facts=found.facts, term=term)


class Shelf:
    """The newest transactions, without a gap. `trimmed` hears after which seq it begins when that rises."""

    def __init__(self, last: int, trimmed: Callable[[int], None], most_bytes: int = KEPT_BYTES) -> None:
        self._kept: deque[ShelfEntry] = deque()
        self._bytes = 0
        self._most = most_bytes
        self._trimmed = trimmed
        self.after = last
        self.last = last

    def add(self, seq: int, of_term: int, payload: bytes) -> None:
        self._kept.append(ShelfEntry(self.last, seq, of_term, payload))
        self._bytes += len(payload)
        self.last = seq
        if self._bytes > self._most:
            while self._bytes > self._most // 2 and len(self._kept) > 1:
                gone = self._kept.popleft()
                self._bytes -= len(gone.payload)
                self.after = gone.seq
            self._trimmed(self.after)

    def between(self, after: int, up_to: int) -> Iterator[ShelfEntry]:
        """The transactions in (after, up_to], looked up from the newest backwards to `after`; in order."""
        found: list[ShelfEntry] = []
        for kept in reversed(self._kept):
            if kept.after < after:
                break
            if kept.seq <= up_to:
                found.append(kept)
        return reversed(found)


def fill(shelf: Shelf, store: Store) -> None:
    """Put the journal's transactions behind its snapshot on an empty shelf, if they are not too many; their facts are
    found by the records that name them."""
    end = store.log_end()
    shelf.after = shelf.last = end.seq
    entries = store.entries(end.folded, LOADED_BYTES)
    if not entries or entries[-1].seq != end.seq:
        return
    shelf.after = shelf.last = end.folded
    for entry in entries:
        batch = msgspec.structs.replace(entry.batch, facts=tuple(_facts(store, entry.batch)))
        shelf.add(entry.seq, batch.term, packed(batch))


def _facts(store: Store, batch: Batch) -> Iterator[tuple[FactsKey, Facts]]:
    for stored in batch.records:
        match codec.decode(stored):
            case (
                records.RunsEnded(subgroup=subgroup, epoch=epoch, batch=number)
                | records.ResultAccepted(subgroup=subgroup, epoch=epoch, batch=number)
            ):
                key = records.facts_key(subgroup, epoch, number)
                facts = store.facts_chunk(key)
                if facts is not None:
                    yield key, facts
            case _:
                pass
