"""Keeps one stream to each peer: answers those who dial us, dials those we know, and of two keeps one.

Of two streams between the same two runs of two sites, the one dialled by the lower site id stays; both sides come
to the same choice without talking. A stream from a newer run of a peer always replaces the older one.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc

from diana.adapters.grpc_transport.channels import DataChannels
from diana.adapters.grpc_transport.dialling import Address, Dialler, RefusedPeer, check_hello, reachable
from diana.adapters.grpc_transport.link import Counters, Link, Stream, envelope, read_hello
from diana.engine.events import Event, PeerDown, PeerUp, Received
from diana.engine.messages import Hello, Message
from diana.errors import Overloaded
from diana.model.ids import SiteId
from diana.ports import Emit
from diana.wire import BadMessage, codec
from diana.wire.tls import load_credentials, peer_identity

HELLO_WAIT_S = 5.0
RETIRE_S = 2.0
MAX_INCOMING = 256
"""Streams served at once, those still saying hello included."""
MAX_HINTS = 64
"""Discovered addresses dialled at once: a hint costs a connection, and anybody on the LAN can send hints."""

_log = logging.getLogger("diana.peers")


class GrpcTransport:
    """`ports.Transport` over gRPC. Lives in one event loop; `send` is called there too.

    The node makes the server, calls `attach` before starting it, then `start`; and `stop` at the end.
    """

    def __init__(
        self, *, hello: Hello, keys: Path, emit: Emit, peers: Iterable[str] = (), rng: random.Random | None = None
    ) -> None:
        """`peers`: static addresses, `host:port` or `site@host:port`. ValueError for one that is neither."""
        self.counters = Counters()
        self._hello = hello
        self._keys = keys
        self._vo = load_credentials(keys).identity().vo
        self._channels = DataChannels(self._vo, keys)
        self._emit = emit
        self._rng = rng or random.Random()
        self._links: dict[SiteId, Link] = {}
        self._untold: deque[Event] = deque()
        self._incoming = 0
        self._stopped = False
        self._static = [Address.parse(text) for text in peers]
        self._dialling: dict[Address, asyncio.Task[None]] = {}
        self._changed = asyncio.Condition()
        self._wakers: set[asyncio.Task[None]] = set()

    # --- ports.Transport ------------------------------------------------------------------------

    def send(self, to: SiteId, message: Message) -> None:
        """Best effort, never blocks, never raises for a peer's sake."""
        link = self._links.get(to)
        if link is None:
            self.counters.dropped_unlinked += 1
            return
        try:
            link.offer(codec.encode_message(message))
        except BadMessage as error:
            _log.error("a message to %s cannot be sent: %s", to, error)

    def hello(self) -> Hello:
        return self._hello

    # --- the node -------------------------------------------------------------------------------

    def peers(self) -> dict[SiteId, Hello]:
        """Who is linked now; `data_address` is one this node can dial."""
        return {site: link.peer for site, link in sorted(self._links.items())}

    def channel_for(self, site: SiteId) -> grpc.aio.Channel | None:
        """The channel to a site's data service, shared and kept; None while no way there is known. It outlives the
        peer stream: a call on it fails by itself when the site is gone."""
        return self._channels.channel_for(site)

    def attach(self, server: grpc.aio.Server) -> None:
        """Serve Peer.Stream. Payloads pass as bytes: garbage is ours to count, not gRPC's to fail on."""
        stream = grpc.stream_stream_rpc_method_handler(self._serve)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("diana.v1.Peer", {"Stream": stream}),))

    async def start(self) -> None:
        for address in self._static:
            self._dial(address, hint=False)

    def add_address(self, text: str) -> None:
        """A hint that a peer may listen at `host:port` or `site@host:port`. Bad hints are ignored."""
        try:
            address = Address.parse(text)
        except ValueError:
            return
        if not self._stopped and len(self._dialling) < MAX_HINTS + len(self._static):
            self._dial(address, hint=True)

    async def stop(self) -> None:
        """End every stream and dial no more. Emits nothing."""
        self._stopped = True
        for link in self._links.values():
            link.close()
        self._links.clear()
        tasks = [*self._dialling.values(), *self._wakers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._channels.close()

    # --- dialling -------------------------------------------------------------------------------

    def _dial(self, address: Address, *, hint: bool) -> None:
        if address in self._dialling or address.site == self._hello.site:
            return
        dialler = Dialler(address, self, self._vo, self._keys, self._rng, hint=hint)
        task = self._dialling[address] = asyncio.create_task(dialler.run())
        task.add_done_callback(lambda _: self._dialling.pop(address, None))

    def linked(self, site: SiteId) -> bool:
        return site in self._links

    async def unlinked(self, site: SiteId) -> None:
        """Wait until there is no stream to `site`."""
        async with self._changed:
            await self._changed.wait_for(lambda: site not in self._links)

    async def greet(self, stream: Stream, site: SiteId, host: str) -> Link:
        """Dialler's side of the Hellos, with the site the TLS layer has verified. RefusedPeer, BadMessage,
        TimeoutError or gRPC's error when it comes to nothing."""
        async with asyncio.timeout(HELLO_WAIT_S):
            await stream.write(self._first_envelope(""))
            peer = await read_hello(stream, self._hello)
        refusal = check_hello(self._hello, peer, proven=site)
        if refusal:
            raise RefusedPeer(refusal)
        return self._link(stream, reachable(peer, host), self._hello.site)

    async def carry(self, link: Link) -> bool:
        """Run an established stream to its end; False when another one to that peer is kept instead."""
        if not self._establish(link):
            return False
        try:
            await link.run()
        finally:
            self._drop(link)
        return True

    # --- serving --------------------------------------------------------------------------------

    async def _serve(self, _: Any, context: Any) -> None:
        if self._stopped or self._incoming >= MAX_INCOMING:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many peer streams here; try later")
        self._incoming += 1
        try:
            stream = _Served(context)
            link = await self._answer(stream, context)
            await self.carry(link)
        except RefusedPeer as refusal:
            self.refused(context.peer(), str(refusal))
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(refusal))
        finally:
            self._incoming -= 1

    async def _answer(self, stream: Stream, context: Any) -> Link:
        proven = peer_identity(context)
        if proven.kind != "site" or proven.vo != self._vo:
            raise RefusedPeer(f"a certificate of a site of {self._vo} is wanted; this one names {proven.name!r}")
        try:
            async with asyncio.timeout(HELLO_WAIT_S):
                peer = await read_hello(stream, self._hello)
        except (BadMessage, TimeoutError) as error:
            raise RefusedPeer(str(error) or "no Hello came") from None
        refusal = check_hello(self._hello, peer, proven=proven.name)
        if refusal:
            raise RefusedPeer(refusal)
        try:
            await stream.write(self._first_envelope(peer.site))
        except grpc.aio.InternalError:
            raise RefusedPeer(f"{peer.site} went away while saying hello") from None
        return self._link(stream, reachable(peer, _host_of(context.peer())), peer.site)

    def refused(self, where: str, reason: str) -> None:
        self.counters.refused_peers += 1
        _log.warning("refused a peer at %s: %s", where, reason)

    # --- links ----------------------------------------------------------------------------------

    def _first_envelope(self, receiver: str) -> bytes:
        return envelope(self._hello, receiver, codec.encode_message(self._hello), self._hello.protocol)

    def _link(self, stream: Stream, peer: Hello, dialler: SiteId) -> Link:
        return Link(
            own=self._hello,
            peer=peer,
            dialler=dialler,
            stream=stream,
            deliver=self._deliver,
            counters=self.counters,
        )

    def _establish(self, link: Link) -> bool:
        site = link.peer.site
        if self._stopped:
            return False
        old = self._links.get(site)
        if old is None:
            self._links[site] = link
            self._channels.learn(link.peer)
            self._tell(PeerUp(link.peer))
            return True
        same_run = old.peer.boot_nonce == link.peer.boot_nonce
        if same_run and old.dialler < link.dialler:
            return False
        self._links[site] = link
        self._channels.learn(link.peer)
        if same_run and link.dialler != self._hello.site:
            # Its dialler has not seen our Hello yet and would think us gone: it closes the other stream when it has.
            asyncio.get_running_loop().call_later(RETIRE_S, old.close)
        else:
            old.close()
        for payload in old.drain():
            link.offer(payload)
        if not same_run:
            self._tell(PeerDown(site))
            self._tell(PeerUp(link.peer))
        return True

    def _drop(self, link: Link) -> None:
        site = link.peer.site
        if self._links.get(site) is link:
            del self._links[site]
            self._tell(PeerDown(site))
            waker = asyncio.ensure_future(self._wake())
            self._wakers.add(waker)
            waker.add_done_callback(self._wakers.discard)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _tell(self, event: PeerUp | PeerDown) -> None:
        """These must arrive, and in order: an overloaded inbox gets them later."""
        if isinstance(event, PeerUp):
            _log.info("%s is here: release %s, %s", event.hello.site, event.hello.release, event.hello.data_address)
        else:
            _log.info("%s is gone", event.site)
        self._untold.append(event)
        if len(self._untold) == 1:
            self._tell_waiting()

    def _tell_waiting(self) -> None:
        while self._untold and not self._stopped:
            try:
                self._emit(self._untold[0])
            except Overloaded as error:
                asyncio.get_running_loop().call_later(max(error.retry_after_s, 0.01), self._tell_waiting)
                return
            self._untold.popleft()

    def _deliver(self, sender: SiteId, message: Message) -> None:
        if self._untold:
            raise Overloaded("peer events wait", 0.1)
        self._emit(Received(sender, message))


class _Served:
    """`Stream` over a served call."""

    def __init__(self, context: Any) -> None:
        self._context = context

    async def read(self) -> bytes | None:
        data = await self._context.read()
        return None if data is grpc.aio.EOF else data

    async def write(self, data: bytes) -> None:
        await self._context.write(data)


def _host_of(peer: str) -> str:
    """gRPC's `ipv4:10.0.0.1:50000`, `ipv6:%5B::1%5D:50000` -> host."""
    return peer.partition(":")[2].rpartition(":")[0].replace("%5B", "[").replace("%5D", "]")
