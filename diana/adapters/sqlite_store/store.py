"""`ports.Store` over SQLite: write-ahead log, `synchronous=FULL`, one connection that writes and checkpoints.

Why like this (PROMISES section 3): several writers have corrupted write-ahead logs, so an owner lock beside the file
keeps a second process out; an fsync that failed once is never tried again, so the first error closes the store for
good; a disk without room ends nothing, because what did not fit was taken back whole; and what SQLite itself cannot
notice, a flipped bit in a row or in the log, is noticed by checksums at load.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
import threading
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from diana import __version__, errors
from diana.adapters.durable import fold_log, sync
from diana.adapters.sqlite_store import schema, wal
from diana.adapters.sqlite_store.mark import Mark
from diana.adapters.sqlite_store.seeding import online_copy
from diana.model.facts import Facts, FactsKey
from diana.model.ids import GroupId
from diana.ports import Batch, Entry, Journal, JournalTerm, LogEnd, Standing, with_term

_pack_records = msgspec.msgpack.Encoder().encode
_unpack_records = msgspec.msgpack.Decoder(list[bytes]).decode
_pack_facts = msgspec.msgpack.Encoder().encode
_unpack_facts = msgspec.msgpack.Decoder(Facts).decode


class _Jobs(msgspec.Struct):
    """The only field of `Facts` that is needed here."""

    indices: list[int]


_unpack_jobs = msgspec.msgpack.Decoder(_Jobs).decode
_pack_starts = msgspec.json.Encoder().encode
_unpack_starts = msgspec.json.Decoder(tuple[JournalTerm, ...]).decode
_prefix = struct.Struct(">qqd").pack

TERM_STARTS = "term_starts"
_WAL_KEPT_BYTES = 64 << 20
_INSERT_ROW = "INSERT INTO journal (first_seq, count, at_s, crc, records) VALUES (?, ?, ?, ?, ?)"
_INSERT_FACTS = "INSERT OR IGNORE INTO facts (grp, subgroup, epoch, batch, crc, payload) VALUES (?, ?, ?, ?, ?, ?)"
_SET_META = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
"""A frame of the log, or the page that finds it, could not be written. Not an fsync that says so: it is believed never
again."""
_MEND = "stop the node, check the disk, then start again or restore a backup"


def _row_crc(first_seq: int, count: int, at_s: float, payload: bytes) -> int:
    """Return the checksum of a row. It covers the columns too: a flipped seq is as bad as a flipped record."""
    return zlib.crc32(payload, zlib.crc32(_prefix(first_seq, count, at_s)))


def _facts_crc(key: FactsKey, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(f"{key.subgroup}/{key.epoch}/{key.batch}".encode()))


class SqliteStore:
    """Opens or creates the store at `path` (mode 0600). Writing methods are for one thread at a time; `facts`,
    `facts_chunk` and `meta` may be called from any thread beside it.

    Errors at opening: `errors.StoreBusy` (another process), `errors.StoreNewer` (later schema), `errors.StoreFailed`.
    After any `StoreFailed` but `StoreFull` every method but `close` raises it again with the same line.
    """

    def __init__(self, path: Path, twin: Path | None = None) -> None:
        """`twin`: where the journal's mark is kept a second time."""
        self.path = path
        self._twin = twin
        self._failure = ""
        self._closed = False
        self._mark: Mark | None = None
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._owner_fd = _own(path)
        try:
            with self._guard():
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        harm = wal.damage(self.path.with_name(self.path.name + "-wal"))
        if harm:
            # Not even opened: SQLite would cut the log there, and the evidence would be gone.
            raise errors.StoreFailed(f"{self.path}-wal: {harm}; restore a backup (`diana restore`)")
        fresh_fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.close(fresh_fd)
        self._writer = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=64, timeout=5.0
        )
        self._writer.execute("PRAGMA journal_mode=WAL").fetchone()
        self._writer.execute("PRAGMA synchronous=FULL")
        self._writer.execute(f"PRAGMA journal_size_limit={_WAL_KEPT_BYTES}")
        fold_log(self._writer)
        if schema.is_empty(self._writer):
            schema.create(self._writer, uuid.uuid4().hex, uuid.uuid4().hex)
            sync(self.path.parent)
        schema.bring_up_to_date(self._writer, str(self.path))
        # A store of a release without standbys has none yet.
        self._writer.execute("INSERT OR IGNORE INTO meta (key, value) VALUES ('replica_uuid', ?)", (uuid.uuid4().hex,))
        self._reader = sqlite3.connect(
            f"{self.path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        self._reader.execute("PRAGMA query_only=1")
        kept = self._writer.execute("SELECT seq, at_s FROM snapshot").fetchone() or (0, 0.0)
        last = self._writer.execute(
            "SELECT first_seq + count - 1, at_s FROM journal ORDER BY id DESC LIMIT 1"
        ).fetchone()
        self._snapshot_seq = int(kept[0])
        self._seq, self._at_s = int((last or kept)[0]), float((last or kept)[1])
        found = self._writer.execute("SELECT value FROM meta WHERE key = ?", (TERM_STARTS,)).fetchone()
        self._term_starts = _unpack_starts(found[0]) if found else ()
        self._release = schema.release(self._writer)
        self._db_uuid = str(self._writer.execute("SELECT value FROM meta WHERE key = 'db_uuid'").fetchone()[0])
        self._mark = Mark(self.path, self._twin)
        self._standing = self._mark.standing(self._db_uuid, self._seq)
        self._mark.doubt = self._standing == "unsure"

    # --- port ------------------------------------------------------------------------------------------

    def load(self) -> Journal:
        with self._writing, self._guard():
            snapshot = self._load_snapshot()
            kept_seq = snapshot[0] if snapshot else 0
            records = self._load_records(kept_seq)
            if kept_seq + len(records) != self._seq:
                self._damaged(f"{kept_seq + len(records)} records found, {self._seq} expected")
            return Journal(
                snapshot=snapshot[1] if snapshot else None,
                seq=self._seq,
                at_s=self._at_s,
                records=records,
                release=self._release,
            )

    def commit(self, batch: Batch) -> int:
        records = _pack_records(batch.records)
        count = len(batch.records)
        first_seq = self._seq + 1
        row = (first_seq, count, batch.at_s, _row_crc(first_seq, count, batch.at_s, records), records)
        facts = []
        for key, value in batch.facts:
            payload = _pack_facts(value)
            facts.append((key.group, key.subgroup, key.epoch, key.batch, _facts_crc(key, payload), payload))
        starts = self._term_starts
        if count and batch.term != (starts[-1].term if starts else 0):
            starts = with_term(starts, first_seq, batch.term)
        with self._transaction() as writer:
            writer.execute(_INSERT_ROW, row)
            if facts:
                writer.executemany(_INSERT_FACTS, facts)
            if starts is not self._term_starts:
                writer.execute(_SET_META, (TERM_STARTS, _pack_starts(starts).decode()))
            if self._release != __version__:
                # Not at opening: whoever cannot read it must be told who wrote it.
                writer.execute(_SET_META, (schema.RELEASE, __version__))
            # Before the lock is free: whoever loads next expects what was committed.
            writer.execute("COMMIT")
            self._seq += count
        self._term_starts = starts
        self._release = __version__
        self._at_s = batch.at_s
        if self._mark is not None:
            self._mark.write(self._db_uuid, self._seq)
        return self._seq

    def snapshot(self, payload: bytes, seq: int) -> None:
        if not self._snapshot_seq <= seq <= self._seq:
            raise ValueError(f"snapshot at seq {seq}: the journal holds {self._snapshot_seq} to {self._seq}")
        row = (seq, self._at_s, _row_crc(seq, 0, self._at_s, payload), payload)
        with self._transaction() as writer:
            writer.execute("INSERT OR REPLACE INTO snapshot (id, seq, at_s, crc, payload) VALUES (1, ?, ?, ?, ?)", row)
            writer.execute("DELETE FROM journal WHERE first_seq + count - 1 <= ?", (seq,))
        self._snapshot_seq = seq

    def facts(self, group: GroupId) -> Iterator[tuple[FactsKey, Facts]]:
        # Ids first, then chunk by chunk: an open cursor would keep the log from being reset while a slow client reads.
        for number in self._chunk_numbers(group):
            if (found := self.numbered_chunk(group, number)) is not None:
                yield found

    def facts_chunk(self, key: FactsKey) -> Facts | None:
        with self._reading, self._guard():
            row = self._reader.execute(
                "SELECT crc, payload FROM facts WHERE grp = ? AND subgroup = ? AND epoch = ? AND batch = ?",
                (key.group, key.subgroup, key.epoch, key.batch),
            ).fetchone()
        return None if row is None else _unpack_facts(self._checked(key, row[0], row[1]))

    def jobs_of_chunks(self, group: GroupId, after: int = 0) -> Iterator[tuple[int, list[int]]]:
        for number in self._chunk_numbers(group, after):
            if (found := self._numbered(group, number)) is not None:
                yield number, _unpack_jobs(self._checked(*found)).indices

    def numbered_chunk(self, group: GroupId, number: int) -> tuple[FactsKey, Facts] | None:
        found = self._numbered(group, number)
        return None if found is None else (found[0], _unpack_facts(self._checked(*found)))

    def _chunk_numbers(self, group: GroupId, after: int = 0) -> list[int]:
        with self._reading, self._guard():
            rows = self._reader.execute("SELECT id FROM facts WHERE grp = ? AND id > ?", (group, after))
            return sorted(row[0] for row in rows)

    def _numbered(self, group: GroupId, number: int) -> tuple[FactsKey, int, bytes] | None:
        with self._reading, self._guard():
            row = self._reader.execute(
                "SELECT grp, subgroup, epoch, batch, crc, payload FROM facts WHERE id = ? AND grp = ?", (number, group)
            ).fetchone()
        return None if row is None else (FactsKey(*row[:4]), row[4], row[5])

    def drop_group(self, group: GroupId) -> None:
        with self._transaction() as writer:
            writer.execute("DELETE FROM facts WHERE grp = ?", (group,))

    def meta(self, key: str) -> str:
        with self._reading, self._guard():
            row = self._reader.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return "" if row is None else str(row[0])

    def set_meta(self, key: str, value: str) -> None:
        with self._transaction() as writer:
            writer.execute(_SET_META, (key, value))
        if key == "db_uuid":
            self._db_uuid = value
            self.trust()

    def standing(self) -> Standing:
        return self._standing

    def trust(self) -> None:
        if self._mark is not None:
            self._mark.doubt = False
            self._mark.write(self._db_uuid, self._seq)

    def log_end(self) -> LogEnd:
        return LogEnd(seq=self._seq, starts=self._term_starts, folded=self._snapshot_seq)

    def entries(self, after: int, most_bytes: int) -> list[Entry] | None:
        with self._reading, self._guard():
            out: list[Entry] = []
            room, expected = most_bytes, after + 1
            cursor = self._reader.execute(
                "SELECT first_seq, count, at_s, crc, records FROM journal WHERE count AND first_seq > ? ORDER BY id",
                (after,),
            )
            for first_seq, count, at_s, crc, payload in cursor:
                if crc != _row_crc(first_seq, count, at_s, payload):
                    self._damaged(f"the checksum of journal records {first_seq} to {first_seq + count - 1} is wrong")
                if first_seq != expected:
                    return None
                room -= len(payload)
                if out and room < 0:
                    break
                expected = first_seq + count
                term = self.log_end().term_at(first_seq)
                batch = Batch(at_s=at_s, records=tuple(_unpack_records(payload)), term=term)
                out.append(Entry(seq=expected - 1, batch=batch))
            cursor.close()
            return out if out or after == self._seq else None

    def copy_to(self, path: Path) -> None:
        """Write a consistent copy of the whole store to `path`, as the seed of a standby, while this one goes on
        writing (a connection of its own, one read snapshot). From any thread; StoreFailed, and this store goes on."""
        try:
            online_copy(self.path, path)
        except (OSError, sqlite3.Error) as error:
            raise errors.StoreFailed(f"{path}: copy for the standby: {_why(error)}; free space there") from error

    def free_bytes(self) -> int:
        room = os.statvfs(self.path.parent)
        return room.f_bavail * room.f_frsize

    def close(self) -> None:
        """Close the store. Idempotent; waits for what another thread does with it. After a clean close the log is
        folded into the file."""
        if self._closed:
            return
        self._closed = True
        if self._mark is not None and not self._failure:
            self._mark.write(self._db_uuid, self._seq, closed=True)
        self._failure = self._failure or f"{self.path}: the store is closed"
        with self._writing, self._reading:
            for name in ("_reader", "_writer"):
                connection: sqlite3.Connection | None = getattr(self, name, None)
                if connection is not None:
                    connection.close()
        if self._mark is not None:
            self._mark.close()
        os.close(self._owner_fd)

    def quick_check(self) -> str:
        """Check the file, for `diana doctor`: empty if SQLite finds its structure sound, else its first complaint."""
        with self._reading, self._guard():
            found = str(self._reader.execute("PRAGMA quick_check(1)").fetchone()[0])
        return "" if found == "ok" else found

    # --- inside ----------------------------------------------------------------------------------------

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Make the first error of the disk the last thing this store does."""
        if self._failure:
            raise errors.StoreFailed(self._failure)
        try:
            yield
        except errors.StoreFull:
            raise
        except (errors.StoreFailed, errors.StoreNewer) as error:
            self._failure = str(error)
            raise
        except Exception as error:
            if self._mark is None and getattr(error, "sqlite_errorcode", 0) in _NO_ROOM:
                # Not open yet, and nothing of it was stored.
                raise errors.StoreFull(f"{self.path.parent}: the disk is full{self._room()}") from error
            self._failure = f"{self.path}: {_why(error)}{self._room()}; {_MEND}"
            raise errors.StoreFailed(self._failure) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._writing, self._guard():
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                yield self._writer
                if self._writer.in_transaction:
                    self._writer.execute("COMMIT")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in _NO_ROOM:
                    raise
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise errors.StoreFull(f"{self.path.parent}: the disk is full{self._room()}") from error

    def _room(self) -> str:
        try:
            return f" ({self.free_bytes() >> 20} MiB free there)"
        except OSError:
            return ""

    def _damaged(self, what: str) -> None:
        raise errors.StoreFailed(f"{self.path}: damaged: {what}; restore a backup (`diana restore`)")

    def _load_snapshot(self) -> tuple[int, bytes] | None:
        row = self._writer.execute("SELECT seq, at_s, crc, payload FROM snapshot").fetchone()
        if row is None:
            return None
        seq, at_s, crc, payload = row
        if crc != _row_crc(seq, 0, at_s, payload):
            self._damaged("the snapshot's checksum is wrong")
        return seq, payload

    def _load_records(self, kept_seq: int) -> list[bytes]:
        records: list[bytes] = []
        expected = None
        cursor = self._writer.execute("SELECT first_seq, count, at_s, crc, records FROM journal ORDER BY id")
        for first_seq, count, at_s, crc, payload in cursor:
            if crc != _row_crc(first_seq, count, at_s, payload):
                self._damaged(f"the checksum of journal records {first_seq} to {first_seq + count - 1} is wrong")
            if first_seq > kept_seq + 1 if expected is None else first_seq != expected:
                self._damaged(f"journal records before {first_seq} are missing")
            expected = first_seq + count
            # A snapshot may fall inside a transaction; records of that row that it covers are not told again.
            records.extend(_unpack_records(payload)[max(0, kept_seq + 1 - first_seq) :])
        return records

    def _checked(self, key: FactsKey, crc: int, payload: bytes) -> bytes:
        with self._guard():
            if crc != _facts_crc(key, payload):
                self._damaged(f"the checksum of facts {key.subgroup} epoch {key.epoch} batch {key.batch} is wrong")
        return payload


def _own(path: Path) -> int:
    """Take the owner lock beside the store: never on the file itself, whose locks SQLite loses when another
    descriptor of this process on it is closed."""
    name = path.with_name(path.name + "-owner")
    try:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise errors.StoreFailed(f"{name}: {error.strerror}; make the directory writable for this account") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        os.close(fd)
        raise errors.StoreBusy(
            f"{path}: in use by process {holder or 'unknown'}; stop it first or name another data directory"
        ) from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _why(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
