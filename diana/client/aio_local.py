"""The asyncio way to a node on this machine: JSON frames over its unix socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

from diana.client.in_threads import each
from diana.client.local import connect
from diana.client.where import SOCKET, answer_limit_s, cannot_connect, too_slow, went_away
from diana.errors import DianaError
from diana.wire import frames
from diana.wire.client.failures import error_of

Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class AsyncLocalWire:
    """Tasks may share one; each call has a connection of its own while it lasts."""

    def __init__(self, data: str) -> None:
        self._data = data
        self._idle: list[Link] = []
        self.sign = None

    async def call(self, method: str, request: object) -> Any:
        limit_s = answer_limit_s(method)
        link = await self._open()
        try:
            async with asyncio.timeout(limit_s):
                link[1].write(frames.call_frame(method, request))
                answer = frames.read_response(method, (await self._read(link)).response)
        except BaseException as error:
            raise self._broken(link, error, limit_s) from None
        self._idle.append(link)
        return answer

    async def upload(self, requests: Iterator[object]) -> None:
        link = await self._open()
        try:
            with suppress(ConnectionError):  # The node ended the call early; its frame says why.
                number = 0
                async for request in each(requests):
                    link[1].write(frames.more_frame(request) if number else frames.call_frame("Upload", request))
                    await link[1].drain()
                    number += 1
                link[1].write(frames.end_frame())
            await self._read(link)
        except BaseException as error:
            raise self._broken(link, error, None) from None
        self._idle.append(link)

    async def stream(self, method: str, request: object) -> AsyncIterator[Any]:
        """Closing the generator early closes the connection, which ends the work at the node."""
        link = await self._open()
        try:
            link[1].write(frames.call_frame(method, request))
            while not (answer := await self._read(link)).end:
                yield frames.read_response(method, answer.response)
        except BaseException as error:
            raise self._broken(link, error, None) from None
        self._idle.append(link)

    async def close(self) -> None:
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _open(self) -> Link:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        try:
            link = await asyncio.to_thread(connect, os.path.join(self._data, SOCKET))
        except OSError as error:
            raise cannot_connect(self._data, error) from None
        link.setblocking(False)
        return await asyncio.open_unix_connection(sock=link, limit=1 << 18)

    async def _read(self, link: Link) -> frames.FromNode:
        length = frames.frame_length(await link[0].readexactly(frames.HEADER_BYTES))
        try:
            answer = frames.read_from_node(await link[0].readexactly(length))
        except ValueError as error:
            raise DianaError(f"the node at {self._data} answered what is no frame of diana's: {error}") from None
        if answer.failure is not None:
            raise error_of(answer.failure)
        return answer

    def _broken(self, link: Link, error: BaseException, limit_s: float | None) -> BaseException:
        """The connection is closed, because the state of its framing is unknown; what the caller gets to see."""
        link[1].close()
        if isinstance(error, TimeoutError) and limit_s is not None:
            return too_slow(self._data, limit_s)
        if isinstance(error, (ConnectionError, asyncio.IncompleteReadError)):
            return went_away(self._data)
        return error
