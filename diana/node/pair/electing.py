"""Between the engine, which knows how available this site's machines are, and the pair, which hands over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from diana.adapters.tasks import begin, end, keep_up
from diana.engine.journal.effects import HandOver
from diana.engine.journal.events import HandOverFailed, LeadLeft, PairStands
from diana.node.ways_in.door import EngineDoor
from diana.replica import messages as ms

if TYPE_CHECKING:
    from diana.node.pair.replication import Replication

LOOK_EVERY_S = 1.0

_log = logging.getLogger("diana.standby")

Emit = Callable[[PairStands | HandOverFailed], None]


class Electing:
    """`begin` it when this machine leads."""

    def __init__(self, pair: Replication, emit: Emit, every_s: float = LOOK_EVERY_S) -> None:
        self._pair = pair
        self._emit = emit
        self._every_s = every_s
        self._told: PairStands | None = None
        self._handing: asyncio.Task[None] | None = None

    def begin(self, stack: AsyncExitStack) -> None:
        """Run until the stack is closed."""
        stack.push_async_callback(end, keep_up(self.run, "telling how the pair stands"))

    async def run(self) -> None:
        while True:
            stands = PairStands(standby=self._pair.pair.other, in_sync=self._pair.in_step)
            if stands != self._told:
                self._told = stands
                self._emit(stands)
            await asyncio.sleep(self._every_s)

    def hand_over(self, order: HandOver) -> None:
        """Carry out the engine's order; its reasons are durable on both disks."""
        if self._handing is None or self._handing.done():
            self._handing = begin(self._hand_over(order.to), f"handing over to {order.to}")

    async def _hand_over(self, to: str) -> None:
        pair = self._pair
        error = await pair.operate(ms.Promote) if to == pair.pair.other else f"{to} is not the standby"
        if error:
            self._emit(HandOverFailed(error=error))
        else:
            _log.info("%s leads %s now, being more available", to, pair.site)


async def note_operators(pair: Replication, door: EngineDoor, to: str) -> None:
    """Have the journal say that an operator hands over, before it is done: the next leader must not take it for a fault
    of this machine. `to` empty: it came to nothing."""
    if pair.in_step:
        await door.request(lambda number: LeadLeft(request=number, to=to))
