"""The stream between the two machines that keep one site's journal: whole messages, in order, both ways.

One side dials (the machine made as the standby), whoever leads. There is one stream at most: a newer one takes the
place of an older, which may be half dead. Messages that wait to be written are bounded; beyond that the stream is
closed, and the machine of replicas finds out what the other has when the next one stands.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import grpc

from diana.adapters.grpc.words import told
from diana.adapters.grpc.writing import write
from diana.errors import DianaError
from diana.wire.pb import replica_pb2
from diana.wire.tls import load_credentials, open_channel, peer_identity

VERSION = 1
"""Version of the messages, as hellos tell it."""
PART_BYTES = 1 << 20
MOST_MESSAGE_BYTES = 512 << 20
QUEUE_BYTES = 128 << 20
"""Most bytes that wait to be written; more ends the stream."""
REDIAL_S = (0.1, 0.4)

_log = logging.getLogger("diana.standby")


class Ears(Protocol):
    """The receiver of what a link hears."""

    def other_up(self, hello: Any) -> None:
        """A stream stands. `hello`: the other's ReplicaHello; called again when a newer stream takes its place."""
        ...

    def other_said(self, payload: bytes) -> None: ...

    def other_gone(self) -> None: ...


class ReplicaLink:
    """`say` while it is up; `attach` for the side that is dialled, `dial` for the side that dials."""

    def __init__(
        self,
        *,
        site: str,
        vo: str,
        keys: Path,
        hello: Callable[[], Any],
        ears: Ears,
        rng: random.Random,
        other: Callable[[], str] = lambda: "",
    ) -> None:
        """`hello` makes this machine's ReplicaHello. `other`: the only machine that is spoken to; empty: any."""
        self._other = other
        self._site = site
        self._vo = vo
        self._keys = keys
        self._hello = hello
        self._ears = ears
        self._rng = rng
        self._now: _Stream | None = None
        self._said = ""

    @property
    def up(self) -> bool:
        return self._now is not None

    def say(self, payload: bytes) -> None:
        """Send a message, in order; it is lost when no stream stands, or with the one that stands."""
        if self._now is not None and not self._now.offer(payload):
            _log.warning("the other machine does not keep up; its stream is closed")
            self.drop()

    def drop(self) -> None:
        """End the stream that stands."""
        if self._now is not None:
            self._now.close()

    # --- dialled --------------------------------------------------------------------------------------

    def attach(self, server: grpc.aio.Server) -> None:
        """Serve the stream; before the server starts."""
        handler = grpc.stream_stream_rpc_method_handler(
            self._serve, replica_pb2.ReplicaFrame.FromString, replica_pb2.ReplicaFrame.SerializeToString
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("diana.v1.Replica", {"Stream": handler}),)
        )

    async def _serve(self, requests: AsyncIterator[Any], context: Any) -> None:
        await of_this_site(context, self._site, self._vo)
        first = await anext(requests, None)
        why = self._why_not(first)
        if not why or not self._is_third(first):
            # The other judges version and name too; a third machine would take a hello for a welcome.
            await write(context, replica_pb2.ReplicaFrame(hello=self._hello()))
        if why:
            self._refused(why)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)
        assert first is not None
        await self._carry(_Stream(requests, partial(write, context)), first.hello)

    # --- dialling -------------------------------------------------------------------------------------

    async def dial(self, addresses: Callable[[], Sequence[str]]) -> None:
        """Keep trying the addresses in turn, until cancelled."""
        turn = 0
        while True:
            # Both know where the other is, and each stream ends the one before: whoever is dialled does not dial.
            known = addresses() if self._now is None else ()
            if known:
                address = known[turn % len(known)]
                turn += 1
                try:
                    await self._talk(address)
                    turn -= 1
                except (grpc.aio.AioRpcError, OSError, DianaError) as error:
                    why = told(error) if isinstance(error, grpc.aio.AioRpcError) else str(error)
                    if why != self._said:
                        self._said = why
                        _log.info("the other machine at %s: %s", address, why)
            await asyncio.sleep(self._rng.uniform(*REDIAL_S))

    async def _talk(self, address: str) -> None:
        channel = open_channel(address, self._site, self._vo, load_credentials(self._keys))
        try:
            call = channel.stream_stream(
                "/diana.v1.Replica/Stream",
                request_serializer=replica_pb2.ReplicaFrame.SerializeToString,
                response_deserializer=replica_pb2.ReplicaFrame.FromString,
            )()
            await call.write(replica_pb2.ReplicaFrame(hello=self._hello()))
            frames = call.__aiter__()
            first = await anext(frames, None)
            if why := self._why_not(first):
                self._refused(why)
                return
            assert first is not None
            self._said = ""
            try:
                await self._carry(_Stream(frames, call.write), first.hello)
            finally:
                call.cancel()
        finally:
            await channel.close()

    # --- both -----------------------------------------------------------------------------------------

    def _why_not(self, first: Any) -> str:
        if first is None or not first.HasField("hello"):
            return "the other machine's stream does not begin with a hello"
        own, other = self._hello(), first.hello
        if other.version != own.version:
            return (
                f"{other.machine} ({other.release[:40]}) speaks version {other.version} of replicas, "
                f"this machine {own.version}; upgrade both"
            )
        if self._is_third(first):
            return (
                f"{self._site}'s two machines that lead it are {own.machine} and {self._other()}, not {other.machine}; "
                "a site has one standby"
            )
        if other.machine == own.machine:
            return f"both machines of {self._site} are called {own.machine}; set another machine in one's site.toml"
        return ""

    def _is_third(self, first: Any) -> bool:
        return first is not None and self._other() not in ("", first.hello.machine)

    def _refused(self, why: str) -> None:
        if why != self._said:
            self._said = why
            _log.warning("refused: %s", why)

    async def _carry(self, stream: _Stream, hello: Any) -> None:
        if self._now is not None:
            self._now.close()
        self._now = stream
        self._ears.other_up(hello)
        try:
            await stream.run(lambda payload: self._ears.other_said(payload) if self._now is stream else None)
        finally:
            if self._now is stream:
                self._now = None
                self._ears.other_gone()


class _Stream:
    def __init__(self, frames: AsyncIterator[Any], write: Callable[[Any], Any]) -> None:
        self._frames = frames
        self._write = write
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()
        self._closed = asyncio.Event()

    def offer(self, payload: bytes) -> bool:
        if self._queued_bytes + len(payload) > QUEUE_BYTES:
            return False
        self._queue.append(payload)
        self._queued_bytes += len(payload)
        self._wake.set()
        return True

    def close(self) -> None:
        self._closed.set()

    async def run(self, heard: Callable[[bytes], None]) -> None:
        """Run until the stream ends, breaks or is closed."""
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(self._read_all(heard)),
            asyncio.create_task(self._write_all()),
            asyncio.create_task(self._closed.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception) and not isinstance(
                    outcome, grpc.RpcError | grpc.aio.BaseError | OSError | asyncio.InvalidStateError
                ):
                    _log.error("the stream to the other machine broke on a fault of ours", exc_info=outcome)

    async def _write_all(self) -> None:
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            payload = self._queue.popleft()
            for start in range(0, max(len(payload), 1), PART_BYTES):
                part = payload[start : start + PART_BYTES]
                await self._write(replica_pb2.ReplicaFrame(part=part, last=start + PART_BYTES >= len(payload)))
            self._queued_bytes -= len(payload)

    async def _read_all(self, heard: Callable[[bytes], None]) -> None:
        parts: list[bytes] = []
        size = 0
        async for frame in self._frames:
            parts.append(frame.part)
            size += len(frame.part)
            if size > MOST_MESSAGE_BYTES:
                raise OSError("a message beyond all bounds")
            if frame.last:
                heard(b"".join(parts))
                parts, size = [], 0


async def of_this_site(context: Any, site: str, vo: str) -> None:
    """Let only machines of `site` pass: the call of any other ends here."""
    identity = peer_identity(context)
    if (identity.kind, identity.name, identity.vo) != ("site", site, vo):
        who = f"{identity.kind} {identity.name}".strip() or "nobody we know"
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"{who}: only machines of {site} itself may call this")
