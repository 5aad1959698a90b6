"""Logs of jobs, wherever they run or ran."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from diana.errors import UsageError
from diana.model.ids import job_id
from diana.model.trust.principal import Principal
from diana.model.views.views import GroupView
from diana.model.words import counted
from diana.node.api.desk import Desk, checked_job
from diana.node.api.ended_logs import NOT_FAILED, ended_log, spots_of
from diana.node.api.live_logs import of_group, of_job, of_merge
from diana.wire.client import messages as wire

WINDOW_JOBS = 65_536
"""Jobs whose log positions are in memory at once."""


async def logs(desk: Desk, caller: Principal, request: wire.LogsRequest) -> AsyncGenerator[wire.LogsChunk, None]:
    """Job by job in order of the index; each job's last chunk says whether its log was truncated."""
    group, index = checked_job(request.job)
    if min(request.tail, request.start, request.attempt) < 0:
        raise UsageError(f"the last {request.tail} lines of a log: want 1 or more")
    view = await desk.group(caller, group)
    if request.merge and (index is not None or request.failed):
        raise UsageError(f"the merge command is that of a whole group; diana logs --merge {group} shows its log")
    if request.merge and not view.merge:
        raise UsageError(f"{group} has no merge command")
    if index is not None and index >= view.indices:
        raise UsageError(f"job {request.job}: {group} has jobs 0 to {view.indices - 1}")
    if view.indices == 1 and not request.failed:
        index = 0
    if request.merge:
        chunks = of_merge(desk, caller, view, request)
    elif index is not None:
        chunks = of_job(desk, caller, view, index, request)
    elif request.follow:
        chunks = of_group(desk, caller, view, request)
    else:
        chunks = _of_ended(desk, view, request)
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk


async def _of_ended(desk: Desk, view: GroupView, request: wire.LogsRequest) -> AsyncGenerator[wire.LogsChunk, None]:
    ended, failed = 0, False
    for start in range(0, view.indices, WINDOW_JOBS):
        window = range(start, min(start + WINDOW_JOBS, view.indices))
        spots = await asyncio.to_thread(spots_of, desk, view, window)
        ended += len(spots)
        for at in sorted(spots):
            if request.failed and spots[at].outcome in NOT_FAILED:
                continue
            failed = True
            name = job_id(view.group, at)
            async with aclosing(ended_log(desk, view.group, name, spots[at], tail=request.tail)) as chunks:
                async for chunk in chunks:
                    yield chunk
    if ended < view.jobs:
        missing = _missing(view, view.jobs - ended)
        if request.failed and not failed and not view.final:
            missing = msgspec.structs.replace(missing, error=f"no job failed so far; {missing.error}")
        none_yet = not ended and not view.final and not request.failed
        yield msgspec.structs.replace(missing, unreachable=none_yet)


def _missing(view: GroupView, jobs: int) -> wire.LogsChunk:
    of = counted(view.jobs, "job")
    text = f"{jobs:,} of {of} {'has' if jobs == 1 else 'have'} not ended; what one writes: diana logs {view.group}.N"
    if view.final:
        text = f"{jobs:,} of {of} never ran"
    return wire.LogsChunk(job=view.group, error=text)
