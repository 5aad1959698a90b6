"""The relay's side: joins a site that asks with a target that offered itself here or that answers at its own address.

Only sites of the VO may ask; whether a certificate is still good is the server's admission to say, as for each call. A
relay never asks another relay (one hop), and dials only an address that the target's certificate was just seen at, so
that nobody can have it open a connection into its network by claiming a stranger's address.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from diana.adapters.relay.ends import BREAKS, IDLE_S, NoWay, ServedEnd, TunnelEnd, connect, join
from diana.adapters.relay.offers import StandingOffer, TunnelOffers
from diana.model.ids import SiteId, site_id
from diana.wire.pb import relay_pb2, relay_pb2_grpc
from diana.wire.tls import peer_identity

FIRST_WAIT_S = 5.0
MOST_TUNNELS = 128
MOST_PER_SITE = 24
"""Most tunnels that one site asked for, and most that end at one site."""
MOST_OFFERS = 1024

_log = logging.getLogger("diana.relay")


class RelayService:
    """Serves `Relay`."""

    def __init__(
        self,
        site: SiteId,
        vo: str,
        offers: TunnelOffers,
        *,
        answers: Callable[[SiteId, str], Awaitable[bool]],
        direct_address: Callable[[SiteId], Awaitable[str]],
        most_tunnels: int = MOST_TUNNELS,
        most_per_site: int = MOST_PER_SITE,
        idle_s: float = IDLE_S,
    ) -> None:
        """`answers`: True if a site can be dialled at the address it claims. `direct_address`: host:port at which a
        site answers us now, empty for none."""
        self._site = site
        self._vo = vo
        self._offers = offers
        self._answers = answers
        self._direct_address = direct_address
        self._most_tunnels = most_tunnels
        self._most_per_site = most_per_site
        self._idle_s = idle_s
        self._asked: Counter[SiteId] = Counter()
        self._ending: Counter[SiteId] = Counter()
        self._dialling: dict[SiteId, asyncio.Task[str]] = {}
        self._handlers: set[asyncio.Task[Any]] = set()

    def attach(self, server: grpc.aio.Server) -> None:
        relay_pb2_grpc.add_RelayServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    def tunnels(self) -> int:
        """Return the number of tunnels that stand now."""
        return self._asked.total()

    async def stop(self) -> None:
        """End all calls that are being served."""
        for handler in list(self._handlers):
            handler.cancel()

    # --- offers -----------------------------------------------------------------------------------

    async def Offer(self, request: relay_pb2.OfferRequest, context: Any) -> None:
        with self._handling():
            await self._offer(request, context)

    async def _offer(self, request: relay_pb2.OfferRequest, context: Any) -> None:
        site = await self._caller(context)
        if request.address and await self._answers(site, request.address):
            return
        if len(self._offers.sites()) >= MOST_OFFERS and site not in self._offers:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many sites offer themselves here")
        offer = self._offers.put(site)
        try:
            await context.write(relay_pb2.Ticket())
            await self._tell_tickets(offer, context)
        except BREAKS:
            # The site is gone. Left to grpc, that would be a traceback in the node's log.
            raise asyncio.CancelledError from None
        finally:
            self._offers.drop(offer)

    async def _tell_tickets(self, offer: StandingOffer, context: Any) -> None:
        ended = asyncio.create_task(offer.ended.wait())
        try:
            while not ended.done():
                next_ticket = asyncio.create_task(offer.tickets.get())
                try:
                    await asyncio.wait({next_ticket, ended}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not next_ticket.done():
                        next_ticket.cancel()
                if next_ticket.cancelling():
                    return
                number, asker = next_ticket.result()
                await context.write(relay_pb2.Ticket(number=number, asker=asker))
        finally:
            ended.cancel()

    # --- tunnels ----------------------------------------------------------------------------------

    async def Carry(self, _: Any, context: Any) -> None:
        with self._handling():
            await self._begin(context)

    async def _begin(self, context: Any) -> None:
        caller = await self._caller(context)
        try:
            async with asyncio.timeout(FIRST_WAIT_S):
                first = await context.read()
        except TimeoutError:
            first = grpc.aio.EOF
        if first is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first chunk names a ticket or a target")
        end = ServedEnd(context)
        if first.ticket:
            if not self._offers.answered(first.ticket, caller, end):
                await context.abort(grpc.StatusCode.NOT_FOUND, "nobody waits for this ticket")
            await end.closed.wait()
            return
        try:
            target = site_id(first.target)
            with self._counted(caller, target):
                await self._carry(end, target, caller)
        except (NoWay, ValueError) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except BREAKS:
            raise asyncio.CancelledError from None

    async def _carry(self, end: ServedEnd, target: SiteId, caller: SiteId) -> None:
        far = await self._far_end(target, caller)
        try:
            # To both: from here on all bytes are those of the ends.
            if isinstance(far, ServedEnd):
                await far.write(b"")
            await end.write(b"")
            _log.info("tunnel from %s to %s", caller, target)
            await join(end, far, self._idle_s)
        finally:
            far.close()

    async def _far_end(self, target: SiteId, caller: SiteId) -> TunnelEnd:
        if target in (self._site, caller):
            raise NoWay(f"no tunnel to {target} is needed here")
        if target in self._offers:
            return await self._offers.connect(target, caller)
        address = await self._verified(target)
        if not address:
            raise NoWay(f"{target} has made no offer to {self._site} and does not answer at its address")
        try:
            return await connect(address)
        except (OSError, TimeoutError):
            raise NoWay(f"{target} does not answer at its address") from None

    async def _verified(self, target: SiteId) -> str:
        """Return the address at which the target answers; one look at a time per target, however many ask."""
        if target not in self._dialling:
            task = self._dialling[target] = asyncio.ensure_future(self._direct_address(target))
            task.add_done_callback(lambda _: self._dialling.pop(target, None))
        return await asyncio.shield(self._dialling[target])

    @contextmanager
    def _handling(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            yield
        finally:
            self._handlers.discard(task)

    @contextmanager
    def _counted(self, caller: SiteId, target: SiteId) -> Iterator[None]:
        full = self._asked.total() >= self._most_tunnels
        if full or max(self._asked[caller], self._ending[target]) >= self._most_per_site:
            raise NoWay(f"{self._site} carries as many tunnels as it may; try another relay")
        self._asked[caller] += 1
        self._ending[target] += 1
        try:
            yield
        finally:
            for counts, site in ((self._asked, caller), (self._ending, target)):
                counts[site] -= 1
                if not counts[site]:
                    del counts[site]

    async def _caller(self, context: Any) -> SiteId:
        proven = peer_identity(context)
        if proven.kind != "site" or proven.vo != self._vo:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"only sites of {self._vo} use its relays")
        return SiteId(proven.name)
