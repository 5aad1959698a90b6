"""How much of its time the node's loop has nothing to do, and what follows for those who say much."""

from __future__ import annotations

import asyncio
import selectors
from time import perf_counter

from diana.adapters.grpc.pacing import Slack

NOTE_S = 0.25
"""Seconds between two notes."""


class _Selector(selectors.DefaultSelector):
    """A selector that adds up the seconds in which its loop waited for something to do."""

    waited_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        began_s = perf_counter()
        try:
            return super().select(timeout)
        finally:
            self.waited_s += perf_counter() - began_s


class NodeLoop(asyncio.SelectorEventLoop):
    """The loop of a node, which knows how long it waited."""

    def __init__(self) -> None:
        self._waits = _Selector()
        super().__init__(self._waits)

    @property
    def waited_s(self) -> float:
        return self._waits.waited_s


async def note_leisure(loop: NodeLoop, slack: Slack) -> None:
    """Tell `slack` again and again, for ever, how much of its time the loop waited."""
    at_s, waited_s = loop.time(), loop.waited_s
    while True:
        await asyncio.sleep(NOTE_S)
        now_s, now_waited_s = loop.time(), loop.waited_s
        slack.note((now_waited_s - waited_s) / max(now_s - at_s, 1e-9))
        at_s, waited_s = now_s, now_waited_s
