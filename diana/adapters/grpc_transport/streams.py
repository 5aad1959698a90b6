"""A gRPC stream of envelopes, seen alike from the side that dialled and from the side that was dialled."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc


class Dialled:
    """`link.Stream` over a call we made."""

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


class Served:
    """`link.Stream` over a served call."""

    def __init__(self, context: Any) -> None:
        self._context = context

    async def read(self) -> bytes | None:
        data = await self._context.read()
        return None if data is grpc.aio.EOF else data

    async def write(self, data: bytes) -> None:
        await self._context.write(data)


def host_of(peer: str) -> str:
    """gRPC's `ipv4:10.0.0.1:50000`, `ipv6:%5B::1%5D:50000` -> host."""
    return peer.partition(":")[2].rpartition(":")[0].replace("%5B", "[").replace("%5D", "]")
