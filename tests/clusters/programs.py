"""Programs of batch systems, which stand where a user's PATH may not look."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable


def search_path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing(programs: Iterable[str]) -> list[str]:
    """Those that this machine lacks."""
    return [program for program in programs if shutil.which(program, path=search_path()) is None]
