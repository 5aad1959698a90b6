"""Channels to the data services of peers, apart from the streams of envelopes, so that bulk never delays a message."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc

from diana.engine.messages import Hello
from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.wire.tls import load_credentials, open_channel

CLOSE_GRACE_S = 5.0


class DataChannels:
    """One channel per peer, made when first asked for, remade when the peer's hello changes."""

    def __init__(self, vo: str, keys: Path) -> None:
        self._vo = vo
        self._keys = keys
        self._hellos: dict[SiteId, Hello] = {}
        self._open: dict[SiteId, grpc.aio.Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def learn(self, hello: Hello) -> None:
        """What a linked peer says of itself now."""
        old = self._hellos.get(hello.site)
        self._hellos[hello.site] = hello
        if old is not None and (old.boot_nonce, old.data_address) != (hello.boot_nonce, hello.data_address):
            channel = self._open.pop(hello.site, None)
            if channel is not None:
                task = asyncio.ensure_future(channel.close(CLOSE_GRACE_S))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    def channel_for(self, site: SiteId) -> grpc.aio.Channel | None:
        """None while the site has never been linked, names no data address, or our keys cannot be read."""
        channel = self._open.get(site)
        hello = self._hellos.get(site)
        if channel is None and hello is not None and hello.data_address:
            try:
                credentials = load_credentials(self._keys)
            except UsageError:
                return None
            channel = self._open[site] = open_channel(hello.data_address, site, self._vo, credentials)
        return channel

    async def close(self) -> None:
        channels = list(self._open.values())
        self._open.clear()
        await asyncio.gather(*(c.close() for c in channels), *self._closing, return_exceptions=True)
