"""A gRPC stream of envelopes, seen alike from the side that dialled and from the side that was dialled."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import grpc

from diana.adapters.grpc.writing import write

MAX_INCOMING = 256
"""Streams served at once."""
MAX_INCOMING_OF_SITE = 8
"""Most of these streams by one site: two runs, both ways, and some that are just ending."""


class DialledStream:
    """`link.Stream` over a call we made."""

    def __init__(self, call: Any, channel: grpc.aio.Channel | None = None) -> None:
        self._call = call
        self.channel = channel

    async def read(self) -> bytes | None:
        data = await self._call.read()
        return None if data is grpc.aio.EOF else data

    async def write(self, data: bytes) -> None:
        try:
            await self._call.write(data)
        except asyncio.InvalidStateError:
            # The call ended before this write: its status says why.
            raise OSError(await self._call.details() or "the stream is closed") from None


class ServedStream:
    """`link.Stream` over a served call."""

    channel: grpc.aio.Channel | None = None
    """The other side's channel; there is none to call through from here."""

    def __init__(self, context: Any) -> None:
        self._context = context

    async def read(self) -> bytes | None:
        data = await self._context.read()
        return None if data is grpc.aio.EOF else data

    async def write(self, data: bytes) -> None:
        await write(self._context, data)


class Incoming:
    """Counts the streams served at once, those still saying hello included, so that no site takes all."""

    def __init__(self, most: int = MAX_INCOMING, most_of_site: int = MAX_INCOMING_OF_SITE) -> None:
        self._most = most
        self._most_of_site = most_of_site
        self._open: Counter[str] = Counter()

    def enter(self, site: str) -> bool:
        """True if one more stream may come; then call `leave` when it is over."""
        if self._open.total() >= self._most or self._open[site] >= self._most_of_site:
            return False
        self._open[site] += 1
        return True

    def leave(self, site: str) -> None:
        self._open[site] -= 1
        if not self._open[site]:
            del self._open[site]
