"""Ends all processes that bear certain marks, also those that fork while they are ended.

They are stopped first: what is stopped forks no more, and keeps its place in the number of processes that it may have,
so that each round of looking finds fewer new ones. What is killed would make room for others.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection

from diana.adapters.lrm.spawner.behind.marks import mark_of

_MOST_ROUNDS = 50


def sweep(marks: Collection[int]) -> bool:
    """Stop and then kill every process that bears one of these; True if there was any that we may signal. This
    process is passed over."""
    stopped: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        fresh = {pid for pid in _pids() if pid not in stopped and _signalled(pid, marks, signal.SIGSTOP)}
        if not fresh:
            break
        stopped |= fresh
    for pid in stopped:
        _signalled(pid, marks, signal.SIGKILL)
    return bool(stopped)


def _pids() -> list[int]:
    mine = os.getpid()
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != mine]


def _signalled(pid: int, marks: Collection[int], number: int) -> bool:
    if mark_of(pid) not in marks:
        return False
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Looked at again now that the descriptor pins it: the number may have changed hands in between.
        if mark_of(pid) not in marks:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True
