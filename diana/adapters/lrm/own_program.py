"""Finds the `diana` that belongs to this very Python, for jobs that call it."""

from __future__ import annotations

import os
import shutil
import sys


def folder() -> str:
    """Return the folder of this Python's `diana`; empty: it has none beside it."""
    own = os.path.dirname(sys.executable)
    return own if os.access(os.path.join(own, "diana"), os.X_OK) else ""


def with_diana(path: str) -> str:
    """Return `path` with that folder behind all others, where it leads to no `diana`."""
    own = folder()
    return f"{path}{os.pathsep}{own}" if own and not shutil.which("diana", path=path) else path
