"""The sending side of data streams: `Data.Read`, many files over one stream, in the order they were asked.

Disk work runs on data threads, one chunk ahead of the wire. Small files are answered in batches, so that thousands
of them cost few hops between event loop and threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple

import grpc

from diana.adapters.staging.catalogue.holdings import UNKNOWN_BYTES, Content, DataReader, LocalData, NotHere, changed
from diana.adapters.staging.limits import CHUNK_BYTES, StagingLimits
from diana.adapters.staging.outputs.beside import Forwarded
from diana.adapters.staging.transfer.client import Away
from diana.adapters.staging.transfer.pace import TransferPace
from diana.errors import DianaError
from diana.wire.pb import data_pb2, data_pb2_grpc

Context = Any
"""grpc.aio.ServicerContext; grpc ships no types."""
Identify = Callable[[Context], DataReader]
"""Function from a call's context to the caller's identity, as the transport proved it."""

_REQUESTS_WAITING = 1024
_FRAMES_PER_BATCH = 256
_REF_MOST = 4096
_SHA256_MOST = 65
"""Most characters of a hash that are kept; no valid one is as long: cut, they are still refused, and waiting
requests stay small whatever a peer sends."""


class DataService(data_pb2_grpc.DataServicer):
    """Serves this site's holdings. Add it to a server with `data_pb2_grpc.add_DataServicer_to_server`."""

    def __init__(self, holdings: LocalData, pool: Executor, identify: Identify, limits: StagingLimits) -> None:
        self._holdings = holdings
        self._pool = pool
        self._identify = identify
        self._limits = limits
        self.pace = TransferPace(limits.rate_bytes_per_s)
        self._streams: Counter[DataReader] = Counter()

    async def Read(self, request_iterator: AsyncIterator[data_pb2.ReadRequest], context: Context) -> None:
        reader = self._identify(context)
        limits, mine = self._limits, self._streams[reader]
        if mine >= limits.serving_streams_per_reader or self._streams.total() >= limits.serving_streams:
            text = f"site {self._holdings.site} serves {self._streams.total()} data streams, {mine} of them yours; wait"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._streams[reader] += 1
        answers = _Answers(self._holdings, reader)
        asking = asyncio.create_task(answers.take(request_iterator))
        try:
            async with aclosing(self._batches(answers)) as batches:
                async for batch in batches:
                    for frame in batch:
                        await self.pace.take(len(frame.data))
                        await context.write(frame)
        except grpc.aio.InternalError:
            # The reader is gone, killed perhaps. Left to grpc, that would be a traceback in the node's log.
            raise asyncio.CancelledError from None
        finally:
            self._streams -= Counter((reader,))
            asking.cancel()
            await asyncio.wait([asking])
            if not asking.cancelled():
                asking.exception()
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._pool, answers.close))

    async def _batches(self, answers: _Answers) -> AsyncGenerator[list[data_pb2.ReadFrame], None]:
        """Frames as threads make them; the next batch is being read while one is sent."""
        ahead: asyncio.Task[list[data_pb2.ReadFrame]] | None = None
        try:
            while True:
                if ahead is None:
                    if not await answers.wait():
                        return
                    ahead = asyncio.create_task(answers.frames(self._pool))
                batch = await ahead
                ahead = asyncio.create_task(answers.frames(self._pool)) if answers.more() else None
                yield batch
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.wait([ahead])


class _Request(NamedTuple):
    """The fields of a request that are kept while it waits."""

    file: int
    ref: str
    offset: int
    length: int
    sha256: str


class _Answers:
    """One stream's requests, and the frames that answer them. `pull` and `close` belong to a data thread, one at a
    time, all else to the event loop."""

    def __init__(self, holdings: LocalData, reader: DataReader) -> None:
        self._holdings = holdings
        self._reader = reader
        self._asked: deque[_Request] = deque()
        self._current: _Sending | None = None
        self._lock = threading.Lock()
        self._ended = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._closed = False

    async def take(self, requests: AsyncIterator[data_pb2.ReadRequest]) -> None:
        """Queue what is asked, a bounded number ahead of the answers."""
        try:
            async for asked in requests:
                ref, sha256 = asked.ref[:_REF_MOST], asked.sha256[:_SHA256_MOST]
                self._asked.append(_Request(asked.file, ref, asked.offset, asked.length, sha256))
                self._news.set()
                while len(self._asked) >= _REQUESTS_WAITING:
                    self._room.clear()
                    await self._room.wait()
        finally:
            self._ended = True
            self._news.set()

    def more(self) -> bool:
        self._room.set()
        return bool(self._asked) or self._current is not None

    async def wait(self) -> bool:
        """Wait until there is something to answer; False when nothing will come any more."""
        while not self.more():
            if self._ended:
                return False
            self._news.clear()
            await self._news.wait()
        return True

    async def frames(self, pool: Executor) -> list[data_pb2.ReadFrame]:
        """As `pull`; a file at another machine is waited for here, and holds up no data thread."""
        loop = asyncio.get_running_loop()
        while not (frames := await loop.run_in_executor(pool, self.pull)) and self._current is not None:
            await self._current.bring()
        return frames

    def pull(self) -> list[data_pb2.ReadFrame]:
        """Return at most about a chunk's worth of frames, none while the next has to be brought; blocks on the disk."""
        frames: list[data_pb2.ReadFrame] = []
        room = CHUNK_BYTES
        with self._lock:
            while not self._closed and room > 0 and len(frames) < _FRAMES_PER_BATCH:
                if self._current is None:
                    if not self._asked:
                        break
                    self._current = _Sending(self._asked.popleft(), self._holdings, self._reader)
                if (frame := self._current.next_frame(room)) is None:
                    break
                frames.append(frame)
                room -= len(frame.data)
                if frame.last:
                    self._current.close()
                    self._current = None
        return frames

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._current is not None:
                self._current.close()
                self._current = None


class _Sending:
    """One requested file on its way out. Opening it is part of the first frame, so that an error is a frame too."""

    def __init__(self, request: _Request, holdings: LocalData, reader: DataReader) -> None:
        self._ref = request.ref
        self._open = partial(holdings.open, request.ref, reader, request.sha256)
        self._site = holdings.site
        self._number = request.file
        self._at = request.offset
        self._length = request.length
        self._stop = 0
        self._file: Content | None = None

    async def bring(self) -> None:
        """Bring the bytes that `next_frame` lacked."""
        if isinstance(self._file, Forwarded):
            await self._file.bring(self._at)

    def next_frame(self, room: int) -> data_pb2.ReadFrame | None:
        """Return the next frame; None: not before `bring`."""
        try:
            file = self._file or self._begin()
            if isinstance(file, Forwarded) and file.lacks:
                return None
            data = file.read(min(self._stop - self._at, max(room, 1)), self._at)
            last = self._at + len(data) >= self._stop or (not data and file.size_bytes == UNKNOWN_BYTES)
            if not last and not data:
                raise changed(self._ref, self._site)
            if last and not file.same():
                raise changed(self._ref, self._site)
            frame = data_pb2.ReadFrame(
                file=self._number, offset=self._at, data=data, last=last, sha256=file.sha256 if last else ""
            )
            self._at += len(data)
            return frame
        except DianaError as refusal:
            away = refusal.machine if isinstance(refusal, Away) else ""
            return data_pb2.ReadFrame(file=self._number, offset=self._at, last=True, error=str(refusal), away=away)
        except OSError as fault:
            text = f"{self._ref}: {fault.strerror} at site {self._site}"
            return data_pb2.ReadFrame(file=self._number, offset=self._at, last=True, error=text)

    def _begin(self) -> Content:
        file = self._file = self._open()
        if self._at > file.size_bytes:
            raise NotHere(f"{self._ref}: shorter than {self._at} bytes at site {self._site}")
        stop = file.size_bytes if not self._length else min(file.size_bytes, self._at + self._length)
        self._stop = stop
        return file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
