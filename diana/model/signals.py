"""Signals that ended jobs: their numbers are those of Linux, 0 where none did or nobody knows."""

from __future__ import annotations

import signal

MOST_SIGNAL = 127
"""A wait status has no room for more."""


def signal_name(number: int) -> str:
    """Return SIGKILL for 9; `signal 40` for one that has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
