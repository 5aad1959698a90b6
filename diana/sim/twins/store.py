"""The simulated twin of the durable store: the same promises, no disk, thousands of instances.

All that `commit` answered stays through `crash`; everything else is gone. Faults are ordered from outside, so that the
seed decides them, never this file."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

from diana import errors
from diana.model.facts import Facts, FactsKey
from diana.model.ids import GroupId
from diana.ports import Batch, Entry, Journal, JournalTerm, LogEnd, Standing, with_term

_encode_facts = msgspec.msgpack.Encoder().encode
_decode_facts = msgspec.msgpack.Decoder(Facts).decode


def _pack_facts(facts: Facts) -> bytes:
    """Columns of much the same numbers shrink to a fifth: thousands of sites keep theirs in one memory."""
    return zlib.compress(_encode_facts(facts), 1)


def _unpack_facts(payload: bytes) -> Facts:
    return _decode_facts(zlib.decompress(payload))


_IN_FILE = (
    "_meta",
    "_commits",
    "_starts",
    "_records",
    "_snapshot",
    "_snapshot_seq",
    "_seq",
    "_at_s",
    "_facts",
)
"""Fields that a copy of the file holds."""


class MemoryStore:
    """`db_uuid` is the caller's, since chance belongs to the driver. `free` is what `free_bytes` answers."""

    __slots__ = (
        "_at_s",
        "_commits",
        "_copy",
        "_damaged_seq",
        "_doubt",
        "_facts",
        "_failure",
        "_fault",
        "_mark",
        "_meta",
        "_records",
        "_seq",
        "_snapshot",
        "_snapshot_seq",
        "_standing",
        "_starts",
        "commits",
        "free",
    )

    def __init__(self, db_uuid: str, *, free: int = 1 << 40) -> None:
        self._meta = {"schema": "1", "db_uuid": db_uuid, "replica_uuid": f"{db_uuid}-disk"}
        self._commits: list[tuple[int, int, float]] = []
        """Transactions behind the snapshot: seq of the last record, number of records, site time."""
        self._starts: tuple[JournalTerm, ...] = ()
        self._records: list[bytes] = []
        self._snapshot: bytes | None = None
        self._snapshot_seq = 0
        self._seq = 0
        self._at_s = 0.0
        self._facts: dict[GroupId, dict[FactsKey, bytes]] = {}
        self._failure = ""
        self._fault: bool | None = None
        self._damaged_seq = 0
        self._copy: dict[str, Any] | None = None
        self._mark: tuple[str, int] | None = None
        """The mark beside the file: its database, and how far it went."""
        self._doubt = False
        """True, beside the file too, while nobody has said that it is the newest."""
        self._standing: Standing = "newest"
        self.free = free
        self.commits = 0

    # --- faults ----------------------------------------------------------------------------------------

    def fail_next_commit(self, *, kept: bool = False) -> None:
        """The next commit raises `StoreFailed`. With `kept` it had reached the disk all the same: after an fsync
        error nobody knows, so both must be survived."""
        self._fault = kept

    def flip_bit(self, seq: int) -> None:
        """Damage the record `seq`; `load` refuses as long as it is in the journal."""
        self._damaged_seq = seq

    def crash(self) -> None:
        """Power off and on. The disk's fault, if there was one, is over; what was committed is there."""
        self._failure = ""
        self._fault = None
        self._open()

    def keep_copy(self) -> None:
        """Somebody copies the database's file aside, in place of an earlier copy."""
        self._copy = {name: copy.deepcopy(getattr(self, name)) for name in _IN_FILE}

    @property
    def copied_seq(self) -> int:
        """Records in the copy that was kept last."""
        return self._copy["_seq"] if self._copy is not None else 0

    def put_back(self, *, marked: bool = True) -> bool:
        """The copy takes the file's place, while the node is down; False: there is none. Not `marked`: the mark beside
        it is gone too, as where the whole machine was set back, so that only peers can tell."""
        if self._copy is None:
            return False
        for name, value in self._copy.items():
            setattr(self, name, copy.deepcopy(value))
        if not marked:
            self._mark = None
        self._open()
        return True

    def lose(self, db_uuid: str) -> None:
        """The file is deleted while the node is down; the mark beside it stays."""
        mark = self._mark
        self.__init__(db_uuid, free=self.free)  # type: ignore[misc]
        self._mark = mark
        self._open()

    def _open(self) -> None:
        if self._mark is None:
            self._standing = "unsure" if self._seq else "newest"
        elif self._mark[0] != self._meta["db_uuid"] or self._seq < self._mark[1]:
            self._standing = "older"
        else:
            self._standing = "unsure" if self._doubt else "newest"
        self._doubt = self._standing == "unsure"

    # --- port ------------------------------------------------------------------------------------------

    def standing(self) -> Standing:
        return self._standing

    def trust(self) -> None:
        self._doubt = False
        self._mark = (self._meta["db_uuid"], self._seq)

    def load(self) -> Journal:
        self._alive()
        if self._damaged_seq > self._snapshot_seq:
            self._fail(f"damaged: the checksum of journal record {self._damaged_seq} is wrong")
        return Journal(snapshot=self._snapshot, seq=self._seq, at_s=self._at_s, records=list(self._records))

    def commit(self, batch: Batch) -> int:
        self._alive()
        fault, self._fault = self._fault, None
        if fault is not False:
            self._keep(batch)
        if fault is not None:
            self._fail("disk I/O error (ordered by the simulation)")
        return self._seq

    def _keep(self, batch: Batch) -> None:
        if batch.records:
            if batch.term != self.log_end().term:
                self._starts = with_term(self._starts, self._seq + 1, batch.term)
            self._commits.append((self._seq + len(batch.records), len(batch.records), batch.at_s))
        self._records.extend(batch.records)
        self._seq += len(batch.records)
        self._at_s = batch.at_s
        self._mark = (self._meta["db_uuid"], self._seq)
        self.commits += 1
        for key, facts in batch.facts:
            chunks = self._facts.setdefault(key.group, {})
            if key not in chunks:
                chunks[key] = _pack_facts(facts)

    def snapshot(self, payload: bytes, seq: int) -> None:
        self._alive()
        if not self._snapshot_seq <= seq <= self._seq:
            raise ValueError(f"snapshot at seq {seq}: the journal holds {self._snapshot_seq} to {self._seq}")
        self._snapshot = payload
        del self._records[: seq - self._snapshot_seq]
        self._commits = [commit for commit in self._commits if commit[0] > seq]
        self._snapshot_seq = seq

    def facts(self, group: GroupId) -> Iterator[tuple[FactsKey, Facts]]:
        self._alive()
        for key, payload in list(self._facts.get(group, {}).items()):
            yield key, _unpack_facts(payload)

    def facts_chunk(self, key: FactsKey) -> Facts | None:
        self._alive()
        payload = self._facts.get(key.group, {}).get(key)
        return None if payload is None else _unpack_facts(payload)

    def jobs_of_chunks(self, group: GroupId, after: int = 0) -> Iterator[tuple[int, list[int]]]:
        self._alive()
        for number, payload in enumerate(list(self._facts.get(group, {}).values()), 1):
            if number > after:
                yield number, _unpack_facts(payload).indices

    def numbered_chunk(self, group: GroupId, number: int) -> tuple[FactsKey, Facts] | None:
        self._alive()
        chunks = list(self._facts.get(group, {}).items())
        if not 0 < number <= len(chunks):
            return None
        key, payload = chunks[number - 1]
        return key, _unpack_facts(payload)

    def drop_group(self, group: GroupId) -> None:
        self._alive()
        self._facts.pop(group, None)

    def meta(self, key: str) -> str:
        self._alive()
        return self._meta.get(key, "")

    def set_meta(self, key: str, value: str) -> None:
        self._alive()
        self._meta[key] = value
        if key == "db_uuid":
            self.trust()

    def log_end(self) -> LogEnd:
        return LogEnd(seq=self._seq, starts=self._starts, folded=self._snapshot_seq)

    def entries(self, after: int, most_bytes: int) -> list[Entry] | None:
        self._alive()
        out: list[Entry] = []
        room, expected = most_bytes, after
        for seq, count, at_s in self._commits:
            if seq <= after:
                continue
            if seq - count != expected or seq - count < self._snapshot_seq:
                return None
            records = tuple(self._records[seq - count - self._snapshot_seq : seq - self._snapshot_seq])
            room -= sum(map(len, records))
            if out and room < 0:
                break
            expected = seq
            out.append(Entry(seq=seq, batch=Batch(at_s=at_s, records=records, term=self.log_end().term_at(seq))))
        return out if out or after == self._seq else None

    def free_bytes(self) -> int:
        return self.free

    def close(self) -> None:
        """Nothing is held; the store can be loaded again, as a file can."""

    # --- inside ----------------------------------------------------------------------------------------

    def _alive(self) -> None:
        if self._failure:
            raise errors.StoreFailed(self._failure)

    def _fail(self, why: str) -> None:
        self._failure = f"simulated store {self._meta['db_uuid']}: {why}"
        raise errors.StoreFailed(self._failure)
