"""Limits on connections, as anybody who reaches the port may connect: so many at once, and a silent one is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

MOST = 512
FIRST_S = 15.0
"""Seconds from a connection to the end of its first request's head."""


class Door:
    """`make`: a protocol for each connection that is let in."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.open: dict[Any, _Connection] = {}
        """Open connections by the protocol that answers each."""

    def opened(self) -> asyncio.Protocol:
        if len(self.open) >= MOST:
            return _Closed()
        inner = self._make()
        self.open[inner] = connection = _Connection(inner, self)
        return connection

    def heard(self, inner: Any) -> None:
        """A whole request came."""
        if inner in self.open:
            self.open[inner].in_time()


class _Connection(asyncio.Protocol):
    """Passes what comes on to the protocol that answers. Sees to it that a request comes in time, and is counted."""

    def __init__(self, inner: Any, door: Door) -> None:
        self._inner = inner
        self._door = door
        loop = asyncio.get_running_loop()
        self._late = loop.call_later(FIRST_S, self._let_go)
        self._transport: asyncio.Transport | None = None

    def in_time(self) -> None:
        self._late.cancel()

    def _let_go(self) -> None:
        if self._transport is None:
            # Its handshake never came to an end.
            self._door.open.pop(self._inner, None)
        else:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return bool(self._inner.eof_received())

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        self._door.open.pop(self._inner, None)
        self._inner.connection_lost(exc)


class _Closed(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
