"""Copies of a node's durable state, taken while it runs, and their way back.

A restored store is the past: since it was taken, jobs may have started and results may have been acknowledged. So a
restore mints a new db_uuid, by which peers notice, and leaves the old one in the store's meta as `restored_from`,
on which the engine holds everything that is not terminal (PROMISES sections 2 and 4).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec

from diana import __version__, errors
from diana.adapters.durable import sync
from diana.bounds import MOST_MANIFEST_BYTES, content_of
from diana.model.layout import DataDir

_KEYS = ("site.key", "site.pem", "signer.key", "signer.pem", "vo.pem", "vo.key", "revoked")
_FORMAT = 1
_MANIFEST = "backup.json"


class BackedUp(msgspec.Struct, frozen=True):
    name: str
    """Path relative to the backup's folder."""
    size_bytes: int
    sha256: str


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`backup.json`, written last: a folder without it is no backup."""

    format: int
    release: str
    db_uuid: str
    """The id of the store when it was copied."""
    files: tuple[BackedUp, ...]

    def has_keys(self) -> bool:
        return any(file.name == "keys/site.key" for file in self.files)


def back_up(data: Path, to: Path, *, keys: bool = False) -> BackupManifest:
    """Copy store, catalogue, uploaded blobs and `site.toml` of the data directory into the new folder `to` (0700);
    with `keys` the secrets too. The node may be running. `UsageError` when it cannot; then `to` is not there."""
    paths = DataDir(data)
    if not paths.journal.is_file():
        raise errors.UsageError(f"{paths.journal}: no such store; name a node's data directory")
    if to.exists():
        raise errors.UsageError(f"{to}: exists already; name a new folder")
    part = to.with_name(to.name + ".part")
    with _cleared(part, f"back up {data}"):
        part.mkdir(mode=0o700, parents=True)
        names = ["journal.db", *(["catalogue.db"] if paths.catalogue.is_file() else [])]
        for name in names:
            _copy_database(data / name, part / name)
        # After the journal: every blob a copied group names was there before the group was.
        wanted = [paths.config, *sorted(path for path in (data / "blobs").rglob("*") if path.is_file())]
        wanted += [paths.keys / name for name in _KEYS if keys]
        for source in wanted:
            if source.is_file():
                names.append(_copy_file(source, part, str(source.relative_to(data))))
        manifest = BackupManifest(
            format=_FORMAT,
            release=__version__,
            db_uuid=_db_uuid(part / "journal.db"),
            files=tuple(_described(part, name) for name in names),
        )
        _write(part / _MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        _sync_tree(part)
        part.rename(to)
        sync(to.parent)
    return manifest


def read_manifest(folder: Path) -> BackupManifest:
    try:
        manifest = msgspec.json.decode(content_of(folder / _MANIFEST, MOST_MANIFEST_BYTES), type=BackupManifest)
    except OSError as error:
        raise errors.UsageError(f"{folder / _MANIFEST}: {error.strerror}; name a folder `diana backup` made") from None
    except (ValueError, RecursionError) as error:
        raise errors.UsageError(f"{folder / _MANIFEST}: {error}; the backup is damaged, take another") from None
    if manifest.format > _FORMAT:
        raise errors.UsageError(
            f"{folder}: a backup of release {manifest.release}; restore it with that release or a newer one"
        )
    return manifest


def restore(source: Path, data: Path) -> BackupManifest:
    """Make the data directory `data` (new or empty) from a backup, under a new db_uuid and marked `restored_from`.

    Every file is checked against the manifest first. Without keys in the backup, those of the old site must be put
    into `keys` or issued anew. `UsageError` when it cannot; then nothing is left behind.
    """
    manifest = read_manifest(source)
    if data.exists() and (not data.is_dir() or any(data.iterdir())):
        raise errors.UsageError(f"{data}: not empty; name a new data directory to restore into")
    for file in manifest.files:
        _check(source, file)
    part = data.with_name(data.name + ".part")
    with _cleared(part, f"restore {source}"):
        part.mkdir(mode=0o700, parents=True)
        for file in manifest.files:
            _copy_file(source / file.name, part, file.name)
        _mint_anew(part / "journal.db")
        _sync_tree(part)
        if data.exists():
            data.rmdir()
        part.rename(data)
        sync(data.parent)
    return manifest


# --- databases -----------------------------------------------------------------------------------------


def _copy_database(source: Path, target: Path) -> None:
    """Copy by SQLite's online backup: a consistent state, while the node goes on writing. The source is opened
    read-only, since only the node's own connection may checkpoint."""
    _write(target, b"")
    with (
        contextlib.closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as reading,
        contextlib.closing(sqlite3.connect(target, isolation_level=None)) as writing,
    ):
        reading.backup(writing)
        # One file, no log beside it.
        writing.execute("PRAGMA journal_mode=DELETE").fetchone()
        found = writing.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise errors.UsageError(f"{source}: damaged: {found}; restore an older backup")


def _db_uuid(journal: Path) -> str:
    with contextlib.closing(sqlite3.connect(journal)) as connection:
        row = connection.execute("SELECT value FROM meta WHERE key = 'db_uuid'").fetchone()
    return str(row[0]) if row else ""


def _mint_anew(journal: Path) -> None:
    with contextlib.closing(sqlite3.connect(journal, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT OR REPLACE INTO meta (key, value) SELECT 'restored_from', value FROM meta WHERE key = 'db_uuid'"
        )
        connection.execute("UPDATE meta SET value = ? WHERE key = 'db_uuid'", (uuid.uuid4().hex,))
        # Another disk: whatever the old one promised or was counted on for, this one was not.
        connection.execute("UPDATE meta SET value = ? WHERE key = 'replica_uuid'", (uuid.uuid4().hex,))
        connection.execute("DELETE FROM meta WHERE key = 'replicated'")
        connection.execute("COMMIT")


# --- files ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _cleared(part: Path, what: str) -> Iterator[None]:
    """Remove `part` before and after the block, whatever ends it; errors of the disk become one line."""
    shutil.rmtree(part, ignore_errors=True)
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        why = f"{error.filename or part}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise errors.UsageError(f"{what}: {why}; free space or name another folder, then try again") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _copy_file(source: Path, part: Path, name: str) -> str:
    target = part / name
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with source.open("rb") as reading:
        # Born with its mode: a key is never for a moment readable by others.
        mode = os.fstat(reading.fileno()).st_mode & 0o777
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "wb") as writing:
            shutil.copyfileobj(reading, writing, 1 << 20)
    return name


def _check(source: Path, file: BackedUp) -> None:
    relative = Path(file.name)
    if relative.is_absolute() or ".." in relative.parts:
        raise errors.UsageError(f"{source / _MANIFEST}: names {file.name!r}, which is outside; take another backup")
    try:
        found = _described(source, file.name)
    except OSError as error:
        raise errors.UsageError(
            f"{source / file.name}: {error.strerror}; the backup is damaged, take another"
        ) from None
    if found != file:
        raise errors.UsageError(f"{source / file.name}: not what was backed up; the backup is damaged, take another")


def _described(folder: Path, name: str) -> BackedUp:
    path = folder / name
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BackedUp(name, path.stat().st_size, digest)


def _write(path: Path, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)


def _sync_tree(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        sync(path)
