"""The content brought to this site that may go again: cached files, whole datasets, their pins; uses of uploaded
blobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from diana.adapters.staging.catalogue.database import Database
from diana.model.data import DataFile
from diana.model.ids import GroupId, SubgroupId


class Evictable(NamedTuple):
    sha256: str
    """Hash of a file, or the digest of a dataset."""
    size_bytes: int
    whole: bool
    """True for a dataset with all its files."""


class DatasetReplica(NamedTuple):
    """A dataset that was brought here as a whole, or was begun to be."""

    digest: str
    name: str
    size_bytes: int
    stored_bytes: int
    complete: bool


class KeptData(Database):
    """Methods block: call them from a data thread. Each change is durable on return."""

    # --- files ------------------------------------------------------------------------------------

    def keep_cached(
        self, files: Iterable[tuple[str, int]], wall_s: float, refs: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Note use of cached content (hash, size), and by which references (ref, hash) it came."""
        with self.change() as db:
            db.executemany(
                "INSERT INTO cached VALUES (?, ?, ?)"
                " ON CONFLICT (sha256) DO UPDATE SET used_wall_s = excluded.used_wall_s",
                ((bytes.fromhex(sha), size, wall_s) for sha, size in files),
            )
            db.executemany(
                "INSERT OR IGNORE INTO cached_refs VALUES (?, ?)", ((ref, bytes.fromhex(sha)) for ref, sha in refs)
            )

    def adopt_cached(self, files: Sequence[tuple[str, int]], wall_s: float) -> None:
        """Note content (hash, size) that stands in the cache; content known already stays as it is."""
        with self.change() as db:
            db.executemany(
                "INSERT OR IGNORE INTO cached VALUES (?, ?, ?)",
                ((bytes.fromhex(sha), size, wall_s) for sha, size in files),
            )

    def cached_files(self, refs: Sequence[str]) -> list[DataFile]:
        """Return files fetched under these references that are still cached; a reference may stand for several."""
        with self.read() as db:
            rows = db.execute(
                "SELECT r.ref, c.size_bytes, c.sha256 FROM json_each(?) j JOIN cached_refs r ON r.ref = j.value"
                " JOIN cached c ON c.sha256 = r.sha256 ORDER BY j.key, c.sha256",
                (json.dumps(refs),),
            ).fetchall()
        return [DataFile(ref, size, sha.hex()) for ref, size, sha in rows]

    def forget_cached(self, hashes: Iterable[str]) -> None:
        """Forget files or whole datasets that are gone."""
        keys = [(bytes.fromhex(h),) for h in hashes]
        with self.change() as db:
            db.executemany("DELETE FROM cached WHERE sha256 = ?", keys)
            db.executemany("DELETE FROM cached_refs WHERE sha256 = ?", keys)
            db.executemany("DELETE FROM replicas WHERE digest = ?", keys)

    # --- whole datasets ---------------------------------------------------------------------------

    def keep_replica(self, replica: DatasetReplica, wall_s: float) -> None:
        """Note how far a dataset came, and its use. A complete one stays so."""
        row = (bytes.fromhex(replica.digest), *replica[1:], wall_s)
        with self.change() as db:
            db.execute(
                "INSERT INTO replicas VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET"
                " complete = max(complete, excluded.complete), used_wall_s = excluded.used_wall_s,"
                " stored_bytes = max(stored_bytes, excluded.stored_bytes)",
                row,
            )

    def replica(self, digest: str) -> DatasetReplica | None:
        with self.read() as db:
            row = db.execute(f"{_REPLICA} WHERE digest = ?", (bytes.fromhex(digest),)).fetchone()
        return _replica(row) if row else None

    def replicas(self, names: Iterable[str]) -> list[DatasetReplica]:
        """Return the complete replicas of these datasets."""
        with self.read() as db:
            rows = db.execute(
                f"{_REPLICA} WHERE complete AND name IN (SELECT value FROM json_each(?)) ORDER BY name, digest",
                (json.dumps(sorted(set(names))),),
            ).fetchall()
        return [_replica(row) for row in rows]

    def all_replicas(self) -> list[DatasetReplica]:
        with self.read() as db:
            return [_replica(row) for row in db.execute(f"{_REPLICA} ORDER BY name, digest")]

    # --- pins and room ----------------------------------------------------------------------------

    def pin(self, hashes: Iterable[str], subgroup: SubgroupId) -> None:
        """Pin content that the subgroup's jobs read; it stays until `unpin`, also content that has yet to arrive."""
        with self.change() as db:
            db.executemany("INSERT OR IGNORE INTO pins VALUES (?, ?)", ((bytes.fromhex(h), subgroup) for h in hashes))

    def unpin(self, subgroup: SubgroupId) -> bool:
        """Drop the subgroup's pins; True if it had any."""
        with self.change() as db:
            return bool(db.execute("DELETE FROM pins WHERE subgroup = ?", (subgroup,)).rowcount)

    def cached_bytes(self) -> int:
        with self.read() as db:
            row = db.execute(
                "SELECT (SELECT coalesce(sum(size_bytes), 0) FROM cached)"
                " + (SELECT coalesce(sum(stored_bytes), 0) FROM replicas)"
            ).fetchone()
        return int(row[0])

    def evictable(self, limit: int) -> list[Evictable]:
        """Return content that nobody has pinned, least recently used first."""
        with self.read() as db:
            rows = db.execute(
                "SELECT sha256, size_bytes, 0, used_wall_s FROM cached c WHERE NOT EXISTS"
                " (SELECT 1 FROM pins p WHERE p.sha256 = c.sha256)"
                " UNION ALL SELECT digest, stored_bytes, 1, used_wall_s FROM replicas r WHERE NOT EXISTS"
                " (SELECT 1 FROM pins p WHERE p.sha256 = r.digest) ORDER BY 4, 1 LIMIT ?",
                (limit,),
            ).fetchall()
        return [Evictable(sha.hex(), size, bool(whole)) for sha, size, whole, _ in rows]

    # --- blobs ------------------------------------------------------------------------------------

    def use_blobs(self, group: GroupId, hashes: Iterable[str]) -> None:
        """Note that the group reads them."""
        with self.change() as db:
            db.executemany("INSERT OR IGNORE INTO blob_uses VALUES (?, ?)", ((bytes.fromhex(h), group) for h in hashes))

    def leave_blobs(self, group: GroupId) -> list[str]:
        """Note that the group reads no blobs any more; return those that it read and no other does, which are
        `unused_blobs` until they are forgotten."""
        with self.change() as db:
            read = db.execute("SELECT sha256 FROM blob_uses WHERE grp = ?", (group,)).fetchall()
            db.execute("DELETE FROM blob_uses WHERE grp = ?", (group,))
            others = "SELECT 1 FROM blob_uses WHERE sha256 = ? AND grp <> ? LIMIT 1"
            left = [sha for (sha,) in read if db.execute(others, (sha, _LEFT)).fetchone() is None]
            db.executemany("INSERT OR IGNORE INTO blob_uses VALUES (?, ?)", ((sha, _LEFT) for sha in left))
        return [sha.hex() for sha in left]

    def unused_blobs(self) -> list[str]:
        """Return the blobs that groups read and none reads any more."""
        with self.read() as db:
            rows = db.execute(
                "SELECT u.sha256 FROM blob_uses u WHERE u.grp = ?1 AND NOT EXISTS"
                " (SELECT 1 FROM blob_uses o WHERE o.sha256 = u.sha256 AND o.grp <> ?1) LIMIT 10000",
                (_LEFT,),
            ).fetchall()
        return [sha.hex() for (sha,) in rows]

    def forget_blobs(self, hashes: Iterable[str]) -> None:
        """They are gone."""
        with self.change() as db:
            db.executemany(
                "DELETE FROM blob_uses WHERE sha256 = ? AND grp = ?", ((bytes.fromhex(h), _LEFT) for h in hashes)
            )

    # --- outputs ----------------------------------------------------------------------------------

    def reads_below(self, folder: str) -> bool:
        """True if a dataset that is registered has files from this folder, or from one below it. A look at each of its
        files, where it was put together from several paths and once had some from there."""
        with self.read() as db:
            below = db.execute(
                "SELECT 1 FROM roots r WHERE (r.path = ?1 OR substr(r.path, 1, length(?1) + 1) = ?1 || '/') AND EXISTS"
                " (SELECT 1 FROM datasets d WHERE d.version > 0 AND (d.folder = r.path OR d.folder = '' AND EXISTS"
                " (SELECT 1 FROM files f WHERE f.dataset = d.id AND f.root = r.id))) LIMIT 1",
                (folder,),
            ).fetchone()
        return below is not None


_LEFT = ""
"""In place of a group in `blob_uses`: one that is gone read it."""
_REPLICA = "SELECT digest, name, size_bytes, stored_bytes, complete FROM replicas"


def _replica(row: tuple[bytes, str, int, int, int]) -> DatasetReplica:
    return DatasetReplica(row[0].hex(), row[1], row[2], row[3], bool(row[4]))
