"""Answers of a node whose disk has no room: from what the store holds, never from what it could not store.

The engine is ahead of the store by the rounds that wait for room, and must not speak of them. A second engine, made
from the store as at a restart, answers reads; whoever orders something is told to come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.errors import Overloaded
from diana.node.ways_in.door import ReplyBody
from diana.ports import Journal, Store

AGAIN_AFTER_S = 5.0
"""Seconds after which who was refused may come again."""


class Stalled(Exception):
    """The answer that was waited for rests on what the disk has no room for."""


class Meanwhile:
    """One time without room. `remake` makes an engine of what the store holds. Answers are as of the beginning of that
    time: whom the engine hears of meanwhile is not stored either."""

    def __init__(
        self, store: Store, full: str, remake: Callable[[Journal], Engine], now_s: Callable[[], float]
    ) -> None:
        self._store = store
        self._full = full
        self._remake = remake
        self._at_s = now_s()
        self._made: asyncio.Task[Engine] | None = None

    async def answer(self, event: ev.Event, *, maybe_taken: bool) -> ReplyBody:
        """Answer a read. Overloaded for all else; `maybe_taken`: the engine had it already, and takes it when there is
        room."""
        if not isinstance(event, ev.Ask):
            later = "; what was sent may be taken then" if maybe_taken else ""
            raise Overloaded(
                f"{self._full}; new work and orders are taken when there is room{later}: try again", AGAIN_AFTER_S
            )
        if self._made is None:
            self._made = asyncio.create_task(asyncio.to_thread(self._make), name="an engine for reads")
        engine = await asyncio.shield(self._made)
        for effect in engine.look(event, self._at_s):
            if isinstance(effect, fx.Reply):
                return effect.body
        # It would have asked another site first, and that is more than a read of what is stored.
        raise Overloaded(f"{self._full}; this is answered when there is room: try again", AGAIN_AFTER_S)

    def _make(self) -> Engine:
        engine = self._remake(self._store.load())
        engine.handle(ev.RoomChecked(self._full), self._at_s)
        return engine
