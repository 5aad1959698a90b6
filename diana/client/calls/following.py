"""Follows one group of calls to its end: outcomes as they are gathered, failed jobs as they are told."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar, cast

from diana.client.aio import AsyncClient
from diana.client.calls.gathering import CallGroup
from diana.client.calls.packing import outcomes, result_index, spent_s
from diana.client.calls.remote import RESULT
from diana.client.results import JobResult, rows
from diana.errors import DianaError, JobFailed, Overloaded, Unreachable
from diana.model.indexset import IndexSet
from diana.model.signals import signal_name
from diana.wire.client.messages import FetchChunk

T = TypeVar("T")

TURN_S = 2.0
"""Seconds after which a group that tells nothing makes room for one that waits for its turn."""
PAUSE_FIRST_S, PAUSE_MOST_S = 0.1, 2.0
MOST_LOGS = 20
"""Logs read of one group's failed jobs at most."""
LOG_BYTES = 4096
"""Bytes read of each log, the last ones."""
MOST_RANGES = 1000
"""Ranges named as there already when a stream is opened anew; outcomes beyond them come again."""


async def hold_out(call: Callable[[], Awaitable[T]], patience_s: float) -> T:
    """Make the call again while the node is away or has too much to do, for `patience_s`."""
    loop = asyncio.get_running_loop()
    end_s, pause_s = loop.time() + patience_s, PAUSE_FIRST_S
    while True:
        try:
            return await call()
        except (Unreachable, Overloaded) as error:
            if loop.time() + pause_s > end_s:
                raise
            await asyncio.sleep(max(pause_s, getattr(error, "retry_after_s", 0.0)))
            pause_s = min(2 * pause_s, PAUSE_MOST_S)


async def follow(client: AsyncClient, group: CallGroup, places: asyncio.Semaphore, patience_s: float) -> None:
    """Returns when every future has ended. DianaError when the node, or what it has to tell, is away for longer than
    `patience_s`; what streams stand for in between without a word is not counted."""
    loop = asyncio.get_running_loop()
    away_s, pause_s, failed = 0.0, PAUSE_FIRST_S, False
    while group.open:
        had, began_s, stands_s = _had(group), 0.0, 0.0
        try:
            async with places:
                began_s = loop.time()
                if failed:
                    # That it answers is not yet that it can tell anything.
                    await client.status([group.name])
                stands_s = loop.time()
                if await _listen(client, group, places):
                    await _end_rest(client, group)
                    return
        except (Unreachable, Overloaded) as error:
            now_s, failed = loop.time(), True
            if _had(group) != had or (stands_s and now_s - stands_s > patience_s):
                away_s, pause_s = 0.0, PAUSE_FIRST_S
            else:
                away_s += (stands_s or now_s) - began_s
            pause_s = max(pause_s, getattr(error, "retry_after_s", 0.0))
            if away_s + pause_s > patience_s:
                if await _over_all_the_same(client, group, error):
                    return
                raise type(error)(f"{error}; its calls go on there as group {group.name}") from None
            await asyncio.sleep(pause_s)
            away_s, pause_s = away_s + pause_s, min(2 * pause_s, PAUSE_MOST_S)


def _had(group: CallGroup) -> tuple[int, int]:
    """Changes when a stream told something new."""
    return group.chunks_read, len(group.have)


async def _over_all_the_same(client: AsyncClient, group: CallGroup, error: DianaError) -> bool:
    """True if the group is final, and every future has ended: only its outcomes, or some, cannot be had."""
    try:
        (status,) = await client.status([group.name])
        if not status.final:
            return False
        await _hear_ends(client, group)
        group.trouble = str(error)
        await _end_rest(client, group)
    except (Unreachable, Overloaded):
        return False
    return True


async def _listen(client: AsyncClient, group: CallGroup, places: asyncio.Semaphore) -> bool:
    """True: all was told. False: others wait for the place, and it has nothing to say."""
    loop = asyncio.get_running_loop()
    tasks = [asyncio.create_task(hear(client, group)) for hear in (_hear_ends, _hear_outcomes)]
    going = set(tasks)
    group.heard_s = loop.time()
    try:
        while going and group.open:
            ended, going = await asyncio.wait(going, timeout=TURN_S, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
            if going and places.locked() and loop.time() - group.heard_s > TURN_S:
                return False
        return True
    finally:
        for task in going:
            task.cancel()
        # Those that ended, too: both fail with the node, and only one of them was heard.
        await asyncio.gather(*tasks, return_exceptions=True)


async def _hear_ends(client: AsyncClient, group: CallGroup) -> None:
    stream = client.result_chunks(group.name, follow=True, after=group.chunks_read)
    async with aclosing(cast("Any", stream)) as chunks:
        async for chunk in chunks:
            group.heard_s = asyncio.get_running_loop().time()
            # It may travel in parts, so that the next one has its number, too.
            group.chunks_read = chunk.chunk
            for row in rows(group.name, chunk):
                group.ran.add(row.index)
                if not row.done and row.index in group.open:
                    await _ended_badly(client, group, row)


async def _ended_badly(client: AsyncClient, group: CallGroup, row: JobResult) -> None:
    log = ""
    if group.logs_read < MOST_LOGS and row.outcome in ("failed", "timed_out", "out_of_memory"):
        group.logs_read += 1
        log = await _log_tail(client, row.job)
    future = group.open.pop(row.index, None)
    if future is None:
        return
    if row.outcome == "cancelled":
        # By somebody else's word, while it ran.
        group.cancelled += 1
        future.end_cancelled()
    else:
        future.fail(_failure(group, row, log))


async def _log_tail(client: AsyncClient, job: str) -> str:
    data = b""
    try:
        async with aclosing(cast("Any", client.logs(job))) as chunks:
            async for chunk in chunks:
                data = (data + chunk.data)[-LOG_BYTES:]
    except DianaError:
        # How it ended is told all the same.
        return ""
    return data.decode("utf-8", "replace")


def _failure(group: CallGroup, row: JobResult, log: str) -> JobFailed:
    last = (log.strip().splitlines() or [""])[-1].strip()
    if row.outcome in ("unknown", "interrupted"):
        why = f"nobody knows how it ended, so it is held; diana retry --held {group.name} has it run again"
    elif row.outcome == "timed_out":
        why = "it ran longer than its time"
    elif row.outcome == "out_of_memory":
        why = row.error.partition(": ")[2]
    elif RESULT in row.error:
        why = f"its process ended with exit code {row.exit_code} before the call returned"
    elif row.signal:
        why = f"{signal_name(row.signal)} ended it"
    else:
        why = row.error or f"exit code {row.exit_code}"
    error = JobFailed(
        f"{group.title} as {row.job} at {row.site}: {why}" + (f": {last}" if last else f"; see: diana logs {row.job}"),
        job=row.job,
        outcome=row.outcome,
        job_exit_code=row.exit_code,
        job_signal=row.signal,
        log=log,
    )
    if log:
        error.add_note(f"the end of its log:\n{log}")
    return error


async def _hear_outcomes(client: AsyncClient, group: CallGroup) -> None:
    """Each file is let go as soon as its future has ended."""
    try:
        async with aclosing(cast("Any", client.fetch_chunks(group.name, follow=True, skip=_ranges(group)))) as chunks:
            await _take_files(group, chunks)
    except (Unreachable, Overloaded):
        raise
    except DianaError as error:
        # Of files that cannot be had, after all that can.
        group.trouble = str(error)


async def _take_files(group: CallGroup, chunks: AsyncIterator[FetchChunk]) -> None:
    name, parts = "", list[bytes]()
    async for chunk in chunks:
        group.heard_s = asyncio.get_running_loop().time()
        if chunk.name != name:
            name, parts = chunk.name, []
        parts.append(chunk.data)
        index = result_index(name)
        if chunk.last and index is not None:
            data, parts = b"".join(parts), []
            if hashlib.sha256(data).hexdigest() != chunk.sha256:
                raise Unreachable(f"output {name} of {group.name} arrived damaged")
            _came(group, index, data)
            if not group.open:
                return


def _came(group: CallGroup, index: int, data: bytes) -> None:
    group.have.add(index)
    future = group.open.pop(index, None)
    if future is None:
        return
    try:
        found = outcomes(data, f"{group.name}.{index}")
        if (took_s := spent_s(data, f"{group.name}.{index}")) is not None:
            group.measured += 1
            group.spent_s += took_s
    except DianaError as error:
        future.fail(error)
        return
    if group.whole:
        future.end(found)
    elif found and found[0].error is None:
        future.end(found[0].value)
    else:
        future.fail(found[0].error if found and found[0].error else DianaError(f"{future.job}: left no outcome"))


def _ranges(group: CallGroup) -> str:
    ranges = sorted(group.have.within(IndexSet.span(0, group.payload.jobs)).ranges(), key=lambda r: (r[0] - r[1], r))
    return str(IndexSet.union(IndexSet.span(*each) for each in ranges[:MOST_RANGES]))


async def _end_rest(client: AsyncClient, group: CallGroup) -> None:
    """The group is over, and nothing was told of these: they never ran, or their files did not come."""
    if not group.open:
        return
    (status,) = await client.status([group.name])
    never_ran = sum(index not in group.ran for index in list(group.open))
    cancelled = status.cancelled - group.cancelled >= never_ran
    outcome = "held" if status.state == "held" else ""
    for index, future in group.take_open():
        ran, job = index in group.ran, f"{group.name}.{index}"
        if cancelled and not ran:
            group.cancelled += 1
            future.end_cancelled()
        else:
            why = group.trouble or (not ran and status.note) or "its result was not brought home"
            text = f"{group.title} as {job}: {why}; see: diana status {group.name}"
            future.fail(JobFailed(text, job=job, outcome=outcome))
