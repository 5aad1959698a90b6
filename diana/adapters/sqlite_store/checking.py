"""Looks at a store without opening it as one: for whoever asks what is wrong with it, also beside a running node."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from diana import errors
from diana.adapters.sqlite_store import schema, wal

_STEPS = 20_000
"""Steps of SQLite's virtual machine between two looks at the clock."""


def harm(path: Path, limit_s: float, *, running: bool) -> tuple[str, bool]:
    """Return one line saying what is wrong with the file, empty for nothing; and True if it was read to its end
    within the limit. `running`: a node writes to it. OSError where it cannot be read."""
    with path.open("rb"):
        pass
    log = path.with_name(f"{path.name}-wal")
    if not running and log.exists() and (damaged := wal.damage(log)):
        return f"{log.name}: {damaged}", True
    try:
        with closing(_connect(path, log)) as connection:
            return _checked(connection, limit_s)
    except sqlite3.Error as error:
        return str(error), True


def meta(path: Path, key: str) -> str:
    """Return a value the store keeps beside the journal; empty: it has none, or cannot be read."""
    try:
        with closing(_connect(path, path.with_name(f"{path.name}-wal"))) as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    except sqlite3.Error:
        return ""
    return str(row[0]) if row else ""


def _connect(path: Path, log: Path) -> sqlite3.Connection:
    # Without a log nobody writes, and nothing is made beside the file.
    how = "mode=ro" if log.exists() else "immutable=1"
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, isolation_level=None, timeout=0.5)
    connection.execute("PRAGMA query_only=1")
    return connection


def _checked(connection: sqlite3.Connection, limit_s: float) -> tuple[str, bool]:
    found = schema.version(connection)
    if found is None:
        return "a database, but not diana's", True
    if found > schema.SCHEMA:
        return errors.of_newer(found, schema.SCHEMA, schema.release(connection)), True
    until_s = time.monotonic() + limit_s
    connection.set_progress_handler(lambda: int(time.monotonic() > until_s), _STEPS)
    try:
        rows = [str(row[0]) for row in connection.execute("PRAGMA quick_check(1)")]
    except sqlite3.OperationalError as error:
        if "interrupt" in str(error):
            return "", False
        raise
    return ("", True) if rows == ["ok"] else (rows[0] if rows else "no answer", True)
