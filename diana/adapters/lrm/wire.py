"""The node's end of the spawner's socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from diana.adapters.lrm.spawner.protocol import Frames, Message, frame


class Wire(asyncio.Protocol):
    """Messages in through a callable, out through `send`; `lost` is done when the connection is gone."""

    def __init__(self, on_message: Callable[[Wire, Message], None]) -> None:
        self._on_message = on_message
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @staticmethod
    async def over(sock: socket.socket, on_message: Callable[[Wire, Message], None]) -> Wire:
        sock.setblocking(False)
        _, wire = await asyncio.get_running_loop().create_unix_connection(lambda: Wire(on_message), sock=sock)
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                self._on_message(self, message)
        except ValueError:
            # msgspec's errors are ValueErrors; a new connection begins with a new inventory.
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def send(self, message: Message) -> None:
        """Buffered; bounded by what the engine feeds the LRM."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(message))

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close the connection after all that was sent has left."""
        if self._transport is not None:
            self._transport.close()
            await self.lost
