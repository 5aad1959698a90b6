"""Files that are there whole after a crash, or as they were before it."""

from __future__ import annotations

import os
import secrets
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


def sync(path: Path) -> None:
    """Put a file's content, or a folder's names, onto the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
