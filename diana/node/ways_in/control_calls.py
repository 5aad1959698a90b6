"""One local connection: frames in, calls to the Api, frames out, within bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from diana.errors import DianaError, UsageError
from diana.model.trust.principal import Principal
from diana.node.api.service import Api
from diana.wire.client.failures import failure_of
from diana.wire.client.messages import METHODS, Failure
from diana.wire.frames import (
    HEADER_BYTES,
    VERSION,
    FromClient,
    end_frame,
    failure_frame,
    frame_length,
    read_from_client,
    read_request,
    response_frame,
)

_log = logging.getLogger(__name__)


class ByteBudget:
    """Large frames in hand, all connections together."""

    def __init__(self, most_bytes: int) -> None:
        self._free = most_bytes
        self._freed = asyncio.Condition()

    async def take(self, count: int) -> None:
        async with self._freed:
            await self._freed.wait_for(lambda: self._free >= count)
            self._free -= count

    async def give(self, count: int) -> None:
        async with self._freed:
            self._free += count
            self._freed.notify_all()


class Limits:
    """Bounds of a control server. Times are seconds of the event loop."""

    def __init__(
        self,
        *,
        connections: int = 256,
        connections_per_uid: int = 192,
        frame_s: float = 20.0,
        idle_s: float = 600.0,
        unread_s: float = 60.0,
        large_bytes: int = 64 << 20,
        large_from_bytes: int = 1 << 16,
    ) -> None:
        self.connections = connections
        self.connections_per_uid = connections_per_uid
        self.frame_s = frame_s
        """Seconds from a frame's first byte to its last."""
        self.idle_s = idle_s
        """Seconds between two calls."""
        self.unread_s = unread_s
        """An answer the client does not read ends the connection after this."""
        self.large_from_bytes = large_from_bytes
        self.large = ByteBudget(large_bytes)


class Broken(Exception):
    """The client broke the framing: it is told why, then the connection ends."""


class Conversation:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        api: Api,
        caller: Principal,
        limits: Limits,
        where: str = "",
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._api = api
        self._caller = caller
        self._limits = limits
        self._where = where
        self._early = b""
        """A byte of the next call, read while a stream was watched for the client's going away."""
        self.working = False
        """True while in a call with one answer, which may change something."""

    async def run(self) -> None:
        """Calls in turn until the client leaves or breaks the rules."""
        while True:
            try:
                first = await self._next(self._limits.idle_s)
                if first is None:
                    return
                if not await self._answer(first):
                    return
            except Broken as error:
                with suppress(OSError, TimeoutError):
                    await self._send(failure_frame(Failure(code="usage", text=str(error))))
                return

    async def _next(self, wait_s: float) -> FromClient | None:
        """The next frame; None when the client has left, or said nothing for `wait_s`."""
        try:
            async with asyncio.timeout(wait_s):
                head = self._early or await self._reader.read(1)
        except TimeoutError:
            return None
        self._early = b""
        if not head:
            return None
        try:
            async with asyncio.timeout(self._limits.frame_s):
                head += await self._reader.readexactly(HEADER_BYTES - 1)
                return await self._payload(head)
        except TimeoutError:
            raise Broken(f"half a frame, and no more for {self._limits.frame_s:g} s") from None
        except asyncio.IncompleteReadError:
            return None

    async def _payload(self, head: bytes) -> FromClient:
        large = 0
        try:
            length = frame_length(head)
            if length >= self._limits.large_from_bytes:
                await self._limits.large.take(length)
                large = length
            return read_from_client(await self._reader.readexactly(length))
        except ValueError as error:
            raise Broken(f"not a frame of diana's: {error}") from None
        finally:
            if large:
                await self._limits.large.give(large)

    async def _answer(self, first: FromClient) -> bool:
        """Answer one whole call. False: the connection cannot go on."""
        method = METHODS.get(first.method)
        if first.version > VERSION:
            raise Broken(f"socket version {first.version}: this node speaks {VERSION}; upgrade the node")
        if method is None:
            raise Broken(f"call {first.method!r}: this node does not know it; its release may be older than yours")
        try:
            request = _read(first.method, first.request)
            if method.streams_out:
                return await self._stream(first.method, request)
            argument = self._requests(first.method, request) if method.streams_in else request
            self.working = True
            response = await self._api.call(self._caller, first.method, argument, self._where)
            await self._send(response_frame(response))
            return True
        except DianaError as error:
            await self._send(failure_frame(failure_of(error)))
        except (Broken, ConnectionError, TimeoutError):
            raise
        except Exception as error:
            _log.exception("call %s of %s failed", first.method, self._caller.name)
            text = f"{first.method} failed in the node ({type(error).__name__}); its log says more"
            await self._send(failure_frame(Failure(code="internal", text=text)))
        finally:
            self.working = False
        # What is left of a streamed request cannot be told from the next call.
        return not method.streams_in

    async def _requests(self, method: str, first: object) -> AsyncIterator[Any]:
        yield first
        while True:
            more = await self._next(self._limits.frame_s)
            if more is None:
                raise Broken(f"{method}: the request stopped before its end")
            if more.end:
                return
            yield _read(method, more.request)

    async def _stream(self, method: str, request: object) -> bool:
        """Send until the stream ends or the client goes away; then the work behind it ends too."""
        sending = asyncio.create_task(self._send_all(method, request))
        left = asyncio.create_task(self._reader.read(1))
        try:
            await asyncio.wait((sending, left), return_when=asyncio.FIRST_COMPLETED)
            if left.done() and not sending.done():
                data = left.result()
                if data:
                    raise Broken(f"{method}: a frame before the answer's end")
                return False
            await sending
            return True
        finally:
            await _ended(sending)
            self._early = await _ended(left) or b""

    async def _send_all(self, method: str, request: object) -> None:
        async with aclosing(self._api.stream(self._caller, method, request, self._where)) as responses:
            async for response in responses:
                await self._send(response_frame(response))
        await self._send(end_frame())

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        async with asyncio.timeout(self._limits.unread_s):
            await self._writer.drain()


def _read(method: str, raw: msgspec.Raw) -> Any:
    try:
        return read_request(method, raw)
    except ValueError as error:
        raise UsageError(f"{method}: {error}") from None


async def _ended(task: asyncio.Task[Any]) -> Any:
    """Cancel `task` if it runs; its result, or None. Its exception is the caller's to have seen."""
    if not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
    if task.cancelled() or task.exception() is not None:
        return None
    return task.result()
