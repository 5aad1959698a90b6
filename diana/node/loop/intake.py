"""The bounded queue before the engine: events of peers and clients are refused when it is full, never piled up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator

from diana.engine.journal import events as ev
from diana.engine.messages.weighing import weight_bytes
from diana.errors import Overloaded
from diana.model.ids import MAIN_MACHINE
from diana.model.trust.principal import Principal, Role

LIMIT_BYTES = 64 << 20
LIMIT_EVENTS = 20_000
LANE_SHARE = 0.25
"""Share of both limits that any one sender may fill."""
RETRY_S = 0.5
OWN = ""
"""The lane of this node's own adapters."""
OWN_TURN = 64
"""Events of that lane, or of a machine's of the site, that go in one turn: they are the answers to the engine's orders.
"""


def size_of(event: ev.Event) -> int:
    """About how much memory an event holds."""
    match event:
        case ev.Received(_, message):
            return weight_bytes(message)
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
    if caller := _caller(event):
        return f"{caller.role} {caller.name}"
    worker = getattr(event, "worker", "")
    return f"machine {worker}" if worker not in ("", MAIN_MACHINE) else OWN


def _caller(event: ev.Event) -> Principal | None:
    principal = getattr(event, "principal", None)
    return principal if isinstance(principal, Principal) else None


def _is_own(lane: str) -> bool:
    return lane == OWN or lane.startswith("machine ")


_Lanes = dict[str, deque[tuple[ev.Event, int]]]
"""Lanes in the order of their turns; none is empty."""


class Intake:
    """`put` for what comes from outside (raises Overloaded when full); `push` for what this node's own adapters
    owe the engine, which is bounded by what it ordered.

    Each sender has a lane, and lanes take turns: whoever floods waits behind itself, and may fill a part of the queue
    only (PROMISES 5.12). Every other turn is a user's, if one waits: however many peers and machines send, a user waits
    for one of them at a time, and they for one user.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._users: _Lanes = {}
        self._others: _Lanes = {}
        self._users_next = True
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
        waiting = self._lanes(event).get(lane, ())
        if full or len(waiting) > LIMIT_EVENTS * LANE_SHARE:
            raise Overloaded(f"{lane} sends faster than this node works it off; try again in {RETRY_S:g} s", RETRY_S)
        self.push(event)

    def push(self, event: ev.Event) -> None:
        size, lane = size_of(event), lane_of(event)
        self._bytes += size
        self._count += 1
        self._held_bytes[lane] = self._held_bytes.get(lane, 0) + size
        self._lanes(event).setdefault(lane, deque()).append((event, size))
        self._wake()

    def _lanes(self, event: ev.Event) -> _Lanes:
        caller = _caller(event)
        return self._users if caller is not None and caller.role in (Role.USER, Role.OPERATOR) else self._others

    def withdraw(self, asked: Callable[[ev.Event], bool]) -> None:
        """Take out the events of which `asked` is true: nobody waits for what comes of them."""
        every = [(lanes, *item) for lanes in (self._users, self._others) for item in lanes.items()]
        for lanes, lane, events in every:
            kept = deque(row for row in events if not asked(row[0]))
            gone = len(events) - len(kept)
            if not gone:
                continue
            size = sum(row[1] for row in kept)
            self._count -= gone
            self._bytes -= self._held_bytes[lane] - size
            if kept:
                lanes[lane], self._held_bytes[lane] = kept, size
            else:
                del lanes[lane], self._held_bytes[lane]

    def __len__(self) -> int:
        return self._count

    def take(self, most: int) -> list[ev.Event]:
        out: list[ev.Event] = []
        while len(out) < most and self._count:
            out += self.turn(most - len(out))
        return out

    def turn(self, most: int) -> Generator[ev.Event, None, None]:
        """Yield events of the lane whose turn it is; none if nothing waits. Its turn is over, too, when the caller
        goes on with no more of it: else the rest of this node's own events would come before everybody's next."""
        lanes = self._users if self._users and (self._users_next or not self._others) else self._others
        lane = next(iter(lanes), None)
        if lane is None:
            return
        self._users_next = lanes is self._others
        events = lanes[lane]
        try:
            for _ in range(min(OWN_TURN if _is_own(lane) else 1, len(events), most)):
                event, size = events.popleft()
                self._bytes -= size
                self._held_bytes[lane] -= size
                self._count -= 1
                yield event
        finally:
            del lanes[lane]
            if events:
                lanes[lane] = events
            else:
                del self._held_bytes[lane]

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until there is an event, or the time is over; one caller at a time. A bare future, because this happens
        for each event: an idle node spent a tenth of its Python on anything more."""
        if self._count:
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
