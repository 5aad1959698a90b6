"""The datasets registered at this site and their files, durably, with what is kept of others' (`kept.py`).

Made for 10^7 files: a file's path is its root plus its name, hashes are 32 bytes, rows live in the primary key's
tree, and nothing here ever holds a whole dataset in memory. A name has versions, numbered from 1; a version that was
registered once never changes.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from diana.adapters.staging.catalogue.kept import KeptData
from diana.errors import UsageError
from diana.model.data import DataFile, RegisteredDataset

PAGE = 4096
"""Rows read or written at once."""
_ROW = "f.name, r.path, f.size_bytes, f.mtime_ns, f.sha256"
_BEING_MADE, _DEAD = 0, -1
"""Values in place of a version: files still come; to be deleted."""
_NO_VERSION = 1 << 40


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


class Registered(NamedTuple):
    """A dataset of this site with the fields that only this site needs to know of it."""

    number: int
    dataset: RegisteredDataset
    manifest_bytes: int
    folder: str
    """Folder below which all regular files were its files; empty: it was put together from several paths."""
    added_wall_s: float


class Building(NamedTuple):
    """A registration under way; `earlier` is one that was broken off, whose hashes need not be computed again."""

    name: str
    number: int
    earlier: int | None


class Catalogue(KeptData):
    """Methods block: call them from a data thread. Each change is durable on return."""

    # --- reading ----------------------------------------------------------------------------------

    def dataset(self, name: str, version: int = 0) -> RegisteredDataset | None:
        """Return that version of the dataset, or the newest."""
        found = self.registered(name, version)
        return found.dataset if found else None

    def registered(self, name: str, version: int = 0) -> Registered | None:
        with self.read() as db:
            row = db.execute(f"{_DATASET} WHERE name = ?1 AND version = {_WHICH}", (name, version)).fetchone()
        return _registered(row) if row else None

    def versions(self, name: str = "") -> list[Registered]:
        """Return every version of that dataset, or of all, the oldest first."""
        with self.read() as db:
            rows = db.execute(
                f"{_DATASET} WHERE version > 0 AND (?1 = '' OR name = ?1) ORDER BY name, version", (name,)
            ).fetchall()
        return [_registered(row) for row in rows]

    def newest(self) -> list[RegisteredDataset]:
        """Return the newest version of every dataset, by name."""
        return list({found.dataset.name: found.dataset for found in self.versions()}.values())

    def by_digest(self, digest: str) -> Registered | None:
        """Return a dataset of just that content, under whatever name."""
        with self.read() as db:
            row = db.execute(
                f"{_DATASET} WHERE digest = ? AND version > 0 ORDER BY id DESC", (bytes.fromhex(digest),)
            ).fetchone()
        return _registered(row) if row else None

    def changed(self) -> set[int]:
        """Return the numbers of datasets of which a file was found changed when it was last looked at."""
        with self.read() as db:
            return {row[0] for row in db.execute("SELECT id FROM datasets WHERE changed AND version > 0")}

    def note_changed(self, number: int, changed: bool) -> None:
        with self.change() as db:
            db.execute("UPDATE datasets SET changed = ? WHERE id = ?", (changed, number))

    def names(self) -> list[str]:
        with self.read() as db:
            return [row[0] for row in db.execute("SELECT DISTINCT name FROM datasets WHERE version > 0 ORDER BY name")]

    def file(self, dataset: str, name: str, version: int = 0, sha256: str = "") -> LocalFile | None:
        """Return the file of that version (0: the newest); with `sha256` the file of any version that has it with
        that content."""
        with self.read() as db:
            if sha256:
                row = db.execute(
                    f"SELECT {_ROW} FROM datasets d JOIN files f ON f.dataset = d.id JOIN roots r ON r.id = f.root"
                    " WHERE d.name = ? AND d.version > 0 AND f.name = ? AND f.sha256 = ?"
                    " ORDER BY d.version DESC LIMIT 1",
                    (dataset, name, bytes.fromhex(sha256)),
                ).fetchone()
            else:
                row = db.execute(
                    f"SELECT {_ROW} FROM datasets d JOIN files f ON f.dataset = d.id JOIN roots r ON r.id = f.root"
                    f" WHERE d.name = ?1 AND d.version = {_WHICH} AND f.name = ?3",
                    (dataset, version, name),
                ).fetchone()
        return _local(row) if row else None

    def pages(self, number: int, after: str = "") -> Generator[list[LocalFile], None, None]:
        """Yield all files of a dataset by name, in pages."""
        while True:
            with self.read() as db:
                rows = db.execute(
                    f"SELECT {_ROW} FROM files f JOIN roots r ON r.id = f.root"
                    f" WHERE f.dataset = ? AND f.name > ? ORDER BY f.name LIMIT {PAGE}",
                    (number, after),
                ).fetchall()
            if not rows:
                return
            yield [_local(row) for row in rows]
            after = rows[-1][0]

    def look_up(self, refs: Sequence[str]) -> tuple[tuple[DataFile, ...], tuple[str, ...]]:
        """Return (units registered here, files that are not in their dataset though it is registered here), each
        under the reference asked. One query for the datasets, one for each page of files."""
        asked = [(ref, *split_ref(ref)) for ref in refs if ref.startswith("dataset:")]
        datasets = self._datasets_of({(name, version) for _, name, version, _ in asked})
        inside = [(datasets[n, v].number, file) for _, n, v, file in asked if file and (n, v) in datasets]
        files = self._files_of(inside)
        found: list[DataFile] = []
        unknown: list[str] = []
        for ref, name, version, file in asked:
            here = datasets.get((name, version))
            if here is None:
                continue
            if not file:
                found.append(DataFile(ref, here.dataset.size_bytes, here.dataset.digest))
            elif row := files.get((here.number, file)):
                found.append(DataFile(ref, row[0], row[1].hex()))
            else:
                unknown.append(ref)
        return tuple(found), tuple(unknown)

    def _datasets_of(self, asked: set[tuple[str, int]]) -> dict[tuple[str, int], Registered]:
        with self.read() as db:
            rows = db.execute(
                "SELECT j.value ->> 1, d.id, d.name, d.version, d.digest, d.files, d.size_bytes, d.manifest_bytes,"
                " d.folder, d.added_wall_s FROM json_each(?) j JOIN datasets d ON d.name = j.value ->> 0"
                " AND d.version = CASE j.value ->> 1 WHEN 0 THEN"
                " (SELECT max(version) FROM datasets n WHERE n.name = d.name AND n.version > 0)"
                " ELSE j.value ->> 1 END WHERE d.version > 0",
                (json.dumps(sorted(asked)),),
            ).fetchall()
        return {(row[2], row[0]): _registered(row[1:]) for row in rows}

    def _files_of(self, asked: Sequence[tuple[int, str]]) -> dict[tuple[int, str], tuple[int, bytes]]:
        found: dict[tuple[int, str], tuple[int, bytes]] = {}
        for at in range(0, len(asked), PAGE):
            with self.read() as db:
                rows = db.execute(
                    "SELECT f.dataset, f.name, f.size_bytes, f.sha256 FROM json_each(?) j CROSS JOIN files f"
                    " ON f.dataset = j.value ->> 0 AND f.name = j.value ->> 1",
                    (json.dumps(asked[at : at + PAGE]),),
                )
                found.update({(dataset, name): (size, sha) for dataset, name, size, sha in rows})
        return found

    # --- registering ------------------------------------------------------------------------------

    def begin(self, name: str, wall_s: float) -> Building:
        """Begin a registration. Files left by one of this name that broke off are taken up; other leftovers of it
        go."""
        with self.change() as db:
            rows = db.execute(
                "SELECT id FROM datasets WHERE version = ? AND name = ? ORDER BY id DESC", (_BEING_MADE, name)
            ).fetchall()
            earlier = rows[0][0] if rows else None
            db.executemany("UPDATE datasets SET version = ? WHERE id = ?", ((_DEAD, number) for (number,) in rows[1:]))
            number = db.execute(
                "INSERT INTO datasets (name, version, digest, files, size_bytes, manifest_bytes, folder, added_wall_s)"
                " VALUES (?, ?, x'', 0, 0, 0, '', ?)",
                (name, _BEING_MADE, wall_s),
            ).lastrowid
        assert number is not None
        return Building(name, number, earlier)

    def hashed_before(self, building: Building, names: Sequence[str]) -> dict[str, LocalFile]:
        """Return what the broken-off registration had found out of files with these names."""
        if building.earlier is None:
            return {}
        with self.read() as db:
            rows = db.execute(
                f"SELECT {_ROW} FROM json_each(?) j CROSS JOIN files f ON f.dataset = ? AND f.name = j.value"
                " JOIN roots r ON r.id = f.root",
                (json.dumps(names), building.earlier),
            ).fetchall()
        return {row[0]: _local(row) for row in rows}

    def put(self, building: Building, files: Sequence[LocalFile]) -> None:
        """Add files. UsageError when a name came before."""
        with self.change() as db:
            roots = {root: _root(db, root) for root in sorted({f.root for f in files})}
            for f in sorted(files):
                row = (building.number, f.name, roots[f.root], f.size_bytes, f.mtime_ns, bytes.fromhex(f.sha256))
                try:
                    db.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", row)
                except sqlite3.IntegrityError:
                    raise UsageError(
                        f"{f.path}: a second file named {f.name}; names within a dataset must differ"
                    ) from None

    def finish(self, building: Building, *, folder: str, new_version: bool, wall_s: float) -> RegisteredDataset:
        """Give the files their dataset. The same content as the newest version only refreshes paths and times;
        UsageError when the name stands for other content and no new version is wanted."""
        digest, files, size_bytes, manifest_bytes = self._sums(building.number)
        with self.change() as db:
            newest = db.execute(
                "SELECT id, version, digest FROM datasets WHERE name = ? AND version > 0 ORDER BY version DESC",
                (building.name,),
            ).fetchone()
            version = newest[1] if newest else 1
            if newest and newest[2] == digest:
                db.execute("UPDATE datasets SET version = ? WHERE id = ?", (_DEAD, newest[0]))
            elif newest and not new_version:
                raise UsageError(
                    f"dataset {building.name}: registered here with other content; a dataset never changes:"
                    " use a new name, or add it as a new version (--new-version)"
                )
            elif newest:
                version += 1
            db.execute(
                "UPDATE datasets SET version = ?, digest = ?, files = ?, size_bytes = ?, manifest_bytes = ?,"
                " folder = ?, added_wall_s = ? WHERE id = ?",
                (version, digest, files, size_bytes, manifest_bytes, folder, wall_s, building.number),
            )
            if building.earlier is not None:
                db.execute("UPDATE datasets SET version = ? WHERE id = ?", (_DEAD, building.earlier))
        return RegisteredDataset(
            name=building.name, digest=digest.hex(), files=files, size_bytes=size_bytes, version=version
        )

    def _sums(self, number: int) -> tuple[bytes, int, int, int]:
        """Return (digest, files, bytes, bytes of the manifest)."""
        total = hashlib.sha256()
        files = size_bytes = manifest_bytes = 0
        for page in self.pages(number):
            text = manifest_text(page)
            total.update(text)
            files += len(page)
            size_bytes += sum(f.size_bytes for f in page)
            manifest_bytes += len(text)
        return total.digest(), files, size_bytes, manifest_bytes

    # --- removing ---------------------------------------------------------------------------------

    def remove(self, name: str, version: int = 0) -> int:
        """Forget that version, or all of them; return how many went. The files stay where they lie."""
        with self.change() as db:
            gone = db.execute(
                "UPDATE datasets SET version = ?1 WHERE name = ?2 AND version > 0 AND (?3 = 0 OR version = ?3)",
                (_DEAD, name, version),
            ).rowcount
        return gone

    def sweep(self) -> None:
        """Delete the rows of what was removed or replaced, a page at a time: nobody waits for it."""
        while True:
            with self.change() as db:
                row = db.execute("SELECT id FROM datasets WHERE version = ?", (_DEAD,)).fetchone()
                if row is None:
                    return
                gone = db.execute(
                    "DELETE FROM files WHERE dataset = ?1 AND name IN"
                    f" (SELECT name FROM files WHERE dataset = ?1 ORDER BY name LIMIT {PAGE})",
                    row,
                ).rowcount
                if not gone:
                    db.execute("DELETE FROM datasets WHERE id = ?", row)


_DATASET = "SELECT id, name, version, digest, files, size_bytes, manifest_bytes, folder, added_wall_s FROM datasets"
_WHICH = "CASE ?2 WHEN 0 THEN (SELECT max(version) FROM datasets WHERE name = ?1 AND version > 0) ELSE ?2 END"


def _root(db: sqlite3.Connection, path: str) -> int:
    db.execute("INSERT OR IGNORE INTO roots (path) VALUES (?)", (path,))
    return int(db.execute("SELECT id FROM roots WHERE path = ?", (path,)).fetchone()[0])


def _registered(row: tuple[int, str, int, bytes, int, int, int, str, float]) -> Registered:
    number, name, version, digest, files, size_bytes, manifest_bytes, folder, added_wall_s = row
    dataset = RegisteredDataset(name=name, digest=digest.hex(), files=files, size_bytes=size_bytes, version=version)
    return Registered(number, dataset, manifest_bytes, folder, added_wall_s)


def _local(row: tuple[str, str, int, int, bytes]) -> LocalFile:
    return LocalFile(row[0], row[1], row[2], row[3], row[4].hex())


def split_ref(ref: str) -> tuple[str, int, str]:
    """Split `dataset:NAME[@VERSION][/FILE]` into (NAME, VERSION or 0, FILE or empty). A bad version becomes one
    nobody has."""
    whole, _, file = ref.partition(":")[2].partition("/")
    name, mark, version = whole.partition("@")
    if not mark:
        return name, 0, file
    plain = version.isascii() and version.isdigit() and len(version) < 10 and not version.startswith("0")
    return name, int(version) if plain else _NO_VERSION, file


def manifest_text(files: Iterable[LocalFile]) -> bytes:
    """Return a stretch of a manifest; `files` are sorted by name. The SHA-256 of all of it is the dataset's digest:
    equal for equal names with equal content, wherever the files lie."""
    return "".join(f"{f.size_bytes} {f.sha256} {f.name}\n" for f in files).encode()
