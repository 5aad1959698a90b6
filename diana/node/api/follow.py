"""Calls that follow a group while it runs: its status, and its results as they become durable."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

import msgspec

from diana.errors import UsageError, WaitTimedOut
from diana.model.facts import Facts, FactsKey
from diana.model.trust.principal import Principal
from diana.model.views.group import GroupStatus
from diana.node.api import ended
from diana.node.api.chunks import current
from diana.node.api.control import target
from diana.node.api.convert import to_results, to_status
from diana.node.api.desk import Desk, checked_group
from diana.node.ways_in.door import GroupWatch
from diana.wire.client import messages as wire

LOOK_EVERY_S = 0.02
"""A group that changes all the time is looked at this often at most."""
TELL_EVERY_S = 0.2
"""A status that is not the last one leaves this often at most."""
FRESH_EVERY_S = 5.0
"""Seconds after which a status (its ages) leaves without a change."""
PAGE_JOBS = 20_000
"""Results read from the store in one go."""
MESSAGE_BYTES = 1 << 20
"""About the most of one message: its size must not grow with the group."""
ROW_BYTES = 200
"""A row, an output or an error in JSON, its text apart."""


async def wait(desk: Desk, caller: Principal, request: wire.WaitRequest) -> AsyncGenerator[GroupStatus, None]:
    """The status whenever it changed, until the group is final. WaitTimedOut when `timeout_s` passes first."""
    group = checked_group(request.group)
    if not 0 <= request.timeout_s < 1e10:
        raise UsageError(f"timeout of {request.timeout_s} s: want 0 (for ever) or a positive number of seconds")
    loop = asyncio.get_running_loop()
    end = loop.time() + request.timeout_s if request.timeout_s else float("inf")
    told: GroupStatus | None = None
    told_at = float("-inf")
    async with desk.door.watch(group) as watch:
        while True:
            status = to_status(await desk.group(caller, group))
            now = loop.time()
            news = told is None or _without_ages(status) != _without_ages(told)
            if status.final or (now - told_at >= (TELL_EVERY_S if news else FRESH_EVERY_S)):
                yield status
                told, told_at, news = status, now, False
            if status.final:
                return
            if now >= end:
                raise WaitTimedOut(f"group {group} is {status.state} after {request.timeout_s:g} s; it goes on")
            due = told_at + (TELL_EVERY_S if news else FRESH_EVERY_S)
            await _change(watch, until=min(due, end))


def _without_ages(status: GroupStatus) -> GroupStatus:
    shares = tuple(msgspec.structs.replace(share, age_s=0.0) for share in status.shares)
    return msgspec.structs.replace(status, age_s=0.0, shares=shares)


async def _change(watch: GroupWatch, until: float) -> None:
    """Returns at the next change or at loop time `until`, after LOOK_EVERY_S at the soonest."""
    await asyncio.sleep(LOOK_EVERY_S)
    try:
        async with asyncio.timeout_at(until):
            await watch.changed()
    except TimeoutError:
        pass


async def results(
    desk: Desk, caller: Principal, request: wire.ResultsRequest
) -> AsyncGenerator[wire.ResultsChunk, None]:
    """Facts in order of arrival; `chunk` counts the store's chunks from 0 and names where `after` goes on.

    Results that jobs had before they were retried are left out; who follows may have been told them, and the newest
    counts.
    """
    group, jobs = target(request.group)
    if jobs is not None:
        request = msgspec.structs.replace(request, outcome=request.outcome or ended.ANY)
        async with aclosing(ended.pages_of(desk, caller, group, request, jobs)) as found:
            async for number, facts in found:
                for part in split(facts):
                    yield to_results(number, part, chosen=True)
        return
    if request.outcome or request.first or request.most:
        async with aclosing(ended.pages(desk, caller, group, request)) as found:
            async for number, facts in found:
                for part in split(facts):
                    yield to_results(number, part, chosen=True)
        return
    if request.after < 0:
        raise UsageError(f"results after chunk {request.after}: want 0 or more")
    after = request.after
    loop = asyncio.get_running_loop()
    async with desk.door.watch(group) as watch:
        while True:
            view = await desk.group(caller, group)
            began = loop.time()
            source = current(itertools.islice(desk.door.store.facts(group), after, None), view)
            while page := await asyncio.to_thread(read_page, source):
                for facts in page:
                    after += 1
                    if not facts.indices or facts.indices[0] >= view.indices:
                        # The merge is no job of the user's.
                        continue
                    for part in split(facts):
                        yield to_results(after - 1, part)
            if view.final or not request.follow:
                return
            # Skipping what was sent costs with the group's size: the pause grows with it.
            await asyncio.sleep(max(TELL_EVERY_S, 5 * (loop.time() - began)))
            await watch.changed()


def read_page(source: Iterator[tuple[FactsKey, Facts]]) -> list[Facts]:
    """The next chunks, about PAGE_JOBS rows of them; empty at the end. Blocks on the disk."""
    page: list[Facts] = []
    rows = 0
    for _, facts in source:
        page.append(facts)
        rows += len(facts.indices)
        if rows >= PAGE_JOBS:
            break
    return page


def split(facts: Facts) -> list[Facts]:
    """The same rows in parts whose messages stay well below a frame's limit."""
    weights = dict.fromkeys(facts.indices, ROW_BYTES)
    for output in facts.outputs:
        weights[output.index] = weights.get(output.index, 0) + ROW_BYTES + 2 * len(output.name)
    for error in facts.errors:
        weights[error.index] = weights.get(error.index, 0) + ROW_BYTES + 2 * len(error.text)
    if sum(weights.values()) <= MESSAGE_BYTES:
        return [facts]
    columns = [name for name in facts.__struct_fields__ if name not in ("site", "outputs", "errors", "signals")]
    parts, start, weight = [], 0, 0
    for row, index in enumerate([*facts.indices, -1]):
        if row == len(facts.indices) or (weight + weights[index] > MESSAGE_BYTES and row > start):
            cut = {name: getattr(facts, name)[start:row] for name in columns}
            inside = set(cut["indices"])
            outputs = [o for o in facts.outputs if o.index in inside]
            errors = [e for e in facts.errors if e.index in inside]
            signals = facts.signals[start:row]
            parts.append(Facts(site=facts.site, outputs=outputs, errors=errors, signals=signals, **cut))
            start, weight = row, 0
        weight += weights.get(index, 0)
    return parts
