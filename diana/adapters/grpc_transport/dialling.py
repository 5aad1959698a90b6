"""Dials one address for as long as the transport lives, and judges the Hello that answers.

Where an address does not say whose it is, the certificate is first fetched without trust, to learn under which name
to dial with full verification; a liar then fails the verification.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import grpc
import msgspec

from diana.adapters.grpc_transport.link import Counters, Link, Stream
from diana.engine.messages import Hello
from diana.errors import DianaError
from diana.model.ids import SiteId, site_id
from diana.wire import OLDEST_PROTOCOL, BadMessage
from diana.wire.tls import learn_site, load_credentials, open_channel

FIRST_BACK_OFF_S = 0.2
MOST_BACK_OFF_S = 10.0
HINT_TRIES = 10
"""Failures in a row after which a discovered address is forgotten; its next announcement brings it back."""

_ADDRESS = re.compile(r"(?:(?P<site>[^@]+)@)?(?P<where>[A-Za-z0-9._-]+:[0-9]{1,5}|\[[0-9A-Fa-f:.%a-z]+\]:[0-9]{1,5})\Z")
_UNSPECIFIED = ("", "0.0.0.0", "[::]", "::")

_log = logging.getLogger("diana.peers")


class RefusedPeer(Exception):
    """One line: why we do not talk to it."""


class Address(NamedTuple):
    where: str
    """host:port."""
    site: SiteId | None
    """None: not known."""

    @staticmethod
    def parse(text: str) -> Address:
        """From `host:port` or `site@host:port`; ValueError says what is wanted."""
        match = _ADDRESS.match(text)
        if match is None or int(match["where"].rpartition(":")[2]) not in range(1, 65536):
            raise ValueError(f"peer {text!r}: want HOST:PORT or SITE@HOST:PORT")
        return Address(match["where"], site_id(match["site"]) if match["site"] else None)


class Host(Protocol):
    """What a dialler needs of the transport."""

    counters: Counters

    def hello(self) -> Hello: ...
    def linked(self, site: SiteId) -> bool: ...
    async def unlinked(self, site: SiteId) -> None: ...
    async def greet(self, stream: Stream, site: SiteId, host: str) -> Link: ...
    async def carry(self, link: Link) -> bool: ...
    def refused(self, where: str, reason: str) -> None: ...


class Dialler:
    """Keeps trying one address."""

    def __init__(self, address: Address, host: Host, vo: str, keys: Path, rng: random.Random, *, hint: bool) -> None:
        self._address = address
        self._host = host
        self._vo = vo
        self._keys = keys
        self._rng = rng
        self._hint = hint
        self._said = ""

    async def run(self) -> None:
        """Until cancelled; returns when the address is our own or a hint that leads nowhere."""
        failures = 0
        while True:
            problem = ""
            try:
                site = self._address.site or await learn_site(self._address.where, self._vo)
                if site == self._host.hello().site:
                    return
                if self._host.linked(site):
                    await self._host.unlinked(site)
                elif await self._talk(site):
                    failures = 0
            except (OSError, TimeoutError, BadMessage, DianaError) as error:
                problem = _why(error)
            except grpc.aio.AioRpcError as error:
                problem = error.details() or error.code().name
            except RefusedPeer as refusal:
                problem = str(refusal)
                self._host.refused(self._address.where, problem)
            if problem:
                failures += 1
                self._failed(problem)
                if self._hint and failures >= HINT_TRIES:
                    return
            most_s = min(MOST_BACK_OFF_S, FIRST_BACK_OFF_S * 2 ** min(failures, 10))
            await asyncio.sleep(self._rng.uniform(most_s / 2, most_s))

    async def _talk(self, site: SiteId) -> bool:
        """One connection from beginning to end; True when it was in use."""
        # New channel, new look at the keys: this is how renewed certificates come into use.
        channel = open_channel(self._address.where, site, self._vo, load_credentials(self._keys))
        try:
            call = channel.stream_stream("/diana.v1.Peer/Stream")()
            link = await self._host.greet(_Dialled(call), site, self._address.where.rpartition(":")[0])
            self._said = ""
            try:
                return await self._host.carry(link)
            finally:
                call.cancel()
        finally:
            await channel.close()

    def _failed(self, problem: str) -> None:
        self._host.counters.failed_dials += 1
        if problem != self._said:
            self._said = problem
            _log.info("cannot reach a peer at %s: %s", self._address.where, problem)


def _why(error: Exception) -> str:
    """asyncio's own text repeats the address and hides the reason in a number."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or "no answer in time"


class _Dialled:
    """`Stream` over a call we made."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def read(self) -> bytes | None:
        data = await self._call.read()
        return None if data is grpc.aio.EOF else data

    async def write(self, data: bytes) -> None:
        try:
            await self._call.write(data)
        except asyncio.InvalidStateError:
            # The call ended before this write: its status says why.
            raise OSError(await self._call.details() or "the stream is closed") from None


def check_hello(own: Hello, peer: Hello, *, proven: str) -> str:
    """Empty: we talk to it. Else one line why not. `proven`: the site its certificate names."""
    if peer.site != proven:
        return f"its certificate names {proven}, its hello {peer.site}"
    if peer.site == own.site:
        return f"it calls itself {own.site}, as this node does; each site needs a name of its own"
    if peer.protocol < OLDEST_PROTOCOL:
        return (
            f"{peer.site} ({peer.release[:40]}) speaks protocol {peer.protocol}, "
            f"this node {OLDEST_PROTOCOL} to {own.protocol}; upgrade {peer.site}"
        )
    return ""


def reachable(peer: Hello, host: str) -> Hello:
    """With the host we know the peer by, where its data address names none."""
    named, _, port = peer.data_address.rpartition(":")
    if named not in _UNSPECIFIED or not port:
        return peer
    return msgspec.structs.replace(peer, data_address=f"{host}:{port}")
