"""Gives memory back to the system. Memory that starting a node needed for a moment (imports, the journal's replay,
the first handshakes) otherwise stays with the process for good: the C library keeps freed memory that lies between
memory in use."""

from __future__ import annotations

import ctypes
from typing import Any


def give_back() -> bool:
    """Give freed memory back. Blocks its thread for some milliseconds per 100 MiB; Python goes on meanwhile. False:
    this C library cannot."""
    libc: Any = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):
        return False
    libc.malloc_trim(0)
    return True
