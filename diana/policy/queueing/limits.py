"""Limits of one user at one site (SPEC D11): waiting jobs, and jobs that run at once."""

from __future__ import annotations

import sys

from diana.model.settings import Settings
from diana.model.words import counted

UNLIMITED = sys.maxsize


def queued(settings: Settings, jobs: int, waiting: int) -> str:
    """Return the empty text if a user with `waiting` waiting jobs may queue `jobs` more, else why not, and how many are
    allowed."""
    limit = settings.user_max_queued
    room = max(0, limit - waiting)
    if not limit or jobs <= room:
        return ""
    allowed = f"1 to {room} more" if room else "none more"
    wait = f"{waiting} {'waits' if waiting == 1 else 'wait'}"
    return f"queues at most {counted(limit, 'job')} per user, {wait}: takes {allowed}, not {jobs}"


def startable(settings: Settings, running: int) -> int:
    """Number of further jobs that may start for a user with `running` running ones."""
    limit = settings.user_max_running
    return max(0, limit - running) if limit else UNLIMITED
