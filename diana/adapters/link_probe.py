"""Measures the links to peers and tells the engine raw samples; the engine judges them (SPEC D10).

Round trips are cheap and measured every few seconds; a ping nobody answers in time counts as lost. Throughput costs
what it measures: transfers of real data are samples for nothing, and only a link without any is probed, one link at
a time, with as few bytes as can be read and never more than the hour's allowance.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import grpc

from diana.adapters.tasks import begin, end, keep_up
from diana.engine.journal.events import LinkMeasured
from diana.errors import Overloaded
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.policy.links.sharing import Sharing
from diana.ports import Emit
from diana.wire.pb import data_pb2, data_pb2_grpc
from diana.wire.tls import UNUSED_S, peer_identity

PING_WAIT_S = 5.0
QUIET_TIMES = 6
"""Factor by which a link that carries nothing is pinged less often."""
FIRST_PINGS = 3
"""Number of first pings over a new link that come as often as over a link in use."""
MOST_PINGS_PER_S = 20.0
"""Most pings per second of a node with many peers: each peer is then pinged less often."""
FIRST_PROBE_BYTES = 256 << 10
MOST_PROBE_BYTES = 4 << 20
LONG_ENOUGH_S = 0.020
"""Least seconds of a sample: a shorter transfer measures the scheduler of this machine, not the link."""
THROUGHPUT_WAIT_S = 30.0
LEAST_SAMPLE_BYTES = FIRST_PROBE_BYTES
FRAME_BYTES = 64 << 10
_PROBES_AT_ONCE = 16
_HOUR_S = 3600.0
_DEFAULTS = Settings()

ChannelFor = Callable[[SiteId], grpc.aio.Channel | None]


class Allowance:
    """The bytes that probes may fetch within any hour."""

    def __init__(self, bytes_per_hour: int) -> None:
        self.bytes_per_hour = bytes_per_hour
        self._spent: deque[tuple[float, int]] = deque()
        self._sum = 0

    def take(self, size_bytes: int, now_s: float) -> bool:
        """True if these bytes may be fetched now; then they are spent."""
        while self._spent and self._spent[0][0] <= now_s - _HOUR_S:
            self._sum -= self._spent.popleft()[1]
        if self._sum + size_bytes > self.bytes_per_hour:
            return False
        self._spent.append((now_s, size_bytes))
        self._sum += size_bytes
        return True


class LinkProbe:
    """`ports.Probe` over the peers' Probe service. Emits LinkMeasured; a peer's errors emit nothing."""

    def __init__(
        self,
        *,
        channel_for: ChannelFor,
        peers: Callable[[], Iterable[SiteId]],
        emit: Emit,
        in_use: Callable[[SiteId], bool] = lambda _: False,
        spare_channel: ChannelFor = lambda _: None,
        rng: random.Random | None = None,
        ping_every_s: float = _DEFAULTS.ping_every_s,
        ping_wait_s: float = PING_WAIT_S,
        throughput_every_s: float = _DEFAULTS.probe_every_s,
        bytes_per_hour: int = _DEFAULTS.probe_bytes_per_hour,
    ) -> None:
        """`peers`: the linked sites now. `channel_for`: the shared channel to a site, None while there is none.
        `in_use`: True if work or data went over the link lately. `spare_channel`: one that is open anyway, for pings
        over links that carry nothing, so that none is opened for them."""
        self._channel_for = channel_for
        self._peers = peers
        self._in_use = in_use
        self._spare_channel = spare_channel
        self._emit = emit
        self._rng = rng or random.Random()
        self._ping_every_s = ping_every_s
        self._ping_wait_s = ping_wait_s
        self._throughput_every_s = throughput_every_s
        self._allowance = Allowance(bytes_per_hour)
        self._throughput_due_s: dict[SiteId, float] = {}
        self._warm: dict[SiteId, grpc.aio.Channel] = {}
        self._asked: dict[SiteId, tuple[int, float]] = {}
        """Site -> pings since the link is there, and the time of the last."""
        self._gate = asyncio.Semaphore(_PROBES_AT_ONCE)
        self._busy: dict[SiteId, asyncio.Task[None]] = {}
        self._sharing: dict[SiteId, Sharing] = {}
        self._judging: dict[SiteId, asyncio.TimerHandle] = {}
        self._to_probe: dict[SiteId, float] = {}
        """Site -> its round trip, seconds; in the order they came to be due."""
        self._prober: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def configure(self, settings: Settings) -> None:
        """Take intervals and allowance from now on."""
        self._ping_every_s = settings.ping_every_s
        self._throughput_every_s = settings.probe_every_s
        self._allowance.bytes_per_hour = settings.probe_bytes_per_hour

    def start(self) -> None:
        self._task = keep_up(self._run, "measuring links")

    async def stop(self) -> None:
        for timer in self._judging.values():
            timer.cancel()
        await end(*self._busy.values(), self._task, self._prober)

    def _tell(self, event: LinkMeasured) -> None:
        # A sample that meets an overloaded inbox is no loss: the next one comes.
        with suppress(Overloaded):
            self._emit(event)

    # --- transfers that take place anyway -----------------------------------------------------------

    def observe(self, site: SiteId, moved_bytes: int, seconds: float) -> None:
        """Note a stream of data from `site` that ended just now. Streams that ran together become one sample, told
        when all of them are known: at most 5 s later."""
        if moved_bytes <= 0 or seconds <= 0:
            return
        now_s = asyncio.get_running_loop().time()
        self._sharing.setdefault(site, Sharing()).ended(moved_bytes, seconds, now_s)
        if moved_bytes >= LEAST_SAMPLE_BYTES:
            self._throughput_due_s[site] = now_s + self._throughput_every_s
        self._judge_later(site)

    def _judge_later(self, site: SiteId) -> None:
        due_s = self._sharing[site].due_s()
        if due_s is not None and site not in self._judging:
            self._judging[site] = asyncio.get_running_loop().call_at(due_s, self._judge, site)

    def _judge(self, site: SiteId) -> None:
        del self._judging[site]
        due_s = self._sharing[site].due_s()
        # A timer may fire a clock tick early.
        now_s = max(asyncio.get_running_loop().time(), due_s or 0.0)
        for bytes_per_s in self._sharing[site].take(now_s, LEAST_SAMPLE_BYTES):
            self._throughput_due_s[site] = now_s + self._throughput_every_s
            self._tell(LinkMeasured(site=site, bytes_per_s=bytes_per_s))
        self._judge_later(site)

    # --- pings -----------------------------------------------------------------------------------------

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            sites = sorted(self._peers())
            for site in self._asked.keys() - set(sites):
                del self._asked[site]
            every_s = max(self._ping_every_s, len(sites) / MOST_PINGS_PER_S)
            for site in sites:
                if site not in self._busy and clock() >= self._due_s(site, every_s):
                    task = self._busy[site] = begin(self._measure(site), f"measuring the link to {site}")
                    task.add_done_callback(lambda _, site=site: self._busy.pop(site, None))  # type: ignore[misc]
            # New peers are looked for more often than old ones are pinged.
            await asyncio.sleep(every_s / 5 * self._rng.uniform(0.9, 1.1))

    def _due_s(self, site: SiteId, every_s: float) -> float:
        """Return the time of the next ping. A link nobody uses is pinged less often, and one for which a connection
        would have to be made only as often as it is probed."""
        asked, asked_s = self._asked.get(site, (0, float("-inf")))
        if asked < FIRST_PINGS or self._in_use(site):
            return asked_s + every_s
        quiet_s = QUIET_TIMES * every_s
        return asked_s + (quiet_s if self._spare_channel(site) is not None else max(quiet_s, self._throughput_every_s))

    async def _measure(self, site: SiteId) -> None:
        now_s = asyncio.get_running_loop().time()
        asked, asked_s = self._asked.get(site, (0, now_s))
        async with self._gate:
            spare = None if self._in_use(site) else self._spare_channel(site)
            channel = self._channel_for(site) if spare is None else spare
            if channel is None:
                return
            stub = data_pb2_grpc.ProbeStub(channel)  # type: ignore[no-untyped-call]
            self._asked[site] = 0, now_s
            try:
                if self._warm.get(site) is not channel or (spare is None and now_s - asked_s > UNUSED_S / 2):
                    # The first call pays for the handshake.
                    await stub.Ping(data_pb2.PingRequest(), timeout=self._ping_wait_s)
                    self._warm[site] = channel
                rtt_s = await self._ping(site, stub)
            except (grpc.aio.AioRpcError, grpc.aio.UsageError, TimeoutError):
                self._warm.pop(site, None)
                return
            self._asked[site] = asked + 1, now_s
        if rtt_s is not None and asyncio.get_running_loop().time() >= self._throughput_due_s.get(site, 0.0):
            self._to_probe.setdefault(site, rtt_s)
            if self._prober is None or self._prober.done():
                self._prober = begin(self._probe_all(), "probing links")

    async def _ping(self, site: SiteId, stub: data_pb2_grpc.ProbeStub) -> float | None:
        """Ping once; return the round trip in seconds, None if it was lost. A connection that is down is no loss: it
        raises."""
        clock = asyncio.get_running_loop().time
        began_s = clock()
        try:
            await stub.Ping(data_pb2.PingRequest(), timeout=self._ping_wait_s)
        except grpc.aio.AioRpcError as fault:
            if fault.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            self._tell(LinkMeasured(site=site, sent=1, lost=1))
            return None
        rtt_s = clock() - began_s
        self._tell(LinkMeasured(site=site, rtt_s=rtt_s, sent=1))
        return rtt_s

    # --- throughput --------------------------------------------------------------------------------------

    async def _probe_all(self) -> None:
        """Probe one link at a time: two probes at once would measure each other."""
        clock = asyncio.get_running_loop().time
        while self._to_probe:
            site = next(iter(self._to_probe))
            rtt_s = self._to_probe.pop(site)
            channel = self._channel_for(site)
            if channel is None or clock() < self._throughput_due_s.get(site, 0.0):
                continue
            # Also when it fails: what failed is not tried again at once.
            self._throughput_due_s[site] = clock() + self._throughput_every_s
            stub = data_pb2_grpc.ProbeStub(channel)  # type: ignore[no-untyped-call]
            with suppress(grpc.aio.AioRpcError, grpc.aio.UsageError, TimeoutError):
                bytes_per_s = await self._throughput(stub, rtt_s)
                if bytes_per_s is not None:
                    self._tell(LinkMeasured(site=site, bytes_per_s=bytes_per_s))

    async def _throughput(self, stub: data_pb2_grpc.ProbeStub, rtt_s: float) -> float | None:
        """Return bytes per second towards us, of the largest probe needed and allowed; None: none is allowed now.
        The request's own round trip is taken off."""
        clock = asyncio.get_running_loop().time
        size = FIRST_PROBE_BYTES
        found: float | None = None
        while self._allowance.take(size, clock()):
            began_s = clock()
            got = 0
            async for frame in stub.Throughput(data_pb2.ThroughputRequest(size_bytes=size), timeout=THROUGHPUT_WAIT_S):
                got += len(frame.data)
            took_s = clock() - began_s
            found = got / max(took_s - rtt_s, took_s / 4, 1e-6)
            if took_s >= LONG_ENOUGH_S or size >= MOST_PROBE_BYTES:
                break
            size *= 2
        return found


class ProbeService:
    """The answering side. Peers only: anybody else could have us send for nothing."""

    def __init__(self, site: SiteId, wall_s: Callable[[], float] = time.time) -> None:
        self._site = site
        self._wall_s = wall_s
        # Noise, so that no compressing link looks faster than it is.
        self._noise = os.urandom(FRAME_BYTES)
        self._sending = 0

    def attach(self, server: grpc.aio.Server) -> None:
        data_pb2_grpc.add_ProbeServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def Ping(self, request: data_pb2.PingRequest, context: Any) -> data_pb2.PingResponse:
        """Answer; a machine of this VO may ask too: it costs nothing and tells the machine how far its clock is off."""
        if peer_identity(context).kind != "member":
            await self._want_peer(context)
        return data_pb2.PingResponse(site=self._site, wall_s=self._wall_s())

    async def Throughput(self, request: data_pb2.ThroughputRequest, context: Any) -> None:
        await self._want_peer(context)
        if self._sending >= _PROBES_AT_ONCE:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many probes at once; try later")
        self._sending += 1
        try:
            left = min(request.size_bytes, MOST_PROBE_BYTES)
            while left > 0:
                await context.write(data_pb2.ThroughputFrame(data=self._noise[:left]))
                left -= FRAME_BYTES
        except grpc.aio.InternalError:
            # The prober is gone, killed perhaps. Left to grpc, that would be a traceback in the node's log.
            raise asyncio.CancelledError from None
        finally:
            self._sending -= 1

    async def _want_peer(self, context: Any) -> None:
        if peer_identity(context).kind != "site":
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "only sites of the VO may probe")
