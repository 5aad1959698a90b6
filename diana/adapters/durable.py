"""Files that are there whole after a crash, or as they were before it."""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
from pathlib import Path


def replace_durably(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file at once and whole, durable on return: a reader sees the old file or the new one, and never for
    a moment one readable by others than `mode` says. OSError leaves the old one."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        # Buffered: a plain write may take less than it is given when the disk is nearly full.
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync(path.parent)


def fold_log(db: sqlite3.Connection) -> None:
    """Write what earlier processes left in a database's log a second time, and sync it. One that died after an fsync
    had failed leaves pages that every reader sees and that no later fsync brings onto the disk: they have to be written
    anew before anybody speaks of them. In place at first, whoever reads the database meanwhile, and then into the
    database's file, unless another process reads it for longer than the connection waits. Where there is no room, the
    log stays as it is. No transaction may be open. OSError, sqlite3.Error."""
    (path,) = (file for _, name, file in db.execute("PRAGMA database_list") if name == "main")
    # Nobody may append to the log meanwhile: what was read before would be written over it.
    db.execute("BEGIN IMMEDIATE")
    try:
        _write_again(f"{path}-wal")
    finally:
        db.execute("ROLLBACK")
    # Not before the log is safe: its file would be newer than what is left of the log after a power cut.
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as fault:
        if fault.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise


def _write_again(path: str) -> None:
    """Write each byte of a file over itself, and sync them. Nothing where it is not there, or there is no room."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        at = 0
        while piece := os.pread(fd, 1 << 20, at):
            at += os.pwrite(fd, piece, at)
        os.fsync(fd)
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
    finally:
        os.close(fd)


def sync(path: Path) -> None:
    """Put a file's content, or a folder's names, onto the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
