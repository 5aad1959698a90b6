"""Turns taken by key, with nothing kept of a key nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class _Holder:
    __slots__ = ("over", "together")

    def __init__(self, together: bool) -> None:
        self.together = together
        self.over = asyncio.Event()


class Lanes:
    """Lanes in which work runs one after the other, in the order it came, except that neighbours who ask for it run
    together; lanes know nothing of each other."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, list[_Holder]] = {}

    @asynccontextmanager
    async def turn(self, lane: Hashable, *, together: bool = False) -> AsyncIterator[None]:
        """Wait for a turn in this lane. `together`: run beside others in it that said so too."""
        held = self._lanes.setdefault(lane, [])
        before = [one for one in held if not (together and one.together)]
        mine = _Holder(together)
        held.append(mine)
        try:
            for one in before:
                await one.over.wait()
            yield
        finally:
            mine.over.set()
            held.remove(mine)
            if not held:
                del self._lanes[lane]
