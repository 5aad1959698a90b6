"""Reports of running jobs: a small file in the scratch directory of each, which the job replaces as often as it likes
and the spawner looks at once a second. A report that is lost costs nothing, and a million a second cost the job
alone."""

from __future__ import annotations

import os
import stat
import time

NAME = ".diana-report"
MOST_BYTES = 100
LOOK_S = 1.0
"""Seconds between two looks."""


def read(path: str, last: bytes) -> tuple[bytes, tuple[float, float, float]] | None:
    """Return (what the job wrote, (seconds ago, steps done, steps in all)); None: nothing new, or nothing that is a
    report. A job may put anything there: no link is followed and no pipe waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        text = os.read(fd, MOST_BYTES) if stat.S_ISREG(status.st_mode) else b""
    except OSError:
        return None
    finally:
        os.close(fd)
    if text == last:
        return None
    done, _, rest = text.strip().partition(b"/")
    try:
        return text, (max(0.0, time.time() - status.st_mtime), float(done), float(rest.split()[0]))
    except (ValueError, IndexError):
        return None


def own(text: bytes) -> tuple[float, int]:
    """Return (seconds of its own part of a step, number of the roster that it computes by) of a report, DONE/TOTAL OWN
    ROSTER; (0, 0): it does not tell them."""
    words = text.split()
    try:
        return (float(words[1]), int(words[2])) if len(words) == 3 else (0.0, 0)
    except ValueError:
        return 0.0, 0
