"""One established stream to a peer, the same on the side that dialled and on the side that was dialled.

Memory is bounded both ways: messages that wait to be written by `QUEUE_BYTES` (the newest is dropped, the engine
resends what matters), messages that were read by the driver's inbox, whose `Overloaded` becomes a Retry to the
sender.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

import grpc
import msgspec
from google.protobuf.message import DecodeError

from diana.adapters.grpc import pacing
from diana.adapters.grpc.pacing import PeerPace
from diana.engine.messages.messages import (
    Gossip,
    Hello,
    Message,
    Prepare,
    QueueRequest,
    QuoteRequest,
    Retry,
    Summary,
)
from diana.engine.messages.migration import RoomRequest
from diana.errors import Overloaded
from diana.model.ids import SiteId
from diana.wire import BadMessage, peer_codec
from diana.wire.pb import peer_pb2

QUEUE_BYTES = 8 << 20
IN_USE_S = 60.0
"""Seconds for which a link counts as in use after the last message that was more than small talk."""
MOST_TOLD = 300
"""Characters told of an envelope that was ignored."""
MAX_PAUSE_S = 10.0
"""Most seconds for which a peer may silence us with one Retry."""

SMALL_TALK = (Summary, Gossip)
"""Messages told on every stream that stands, and no reason to keep one."""

ANSWERS_TO: dict[type, float] = {
    QuoteRequest: 1,
    RoomRequest: 1,
    QueueRequest: 1,
    # From the call for it to the word of its end.
    Prepare: 8,
}
"""Message to a peer -> number of messages by which the peer answers it. These are no part of its pace: else whoever has
this site ask much would have all answers wait. Only what no peer can have repeated at will stands here, for each of
them makes room."""

_ENDINGS = (grpc.RpcError, grpc.aio.BaseError, OSError, asyncio.InvalidStateError)
"""Errors by which streams end when the other side or the network ends them."""

_log = logging.getLogger("diana.peers")


class Counters(msgspec.Struct):
    """Counters of what went wrong on peer streams since start, for metrics and `diana info`."""

    bad_envelopes: int = 0
    """Garbage, or an envelope that names another sender or receiver than the stream's."""
    dropped_unlinked: int = 0
    dropped_full: int = 0
    dropped_unreached: int = 0
    """Messages that waited for a stream that could not be had in time."""
    slowed: int = 0
    """Times that a peer's stream was read no further for a while, because it sent too much."""
    retries_sent: int = 0
    retries_received: int = 0
    refused_peers: int = 0
    failed_dials: int = 0


class Stream(Protocol):
    """A gRPC stream seen from either side."""

    channel: grpc.aio.Channel | None
    """The channel it runs over, where this side dialled."""

    async def read(self) -> bytes | None:
        """The next envelope; None at the end."""
        ...

    async def write(self, data: bytes) -> None: ...


class PeerLink:
    """A stream whose Hellos have been exchanged and checked."""

    def __init__(
        self,
        *,
        own: Hello,
        peer: Hello,
        dialler: SiteId,
        stream: Stream,
        deliver: Callable[[SiteId, Message], None],
        counters: Counters,
        pace: PeerPace,
        note_word: Callable[[SiteId, str], None],
        tunnel: bool = False,
    ) -> None:
        """`dialler`: the site that made the stream. `pace`: of all streams of the peer. `note_word` hears of what
        cannot be true. `tunnel`: through a neighbour, as far as this side knows."""
        self.peer = peer
        self.dialler = dialler
        self.tunnel = tunnel
        self.peer_keeps = True
        """True while the peer wants the stream to stand when nothing is sent; it says so when not."""
        self.used_s = asyncio.get_running_loop().time()
        """Time at which it last carried more than small talk, either way."""
        self._own = own
        self._stream = stream
        self._deliver = deliver
        self._counters = counters
        self._pace = pace
        self._note_word = note_word
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._closed = asyncio.Event()
        self._paused_until_s = 0.0
        self._retry_again_s = 0.0
        self._keeps = True
        self._keeps_told = True

    def keep(self, keeps: bool) -> None:
        """Set whether this side wants the stream to stand when nothing is sent; the peer is told of a change."""
        self._keeps = keeps
        self._wake.set()

    def unwanted_for_s(self, now_s: float) -> float:
        """Return the seconds for which nothing was sent on a stream that neither side wants; 0 while one does."""
        return 0.0 if self._keeps or self.peer_keeps else now_s - self.used_s

    def in_use(self) -> bool:
        """True if work went over it a little while ago, or it stands no longer than that."""
        return asyncio.get_running_loop().time() - self.used_s < IN_USE_S

    def spare_channel(self) -> grpc.aio.Channel | None:
        """Return a channel for calls that are small and few; None where the peer dialled."""
        return self._stream.channel

    def offer(self, payload: bytes, *, small_talk: bool = False) -> bool:
        """Queue a payload; False when the queue is full."""
        if not small_talk:
            self.used_s = asyncio.get_running_loop().time()
        if self._queued_bytes + len(payload) > QUEUE_BYTES:
            self._counters.dropped_full += 1
            return False
        self._queue.append(payload)
        self._queued_bytes += len(payload)
        self._wake.set()
        return True

    def say(self, message: Message, payload: bytes) -> None:
        """Queue the payload of a message, and expect what answers it."""
        if self.offer(payload, small_talk=isinstance(message, SMALL_TALK)):
            self._pace.expect(ANSWERS_TO.get(type(message), 0))

    def drain(self) -> Iterable[bytes]:
        """Take what waits, for the link that replaces this one."""
        waiting = list(self._queue)
        self._queue.clear()
        self._queued_bytes = 0
        return waiting

    def close(self) -> None:
        """End `run` soon."""
        self._closed.set()

    async def run(self) -> None:
        """Carry envelopes both ways until the stream ends, breaks or `close` is called. Raises nothing."""
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(self._read_all()),
            asyncio.create_task(self._write_all()),
            asyncio.create_task(self._closed.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, _ENDINGS):
                    _log.debug("stream with %s ended: %s", self.peer.site, outcome)
                elif isinstance(outcome, Exception):
                    _log.error("stream with %s broke on a fault of ours", self.peer.site, exc_info=outcome)

    async def _write_all(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            while not self._queue and self._keeps == self._keeps_told:
                self._wake.clear()
                await self._wake.wait()
            if self._keeps != self._keeps_told:
                self._keeps_told = self._keeps
                await self._stream.write(wish(self._own, self.peer.site, self._keeps, self._version()))
            while (pause_s := self._paused_until_s - clock()) > 0:
                await asyncio.sleep(pause_s)
            if self._queue:
                payload = self._queue.popleft()
                self._queued_bytes -= len(payload)
                await self._stream.write(envelope(self._own, self.peer.site, payload, self._version()))

    def _version(self) -> int:
        return min(self._own.protocol, self.peer.protocol)

    async def _read_all(self) -> None:
        clock = asyncio.get_running_loop().time
        while (data := await self._stream.read()) is not None:
            wait_s = self._pace.charge(len(data), clock())
            if wait_s > 0:
                self._counters.slowed += 1
                self._ask_later(wait_s)
                # Reading on is what the peer waits for, once its window is full.
                await pacing.wait(self._pace, wait_s, clock)
            try:
                outer = open_outer(data, sender=self.peer.site, receiver=self._own.site)
                if outer.HasField("kept"):
                    self.peer_keeps = outer.kept
                    continue
                message = peer_codec.decode_message(outer.payload)
                if isinstance(message, Retry):
                    self._pause(message.after_s)
                elif isinstance(message, Hello):
                    raise BadMessage("a second Hello")
                else:
                    self._take(message)
            except BadMessage as error:
                self._count_bad(error)

    def _take(self, message: Message) -> None:
        if self._closed.is_set():
            # Another boot of the peer may have been told of since: no word of the former one counts any more.
            return
        if not isinstance(message, SMALL_TALK):
            self.used_s = asyncio.get_running_loop().time()
        try:
            self._deliver(self.peer.site, message)
        except Overloaded as error:
            self._ask_later(error.retry_after_s)

    def _ask_later(self, after_s: float) -> None:
        """Tell the peer to pause. One Retry speaks for all that is dropped or waits until it lapses."""
        now_s = asyncio.get_running_loop().time()
        retry = Retry(after_s=after_s)
        if now_s >= self._retry_again_s and self.offer(peer_codec.encode_message(retry), small_talk=True):
            self._retry_again_s = now_s + after_s
            self._counters.retries_sent += 1

    def _pause(self, after_s: float) -> None:
        self._counters.retries_received += 1
        until_s = asyncio.get_running_loop().time() + min(max(after_s, 0.0), MAX_PAUSE_S)
        self._paused_until_s = max(self._paused_until_s, until_s)

    def _count_bad(self, error: BadMessage) -> None:
        self._counters.bad_envelopes += 1
        self._note_word(self.peer.site, str(error)[:MOST_TOLD])
        level = logging.WARNING if self._counters.bad_envelopes <= 10 else logging.DEBUG
        _log.log(level, "ignored an envelope from %s: %.300s", self.peer.site, error)


def envelope(own: Hello, receiver: str, payload: bytes, version: int) -> bytes:
    data: bytes = peer_pb2.Envelope(
        version=version, sender=own.site, receiver=receiver, generation=own.generation, payload=payload
    ).SerializeToString()
    return data


def wish(own: Hello, receiver: str, kept: bool, version: int) -> bytes:
    """Make an envelope without payload: it tells whether its sender wants the stream to stand when nothing is sent."""
    data: bytes = peer_pb2.Envelope(
        version=version, sender=own.site, receiver=receiver, generation=own.generation, kept=kept
    ).SerializeToString()
    return data


def open_outer(data: bytes, *, sender: str | None, receiver: str) -> peer_pb2.Envelope:
    """Decode an envelope. BadMessage when it is garbage or not from `sender` (None: not known yet) to `receiver` (an
    envelope that names nobody is for whoever gets it)."""
    try:
        outer = peer_pb2.Envelope.FromString(data)
    except DecodeError:
        raise BadMessage("not an Envelope of protobuf") from None
    if sender is not None and outer.sender != sender:
        raise BadMessage(f"it names {outer.sender[:80]!r} as its sender")
    if outer.receiver not in ("", receiver):
        raise BadMessage(f"it is for {outer.receiver[:80]!r}")
    return outer


async def read_hello(stream: Stream, own: Hello) -> Hello:
    """Read the first message of a stream. BadMessage when it is anything but a Hello."""
    data = await stream.read()
    if data is None:
        raise BadMessage("the stream ended before a Hello")
    message = peer_codec.decode_message(open_outer(data, sender=None, receiver=own.site).payload)
    if not isinstance(message, Hello):
        raise BadMessage(f"the first message is a {type(message).__name__}, not a Hello")
    return message
