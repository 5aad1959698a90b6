"""Results asked for by the jobs' outcome, or from some index on: pages that cost what they hold, in a group of any
size.

The engine knows each job's outcome; where a job's row lies in the store is learned once and kept for the groups looked
at, so that a page reads no more than the chunks it has rows in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import msgspec

from diana.engine.journal.events import Ask
from diana.errors import UsageError
from diana.model.facts import Facts
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.trust.principal import Principal
from diana.model.views.views import ENDINGS, EndedJobs
from diana.node.api.chunks import read
from diana.node.api.desk import Desk
from diana.wire.client import messages as wire

ANY = "ended"
PAGE_JOBS = 2000
"""Jobs of one question to the engine, where more are wanted."""
MOST_RANGES = 1000
"""Ranges of jobs in one call."""


async def pages_of(
    desk: Desk, caller: Principal, group: GroupId, request: wire.ResultsRequest, jobs: IndexSet
) -> AsyncGenerator[tuple[int, Facts], None]:
    """`pages` of these jobs alone: a page costs what it holds, however large the group."""
    _check(request)
    view = await desk.group(caller, group)
    if beyond := jobs - IndexSet.span(0, view.indices):
        raise UsageError(f"{group} has jobs 0 to {view.indices - 1}, no {beyond}")
    wanted = jobs & IndexSet.span(request.first, view.indices)
    if len(wanted.bounds) > 2 * MOST_RANGES:
        raise UsageError(f"{group}: jobs named in more than {MOST_RANGES:,} ranges; name fewer at once")
    left, number = request.most, 0
    for start, stop in wanted.ranges():
        at = start
        while 0 <= at < stop:
            most = min(stop - at, PAGE_JOBS, left) if request.most else min(stop - at, PAGE_JOBS)
            page = await desk.request(EndedJobs, _asks(caller, group, request.outcome, at, most))
            here = tuple((name, some & IndexSet.span(at, stop)) for name, some in page.by_ending)
            page = msgspec.structs.replace(page, by_ending=here)
            for facts in await asyncio.to_thread(read, desk.door.store, desk.places, group, page):
                yield number, facts
            left -= sum(len(some) for _, some in here)
            if request.most and left <= 0:
                return
            at, number = page.next, number + 1


async def pages(
    desk: Desk, caller: Principal, group: GroupId, request: wire.ResultsRequest
) -> AsyncGenerator[tuple[int, Facts], None]:
    """(number of the page, rows of one site) in order of the pages."""
    _check(request)
    first, left, number = request.first, request.most, 0
    while True:
        most = min(left, PAGE_JOBS) if request.most else PAGE_JOBS
        page = await desk.request(EndedJobs, _asks(caller, group, request.outcome, first, most))
        for facts in await asyncio.to_thread(read, desk.door.store, desk.places, group, page):
            yield number, facts
        left -= sum(len(some) for _, some in page.by_ending)
        if page.next < 0 or (request.most and left <= 0):
            return
        first, number = page.next, number + 1


def _asks(caller: Principal, group: GroupId, outcome: str, first: int, most: int) -> Callable[[int], Ask]:
    return lambda number: Ask(
        request=number, principal=caller, what="ended", group=group, outcome=outcome, first=first, limit=most
    )


def _check(request: wire.ResultsRequest) -> None:
    if request.outcome not in (*ENDINGS, ANY):
        raise UsageError(f"outcome {request.outcome!r}: want {', '.join(ENDINGS)}, or {ANY} for all of them")
    if request.follow or request.after:
        raise UsageError("results by outcome are not followed; leave follow and after out")
    if request.first < 0 or request.most < 0:
        raise UsageError(f"results from job {request.first}, at most {request.most}: want 0 or more")
