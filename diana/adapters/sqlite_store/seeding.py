"""The whole store as one file: copied while its node goes on, and put in the place of a standby's own.

A standby whose journal is no beginning of the leader's gets all of it anew. The new file takes the old one's place in
one rename, with what the machine itself must not forget (the term it promised) already inside; the old file stays
beside it, the newest only, because what only it held may be all an operator has left of a lost disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from diana import errors
from diana.adapters.durable import sync

KEPT = ".before-"


def online_copy(source: Path, target: Path) -> None:
    """SQLite's online backup of `source` into the new file `target` (0600), as of one moment; commits go on beside
    it. OSError and sqlite3.Error as they come."""
    target.unlink(missing_ok=True)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with (
        closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as reading,
        closing(sqlite3.connect(target, isolation_level=None)) as writing,
    ):
        reading.backup(writing)
        # One file, no log beside it.
        writing.execute("PRAGMA journal_mode=DELETE").fetchone()


def prepare(seed: Path, meta: Mapping[str, str]) -> None:
    """Check the store file `seed`, close it to others (0600) and set `meta` in it, durably. StoreFailed when it is
    damaged."""
    try:
        seed.chmod(0o600)
        with closing(sqlite3.connect(seed, isolation_level=None)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise errors.StoreFailed(f"{seed}: the copy of the leader's journal is damaged: {found}; try again")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", sorted(meta.items()))
            connection.execute("COMMIT")
        sync(seed)
    except (OSError, sqlite3.Error) as error:
        raise errors.StoreFailed(f"{seed}: {error}; free space there and start again") from error


def install(journal: Path, seed: Path, term: int) -> None:
    """Let the prepared file `seed` take the place of `journal`, whose store is closed. The old file stays as
    `journal.db.before-TERM`. Durable on return; after a crash there is the one or the other. StoreFailed when the disk
    refuses."""
    try:
        if journal.exists():
            kept = journal.with_name(f"{journal.name}{KEPT}{term}")
            for old in journal.parent.glob(f"{journal.name}{KEPT}*"):
                old.unlink()
            os.link(journal, kept)
            # The log of a store that was not closed in order belongs to the file that goes.
            for rest in ("-wal", "-shm"):
                journal.with_name(journal.name + rest).unlink(missing_ok=True)
        seed.rename(journal)
        sync(journal.parent)
    except OSError as error:
        raise errors.StoreFailed(f"{seed}: {error}; free space there and start again") from error
