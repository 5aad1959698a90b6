"""The receiving side of data streams: many files from one site over one framed stream, each verified as it comes.

One `fetch` is one try on one stream. The choice of the next source, and for how long, is made in `sources.py`.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import grpc

from diana.adapters.grpc.words import told
from diana.adapters.staging.limits import CHUNK_BYTES, StagingLimits
from diana.adapters.staging.paths import NotPlain
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer.pace import TransferPace
from diana.adapters.staging.transfer.parts import Mismatch, PartFile
from diana.errors import DianaError, Unreachable
from diana.model.ids import SiteId
from diana.wire.pb import data_pb2, data_pb2_grpc

ChannelFor = Callable[[SiteId], grpc.aio.Channel | None]
"""The transport's channel to a site's data service; None while it knows no way there."""
Observe = Callable[[SiteId, int, float], None]
"""Callback for each stream: site, bytes, seconds they took."""
Call = Any
"""grpc.aio.StreamStreamCall; grpc ships no types."""

_FRAME_OVERHEAD_BYTES = 256
_SMALL_FRAMES = 8
_SAID_MOST = 400
_FINAL = (
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INVALID_ARGUMENT,
)
_NO_CONNECTION = "failed to connect"
"""Beginning of gRPC's text about an address where nobody answers; the rest is for those who debug it."""


@dataclass(eq=False, slots=True)
class WantedFile:
    """One file to fetch: its reference at the source, and its part file here."""

    ref: str
    part: PartFile
    pure: bool = True
    """True while all bytes so far came from the source being asked."""


@dataclass(slots=True)
class FetchOutcome:
    """The result of one try. Files in neither list did not finish; their parts say how far they came."""

    done: list[WantedFile] = field(default_factory=list)
    refused: list[tuple[WantedFile, str]] = field(default_factory=list)
    """Files that this source cannot or may not serve, and why; asking it again is of no use."""
    spoiled: list[WantedFile] = field(default_factory=list)
    """Files of wrong content, begun elsewhere: to be asked again from the start."""
    away: dict[int, str] = field(default_factory=dict)
    """By `id` of a refused file: the machine of that site it lies on, which is away and expected back."""
    broken: str = ""
    """Reason why the stream ended early."""
    bytes_moved: int = 0


class LocalFault(DianaError):
    """A refusal by our own disk. No other source can help."""


class Blocked(LocalFault):
    """An obstacle on our own disk that stays until somebody takes it away: time mends nothing."""


_STAYS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG})
"""A link where none is followed, a file where a folder is wanted or the other way round, a name that the file system
does not take. Rights and room may be given meanwhile."""


def local_fault(text: str, fault: OSError) -> LocalFault:
    """Return the refusal of that kind, in these words."""
    return (Blocked if isinstance(fault, NotPlain) or fault.errno in _STAYS else LocalFault)(text)


class Away(Unreachable):
    """The absence of the machine of a site that holds the file: it is not in touch just now, and expected back."""

    def __init__(self, text: str, machine: str) -> None:
        super().__init__(text)
        self.machine = machine


class _Broken(Exception):
    """A fault of the peer, which does not keep to the protocol, or fell silent."""


class FileFetcher:
    def __init__(self, channel_for: ChannelFor, observe: Observe, pool: Executor, limits: StagingLimits) -> None:
        self._channel_for = channel_for
        self._observe = observe
        self._pool = pool
        self._limits = limits
        self.pace = TransferPace(limits.rate_bytes_per_s)
        self._all = asyncio.Semaphore(limits.streams)
        self._per_site: dict[SiteId, asyncio.Semaphore] = {}

    def reaches(self, site: SiteId) -> bool:
        """True if there is a channel to the site just now."""
        return self._channel_for(site) is not None

    async def fetch(self, site: SiteId, wanted: Sequence[WantedFile]) -> FetchOutcome:
        """Try once. LocalFault when the disk refuses. Parts are left closed, complete ones under their final names."""
        gate = self._per_site.setdefault(site, asyncio.Semaphore(self._limits.streams_per_site))
        async with gate, self._all:
            channel = self._channel_for(site)
            if channel is None:
                return FetchOutcome(broken=f"site {site} cannot be reached")
            await in_thread(self._pool, _prepare, wanted)
            call = _open_call(channel)
            if call is None:
                return FetchOutcome(broken=f"site {site} is dialled anew")
            stream = _Stream(site, wanted, self._pool, self._limits, self.pace)
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            try:
                return await stream.run(call)
            finally:
                if stream.result.bytes_moved:
                    self._observe(site, stream.result.bytes_moved, max(loop.time() - began_s, 1e-6))

    async def read(self, site: SiteId, ref: str, offset: int, length: int) -> AsyncIterator[bytes]:
        """Yield a single file, or a stretch of it, unverified but for what the transport proves. Unreachable says
        why not."""
        channel = self._channel_for(site)
        call = _open_call(channel) if channel is not None else None
        if call is None:
            raise Unreachable(f"{ref}: site {site} cannot be reached now; try again later")
        try:
            await call.write(data_pb2.ReadRequest(file=0, ref=ref, offset=offset, length=length))
            await call.done_writing()
            while True:
                async with asyncio.timeout(self._limits.stall_s):
                    frame = await call.read()
                if not isinstance(frame, data_pb2.ReadFrame):
                    raise Unreachable(f"{ref}: site {site} ended the stream early; try again")
                if frame.error:
                    raise Unreachable(_one_line(frame.error))
                if frame.data:
                    await self.pace.take(len(frame.data))
                    yield frame.data
                if frame.last:
                    return
                if not frame.data:
                    raise Unreachable(f"{ref}: site {site} sent nothing, and no end of it; try again")
        except (grpc.RpcError, asyncio.InvalidStateError, TimeoutError) as fault:
            raise Unreachable(f"{ref}: site {site}: {_reason(fault)}; try again") from None
        except asyncio.CancelledError:
            if _cancelled_by_us():
                raise
            raise Unreachable(f"{ref}: site {site}: the channel was closed; try again") from None
        finally:
            call.cancel()


class _Stream:
    """One call in progress: a task that asks, this one that receives, a task that brings frames to the disk."""

    def __init__(
        self, site: SiteId, wanted: Sequence[WantedFile], pool: Executor, limits: StagingLimits, pace: TransferPace
    ) -> None:
        self.result = FetchOutcome()
        self._pace = pace
        self._site = site
        self._wanted = wanted
        self._pool = pool
        self._limits = limits
        self._window = asyncio.Semaphore(limits.requests_in_flight)
        self._inbox = _Inbox(limits.buffered_chunks * CHUNK_BYTES)
        self._open = set(range(len(wanted)))
        self._asked = 0

    async def run(self, call: Call) -> FetchOutcome:
        asking = asyncio.create_task(self._ask(call))
        storing = asyncio.create_task(self._store())
        try:
            await self._receive(call, storing)
            self._inbox.close()
            await storing
            if self._open:
                raise _Broken("the stream ended early")
        except grpc.aio.AioRpcError as fault:
            await self._drain(storing)
            if fault.code() in _FINAL:
                self.result.refused += [(self._wanted[n], _reason(fault)) for n in sorted(self._open)]
            self.result.broken = f"site {self._site}: {_reason(fault)}"
        except (_Broken, TimeoutError) as fault:
            await self._drain(storing)
            self.result.broken = f"site {self._site}: {_reason(fault)}"
        finally:
            call.cancel()
            asking.cancel()
            storing.cancel()
            await asyncio.wait([asking, storing])
            await in_thread(self._pool, self._close_parts)
        return self.result

    async def _drain(self, storing: asyncio.Task[None]) -> None:
        """Keep the frames that did arrive before the stream broke."""
        self._inbox.close()
        with suppress(_Broken):
            await storing

    async def _ask(self, call: Call) -> None:
        with suppress(grpc.RpcError, asyncio.InvalidStateError):
            for number, wanted in enumerate(self._wanted):
                await self._window.acquire()
                self._asked = number + 1
                part = wanted.part
                request = data_pb2.ReadRequest(file=number, ref=wanted.ref, offset=part.offset, sha256=part.sha256)
                await call.write(request)
            await call.done_writing()

    async def _receive(self, call: Call, storing: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limits.stall_s) as patience:
                async for frame in call:
                    patience.reschedule(None)
                    self.result.bytes_moved += len(frame.data)
                    await self._pace.take(len(frame.data))
                    await self._inbox.put(frame)
                    if storing.done():
                        return
                    patience.reschedule(loop.time() + self._limits.stall_s)
        except asyncio.CancelledError:
            if _cancelled_by_us():
                raise
            raise _Broken("the channel was closed") from None

    async def _store(self) -> None:
        try:
            while frames := await self._inbox.take():
                work = [in_thread(self._pool, self._apply, share) for share in _shares(frames, self._limits.threads)]
                for outcomes in await asyncio.gather(*work, return_exceptions=True):
                    if isinstance(outcomes, BaseException):
                        raise outcomes
                    for number, outcome in outcomes:
                        self._note(number, outcome)
        finally:
            self._inbox.close()

    def _note(self, number: int, outcome: str | None) -> None:
        wanted = self._wanted[number]
        self._open.discard(number)
        self._window.release()
        if outcome is None:
            self.result.done.append(wanted)
        elif outcome:
            self.result.refused.append((wanted, outcome))
        else:
            self.result.spoiled.append(wanted)

    def _apply(self, frames: list[data_pb2.ReadFrame]) -> list[tuple[int, str | None]]:
        """Write, hash and finish, in a data thread. An outcome is None (done), a refusal, or empty (spoiled)."""
        outcomes: list[tuple[int, str | None]] = []
        over: set[int] = set()
        for frame in frames:
            if frame.file not in self._open or frame.file in over or frame.file >= self._asked:
                raise _Broken(f"sent a file nobody asked for (number {frame.file})")
            wanted = self._wanted[frame.file]
            try:
                ended, outcome = _take_frame(wanted, frame, self._site)
            except OSError as fault:
                wanted.part.discard()
                raise _local_fault(wanted, fault) from None
            if ended and frame.away:
                self.result.away[id(wanted)] = _one_line(frame.away)
            if ended:
                over.add(frame.file)
                outcomes.append((frame.file, outcome))
        return outcomes

    def _close_parts(self) -> None:
        for number in self._open:
            self._wanted[number].part.close()


def _shares(frames: list[data_pb2.ReadFrame], threads: int) -> list[list[data_pb2.ReadFrame]]:
    """Deal many small files out to threads, so that their fsyncs fall together; a file stays in one share."""
    if len(frames) < _SMALL_FRAMES:
        return [frames]
    shares: list[list[data_pb2.ReadFrame]] = [[] for _ in range(threads)]
    for frame in frames:
        shares[frame.file % threads].append(frame)
    return [share for share in shares if share]


def _open_call(channel: grpc.aio.Channel) -> Call | None:
    """Open a call. None: the transport closed the channel in the meantime; the next try gets another."""
    try:
        return data_pb2_grpc.DataStub(channel).Read()  # type: ignore[no-untyped-call]
    except grpc.aio.UsageError:
        return None


def _prepare(every: Sequence[WantedFile]) -> None:
    for wanted in every:
        try:
            wanted.part.prepare()
        except OSError as fault:
            raise _local_fault(wanted, fault) from None
        wanted.pure = not wanted.part.offset


def _local_fault(wanted: WantedFile, fault: OSError) -> LocalFault:
    text = f"cannot be written below {wanted.part.root}: {fault.strerror}; make room there or give the node the right"
    return local_fault(f"{wanted.ref}: {text}", fault)


def _take_frame(wanted: WantedFile, frame: data_pb2.ReadFrame, site: SiteId) -> tuple[bool, str | None]:
    part = wanted.part
    if frame.error:
        part.close()
        return True, _one_line(frame.error)
    if frame.offset != part.offset:
        raise _Broken(f"{wanted.ref}: sent offset {frame.offset}, {part.offset} was expected")
    if not (frame.data or frame.last):
        raise _Broken(f"{wanted.ref}: sent nothing, and no end of it")
    try:
        part.write(frame.data)
        if not frame.last:
            return False, None
        part.finish()
    except Mismatch as fault:
        part.discard()
        why = f"{wanted.ref}: {fault}; have site {site} look through it (diana datasets verify)"
        return True, why if wanted.pure else ""
    return True, None


class _Inbox:
    """Frames between network and disk, bounded in bytes; the sender is slowed down when it is full."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._frames: list[data_pb2.ReadFrame] = []
        self._bytes = 0
        self._closed = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, frame: data_pb2.ReadFrame) -> None:
        self._frames.append(frame)
        self._bytes += len(frame.data) + _FRAME_OVERHEAD_BYTES
        self._news.set()
        while self._bytes >= self._limit_bytes and not self._closed:
            self._room.clear()
            await self._room.wait()

    async def take(self) -> list[data_pb2.ReadFrame]:
        """Take all that waits; empty when closed and nothing is left."""
        while not self._frames and not self._closed:
            self._news.clear()
            await self._news.wait()
        frames, self._frames, self._bytes = self._frames, [], 0
        self._room.set()
        return frames

    def close(self) -> None:
        """End the inbox: nothing comes any more, or nobody takes any more."""
        self._closed = True
        self._news.set()
        self._room.set()


def _cancelled_by_us() -> bool:
    """True if our own side cancelled: grpc raises CancelledError as well when a channel is closed under its calls."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _one_line(text: str) -> str:
    """Make a peer's text fit to be shown."""
    return "".join(c if c.isprintable() else " " for c in text[:_SAID_MOST]).strip() or "no reason given"


def _reason(fault: BaseException) -> str:
    if isinstance(fault, grpc.aio.AioRpcError):
        if fault.code() is grpc.StatusCode.UNAVAILABLE and _NO_CONNECTION in (fault.details() or ""):
            return "it does not answer"
        return told(fault)
    if isinstance(fault, TimeoutError):
        return "nothing came for too long"
    return str(fault) or type(fault).__name__
