"""A site's cap on the bytes it moves per second, shared evenly by all streams."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

_BURST_S = 0.05
"""Seconds for which unused pace is kept: so much may be used at once."""


class Moved(NamedTuple):
    """Bytes of files that moved."""

    received: int
    """Bytes from other sites and machines."""
    sent: int
    by_url: int
    """Bytes read from URLs and written to them."""


class TransferPace:
    """Each stream takes one chunk at a time and is served in the order it asks, so that none gets ahead of the others.
    Belongs to one event loop. 0 bytes per second: no limit."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self.taken_bytes = 0
        """Bytes taken since the start."""
        self._free_s = 0.0
        """Time at which all that was taken so far will have gone."""

    def set(self, bytes_per_s: int) -> None:
        """Set the rate from now on; streams that wait already go at the pace they were promised."""
        self._bytes_per_s = bytes_per_s

    async def take(self, size_bytes: int) -> None:
        """Return when so much may go."""
        self.taken_bytes += size_bytes
        if not self._bytes_per_s or not size_bytes:
            return
        now_s = asyncio.get_running_loop().time()
        self._free_s = max(self._free_s, now_s - _BURST_S) + size_bytes / self._bytes_per_s
        if (wait_s := self._free_s - now_s) > 0:
            await asyncio.sleep(wait_s)
