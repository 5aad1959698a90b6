"""The member's end of the streams: finds the machine that leads its site, attaches, delivers, and starts anew when
anything of that ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc
import msgspec

from diana.adapters.grpc.words import told
from diana.adapters.staging.threads import in_thread
from diana.adapters.subgrid import protocol
from diana.adapters.subgrid.ends import EndBatch, as_they_lie, leavings
from diana.adapters.subgrid.member import SubgridMember
from diana.adapters.subgrid.notes import Notes
from diana.adapters.tasks import end
from diana.errors import one_line
from diana.model.facts import Facts
from diana.model.layout import DataDir
from diana.wire.pb import subgrid_pb2, subgrid_pb2_grpc

GREETING_S = 10.0
LOAD_EVERY_S = 5.0
STALE_S = 0.5
"""Seconds by which a lease may be shorter than it could be before it is asked for anew."""
SILENT_S = 20.0
"""Seconds after which a RootGrid that says nothing is given up; the stream is made anew."""
RETRY_FIRST_S = 0.2
RETRY_MOST_S = 5.0

_log = logging.getLogger("diana.member")

Call = Any
"""grpc.aio.StreamStreamCall; grpc ships no types."""


class _Refused(Exception):
    """The reason, on one line, why this address is no use now."""


class Dialler:
    """Attaches the member. `channel` opens one to an address, on which only a machine of this site can answer;
    `addresses` says where to look, best first."""

    def __init__(
        self,
        member: SubgridMember,
        data: DataDir,
        notes: Notes,
        release: str,
        addresses: Callable[[], list[str]],
        channel: Callable[[str], grpc.aio.Channel],
        *,
        clock: Callable[[], float],
        urls: Callable[[tuple[str, ...]], None],
        greeted: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._member = member
        self._data = data
        self._notes = notes
        self._release = release
        self._addresses = addresses
        self._channel = channel
        self._clock = clock
        self._urls = urls
        self._greeted = greeted
        self._pool = ThreadPoolExecutor(2, "member-send")
        self._hint = ""
        self.address = ""
        """Address of the machine it is attached to now; empty: none."""
        self.since_s = clock()
        """Time at which that began."""
        self.why_not = ""
        """Last reason told why it is attached to none."""
        self.data_channel: grpc.aio.Channel | None = None

    async def run(self) -> None:
        """Attach again and again, until cancelled."""
        pause_s = RETRY_FIRST_S
        try:
            while True:
                hint, self._hint = self._hint, ""
                known = [*self._addresses(), *self._notes.leaders]
                for address in dict.fromkeys([hint, *known] if hint else known):
                    if await self._try(address):
                        pause_s = RETRY_FIRST_S
                        break
                    if self._hint:
                        break
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MOST_S)
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _try(self, address: str) -> bool:
        """Make one attachment, from its beginning to its end; True if it began."""
        began = False
        try:
            orders, self.data_channel = self._channel(address), self._channel(address)
        except Exception as fault:
            self._say(f"{address}: {one_line(str(fault))}")
            return False
        try:
            stream = _Stream(self, orders, self.data_channel)
            began = await stream.greet()
            self.address, self.since_s, self.why_not = address, self._clock(), ""
            _log.info("attached to %s", address)
            if self._greeted is not None:
                await self._greeted(address)
            await stream.serve()
        except (_Refused, ValueError, TimeoutError, OSError) as fault:
            self._say(f"{address}: {one_line(str(fault)) or 'no answer'}")
        except (grpc.RpcError, asyncio.InvalidStateError) as fault:
            # The second is what grpc says of a call that is over already.
            self._say(f"{address}: {_reason(fault)}")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # grpc raises it as well when a channel is closed under its calls.
        except Exception:
            _log.critical("%s: the stream ends on a fault of ours", address, exc_info=True)
        finally:
            if self.address:
                self.address, self.since_s = "", self._clock()
            self._member.detached()
            channel, self.data_channel = self.data_channel, None
            for each in (orders, channel):
                if each is not None:
                    await each.close()
        return began

    def _say(self, text: str) -> None:
        if text != self.why_not:
            _log.warning("not attached: %s", text)
            self.why_not = text


class _Stream:
    """One attachment."""

    def __init__(self, dialler: Dialler, orders: grpc.aio.Channel, data: grpc.aio.Channel) -> None:
        self._of = dialler
        self._call: Call = subgrid_pb2_grpc.SubGridStub(orders).Attach()  # type: ignore[no-untyped-call]
        self._data = data
        self._out: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._link = 0
        self._offset_s = 0.0
        self._heard_s = 0.0
        self._queue: deque[int] = deque()
        self._queued: set[int] = set()
        """Tickets queued or sent and not refused since."""
        self._more = asyncio.Event()

    # --- member.Channel --------------------------------------------------------------------------------

    def send(self, message: protocol.FromMember) -> None:
        self._out.append(protocol.encode_one(message))
        self._news.set()

    def deliver(self, kept: EndBatch) -> None:
        if kept.ticket not in self._queued:
            self._queued.add(kept.ticket)
            self._queue.append(kept.ticket)
            self._more.set()

    # --- attaching ---------------------------------------------------------------------------------------

    async def greet(self) -> bool:
        """Exchange greetings. _Refused when this is not the machine to obey."""
        of, member = self._of, self._of._member
        hello = protocol.Hello(
            version=protocol.VERSION,
            machine=member.machine,
            identity=of._notes.identity,
            release=of._release,
            term=of._notes.term,
            slots=member.slots,
            memory_bytes=member.memory_bytes,
            may_lead=member.may_lead,
        )
        async with asyncio.timeout(GREETING_S):
            await self._call.write(subgrid_pb2.SubGridFrame(messages=protocol.pack([protocol.encode_one(hello)])))
            answer = await self._call.read()
        if answer is grpc.aio.EOF:
            raise _Refused("it ended the stream without a word")
        message, *rest = protocol.from_root(answer.messages)
        if isinstance(message, protocol.Refused):
            of._hint = message.leader
            raise _Refused(message.reason)
        if not isinstance(message, protocol.Welcome) or not 1 <= message.version <= protocol.VERSION:
            raise _Refused(f"it speaks another protocol than 1 to {protocol.VERSION}")
        if message.term < of._notes.term:
            raise _Refused(
                f"it leads term {message.term}, this machine obeys {of._notes.term}: somebody else leads now"
            )
        # Durable before anything is answered under it: no order of an older leader is taken from here on.
        await in_thread(of._pool, of._notes.note_term, message.term)
        await in_thread(of._pool, of._notes.note_leaders, message.leaders)
        self._link = message.link
        self._hear_time(message.now_s)
        of._urls(tuple(message.urls))
        member.attached(self, message.term)
        for more in rest:
            member.heard(more)
        return True

    def _hear_time(self, now_s: float) -> None:
        self._heard_s = self._of._clock()
        self._offset_s = now_s - self._heard_s

    async def serve(self) -> None:
        """Serve until the stream ends, however it ends."""
        tasks = [
            asyncio.create_task(work)
            for work in (self._read(), self._write(), self._deliver_all(), self._tell_load(), self._listen())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await end(*tasks)
            self._call.cancel()

    async def _read(self) -> None:
        member = self._of._member
        while True:
            frame = await self._call.read()
            if frame is grpc.aio.EOF:
                raise _Refused("the stream ended")
            for message in protocol.from_root(frame.messages):
                if isinstance(message, protocol.Beat):
                    self._hear_time(message.now_s)
                    if message.leases and self._heard_s - message.load_sent_s > STALE_S:
                        # Leases count from the load that the beat answers: the next beat answers this one.
                        self._say_load()
                else:
                    self._heard_s = self._of._clock()
                member.heard(message)

    async def _write(self) -> None:
        while True:
            if not self._out:
                self._news.clear()
                await self._news.wait()
            some, size = [], 0
            while self._out and size < protocol.MOST_FRAME_BYTES:
                some.append(self._out.popleft())
                size += len(some[-1])
            await self._call.write(subgrid_pb2.SubGridFrame(messages=protocol.pack(some)))

    async def _tell_load(self) -> None:
        while True:
            self._say_load()
            await asyncio.sleep(LOAD_EVERY_S)

    def _say_load(self) -> None:
        of, busy = self._of, os.getloadavg()[0] / (os.cpu_count() or 1)
        self.send(protocol.Load(busy, of._clock(), of._member.disk_news()))

    async def _listen(self) -> None:
        while self._of._clock() - self._heard_s < SILENT_S:
            await asyncio.sleep(1.0)
        raise _Refused(f"it said nothing for {SILENT_S:g} s")

    # --- deliveries --------------------------------------------------------------------------------------

    async def _deliver_all(self) -> None:
        """Deliver, one call after the other; a batch that was not acknowledged goes again."""
        pause_s = RETRY_FIRST_S
        while True:
            await self._wait_for_ends()
            call: Call = subgrid_pb2_grpc.SubGridStub(self._data).Deliver()  # type: ignore[no-untyped-call]
            open_tickets: set[int] = set()
            acks = asyncio.create_task(self._acks(call, open_tickets))
            try:
                await self._deliver(call, open_tickets, acks)
            except (grpc.RpcError, asyncio.InvalidStateError, OSError, ValueError) as fault:
                _log.warning("ends could not be delivered: %s", _reason(fault))
            finally:
                call.cancel()
                await end(acks)
            self._queue.extendleft(sorted(open_tickets, reverse=True))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_MOST_S)

    async def _wait_for_ends(self) -> None:
        while not self._queue:
            self._more.clear()
            await self._more.wait()

    async def _acks(self, call: Call, open_tickets: set[int]) -> None:
        while True:
            ack = await call.read()
            if ack is grpc.aio.EOF:
                # Raises what the other side had to say.
                raise ValueError(await call.details() or "the deliveries' stream ended")
            open_tickets.discard(ack.ticket)
            if kept := self._of._member.ends.get(ack.ticket):
                kept.delivered = True

    async def _deliver(self, call: Call, open_tickets: set[int], acks: asyncio.Task[None]) -> None:
        while True:
            waiting = asyncio.create_task(self._wait_for_ends())
            try:
                await asyncio.wait([waiting, acks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
            if acks.done():
                acks.result()
                return
            if not self._queue:
                continue
            kept = self._of._member.ends.get(self._queue.popleft())
            if kept is None:
                # Forgotten meanwhile.
                continue
            open_tickets.add(kept.ticket)
            await self._send(call, kept)

    async def _send(self, call: Call, kept: EndBatch) -> None:
        of = self._of
        facts = kept.now()
        if facts.outputs or any(facts.log_lengths):
            facts = await in_thread(of._pool, as_they_lie, of._data, kept.subgroup, kept.epoch, facts)
        batch = protocol.DeliveredRuns(
            self._link, kept.ticket, kept.subgroup, kept.epoch, _shifted(facts, self._offset_s)
        )
        await call.write(subgrid_pb2.DeliverFrame(batch=protocol.encode_batch(batch)))
        if not batch.data_bytes():
            return
        chunks: Iterator[bytes] = leavings(of._data, kept.subgroup, kept.epoch, facts)
        try:
            while chunk := await in_thread(of._pool, next, chunks, b""):
                await call.write(subgrid_pb2.DeliverFrame(data=chunk))
        finally:
            chunks.close()  # type: ignore[attr-defined]


def _shifted(facts: Facts, offset_s: float) -> Facts:
    """Turn this machine's clock into the site's."""
    return msgspec.structs.replace(
        facts,
        started_s=[at_s + offset_s for at_s in facts.started_s],
        ended_s=[at_s + offset_s for at_s in facts.ended_s],
    )


def _reason(fault: BaseException) -> str:
    if isinstance(fault, grpc.aio.AioRpcError):
        return told(fault)
    with suppress(Exception):
        return one_line(str(fault))[:400] or type(fault).__name__
    return type(fault).__name__
