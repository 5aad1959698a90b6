"""The SubGrid service of a RootGrid's server: a stream of orders and a stream of deliveries per member machine.

Only machines of this very site are served, under the name their certificate proves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any

import grpc
import msgspec

from diana.adapters.grpc import pacing
from diana.adapters.grpc.callers import host_of, is_loopback
from diana.adapters.grpc.pacing import Paces, Slack
from diana.adapters.staging.threads import in_thread
from diana.adapters.subgrid import protocol
from diana.adapters.subgrid.delivery import Delivery
from diana.adapters.subgrid.link import MemberLink
from diana.adapters.subgrid.lrm import SubGridLrm
from diana.adapters.tasks import begin, end, keep_up
from diana.engine.journal.events import JobsEnded, Run
from diana.model.facts import Facts
from diana.model.ids import SiteId, SubgroupId
from diana.model.run_columns import Runs
from diana.wire.pb import subgrid_pb2, subgrid_pb2_grpc

MOST_KNOWN = 3_000_000
"""Runs of an inventory: those of a machine of as many slots as there may be, and what it is given ahead."""
RUNS_PER_CHARGE = 100
"""Runs that a message names which cost as much as another message (`grpc/pacing.py`)."""
INVENTORY_CHARGE = 100
"""Messages that an inventory costs as much as: all that the machine has is compared with it."""
HELLO_WAIT_S = 10.0
TICK_S = 5.0

_log = logging.getLogger("diana.subgrid")

Context = Any
"""grpc.aio.ServicerContext; grpc ships no types."""
MayAttach = Callable[[Context, str], str]
"""Function that says why the caller of this context is not the machine of that name in this site; empty: it is."""


class SubGridService(subgrid_pb2_grpc.SubGridServicer):
    def __init__(self, lrm: SubGridLrm, may_attach: MayAttach, slack: Slack | None = None) -> None:
        self._lrm = lrm
        self._may_attach = may_attach
        self._ticking: asyncio.Task[None] | None = None
        self._paces: Paces[str] = Paces(slack)

    def attach(self, server: grpc.aio.Server) -> None:
        subgrid_pb2_grpc.add_SubGridServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    def start(self) -> None:
        self._ticking = keep_up(self._tick, "keeping time with the machines")

    async def stop(self) -> None:
        await end(self._ticking)
        self._lrm.close()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._lrm.tick()

    # --- orders ----------------------------------------------------------------------------------------

    async def Attach(
        self, request_iterator: AsyncIterator[subgrid_pb2.SubGridFrame], context: Context
    ) -> AsyncIterator[subgrid_pb2.SubGridFrame]:
        hello = await self._hello(request_iterator, context)
        host = host_of(context.peer()).strip("[]")
        # One of this very machine is reached as the site is.
        answer = self._lrm.attach(hello, "" if is_loopback(host) else host)
        if isinstance(answer, protocol.Refused):
            yield _frame(answer)
            return
        link = answer
        _log.info("machine %s attached with %d slots, release %s", link.machine, hello.slots, hello.release)
        lrm = self._lrm
        yield _frame(
            protocol.Welcome(protocol.VERSION, link.term, link.number, lrm.clock(), list(lrm.urls), lrm.leaders())
        )
        hearing = begin(self._hear(link, request_iterator), f"hearing machine {link.machine}")
        try:
            async for frame in link.frames():
                yield subgrid_pb2.SubGridFrame(messages=frame)
        finally:
            hearing.cancel()
            lrm.detach(link)
            _log.info("machine %s is away", link.machine)

    async def _hello(self, requests: AsyncIterator[subgrid_pb2.SubGridFrame], context: Context) -> protocol.Hello:
        try:
            async with asyncio.timeout(HELLO_WAIT_S):
                first = await anext(requests)
            messages = protocol.from_member(first.messages)
        except (TimeoutError, StopAsyncIteration, ValueError) as fault:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"want a Hello first: {type(fault).__name__}")
        if len(messages) != 1 or not isinstance(messages[0], protocol.Hello):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "want a Hello first")
        hello = messages[0]
        assert isinstance(hello, protocol.Hello)
        if why := self._may_attach(context, hello.machine):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
        return hello

    async def _hear(self, link: MemberLink, requests: AsyncIterator[subgrid_pb2.SubGridFrame]) -> None:
        """Take in what the machine says, until its stream ends or makes no sense."""
        inventory: tuple[protocol.Ready, list[Run]] | None = None
        try:
            async for frame in requests:
                link.heard_s = self._lrm.clock()
                messages = protocol.from_member(frame.messages)
                for message in messages:
                    inventory = self._take(link, message, inventory)
                await self._pause(link, len(frame.messages), sum(map(_charge, messages)))
        except ValueError as fault:
            self._lrm.disbelieved(link.machine, str(fault))
        except grpc.RpcError:
            pass
        finally:
            link.end()

    async def _pause(self, link: MemberLink, size: int, messages: float) -> None:
        """Wait until the machine's next message may be read: one that lies or is broken keeps this node from nobody
        else's, and what it said and nobody has dealt with yet does not pile up."""
        pace = self._paces.of(link.machine, monotonic())
        wait_s = pace.charge(size, monotonic(), messages)
        if wait_s > 0 and not link.slowed:
            link.slowed = True
            _log.warning("machine %s says more than a machine has to say; it is read more slowly", link.machine)
        await pacing.wait(pace, wait_s, monotonic)

    def _take(
        self, link: MemberLink, message: protocol.FromMember, inventory: tuple[protocol.Ready, list[Run]] | None
    ) -> tuple[protocol.Ready, list[Run]] | None:
        match message:
            case protocol.Ready():
                return message, []
            case protocol.Known(session, runs, last):
                if inventory is None or inventory[0].session != session:
                    raise ValueError("an inventory that nothing began")
                inventory[1].extend(protocol.runs_of(runs))
                if len(inventory[1]) > MOST_KNOWN:
                    raise ValueError(f"an inventory of more than {MOST_KNOWN:,} runs")
                if not last:
                    return inventory
                self._lrm.on_ready(link, *inventory)
                return None
            case protocol.SpawnerLost():
                self._lrm.on_lost(link)
            case protocol.HeldRuns(runs, port):
                self._lrm.on_held(link, protocol.runs_of(runs), port)
            case protocol.Load():
                self._lrm.heard_load(link, message)
            case protocol.StepsTold():
                self._lrm.on_steps(link, message)
            case protocol.LogShown(number, log):
                link.shown(number, log)
            case protocol.Hello():
                raise ValueError("a second Hello")
        return inventory

    # --- deliveries --------------------------------------------------------------------------------------

    async def Deliver(
        self, request_iterator: AsyncIterator[subgrid_pb2.DeliverFrame], context: Context
    ) -> AsyncIterator[subgrid_pb2.DeliverAck]:
        link: MemberLink | None = None
        try:
            async for frame in request_iterator:
                batch = protocol.decode_batch(frame.batch)
                if link is None:
                    link = await self._delivering(batch, context)
                elif batch.link != link.number:
                    raise ValueError("a batch of another stream")
                ended = await self._take_in(link, batch, request_iterator)
                if link.ended.is_set():
                    return
                self._lrm.on_ended(link, ended)
                yield subgrid_pb2.DeliverAck(ticket=batch.ticket)
                await self._pause(link, len(frame.batch), 1 + len(batch.facts.indices) / RUNS_PER_CHARGE)
        except ValueError as fault:
            if link is not None:
                self._lrm.disbelieved(link.machine, f"a delivery: {fault}")
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(fault))
        except OSError as fault:
            _log.error("outputs of machine %s could not be kept: %s", link.machine if link else "?", fault)
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{fault.filename}: {fault.strerror}")
        finally:
            if link is not None:
                link.delivering = None

    async def _delivering(self, batch: protocol.DeliveredRuns, context: Context) -> MemberLink:
        """Return the link this stream belongs to; there is one such stream per link."""
        for name in self._lrm.machines():
            link = self._lrm.link(name, batch.link)
            if link is not None:
                if why := self._may_attach(context, name):
                    await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
                if link.delivering is not None:
                    await context.abort(grpc.StatusCode.ALREADY_EXISTS, "deliveries of this stream come already")
                link.delivering = asyncio.current_task()
                return link
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no such stream; attach first")
        raise AssertionError("abort raises")

    async def _take_in(
        self, link: MemberLink, batch: protocol.DeliveredRuns, requests: AsyncIterator[subgrid_pb2.DeliverFrame]
    ) -> JobsEnded:
        """Bring the batch's bytes to the disk; return what the engine is to hear."""
        lrm = self._lrm
        subgroup = SubgroupId(batch.subgroup)
        if not batch.data_bytes() and not batch.facts.outputs:
            facts = _nothing_kept(batch, lrm.site)
        elif not lrm.needed(subgroup, batch.epoch) or lrm.elsewhere(
            link.machine, subgroup, batch.epoch, batch.facts.indices
        ):
            async for _ in _chunks(batch, requests):
                pass
            facts = _nothing_kept(batch, lrm.site)
        else:
            # An older stream of this machine may still be at its last chunk.
            async with lrm.disk_of(link.machine):
                facts = await self._to_disk(link, batch, requests)
        return JobsEnded(subgroup=subgroup, epoch=batch.epoch, facts=facts, worker=link.machine)

    async def _to_disk(
        self, link: MemberLink, batch: protocol.DeliveredRuns, requests: AsyncIterator[subgrid_pb2.DeliverFrame]
    ) -> Facts:
        lrm = self._lrm
        delivery = await in_thread(lrm.pool, Delivery, lrm.data, lrm.site, lrm.segments(link.machine), batch)
        try:
            async for chunk in _chunks(batch, requests):
                await in_thread(lrm.pool, delivery.take, chunk)
            return await in_thread(lrm.pool, delivery.finish)
        finally:
            delivery.close()


async def _chunks(
    batch: protocol.DeliveredRuns, requests: AsyncIterator[subgrid_pb2.DeliverFrame]
) -> AsyncIterator[bytes]:
    """Yield all data of the batch; ValueError when more or less comes."""
    left = batch.data_bytes()
    while left:
        frame = await anext(requests, None)
        if frame is None or not frame.data or len(frame.data) > left:
            raise ValueError("bytes that do not fit the batch")
        left -= len(frame.data)
        yield frame.data


def _charge(message: protocol.FromMember) -> float:
    """Messages that this costs as much as."""
    match message:
        case protocol.Known(runs=runs, last=last):
            return 1 + INVENTORY_CHARGE * last + _named(runs) / RUNS_PER_CHARGE
        case protocol.HeldRuns(runs=runs) | protocol.StepsTold(runs=runs):
            return 1 + _named(runs) / RUNS_PER_CHARGE
    return 1.0


def _named(runs: list[Runs]) -> int:
    return sum(len(some.indices) for some in runs)


def _nothing_kept(batch: protocol.DeliveredRuns, site: SiteId) -> Facts:
    """Return the facts of jobs that left nothing, or whose leavings nobody needs any more."""
    count = len(batch.facts.indices)
    return msgspec.structs.replace(
        batch.facts,
        site=site,
        log_segments=[""] * count,
        log_offsets=[0] * count,
        log_lengths=[0] * count,
        outputs=[],
    )


def _frame(message: protocol.FromRoot) -> subgrid_pb2.SubGridFrame:
    return subgrid_pb2.SubGridFrame(messages=protocol.pack([protocol.encode_one(message)]))
