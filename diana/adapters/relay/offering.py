"""The side of a site that may only be able to dial out: asks each neighbour whether it is dialled back, and where not,
keeps an offer open and answers each ticket with a connection to its own server port."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import grpc

from diana.adapters.grpc.words import told
from diana.adapters.relay.ends import BREAKS, IDLE_S, CallEnd, connect, join
from diana.adapters.tasks import begin, end, keep_up
from diana.model.ids import SiteId
from diana.wire.pb import relay_pb2, relay_pb2_grpc

ASK_AGAIN_S = 300.0
"""Seconds before a neighbour that found that our address answers is asked again."""
FIRST_BACK_OFF_S = 0.5
MOST_BACK_OFF_S = 10.0
MOST_TUNNELS = 128
FIRST_ANSWER_S = 10.0

_log = logging.getLogger("diana.relay")


class Offering:
    """One open call to each neighbour: a site whose own address this node dialled."""

    def __init__(
        self,
        *,
        neighbours: Callable[[], Mapping[SiteId, str]],
        changed: Callable[[], Awaitable[None]],
        channel_for: Callable[[SiteId], grpc.aio.Channel | None],
        address: str,
        own: str,
        rng: random.Random | None = None,
        idle_s: float = IDLE_S,
    ) -> None:
        """`neighbours`: site -> its run. `changed`: returns when they may have changed. `address`: what others are
        told, empty: nothing. `own`: host:port of this node's own server, as dialled on this machine."""
        self._neighbours = neighbours
        self._changed = changed
        self._channel_for = channel_for
        self._address = address
        self._own = own
        self._rng = rng or random.Random()
        self._idle_s = idle_s
        self._offers: dict[SiteId, asyncio.Task[None]] = {}
        self._tunnels: set[asyncio.Task[None]] = set()
        self._standing: set[SiteId] = set()
        self._task: asyncio.Task[None] | None = None

    def standing(self) -> tuple[SiteId, ...]:
        """Neighbours that cannot dial us and hold our offer."""
        return tuple(sorted(self._standing))

    def start(self) -> None:
        self._task = keep_up(self._run, "offering tunnels")

    async def stop(self) -> None:
        await end(*self._offers.values(), *self._tunnels, self._task)

    async def _run(self) -> None:
        while True:
            now = self._neighbours()
            for site in [s for s in self._offers if s not in now]:
                self._offers.pop(site).cancel()
            for site in now:
                if site not in self._offers:
                    self._offers[site] = keep_up(partial(self._offer_always, site), f"the offer at {site}")
            await self._changed()

    async def _offer_always(self, site: SiteId) -> None:
        failures = 0
        while True:
            wait_s = ASK_AGAIN_S
            try:
                if not await self._offer(site):
                    failures = 0
                else:
                    # It held our offer and ended it: a newer one took its place, or the neighbour stops.
                    wait_s = FIRST_BACK_OFF_S
            except BREAKS as error:
                failures += 1
                wait_s = min(MOST_BACK_OFF_S, FIRST_BACK_OFF_S * 2 ** min(failures, 10))
                _log.debug("offer at %s: %s", site, _why(error))
            finally:
                self._standing.discard(site)
            await asyncio.sleep(self._rng.uniform(wait_s / 2, wait_s))

    async def _offer(self, site: SiteId) -> bool:
        """One call to its end; whether the neighbour held the offer, rather than dialling us itself."""
        channel = self._channel_for(site)
        if channel is None:
            raise OSError("no channel")
        stub = relay_pb2_grpc.RelayStub(channel)  # type: ignore[no-untyped-call]
        call = stub.Offer(relay_pb2.OfferRequest(address=self._address))
        try:
            async for ticket in call:
                if site not in self._standing:
                    self._standing.add(site)
                    _log.info("%s cannot dial this site: it relays to it from now on", site)
                if ticket.number and len(self._tunnels) < MOST_TUNNELS:
                    task = begin(self._answer(stub, ticket), f"a tunnel by way of {site}")
                    self._tunnels.add(task)
                    task.add_done_callback(self._tunnels.discard)
        finally:
            call.cancel()
        return site in self._standing

    async def _answer(self, stub: relay_pb2_grpc.RelayStub, ticket: relay_pb2.Ticket) -> None:
        """Connect our own server with whoever asked; its TLS will say who that is."""
        end = None
        try:
            own = await connect(self._own)
            try:
                call = stub.Carry()
                end = CallEnd(call)
                await call.write(relay_pb2.Chunk(ticket=ticket.number))
                async with asyncio.timeout(FIRST_ANSWER_S):
                    if await call.read() is grpc.aio.EOF:
                        return
                await join(end, own, self._idle_s)
            finally:
                own.close()
        except BREAKS as error:
            _log.info("a tunnel that %s asked for did not come about: %s", ticket.asker[:40], _why(error))
        finally:
            if end is not None:
                end.close()


def _why(error: BaseException) -> str:
    """One line: what gRPC prints of its own errors takes several."""
    if isinstance(error, grpc.aio.AioRpcError):
        return told(error)
    return str(error) or type(error).__name__
