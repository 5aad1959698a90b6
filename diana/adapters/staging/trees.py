"""Deleting directories with all below them, whatever rights were set on it, never following a link."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from diana.adapters.deep_trees import remove_deep


def remove_empty(path: Path) -> None:
    """Delete the directories at and below `path` that hold no files."""
    for at, _, _ in os.walk(path, topdown=False):
        with suppress(OSError):
            os.rmdir(at)


def remove_tree(path: Path) -> None:
    """Delete a directory with all below it, never following a link; absent is fine."""
    if os.path.lexists(path):
        try:
            shutil.rmtree(path)
        except (OSError, RecursionError):
            # A job may have taken away our right to its own directories, or nested them deeper than a stack reaches.
            if os.path.lexists(path):
                remove_deep(os.fspath(path))
