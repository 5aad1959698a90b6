"""Where a data directory lies, as far as it matters to jobs: some places lack what programs take for granted."""

from __future__ import annotations

import os
from pathlib import Path

LONGEST_ROOT_BYTES = 107 - len("/slots/9999") - len("/pymp-xxxxxxxx/listener-xxxxxxxx")
"""Most bytes of a data directory's name with which a job's TMPDIR leaves room for the sockets of Python's
`multiprocessing`: Linux takes names of 107 bytes."""


def is_noexec(path: str | Path) -> bool:
    """True if no file there can be executed, whatever its mode."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_NOEXEC)
    except OSError:
        return False


def poor_place(root: Path) -> list[tuple[str, str]]:
    """Return the lacks of that place that jobs will meet, each with its mend; for most directories none."""
    out = []
    root = root.resolve()
    if is_noexec(root):
        found = f"{root} lies on a file system mounted noexec: programs that jobs bring cannot be executed there"
        out.append((found, "remount it with exec, or have the data directory on another"))
    if (size := len(os.fsencode(root))) > LONGEST_ROOT_BYTES:
        found = f"{root} has {size} bytes, so that Unix sockets in a job's TMPDIR get too long a name (multiprocessing)"
        out.append((found, f"choose a data directory of at most {LONGEST_ROOT_BYTES} bytes"))
    return out
