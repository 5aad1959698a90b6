"""The bytes that move between sites: flows that share the bandwidth of a link, each direction for itself, or of all the
links on a route with others that move there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from diana.model.ids import SiteId
from diana.sim.kernel.clock import Clock
from diana.sim.scenario.topology import Path, Topology
from diana.sim.twins.flow_network import Flow, FlowNetwork
from diana.sim.twins.network import Network

STREAMS = 2
"""Flows from one site to another at once, as the real stager opens them."""


class Mover(Protocol):
    """A mover of bytes from one site to another."""

    def move(self, size_bytes: int, done: Callable[..., None], *arguments: Any) -> None:
        """Call `done(*arguments)` when they are there."""
        ...

    def forget(self, void: Callable[..., bool]) -> None:
        """Stop the flows for whose arguments `void` holds; nobody is told."""
        ...


class _Flow:
    __slots__ = ("arguments", "done", "left_bytes")

    def __init__(self, left_bytes: float, done: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.left_bytes = left_bytes
        self.done = done
        self.arguments = arguments


class Pipe:
    """One direction of a link that no others use. At most `STREAMS` flows move at once and share its bandwidth evenly;
    others wait in the order they came."""

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


class Routed:
    """One direction between two sites over links that others use too. At most `STREAMS` flows move at once, as over a
    `Pipe`."""

    __slots__ = ("_flows", "_number", "_path", "_shared", "_waiting")

    def __init__(self, shared: FlowNetwork, path: Path) -> None:
        self._shared = shared
        self._path = path
        self._flows: dict[int, tuple[_Flow, Flow]] = {}
        self._waiting: deque[_Flow] = deque()
        self._number = 0

    def move(self, size_bytes: int, done: Callable[..., None], *arguments: Any) -> None:
        self._waiting.append(_Flow(size_bytes, done, arguments))
        self._refill()

    def forget(self, void: Callable[..., bool]) -> None:
        self._waiting = deque(f for f in self._waiting if not void(*f.arguments))
        for number, (its, flow) in list(self._flows.items()):
            if void(*its.arguments):
                self._shared.stop(flow)
                del self._flows[number]
        self._refill()

    def _refill(self) -> None:
        while self._waiting and len(self._flows) < STREAMS:
            its = self._waiting.popleft()
            self._number += 1
            self._flows[self._number] = (its, self._shared.start(self._path, its.left_bytes, self._ended, self._number))

    def _ended(self, number: int) -> None:
        if number not in self._flows:
            # Forgotten in the very moment in which it ended: by the end of another that came first.
            return
        its, _ = self._flows.pop(number)
        self._refill()
        its.done(*its.arguments)


class Pipes:
    """All directions between sites, made when first used. Without a topology each has a link of its own."""

    __slots__ = ("_clock", "_network", "_pipes", "_topology", "shared")

    def __init__(self, clock: Clock, network: Network, topology: Topology | None = None) -> None:
        self._clock = clock
        self._network = network
        self._topology = topology
        self.shared = FlowNetwork(clock, topology.bytes_per_s if topology else ())
        self._pipes: dict[SiteId, dict[SiteId, Mover]] = {}
        """Movers by the site that bytes go to, then by the site they come from."""

    def between(self, source: SiteId, to: SiteId) -> Mover:
        pipes = self._pipes.setdefault(to, {})
        pipe = pipes.get(source)
        if pipe is None:
            path = self._topology.path(source, to) if self._topology else None
            pipes[source] = pipe = (
                Pipe(self._clock, self._network.link(source, to).bytes_per_s)
                if path is None
                else Routed(self.shared, path)
            )
        return pipe

    def forget(self, to: SiteId, void: Callable[..., bool]) -> None:
        """Stop the flows to a site for whose arguments `void` holds."""
        for pipe in self._pipes.get(to, {}).values():
            pipe.forget(void)
