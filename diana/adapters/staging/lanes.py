"""Taking turns by key, with nothing kept of a key nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Lanes:
    """What one lane holds runs one after the other, in the order it came; lanes know nothing of each other."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def turn(self, lane: Hashable) -> AsyncIterator[None]:
        lock, waiting = self._locks.get(lane) or (asyncio.Lock(), 0)
        self._locks[lane] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            _, waiting = self._locks[lane]
            if waiting == 1:
                del self._locks[lane]
            else:
                self._locks[lane] = (lock, waiting - 1)
