"""Deleting directories with all below them, whatever rights were set on it, never following a link."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def remove_empty(path: Path) -> None:
    """Delete the directories at and below `path` that hold no files."""
    for at, _, _ in os.walk(path, topdown=False):
        with suppress(OSError):
            os.rmdir(at)


def remove_tree(path: Path) -> None:
    """Delete a directory with all below it, never following a link; absent is fine."""

    def open_up(remove: Callable[..., Any], where: str, fault: Any) -> None:
        """A job may have taken away our right to its own directories."""
        if isinstance(fault[1], PermissionError):
            for locked in (os.path.dirname(where), where):
                if not os.path.islink(locked):
                    os.chmod(locked, 0o700)
            if os.path.isdir(where) and not os.path.islink(where):
                shutil.rmtree(where)
            else:
                os.unlink(where)
        elif not isinstance(fault[1], FileNotFoundError):
            raise fault[1]

    if os.path.lexists(path):
        shutil.rmtree(path, onerror=open_up)
