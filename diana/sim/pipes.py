"""How bytes move between sites: flows that share the bandwidth of a link, each direction for itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from diana.model.ids import SiteId
from diana.sim.clock import Clock
from diana.sim.network import Network

STREAMS = 2
"""From one site to another at once, as the real stager opens them."""


class _Flow:
    __slots__ = ("arguments", "done", "left_bytes")

    def __init__(self, left_bytes: float, done: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.left_bytes = left_bytes
        self.done = done
        self.arguments = arguments


class Pipe:
    """One direction of a link. At most `STREAMS` flows move at once and share its bandwidth evenly; others wait in the
    order they came."""

    __slots__ = ("_bytes_per_s", "_clock", "_flows", "_round", "_seen_s", "_waiting")

    def __init__(self, clock: Clock, bytes_per_s: float) -> None:
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        self._flows: list[_Flow] = []
        self._waiting: deque[_Flow] = deque()
        self._seen_s = 0.0
        self._round = 0

    def move(self, size_bytes: int, done: Callable[..., None], *arguments: Any) -> None:
        flow = _Flow(size_bytes, done, arguments)
        if len(self._flows) >= STREAMS:
            self._waiting.append(flow)
            return
        self._advance()
        self._flows.append(flow)
        self._arm()

    def forget(self, void: Callable[..., bool]) -> None:
        """Stop the flows for whose arguments `void` holds; nobody is told."""
        self._advance()
        self._waiting = deque(f for f in self._waiting if not void(*f.arguments))
        self._flows = [f for f in self._flows if not void(*f.arguments)]
        self._refill()
        self._arm()

    def _advance(self) -> None:
        now_s = self._clock.now_s
        if self._flows:
            moved = (now_s - self._seen_s) * self._bytes_per_s / len(self._flows)
            for flow in self._flows:
                flow.left_bytes -= moved
        self._seen_s = now_s

    def _arm(self) -> None:
        self._round += 1
        if self._flows:
            left = max(0.0, min(flow.left_bytes for flow in self._flows))
            self._clock.after(left * len(self._flows) / self._bytes_per_s, self._due, self._round)

    def _due(self, round_: int) -> None:
        if round_ != self._round:
            return
        self._advance()
        # The one this was set for; the first of equals, whatever rounding says.
        flow = min(self._flows, key=lambda f: f.left_bytes)
        self._flows.remove(flow)
        self._refill()
        self._arm()
        flow.done(*flow.arguments)

    def _refill(self) -> None:
        while self._waiting and len(self._flows) < STREAMS:
            self._flows.append(self._waiting.popleft())


class Pipes:
    """All links' directions, made when first used."""

    __slots__ = ("_clock", "_network", "_pipes")

    def __init__(self, clock: Clock, network: Network) -> None:
        self._clock = clock
        self._network = network
        self._pipes: dict[tuple[SiteId, SiteId], Pipe] = {}

    def between(self, source: SiteId, to: SiteId) -> Pipe:
        pipe = self._pipes.get((source, to))
        if pipe is None:
            pipe = self._pipes[(source, to)] = Pipe(self._clock, self._network.link(source, to).bytes_per_s)
        return pipe

    def forget(self, to: SiteId, void: Callable[..., bool]) -> None:
        """Stop what moves to a site for whose arguments `void` holds."""
        for (_, receiver), pipe in self._pipes.items():
            if receiver == to:
                pipe.forget(void)
