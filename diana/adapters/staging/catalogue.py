"""What data lies at this site, durably: datasets and their files, cached content with its pins, uses of blobs.

SQLite in WAL mode, one connection behind a lock, used from the data threads only. Made for 10^7 files: a file's path
is its root plus its name, hashes are 32 bytes, rows live in the primary key's tree.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from diana.errors import StoreNewer, UsageError
from diana.model.data import DataFile, Dataset
from diana.model.ids import GroupId, SubgroupId

SCHEMA_VERSION = 1

_SCHEMA = """
CREATE TABLE roots (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE TABLE datasets (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest BLOB NOT NULL, files INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL, added_wall_s REAL NOT NULL);
CREATE TABLE files (
    dataset INTEGER NOT NULL, name TEXT NOT NULL, root INTEGER NOT NULL, size_bytes INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, sha256 BLOB NOT NULL, PRIMARY KEY (dataset, name)) WITHOUT ROWID;
CREATE TABLE cached (sha256 BLOB PRIMARY KEY, size_bytes INTEGER NOT NULL, used_wall_s REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX cached_by_use ON cached (used_wall_s);
CREATE TABLE pins (sha256 BLOB NOT NULL, subgroup TEXT NOT NULL, PRIMARY KEY (sha256, subgroup)) WITHOUT ROWID;
CREATE INDEX pins_by_subgroup ON pins (subgroup);
CREATE TABLE blob_uses (sha256 BLOB NOT NULL, grp TEXT NOT NULL, PRIMARY KEY (sha256, grp)) WITHOUT ROWID;
CREATE INDEX blob_uses_by_group ON blob_uses (grp);
"""


class LocalFile(NamedTuple):
    """A registered file: its logical name, and where and how it was when it was hashed."""

    name: str
    root: str
    """Absolute real path of the folder; the file is `root/name`."""
    size_bytes: int
    mtime_ns: int
    sha256: str

    @property
    def path(self) -> Path:
        return Path(self.root, self.name)


class Evictable(NamedTuple):
    sha256: str
    size_bytes: int


class Catalogue:
    """Methods block: call them from a data thread. Each change is durable on return."""

    def __init__(self, path: Path) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10.0)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            self._db.close()
            raise StoreNewer(f"{path}: written by a newer diana (schema {version}); start that release instead")
        if version == 0:
            self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    # --- datasets ---------------------------------------------------------------------------------

    def add_dataset(self, name: str, files: Sequence[LocalFile], wall_s: float) -> Dataset:
        """Register `files` (any order). The same content again only refreshes paths and times; UsageError when the
        name stands for other content."""
        ordered = sorted(files)
        digest = content_digest(ordered)
        with self._change() as db:
            row = db.execute("SELECT id, digest FROM datasets WHERE name = ?", (name,)).fetchone()
            if row is not None and row[1] != digest:
                raise UsageError(
                    f"dataset {name}: registered here with other content; a dataset never changes, use a new name"
                )
            size_bytes = sum(f.size_bytes for f in ordered)
            if row is None:
                number = db.execute(
                    "INSERT INTO datasets (name, digest, files, size_bytes, added_wall_s) VALUES (?, ?, ?, ?, ?)",
                    (name, digest, len(ordered), size_bytes, wall_s),
                ).lastrowid
            else:
                number = row[0]
            roots = {root: self._root(db, root) for root in sorted({f.root for f in ordered})}
            db.executemany(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)",
                ((number, f.name, roots[f.root], f.size_bytes, f.mtime_ns, bytes.fromhex(f.sha256)) for f in ordered),
            )
        return Dataset(name=name, digest=digest.hex(), files=len(ordered), size_bytes=size_bytes)

    @staticmethod
    def _root(db: sqlite3.Connection, path: str) -> int:
        db.execute("INSERT OR IGNORE INTO roots (path) VALUES (?)", (path,))
        return int(db.execute("SELECT id FROM roots WHERE path = ?", (path,)).fetchone()[0])

    def dataset(self, name: str) -> Dataset | None:
        with self._lock:
            row = self._db.execute("SELECT digest, files, size_bytes FROM datasets WHERE name = ?", (name,)).fetchone()
        return Dataset(name=name, digest=row[0].hex(), files=row[1], size_bytes=row[2]) if row else None

    def files(self, name: str) -> list[DataFile]:
        """Every file of the dataset, by name; empty if it is not registered here."""
        with self._lock:
            rows = self._db.execute(
                "SELECT f.name, f.size_bytes, f.sha256 FROM datasets d JOIN files f ON f.dataset = d.id"
                " WHERE d.name = ? ORDER BY f.name",
                (name,),
            ).fetchall()
        return [DataFile(f"dataset:{name}/{n}", size, sha.hex()) for n, size, sha in rows]

    def look_up(self, refs: Sequence[str]) -> tuple[tuple[DataFile, ...], tuple[str, ...]]:
        """(units registered here, files that are not in their dataset though it is registered here)."""
        found: list[DataFile] = []
        unknown: list[str] = []
        for ref in refs:
            name, _, inside = ref.partition(":")[2].partition("/")
            file = self.file(name, inside) if inside else None
            dataset = None if file else self.dataset(name)
            if file:
                found.append(DataFile(ref, file.size_bytes, file.sha256))
            elif dataset and not inside:
                found.append(dataset.unit)
            elif dataset:
                unknown.append(ref)
        return tuple(found), tuple(unknown)

    def dataset_names(self) -> list[str]:
        with self._lock:
            return [row[0] for row in self._db.execute("SELECT name FROM datasets ORDER BY name")]

    def file(self, dataset: str, name: str) -> LocalFile | None:
        with self._lock:
            row = self._db.execute(
                "SELECT f.name, r.path, f.size_bytes, f.mtime_ns, f.sha256 FROM datasets d"
                " JOIN files f ON f.dataset = d.id JOIN roots r ON r.id = f.root WHERE d.name = ? AND f.name = ?",
                (dataset, name),
            ).fetchone()
        return LocalFile(row[0], row[1], row[2], row[3], row[4].hex()) if row else None

    # --- cache ------------------------------------------------------------------------------------

    def keep_cached(self, files: Iterable[tuple[str, int]], wall_s: float) -> None:
        """Note use of cached content (hash, size)."""
        with self._change() as db:
            db.executemany(
                "INSERT INTO cached VALUES (?, ?, ?)"
                " ON CONFLICT (sha256) DO UPDATE SET used_wall_s = excluded.used_wall_s",
                ((bytes.fromhex(sha), size, wall_s) for sha, size in files),
            )

    def pin(self, hashes: Iterable[str], subgroup: SubgroupId) -> None:
        """Content the subgroup's jobs read; it stays until `unpin`, also what has yet to arrive."""
        with self._change() as db:
            db.executemany("INSERT OR IGNORE INTO pins VALUES (?, ?)", ((bytes.fromhex(h), subgroup) for h in hashes))

    def unpin(self, subgroup: SubgroupId) -> None:
        with self._change() as db:
            db.execute("DELETE FROM pins WHERE subgroup = ?", (subgroup,))

    def cached_bytes(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT coalesce(sum(size_bytes), 0) FROM cached").fetchone()[0])

    def evictable(self, limit: int) -> list[Evictable]:
        """Cached content nobody has pinned, least recently used first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT sha256, size_bytes FROM cached c WHERE NOT EXISTS"
                " (SELECT 1 FROM pins p WHERE p.sha256 = c.sha256) ORDER BY used_wall_s, sha256 LIMIT ?",
                (limit,),
            ).fetchall()
        return [Evictable(sha.hex(), size) for sha, size in rows]

    def forget_cached(self, hashes: Iterable[str]) -> None:
        with self._change() as db:
            db.executemany("DELETE FROM cached WHERE sha256 = ?", ((bytes.fromhex(h),) for h in hashes))

    # --- blobs ------------------------------------------------------------------------------------

    def use_blobs(self, group: GroupId, hashes: Iterable[str]) -> None:
        with self._change() as db:
            db.executemany("INSERT OR IGNORE INTO blob_uses VALUES (?, ?)", ((bytes.fromhex(h), group) for h in hashes))

    def blobs_only_used_by(self, group: GroupId) -> list[str]:
        with self._lock:
            rows = self._db.execute(
                "SELECT u.sha256 FROM blob_uses u WHERE u.grp = ?1 AND NOT EXISTS"
                " (SELECT 1 FROM blob_uses o WHERE o.sha256 = u.sha256 AND o.grp <> ?1)",
                (group,),
            ).fetchall()
        return [sha.hex() for (sha,) in rows]

    def forget_blob_uses(self, group: GroupId) -> None:
        with self._change() as db:
            db.execute("DELETE FROM blob_uses WHERE grp = ?", (group,))


def content_digest(ordered: Iterable[LocalFile]) -> bytes:
    """Equal for equal names with equal content, wherever the files lie. `ordered` is sorted by name."""
    total = hashlib.sha256()
    for f in ordered:
        total.update(f"{f.size_bytes} {f.sha256} {f.name}\n".encode())
    return total.digest()
