"""A node that becomes a new process of the same command, with the same id: what it was must not go on."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

AGAIN = -1
"""Returned instead of an exit code: start anew."""


def again() -> NoReturn:
    """Replace this process by a new one. Nothing is closed in order, as after a kill; the spawner and its jobs go
    on."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                continue
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
