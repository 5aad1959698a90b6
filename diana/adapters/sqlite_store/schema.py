"""The shape of a store file, its version, and the only place where an older file is brought up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from diana import errors

SCHEMA = 1
RELEASE = "release"
"""Key in `meta`."""

# One journal row per transaction: its records packed together, so that a burst of a thousand costs one insert.
# `first_seq` is the seq of the first of them; with `count` = 0 the row only carries the site time.
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE journal (
    id INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, count INTEGER NOT NULL, at_s REAL NOT NULL,
    crc INTEGER NOT NULL, records BLOB NOT NULL);
CREATE TABLE snapshot (
    id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, at_s REAL NOT NULL,
    crc INTEGER NOT NULL, payload BLOB NOT NULL);
CREATE TABLE facts (
    id INTEGER PRIMARY KEY, grp TEXT NOT NULL, subgroup TEXT NOT NULL, epoch INTEGER NOT NULL, batch INTEGER NOT NULL,
    crc INTEGER NOT NULL, payload BLOB NOT NULL, UNIQUE (grp, subgroup, epoch, batch))
"""

UPCASTS: Mapping[int, tuple[str, ...]] = {}
"""Statements that turn a file of schema n into one of n + 1."""


def create(connection: sqlite3.Connection, db_uuid: str, replica_uuid: str) -> None:
    """Lay out an empty file, in one transaction. `db_uuid` is the journal's, `replica_uuid` this disk's."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.executemany(
        "INSERT INTO meta (key, value) VALUES (?, ?)",
        (("schema", str(SCHEMA)), ("db_uuid", db_uuid), ("replica_uuid", replica_uuid)),
    )
    connection.execute("COMMIT")


def is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def bring_up_to_date(
    connection: sqlite3.Connection,
    name: str,
    wanted: int = SCHEMA,
    upcasts: Mapping[int, tuple[str, ...]] = UPCASTS,
) -> None:
    """Upcast step by step, each step one transaction. Raises `errors.StoreNewer`; `errors.StoreFailed` if no store."""
    found = version(connection)
    if found is None:
        raise errors.StoreFailed(f"{name}: a database, but not diana's; name another data directory")
    if found > wanted:
        raise errors.StoreNewer(
            f"{name}: {errors.of_newer(found, wanted, release(connection))}; "
            "start the newer release, or restore a backup made by this one"
        )
    for step in range(found, wanted):
        connection.execute("BEGIN IMMEDIATE")
        for statement in upcasts[step]:
            connection.execute(statement)
        connection.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(step + 1),))
        connection.execute("COMMIT")


def version(connection: sqlite3.Connection) -> int | None:
    """Schema of the file; None: no store of ours."""
    known = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'meta'").fetchone()
    if not known[0]:
        return None
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    return int(row[0]) if row is not None and str(row[0]).isdigit() else None


def release(connection: sqlite3.Connection) -> str:
    """Return the release that wrote to the file last; empty: one that did not say so, as 0.1.0."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (RELEASE,)).fetchone()
    return str(row[0]) if row else ""
