"""Keeps a stream to each peer that is to have one: answers sites that dial us, dials sites we know, and of two streams
keeps one.

Two streams between the same two runs of two sites: the one dialled by the lower site id stays; both sides come to
the same choice without talking. A stream from a newer run of a peer always replaces the older one. Both sides say
whether a stream stands when nothing is sent: one that neither wants is closed after a minute, so that closing never
meets a side that would dial again at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import grpc

from diana.adapters.grpc.callers import host_of
from diana.adapters.grpc.pacing import Paces, Slack
from diana.adapters.grpc_transport.book import DialTarget
from diana.adapters.grpc_transport.dialling import Address, AddressDialler, RefusedPeer, SiteDialler, reachable
from diana.adapters.grpc_transport.link import SMALL_TALK, Counters, PeerLink, Stream, envelope, read_hello
from diana.adapters.grpc_transport.noticed import Noticed
from diana.adapters.grpc_transport.reach import Reach
from diana.adapters.grpc_transport.streams import Incoming, ServedStream
from diana.adapters.grpc_transport.telling import Telling
from diana.adapters.grpc_transport.waiting import WAIT_S, WaitingMessages
from diana.adapters.tasks import begin, end, keep_up
from diana.engine.journal.effects import Contact
from diana.engine.journal.events import PeerDown, PeerUp
from diana.engine.messages.messages import Hello, Message
from diana.model.ids import SiteId
from diana.ports import Emit
from diana.wire import BadMessage, peer_codec
from diana.wire.tls import load_credentials, peer_identity

HELLO_WAIT_S = 5.0
RETIRE_S = 2.0
MAX_LINKS = 256
"""Most streams that stand; beyond it the one unused for longest makes room for one that is needed."""
MAX_HINTS = 64
"""Most discovered addresses dialled at once: a hint costs a connection, and anybody on the LAN can send hints."""
MAX_ON_DEMAND = 64
"""Most sites dialled at once because something is to be sent there."""
IDLE_S = 60.0
"""Seconds without a message after which a stream that neither side wants is closed."""
TIDY_EVERY_S = 5.0

_log = logging.getLogger("diana.peers")


class GrpcTransport:
    """`ports.Transport` over gRPC, in one event loop, `send` too. The node makes the server, calls `attach` before
    it starts the server, then `start`; and `stop` at the end."""

    def __init__(
        self,
        *,
        hello: Hello,
        keys: Path,
        emit: Emit,
        peers: Iterable[str] = (),
        rng: random.Random | None = None,
        tunnel: Callable[[SiteId], str] = lambda _: "",
        idle_s: float = IDLE_S,
        slack: Slack | None = None,
    ) -> None:
        """`peers`: static addresses, `host:port` or `site@host:port`. ValueError for one that is neither. `tunnel`:
        the gRPC address by which a neighbour relays to a site, empty where none can."""
        self.counters = Counters()
        self.noticed = Noticed()
        self._hello = hello
        self._keys = keys
        self._vo = load_credentials(keys).identity().vo
        self.reach = Reach(vo=self._vo, keys=keys, tunnel=tunnel, dialled=lambda site: site in self.neighbours())
        self._book = self.reach.book
        self.note_refused: Callable[[str, str], None] = lambda where, reason: None
        """Callback for each peer that is turned away: where it is and why."""
        self.note_word: Callable[[SiteId, str], None] = lambda site, why: None
        """Callback for each word of a linked peer that cannot be true, before the engine hears it."""
        self._paces: Paces[SiteId] = Paces(slack)
        self._telling = Telling(emit)
        self._rng = rng or random.Random()
        self._idle_s = idle_s
        self._links: dict[SiteId, PeerLink] = {}
        self._greeting: dict[SiteId, PeerLink] = {}
        """Streams on which our Hello is on its way: the peer may use one before we know that it arrived."""
        self._waiting = WaitingMessages()
        self._incoming = Incoming()
        self._stopped = False
        self._static = [Address.parse(text) for text in peers]
        self._static_sites: set[SiteId] = set()
        self._dialling: dict[Address, asyncio.Task[None]] = {}
        self._having: dict[SiteId, asyncio.Task[None]] = {}
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- ports.Transport ------------------------------------------------------------------------

    def send(self, to: SiteId, message: Message) -> None:
        """Send a message. Best effort, never blocks, never raises for a peer's sake."""
        link = self._links.get(to)
        if link is None and self._book.contact(to) is None:
            self.counters.dropped_unlinked += 1
            return
        try:
            payload = peer_codec.encode_message(message)
        except BadMessage as error:
            _log.error("a message to %s cannot be sent: %s", to, error)
            return
        if link is not None:
            link.say(message, payload)
        elif isinstance(message, SMALL_TALK) or not self._send_later(to, payload):
            self.counters.dropped_unlinked += 1

    def hello(self) -> Hello:
        return self._hello

    def contact(self, order: Contact) -> None:
        """Take how a site is reached and whether a stream to it is held; replaces what was told of it before."""
        site = order.site
        if site == self._hello.site or self._stopped:
            return
        self.reach.put(order)
        self._keep_or_not(site)

    def forget_contact(self, site: SiteId) -> None:
        """Forget a site: nothing will be sent there, and no stream is held for our sake."""
        self.reach.forget(site)
        self.counters.dropped_unreached += len(self._waiting.take(site))
        self._keep_or_not(site)

    # --- the node -------------------------------------------------------------------------------

    def peers(self) -> dict[SiteId, Hello]:
        """Return the peers linked now; `data_address` is one this node can dial, or empty."""
        return {site: link.peer for site, link in sorted(self._links.items())}

    def links(self) -> dict[SiteId, PeerLink]:
        return dict(sorted(self._links.items()))

    def link(self, site: SiteId) -> PeerLink | None:
        return self._links.get(site)

    def neighbours(self) -> dict[SiteId, str]:
        """Return the sites linked by a stream that this side dialled at their own address: those that could relay to
        us."""
        own = self._hello.site
        return {
            site: link.peer.boot_nonce
            for site, link in sorted(self._links.items())
            if link.dialler == own and not link.tunnel
        }

    def channel_for(self, site: SiteId) -> grpc.aio.Channel | None:
        """Return the channel to a site's data service, shared and kept; None while no way there is known. It
        outlives the peer stream: a call on it fails by itself when the site is gone."""
        return self.reach.channel_for(site)

    def distrusted(self, site: SiteId) -> None:
        """Close the stream and channel to a site; the admission says whether it is let in again."""
        if (link := self._links.get(site)) is not None:
            link.close()
        self.reach.drop(site)

    async def links_changed(self) -> None:
        """Wait until a stream came or went."""
        async with self._changed:
            await self._changed.wait()

    def attach(self, server: grpc.aio.Server) -> None:
        """Serve Peer.Stream. Payloads pass as bytes: garbage is ours to count, not gRPC's to fail on."""
        stream = grpc.stream_stream_rpc_method_handler(self._serve)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("diana.v1.Peer", {"Stream": stream}),))

    async def start(self) -> None:
        for address in self._static:
            self._dial(address, hint=False)
        self._tasks.add(keep_up(self._tidy, "closing idle streams"))

    def add_address(self, text: str) -> None:
        """Take a hint that a peer may listen at `host:port` or `site@host:port`. Bad hints are ignored."""
        try:
            address = Address.parse(text)
        except ValueError:
            return
        if not self._stopped and len(self._dialling) < MAX_HINTS + len(self._static):
            self._dial(address, hint=True)

    async def stop(self) -> None:
        """End every stream and dial no more. Emits nothing."""
        self._stopped = True
        self._telling.stop()
        for link in self._links.values():
            link.close()
        self._links.clear()
        await end(*self._dialling.values(), *self._having.values(), *self._tasks)
        await self.reach.close()

    # --- dialling -------------------------------------------------------------------------------

    def _dial(self, address: Address, *, hint: bool) -> None:
        if address in self._dialling or address.site == self._hello.site:
            return
        dialler = AddressDialler(address, self, self._vo, self._keys, self._rng, hint=hint)
        task = self._dialling[address] = keep_up(dialler.run, f"dialling {address.where}")
        task.add_done_callback(lambda _: self._dialling.pop(address, None))

    def _keep_or_not(self, site: SiteId) -> None:
        keeps = self._keeps(site)
        if (link := self._links.get(site)) is not None:
            link.keep(keeps)
        if keeps and self._book.contact(site) is not None:
            self._have(site)

    def _have(self, site: SiteId) -> None:
        """Dial the site, by any way, as long as a stream to it is wanted."""
        if site not in self._having and not self._stopped:
            dialler = SiteDialler(site, self, self._vo, self._keys, self._rng)
            task = self._having[site] = keep_up(dialler.run, f"dialling {site}")
            task.add_done_callback(lambda _: self._had(site))

    def _had(self, site: SiteId) -> None:
        self._having.pop(site, None)
        # Wanted again between its last look and its end.
        if self.wanted(site) and self._book.contact(site) is not None:
            self._have(site)

    def _send_later(self, to: SiteId, payload: bytes) -> bool:
        loop = asyncio.get_running_loop()
        if self._stopped or (to not in self._waiting and len(list(self._waiting)) >= MAX_ON_DEMAND):
            return False
        if not self._waiting.offer(to, payload, loop.time()):
            return False
        loop.call_later(WAIT_S + 0.01, self._expire)
        self._have(to)
        return True

    def _expire(self) -> None:
        self.counters.dropped_unreached += self._waiting.expire(asyncio.get_running_loop().time())

    def _keeps(self, site: SiteId) -> bool:
        """True if this side wants a stream to the site when nothing is sent."""
        order = self._book.contact(site)
        if order is not None and order.keep:
            return True
        return site in self._static_sites or not self._book.governed

    def wanted(self, site: SiteId) -> bool:
        """True if the site is to be dialled."""
        order = self._book.contact(site)
        return (order is not None and order.keep) or site in self._waiting

    def ways(self, site: SiteId) -> tuple[DialTarget, ...]:
        return self._book.ways(site)

    def governed(self, site: SiteId) -> bool:
        return self._book.contact(site) is not None

    def found_static(self, site: SiteId) -> None:
        self._static_sites.add(site)

    def linked(self, site: SiteId) -> bool:
        return site in self._links

    async def unlinked(self, site: SiteId) -> None:
        """Wait until there is no stream to `site`."""
        async with self._changed:
            await self._changed.wait_for(lambda: site not in self._links)

    async def greet(self, stream: Stream, site: SiteId, way: DialTarget) -> PeerLink:
        """Exchange Hellos as the dialler, with the site the TLS layer has verified. RefusedPeer, BadMessage,
        TimeoutError or gRPC's error when it comes to nothing."""
        async with asyncio.timeout(HELLO_WAIT_S):
            await stream.write(self._first_envelope(""))
            peer = await read_hello(stream, self._hello)
        linked = self._links.get(site)
        check, where = self.noticed.check, "" if way.tunnel else way.where
        refusal = self.reach.refuses(site) or check(self._hello, peer, proven=site, linked=linked, where=where)
        if refusal:
            raise RefusedPeer(refusal)
        if not way.tunnel:
            peer = reachable(peer, way.where.rpartition(":")[0])
        return self._link(stream, peer, self._hello.site, tunnel=way.tunnel)

    async def carry(self, link: PeerLink) -> bool:
        """Run an established stream to its end; False when another one to that peer is kept instead."""
        if not self._establish(link):
            if link.dialler == self._hello.site and link.peer.site in self._links:
                # Until our Hello on the other stream arrives, the peer knows this one alone; it closes it then.
                asyncio.get_running_loop().call_later(RETIRE_S, link.close)
                await link.run()
            return False
        try:
            await link.run()
        finally:
            self._drop(link)
        return True

    # --- housekeeping ---------------------------------------------------------------------------

    async def _tidy(self) -> None:
        """Close streams nobody wants; look again at addresses that did not answer."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(min(TIDY_EVERY_S, self._idle_s / 2))
            for site, link in list(self._links.items()):
                if link.unwanted_for_s(clock()) > self._idle_s:
                    _log.info("the stream with %s is closed: nothing was sent for %g s", site, self._idle_s)
                    link.close()
            self.reach.look_again(clock())

    def _make_room(self) -> bool:
        """True if another stream may stand; where there are too many, the one unused for longest is closed."""
        if len(self._links) < MAX_LINKS:
            return True
        idle = [(link.used_s, site) for site, link in self._links.items() if not self._keeps(site)]
        if idle:
            self._links[min(idle)[1]].close()
        return bool(idle)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = begin(work, "telling of a stream")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- serving --------------------------------------------------------------------------------

    async def _serve(self, _: Any, context: Any) -> None:
        if self._stopped or not self._incoming.enter(site := peer_identity(context).name):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many peer streams here; try later")
        try:
            stream = ServedStream(context)
            link = await self._answer(stream, context)
            await self.carry(link)
        except RefusedPeer as refusal:
            self.refused(context.peer(), str(refusal))
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(refusal))
        finally:
            self._incoming.leave(site)

    async def _answer(self, stream: Stream, context: Any) -> PeerLink:
        proven = peer_identity(context)
        if proven.kind != "site" or proven.vo != self._vo:
            raise RefusedPeer(f"a certificate of a site of {self._vo} is wanted; this one names {proven.name!r}")
        try:
            async with asyncio.timeout(HELLO_WAIT_S):
                peer = await read_hello(stream, self._hello)
        except (BadMessage, TimeoutError) as error:
            raise RefusedPeer(str(error) or "no Hello came") from None
        linked, where = self._links.get(SiteId(proven.name)), host_of(context.peer())
        refusal = self.noticed.check(self._hello, peer, proven=proven.name, linked=linked, where=where)
        if refusal:
            raise RefusedPeer(refusal)
        link = self._link(stream, reachable(peer, host_of(context.peer())), peer.site)
        self._greeting[peer.site] = link
        try:
            await stream.write(self._first_envelope(peer.site))
        except BaseException as error:
            self._drop(link)
            if isinstance(error, grpc.aio.InternalError):
                raise RefusedPeer(f"{peer.site} went away while saying hello") from None
            raise
        finally:
            if self._greeting.get(peer.site) is link:
                del self._greeting[peer.site]
        return link

    def refused(self, where: str, reason: str) -> None:
        self.counters.refused_peers += 1
        self.note_refused(where, reason)
        _log.warning("refused a peer at %s: %s", where, reason)

    # --- links ----------------------------------------------------------------------------------

    def _first_envelope(self, receiver: str) -> bytes:
        return envelope(self._hello, receiver, peer_codec.encode_message(self._hello), self._hello.protocol)

    def _link(self, stream: Stream, peer: Hello, dialler: SiteId, *, tunnel: bool = False) -> PeerLink:
        return PeerLink(
            own=self._hello,
            peer=peer,
            dialler=dialler,
            stream=stream,
            deliver=self._telling.deliver,
            counters=self.counters,
            pace=self._paces.of(peer.site, asyncio.get_running_loop().time()),
            note_word=lambda site, why: self.note_word(site, why),
            tunnel=tunnel,
        )

    def _establish(self, link: PeerLink) -> bool:
        site = link.peer.site
        if self._stopped:
            return False
        old = self._links.get(site)
        if old is link:
            # It took another one's place when that ended.
            return True
        if old is None:
            if not self._make_room():
                return False
            self._enter(link)
            self._telling.tell(PeerUp(link.peer))
            return True
        same_run = old.peer.boot_nonce == link.peer.boot_nonce
        if same_run and old.dialler < link.dialler:
            return False
        self._enter(link)
        if same_run and link.dialler != self._hello.site:
            # Its dialler has not seen our Hello yet and would think us gone: it closes the other stream when it has.
            asyncio.get_running_loop().call_later(RETIRE_S, old.close)
        else:
            old.close()
        for payload in old.drain():
            link.offer(payload)
        if not same_run:
            self._telling.tell(PeerDown(site))
            self._telling.tell(PeerUp(link.peer))
        return True

    def _enter(self, link: PeerLink) -> None:
        """Make this the stream to its peer from now on."""
        site = link.peer.site
        self._links[site] = link
        self.reach.learn(link.peer)
        if link.dialler == self._hello.site:
            self.reach.came(site, tunnel=link.tunnel)
        link.keep(self._keeps(site))
        for payload in self._waiting.take(site):
            link.offer(payload)
        self._spawn(self._wake())

    def _drop(self, link: PeerLink) -> None:
        site = link.peer.site
        if self._links.get(site) is link:
            coming = self._greeting.get(site)
            if coming is not None and coming is not link and coming.peer.boot_nonce == link.peer.boot_nonce:
                # The peer closed this one for it.
                self._enter(coming)
                for payload in link.drain():
                    coming.offer(payload)
                return
            del self._links[site]
            self._telling.tell(PeerDown(site))
            self._spawn(self._wake())

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()
