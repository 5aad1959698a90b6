"""Transfers of a scenario that are no job's: a load on the links, and the plainest way to see how these are shared."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from diana.model.ids import SiteId
from diana.sim.kernel.clock import Clock
from diana.sim.scenario.topology import Topology
from diana.sim.specs.link_spec import TransferSpec
from diana.sim.twins.flow_network import FlowNetwork


class TransferReport(msgspec.Struct, frozen=True, kw_only=True):
    """Times in simulated seconds."""

    name: str
    source: str
    to: str
    size_bytes: int
    start_s: float
    end_s: float
    """Time of the last byte: one latency of the way, then the bytes at the rates they had."""
    links: tuple[str, ...]


class Transfers:
    """`rows`: those that have ended."""

    def __init__(self, clock: Clock, specs: Sequence[TransferSpec], topology: Topology, shared: FlowNetwork) -> None:
        self._clock = clock
        self._specs = specs
        self._topology = topology
        self._shared = shared
        self._open = sum(spec.repeat for spec in specs)
        self.rows: list[TransferReport] = []

    def begin(self) -> None:
        for spec in self._specs:
            self._clock.at(spec.at_s, self._start, spec, 1)

    def over(self) -> bool:
        return not self._open

    def _start(self, spec: TransferSpec, number: int) -> None:
        source, to = SiteId(spec.source), SiteId(spec.to)
        path = self._topology.path(source, to)
        assert path is not None, "the topology makes a path for each transfer"
        latency_s = self._topology.figures(source, to)[0]
        now_s = self._clock.now_s
        self._shared.start(path, spec.size_bytes, self._ended, spec, number, now_s, latency_s=latency_s)
        if number < spec.repeat:
            self._clock.at(spec.at_s + number * spec.every_s, self._start, spec, number + 1)

    def _ended(self, spec: TransferSpec, number: int, start_s: float) -> None:
        self._open -= 1
        path = self._topology.path(SiteId(spec.source), SiteId(spec.to))
        self.rows.append(
            TransferReport(
                name=spec.name if number == 1 else f"{spec.name}-{number}",
                source=spec.source,
                to=spec.to,
                size_bytes=spec.size_bytes,
                start_s=start_s,
                end_s=self._clock.now_s,
                links=tuple(self._topology.named(path or ())),
            )
        )
