"""The ends of a tunnel, a socket or a gRPC call, and the join that carries bytes between two of them.

A tunnel holds one piece per direction and what gRPC's and the kernel's windows hold: a writer that cannot go on
stops its reader. TLS runs inside from end to end, so that nothing here can read, let alone change, what passes
unnoticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

import grpc

from diana.adapters.tasks import end
from diana.wire.pb import relay_pb2

PIECE_BYTES = 64 << 10
IDLE_S = 120.0
"""Seconds without a byte after which a tunnel is closed; the connection inside sends keepalive every few seconds."""

BREAKS = (grpc.RpcError, grpc.aio.BaseError, OSError, asyncio.InvalidStateError, TimeoutError)
"""Errors by which an end breaks when the other side or the network ends it."""


class NoWay(Exception):
    """The reason, on one line, why the target cannot be reached from here."""


class TunnelEnd(Protocol):
    async def read(self) -> bytes:
        """The next piece; empty at the end."""
        ...

    async def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class SocketEnd:
    """A connection over TCP or a local socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(PIECE_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


class CallEnd:
    """A Carry call we made, after its first answer."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def read(self) -> bytes:
        return _data_of(await self._call.read())

    async def write(self, data: bytes) -> None:
        await self._call.write(relay_pb2.Chunk(data=data))

    def close(self) -> None:
        self._call.cancel()


class ServedEnd:
    """A Carry call we serve, after its first request. Its handler waits for `closed`: its return ends the call."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.closed = asyncio.Event()

    async def read(self) -> bytes:
        return _data_of(await self._context.read())

    async def write(self, data: bytes) -> None:
        await self._context.write(relay_pb2.Chunk(data=data))

    def close(self) -> None:
        self.closed.set()


def _data_of(chunk: Any) -> bytes:
    """Return the bytes of a chunk. An empty piece would be an end: those who send one end their tunnel."""
    return b"" if chunk is grpc.aio.EOF else bytes(chunk.data)


async def join(one: TunnelEnd, other: TunnelEnd, idle_s: float = IDLE_S) -> None:
    """Carry bytes both ways until either end ends or breaks, or nothing came for long; both are closed then."""
    clock = asyncio.get_running_loop().time
    last_s = [clock()]

    async def copy(read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]) -> None:
        with suppress(*BREAKS):
            while data := await read():
                last_s[0] = clock()
                await write(data)
                last_s[0] = clock()

    async def watch() -> None:
        while (left_s := last_s[0] + idle_s - clock()) > 0:
            await asyncio.sleep(left_s)

    tasks = [
        asyncio.create_task(copy(one.read, other.write)),
        asyncio.create_task(copy(other.read, one.write)),
        asyncio.create_task(watch()),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(*tasks)
        one.close()
        other.close()


async def connect(address: str, within_s: float = 5.0) -> SocketEnd:
    """Connect to host:port. OSError or TimeoutError when nobody answers."""
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(within_s):
        return SocketEnd(*await asyncio.open_connection(host.strip("[]"), int(port)))
