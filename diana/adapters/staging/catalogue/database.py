"""The file the catalogue is kept in: SQLite in WAL mode, one connection that writes and one that reads.

Both stand behind locks and are used from the data threads only. Readers see the last commit, so that a look-up never
waits for a registration of millions of files.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diana.adapters.durable import fold_log
from diana.errors import DianaError, StoreNewer, of_newer

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE roots (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE datasets (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, version INTEGER NOT NULL, digest BLOB NOT NULL,
    files INTEGER NOT NULL, size_bytes INTEGER NOT NULL, manifest_bytes INTEGER NOT NULL, folder TEXT NOT NULL,
    added_wall_s REAL NOT NULL, changed INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX datasets_by_name ON datasets (name, version) WHERE version > 0;
CREATE INDEX datasets_by_digest ON datasets (digest) WHERE version > 0;
CREATE INDEX datasets_unfinished ON datasets (version) WHERE version <= 0;
CREATE TABLE files (
    dataset INTEGER NOT NULL, name TEXT NOT NULL, root INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, sha256 BLOB NOT NULL, PRIMARY KEY (dataset, name)) WITHOUT ROWID;
CREATE TABLE cached (sha256 BLOB PRIMARY KEY, size_bytes INTEGER NOT NULL, used_wall_s REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX cached_by_use ON cached (used_wall_s);
CREATE TABLE cached_refs (ref TEXT NOT NULL, sha256 BLOB NOT NULL, PRIMARY KEY (ref, sha256)) WITHOUT ROWID;
CREATE INDEX cached_refs_by_hash ON cached_refs (sha256);
CREATE TABLE replicas (
    digest BLOB NOT NULL, name TEXT NOT NULL, size_bytes INTEGER NOT NULL, stored_bytes INTEGER NOT NULL,
    complete INTEGER NOT NULL, used_wall_s REAL NOT NULL, PRIMARY KEY (digest)) WITHOUT ROWID;
CREATE INDEX replicas_by_name ON replicas (name);
CREATE TABLE pins (sha256 BLOB NOT NULL, subgroup TEXT NOT NULL, PRIMARY KEY (sha256, subgroup)) WITHOUT ROWID;
CREATE INDEX pins_by_subgroup ON pins (subgroup);
CREATE TABLE blob_uses (sha256 BLOB NOT NULL, grp TEXT NOT NULL, PRIMARY KEY (sha256, grp)) WITHOUT ROWID;
CREATE INDEX blob_uses_by_group ON blob_uses (grp);
"""

_CACHE_KIB = 65536
"""KiB of pages kept in memory per connection: keys that come in no order then cost few reads."""


class CatalogueFault(DianaError):
    """A refusal of the disk below the catalogue; nothing of the change that failed stays."""


class Database:
    def __init__(self, path: Path) -> None:
        self._path = path
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._writer = _connect(path)
        fold_log(self._writer)
        version = int(self._writer.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            self._writer.close()
            raise StoreNewer(f"{path}: {of_newer(version, SCHEMA_VERSION)}; start that release instead")
        if version == 0:
            self._writer.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        self._reader = _connect(path)
        self._reader.execute("PRAGMA query_only = ON")

    def close(self) -> None:
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction, durable when the block is left. CatalogueFault."""
        with self._writing, self._told():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            finally:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Read what was committed. Fetch the rows within the block, and not too many at once. CatalogueFault."""
        with self._reading, self._told():
            yield self._reader

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as fault:
            mend = "make room there" if fault.sqlite_errorname == "SQLITE_FULL" else "see to its disk"
            raise CatalogueFault(f"{self._path}: {fault}; {mend}, and try again") from None


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10.0)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    return db
