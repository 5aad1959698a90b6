"""The bounded queue before the engine: events of peers and clients are refused when it is full, never piled up."""

from __future__ import annotations

import asyncio
from collections import deque

from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.errors import Overloaded
from diana.model.trust.principal import Principal

LIMIT_BYTES = 64 << 20
LIMIT_EVENTS = 20_000
LANE_SHARE = 0.25
"""Share of both limits that any one sender may fill."""
RETRY_S = 0.5
OWN = ""
"""The lane of this node's own adapters."""
OWN_TURN = 64
"""Events of that lane that go in one turn: they are the answers to the engine's orders."""


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


def lane_of(event: ev.Event) -> str:
    """The lane of an event's sender. Events of one lane keep their order."""
    match event:
        case ev.Received(sender=site) | ev.PeerDown(site=site):
            return f"site {site}"
        case ev.PeerUp(hello=hello):
            return f"site {hello.site}"
    principal = getattr(event, "principal", None)
    return f"{principal.role} {principal.name}" if isinstance(principal, Principal) else OWN


class Intake:
    """`put` for what comes from outside (raises Overloaded when full); `push` for what this node's own adapters
    owe the engine, which is bounded by what it ordered.

    Each sender has a lane, and lanes take turns: whoever floods waits behind itself, and may fill a part of the queue
    only (PROMISES 5.12).
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._lanes: dict[str, deque[tuple[ev.Event, int]]] = {}
        """Lanes in the order of their turns; none is empty."""
        self._held_bytes: dict[str, int] = {}
        self._limit = limit_bytes
        self._bytes = 0
        self._count = 0
        self._waiter: asyncio.Future[None] | None = None
        self.closed = ""
        """Why nothing is taken from outside just now."""

    def put(self, event: ev.Event) -> None:
        if self.closed:
            raise Overloaded(f"{self.closed}; try again in {RETRY_S:g} s", RETRY_S)
        if self._bytes > self._limit or self._count > LIMIT_EVENTS:
            raise Overloaded(f"the node is behind; try again in {RETRY_S:g} s", RETRY_S)
        lane = lane_of(event)
        full = self._held_bytes.get(lane, 0) > self._limit * LANE_SHARE
        if full or len(self._lanes.get(lane, ())) > LIMIT_EVENTS * LANE_SHARE:
            raise Overloaded(f"{lane} sends faster than this node works it off; try again in {RETRY_S:g} s", RETRY_S)
        self.push(event)

    def push(self, event: ev.Event) -> None:
        size, lane = size_of(event), lane_of(event)
        self._bytes += size
        self._count += 1
        self._held_bytes[lane] = self._held_bytes.get(lane, 0) + size
        self._lanes.setdefault(lane, deque()).append((event, size))
        self._wake()

    def __len__(self) -> int:
        return self._count

    def take(self, most: int) -> list[ev.Event]:
        out: list[ev.Event] = []
        while len(out) < most and (events := self.take_turn(most - len(out))):
            out += events
        return out

    def take_turn(self, most: int) -> list[ev.Event]:
        """Take events of the lane whose turn it is; none if nothing waits."""
        if not self._lanes:
            return []
        # It goes to the end of the row, if anything of it is left.
        lane = next(iter(self._lanes))
        events = self._lanes.pop(lane)
        out: list[ev.Event] = []
        for _ in range(min(OWN_TURN if lane == OWN else 1, len(events), most)):
            event, size = events.popleft()
            self._bytes -= size
            self._held_bytes[lane] -= size
            out.append(event)
        if events:
            self._lanes[lane] = events
        else:
            del self._held_bytes[lane]
        self._count -= len(out)
        return out

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until there is an event, or the time is over; one caller at a time. A bare future, because this happens
        for each event: an idle node spent a tenth of its Python on anything more."""
        if self._lanes:
            return
        loop = asyncio.get_running_loop()
        assert self._waiter is None
        self._waiter = loop.create_future()
        timer = None if timeout_s is None else loop.call_later(timeout_s, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
