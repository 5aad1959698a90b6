"""Dials an address for as long as the transport lives, or a site as long as a stream to it is wanted.

Where an address does not say whose it is, the certificate is first fetched without trust, to learn under which name
to dial with full verification; a liar then fails the verification. A site's name is dialled by all ways the book
knows, its own address before a neighbour that relays.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import time
from pathlib import Path
from typing import NamedTuple, Protocol

import grpc
import msgspec

from diana.adapters.grpc.words import told
from diana.adapters.grpc_transport.book import UNSPECIFIED, DialTarget
from diana.adapters.grpc_transport.link import Counters, PeerLink, Stream
from diana.adapters.grpc_transport.noticed import Noticed
from diana.adapters.grpc_transport.streams import DialledStream
from diana.engine.messages.messages import Hello
from diana.errors import DianaError, one_line
from diana.model.ids import SiteId, site_id
from diana.wire import BadMessage
from diana.wire.tls import Credentials, learn_site, load_credentials, open_channel, why_no_handshake

FIRST_BACK_OFF_S = 0.2
MOST_BACK_OFF_S = 10.0
HINT_TRIES = 10
"""Failures in a row after which a discovered address is forgotten; its next announcement brings it back."""

_ADDRESS = re.compile(r"(?:(?P<site>[^@]+)@)?(?P<where>[A-Za-z0-9._-]+:[0-9]{1,5}|\[[0-9A-Fa-f:.%a-z]+\]:[0-9]{1,5})\Z")

_log = logging.getLogger("diana.peers")


class RefusedPeer(Exception):
    """The reason, on one line, why we do not talk to a peer."""


_FAULTS = (OSError, TimeoutError, BadMessage, DianaError, grpc.aio.AioRpcError, RefusedPeer)
"""Errors by which dialling comes to nothing."""


class Address(NamedTuple):
    where: str
    """host:port."""
    site: SiteId | None
    """None: not known."""

    @staticmethod
    def parse(text: str) -> Address:
        """Read `host:port` or `site@host:port`; ValueError says what is wanted."""
        match = _ADDRESS.match(text)
        if match is None or int(match["where"].rpartition(":")[2]) not in range(1, 65536):
            raise ValueError(f"peer {text!r}: want HOST:PORT or SITE@HOST:PORT")
        return Address(match["where"], site_id(match["site"]) if match["site"] else None)


class Host(Protocol):
    """The transport as a dialler needs it."""

    counters: Counters
    noticed: Noticed

    def hello(self) -> Hello: ...
    def linked(self, site: SiteId) -> bool: ...
    async def unlinked(self, site: SiteId) -> None: ...
    async def greet(self, stream: Stream, site: SiteId, way: DialTarget) -> PeerLink: ...
    async def carry(self, link: PeerLink) -> bool: ...
    def refused(self, where: str, reason: str) -> None: ...
    def found_static(self, site: SiteId) -> None: ...
    def governed(self, site: SiteId) -> bool: ...
    def ways(self, site: SiteId) -> tuple[DialTarget, ...]: ...
    def wanted(self, site: SiteId) -> bool: ...


class _Caller:
    """One connection from beginning to end, and the line that is logged when it comes to nothing."""

    def __init__(self, host: Host, vo: str, keys: Path, rng: random.Random) -> None:
        self._host = host
        self._vo = vo
        self._keys = keys
        self._rng = rng
        self._said = ""
        self._raw = ""
        self._explanation = ""

    async def _talk(self, site: SiteId, way: DialTarget) -> bool:
        """Make a stream and carry it; True when it was in use, to its end."""
        # New channel, new look at the keys: this is how renewed certificates come into use.
        credentials = load_credentials(self._keys)
        channel = open_channel(way.where, site, self._vo, credentials, messages=True)
        try:
            call = channel.stream_stream("/diana.v1.Peer/Stream")()
            try:
                link = await self._host.greet(DialledStream(call, channel), site, way)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.PERMISSION_DENIED:
                    self._host.noticed.turned_away(site, one_line(error.details() or "it gives no reason"))
                await self._explain(error, site, way, credentials)
                raise
            self._said = self._raw = ""
            try:
                return await self._host.carry(link)
            finally:
                call.cancel()
        finally:
            await channel.close()

    async def _explain(self, error: grpc.aio.AioRpcError, site: SiteId, way: DialTarget, own: Credentials) -> None:
        """Raise OSError if the certificates of the two sides tell why a handshake failed, which gRPC does not; they
        are looked at once for each kind of failure."""
        raw = error.details() or ""
        if error.code() is not grpc.StatusCode.UNAVAILABLE or way.tunnel or "refused" in raw:
            return
        if raw != self._raw:
            self._raw = raw
            self._explanation = await why_no_handshake(way.where, site, own, wall_s=time.time())
            if self._explanation:
                self._host.refused(way.where, self._explanation)
        if self._explanation:
            raise OSError(self._explanation)

    def _problem(self, error: Exception, where: str) -> str:
        if isinstance(error, grpc.aio.AioRpcError):
            return told(error)
        if isinstance(error, RefusedPeer):
            self._host.refused(where, str(error))
            return str(error)
        return _why(error)

    def _failed(self, where: str, problem: str) -> None:
        self._host.counters.failed_dials += 1
        if problem != self._said:
            self._said = problem
            _log.info("cannot reach a peer at %s: %s", where, problem)

    async def _back_off(self, failures: int) -> None:
        most_s = min(MOST_BACK_OFF_S, FIRST_BACK_OFF_S * 2 ** min(failures, 10))
        await asyncio.sleep(self._rng.uniform(most_s / 2, most_s))


class AddressDialler(_Caller):
    """Keeps trying one address."""

    def __init__(self, address: Address, host: Host, vo: str, keys: Path, rng: random.Random, *, hint: bool) -> None:
        super().__init__(host, vo, keys, rng)
        self._address = address
        self._hint = hint

    async def run(self) -> None:
        """Run until cancelled; return when the address is our own, or a hint that leads nowhere or to a site whose
        streams are ordered by contact."""
        failures = 0
        while True:
            problem = ""
            try:
                site = self._address.site or await learn_site(self._address.where, self._vo)
                if site == self._host.hello().site:
                    return
                linked = self._host.linked(site)
                if not self._hint:
                    self._host.found_static(site)
                elif self._host.governed(site) and (linked or not self._host.wanted(site)):
                    return
                if linked:
                    await self._host.unlinked(site)
                elif await self._talk(site, DialTarget(self._address.where, tunnel=False)):
                    failures = 0
            except _FAULTS as error:
                problem = self._problem(error, self._address.where)
            if problem:
                failures += 1
                self._failed(self._address.where, problem)
                if self._hint and failures >= HINT_TRIES:
                    return
            await self._back_off(failures)


class SiteDialler(_Caller):
    """Has a stream to one site, by any way, as long as one is wanted."""

    def __init__(self, site: SiteId, host: Host, vo: str, keys: Path, rng: random.Random) -> None:
        super().__init__(host, vo, keys, rng)
        self._site = site

    async def run(self) -> None:
        """Run; return when no stream to the site is wanted any more and none stands that was made here."""
        failures = 0
        while self._host.wanted(self._site):
            if self._host.linked(self._site):
                await self._host.unlinked(self._site)
            elif await self._round():
                failures = 0
            else:
                failures += 1
            await self._back_off(failures)

    async def _round(self) -> bool:
        """Try each way once, until one carries a stream; True when one did, to its end."""
        for way in self._host.ways(self._site):
            try:
                if await self._talk(self._site, way):
                    return True
            except _FAULTS as error:
                self._failed(f"{self._site}@{way.where}", self._problem(error, way.where))
            if self._host.linked(self._site):
                return True
        return False


def _why(error: Exception) -> str:
    """Return the reason in words: asyncio's own text repeats the address and hides the reason in a number."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or "no answer in time"


def reachable(peer: Hello, host: str) -> Hello:
    """Return the peer's Hello with the host we know it by, where its data address names none."""
    named, _, port = peer.data_address.rpartition(":")
    if named not in UNSPECIFIED or not port:
        return peer
    return msgspec.structs.replace(peer, data_address=f"{host}:{port}")
