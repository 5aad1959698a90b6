"""The bounded queue before the engine: events of peers and clients are refused when it is full, never piled up."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from diana.engine import events as ev
from diana.engine import messages as ms
from diana.errors import Overloaded

LIMIT_BYTES = 64 << 20
LIMIT_EVENTS = 20_000
RETRY_S = 0.5


def size_of(event: ev.Event) -> int:
    """About how much memory an event holds."""
    match event:
        case ev.Received(_, ms.Result(facts=facts)):
            return 500 + 200 * len(facts.indices)
        case ev.Received(_, ms.Prepare() as prepare):
            return 1000 + len(prepare.spec) + 250 * len(prepare.files) + 16 * len(prepare.indices.bounds)
        case ev.Received(_, ms.Quote() as quote):
            return 500 + 200 * len(quote.files)
        case ev.SubmitGroup():
            return 2000 + 200 * len(event.refs)
        case ev.JobsEnded():
            return 500 + 200 * len(event.facts.indices)
    return 500


class Intake:
    """`put` for what comes from outside (raises Overloaded when full); `push` for what this node's own adapters
    owe the engine, which is bounded by what it ordered."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._events: deque[tuple[ev.Event, int]] = deque()
        self._limit = limit_bytes
        self._bytes = 0
        self._waiting: asyncio.Event = asyncio.Event()
        self.closed = ""
        """Why nothing is taken from outside just now."""

    def put(self, event: ev.Event) -> None:
        if self.closed:
            raise Overloaded(f"{self.closed}; try again in {RETRY_S:g} s", RETRY_S)
        if self._bytes > self._limit or len(self._events) > LIMIT_EVENTS:
            raise Overloaded(f"the node is behind; try again in {RETRY_S:g} s", RETRY_S)
        self.push(event)

    def push(self, event: ev.Event) -> None:
        size = size_of(event)
        self._bytes += size
        self._events.append((event, size))
        self._waiting.set()

    def __len__(self) -> int:
        return len(self._events)

    def take(self, most: int) -> list[ev.Event]:
        out: list[ev.Event] = []
        while self._events and len(out) < most:
            event, size = self._events.popleft()
            self._bytes -= size
            out.append(event)
        if not self._events:
            self._waiting.clear()
        return out

    async def wait(self, timeout_s: float | None) -> None:
        """Until there is an event, or the time is over."""
        if self._events:
            return
        # Not wait_for: before Python 3.12 it loses a cancellation that meets an event, and the node would never stop.
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._waiting.wait()
