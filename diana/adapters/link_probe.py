"""Measures the links to peers and tells the engine raw samples; what to make of them is its business (SPEC D10).

Round trips are cheap and asked every few seconds. Throughput costs what it measures, so the probe grows only until
it takes long enough to be read, and transfers of real data are taken as samples for nothing.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any

import grpc

from diana.engine.events import LinkMeasured
from diana.errors import Overloaded
from diana.model.ids import SiteId
from diana.ports import Emit
from diana.wire.pb import data_pb2, data_pb2_grpc
from diana.wire.tls import peer_identity

PING_EVERY_S = 5.0
PING_WAIT_S = 5.0
FIRST_PROBE_BYTES = 256 << 10
MOST_PROBE_BYTES = 4 << 20
LONG_ENOUGH_S = 0.020
"""A transfer that took less measures the scheduler of this machine, not the link."""
THROUGHPUT_EVERY_S = 600.0
THROUGHPUT_WAIT_S = 30.0
LEAST_SAMPLE_BYTES = FIRST_PROBE_BYTES
FRAME_BYTES = 64 << 10
_PROBES_AT_ONCE = 16

ChannelFor = Callable[[SiteId], grpc.aio.Channel | None]


class LinkProbe:
    """`ports.Probe` over the peers' Probe service. Emits LinkMeasured; errors of a peer are silence."""

    def __init__(
        self,
        *,
        channel_for: ChannelFor,
        peers: Callable[[], Iterable[SiteId]],
        emit: Emit,
        rng: random.Random | None = None,
        ping_every_s: float = PING_EVERY_S,
        throughput_every_s: float = THROUGHPUT_EVERY_S,
    ) -> None:
        """`peers`: the linked sites now. `channel_for`: the shared channel to a site, None while there is none."""
        self._channel_for = channel_for
        self._peers = peers
        self._emit = emit
        self._rng = rng or random.Random()
        self._ping_every_s = ping_every_s
        self._throughput_every_s = throughput_every_s
        self._throughput_due_s: dict[SiteId, float] = {}
        self._warm: dict[SiteId, grpc.aio.Channel] = {}
        self._gate = asyncio.Semaphore(_PROBES_AT_ONCE)
        self._busy: dict[SiteId, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        tasks = [*self._busy.values()] + ([self._task] if self._task else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def observe(self, site: SiteId, moved_bytes: int, seconds: float) -> None:
        """A transfer that took place anyway. Small ones measure latency and are ignored."""
        if moved_bytes >= LEAST_SAMPLE_BYTES and seconds > 0:
            self._throughput_due_s[site] = asyncio.get_running_loop().time() + self._throughput_every_s
            self._tell(LinkMeasured(site=site, bytes_per_s=moved_bytes / seconds))

    def _tell(self, event: LinkMeasured) -> None:
        # A sample that meets an overloaded inbox is no loss: the next one comes.
        with suppress(Overloaded):
            self._emit(event)

    async def _run(self) -> None:
        while True:
            for site in sorted(self._peers()):
                if site not in self._busy:
                    task = self._busy[site] = asyncio.create_task(self._measure(site))
                    task.add_done_callback(lambda _, site=site: self._busy.pop(site, None))  # type: ignore[misc]
            # New peers are looked for more often than old ones are pinged.
            for _ in range(5):
                await asyncio.sleep(self._ping_every_s / 5 * self._rng.uniform(0.9, 1.1))
                if any(site not in self._warm for site in self._peers()):
                    break

    async def _measure(self, site: SiteId) -> None:
        async with self._gate:
            channel = self._channel_for(site)
            if channel is None:
                return
            stub = data_pb2_grpc.ProbeStub(channel)  # type: ignore[no-untyped-call]
            try:
                if self._warm.get(site) is not channel:
                    # The first call pays for the handshake.
                    await stub.Ping(data_pb2.PingRequest(), timeout=PING_WAIT_S)
                    self._warm[site] = channel
                rtt_s = await self._ping(stub)
                self._tell(LinkMeasured(site=site, rtt_s=rtt_s))
                if asyncio.get_running_loop().time() >= self._throughput_due_s.get(site, 0.0):
                    bytes_per_s = await self._throughput(stub, rtt_s)
                    self._throughput_due_s[site] = asyncio.get_running_loop().time() + self._throughput_every_s
                    self._tell(LinkMeasured(site=site, bytes_per_s=bytes_per_s))
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, TimeoutError):
                self._warm.pop(site, None)

    async def _ping(self, stub: data_pb2_grpc.ProbeStub) -> float:
        clock = asyncio.get_running_loop().time
        began_s = clock()
        await stub.Ping(data_pb2.PingRequest(), timeout=PING_WAIT_S)
        return clock() - began_s

    async def _throughput(self, stub: data_pb2_grpc.ProbeStub, rtt_s: float) -> float:
        """Bytes per second towards us, of the largest probe needed. The request's own round trip is taken off."""
        clock = asyncio.get_running_loop().time
        size = FIRST_PROBE_BYTES
        while True:
            began_s = clock()
            got = 0
            async for frame in stub.Throughput(data_pb2.ThroughputRequest(size_bytes=size), timeout=THROUGHPUT_WAIT_S):
                got += len(frame.data)
            took_s = clock() - began_s
            if took_s >= LONG_ENOUGH_S or size >= MOST_PROBE_BYTES:
                return got / max(took_s - rtt_s, took_s / 4, 1e-6)
            size *= 2


class ProbeService:
    """The answering side. Peers only: anybody else could have us send for nothing."""

    def __init__(self, site: SiteId) -> None:
        self._site = site
        # Noise, so that no compressing link looks faster than it is.
        self._noise = os.urandom(FRAME_BYTES)
        self._sending = 0

    def attach(self, server: grpc.aio.Server) -> None:
        data_pb2_grpc.add_ProbeServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Ping(self, request: data_pb2.PingRequest, context: Any) -> data_pb2.PingResponse:
        await self._want_peer(context)
        return data_pb2.PingResponse(site=self._site)

    async def Throughput(
        self, request: data_pb2.ThroughputRequest, context: Any
    ) -> AsyncIterator[data_pb2.ThroughputFrame]:
        await self._want_peer(context)
        if self._sending >= _PROBES_AT_ONCE:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many probes at once; try later")
        self._sending += 1
        try:
            left = min(request.size_bytes, MOST_PROBE_BYTES)
            while left > 0:
                yield data_pb2.ThroughputFrame(data=self._noise[:left])
                left -= FRAME_BYTES
        finally:
            self._sending -= 1

    async def _want_peer(self, context: Any) -> None:
        if peer_identity(context).kind != "site":
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "only sites of the VO may probe")
