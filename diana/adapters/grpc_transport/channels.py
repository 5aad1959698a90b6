"""Channels to the data services of peers, apart from the streams of envelopes, so that bulk never delays a message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import grpc

from diana.adapters.grpc_transport.book import DialTarget
from diana.engine.messages.messages import Hello
from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.wire.tls import load_credentials, open_channel

CLOSE_GRACE_S = 5.0


class DataChannels:
    """One channel per site, made when first asked for, remade when the site's run or the way to it changes."""

    def __init__(self, vo: str, keys: Path, way: Callable[[SiteId], DialTarget | None]) -> None:
        """`way`: the best one to a site now; None: there is none."""
        self._vo = vo
        self._keys = keys
        self._way = way
        self._runs: dict[SiteId, tuple[str, str]] = {}
        self._open: dict[SiteId, grpc.aio.Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def learn(self, hello: Hello) -> None:
        """Note what a linked peer says of itself now."""
        run = (hello.boot_nonce, hello.data_address)
        if self._runs.get(hello.site, run) != run:
            self.drop(hello.site)
        self._runs[hello.site] = run

    def sites(self) -> tuple[SiteId, ...]:
        """Return the sites to which a channel is open."""
        return tuple(self._open)

    def drop(self, site: SiteId) -> None:
        """Close a site's channel: the next to ask gets a new one; calls on the old one have a few seconds to end."""
        channel = self._open.pop(site, None)
        if channel is not None:
            task = asyncio.ensure_future(channel.close(CLOSE_GRACE_S))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def channel_for(self, site: SiteId) -> grpc.aio.Channel | None:
        """Return the channel to a site; None while no way there is known, or our keys cannot be read."""
        channel = self._open.get(site)
        if channel is None and (way := self._way(site)) is not None:
            try:
                credentials = load_credentials(self._keys)
            except UsageError:
                return None
            channel = self._open[site] = open_channel(way.where, site, self._vo, credentials)
        return channel

    async def close(self) -> None:
        channels = list(self._open.values())
        self._open.clear()
        await asyncio.gather(*(c.close() for c in channels), *self._closing, return_exceptions=True)
