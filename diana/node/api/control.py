"""Calls that change what becomes of a group's jobs: cancel, hold, move, release, retry; and drop, once it is over."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable

from diana.adapters.file_names import PART_PREFIX
from diana.engine.journal.events import CancelJobs, DropGroups, HoldJobs, MoveJobs, ReleaseJobs, RetryJobs
from diana.errors import UsageError
from diana.jobfile.units import memory_bytes
from diana.model.facts import Facts, FactsKey
from diana.model.ids import GroupId, SiteId, site_id
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir
from diana.model.trust.principal import Principal
from diana.model.views import views
from diana.node.api.desk import Desk, checked_group, checked_job
from diana.wire.client.control import (
    CancelHeldRequest,
    CancelHeldResponse,
    CancelRequest,
    CancelResponse,
    DropRequest,
    DropResponse,
    GroupLeft,
    HoldRequest,
    HoldResponse,
    MoveRequest,
    MoveResponse,
    ReleaseRequest,
    ReleaseResponse,
    RetryRequest,
    RetryResponse,
)


async def cancel(desk: Desk, caller: Principal, request: CancelRequest) -> CancelResponse:
    group, indices = target(request.target)
    done = await desk.request(
        views.Ok,
        lambda number: CancelJobs(
            request=number,
            principal=caller,
            group=group,
            indices=indices,
            dependents=request.dependents,
        ),
    )
    return CancelResponse(jobs=done.count)


async def cancel_held(desk: Desk, caller: Principal, request: CancelHeldRequest) -> CancelHeldResponse:
    group, indices = target(request.target)
    done = await desk.request(
        views.Ok,
        lambda number: CancelJobs(
            request=number, principal=caller, group=group, indices=indices, held=True, release=request.release
        ),
    )
    return CancelHeldResponse(indices=str(done.jobs), unsure=done.unsure)


async def hold(desk: Desk, caller: Principal, request: HoldRequest) -> HoldResponse:
    group, indices = target(request.target)
    done = await desk.request(
        views.Ok, lambda number: HoldJobs(request=number, principal=caller, group=group, indices=indices)
    )
    return HoldResponse(jobs=done.count, started=done.started)


async def move(desk: Desk, caller: Principal, request: MoveRequest) -> MoveResponse:
    group, indices = target(request.target)
    try:
        to = site_id(request.to) if request.to else SiteId("")
    except ValueError as error:
        raise UsageError(f"move to {request.to!r}: {error}") from None
    done = await desk.request(
        views.Ok, lambda number: MoveJobs(request=number, principal=caller, group=group, indices=indices, to=to)
    )
    return MoveResponse(jobs=done.count, started=done.started)


async def release(desk: Desk, caller: Principal, request: ReleaseRequest) -> ReleaseResponse:
    group, indices = target(request.target)
    done = await desk.request(
        views.Ok, lambda number: ReleaseJobs(request=number, principal=caller, group=group, indices=indices)
    )
    return ReleaseResponse(jobs=done.count)


async def retry(desk: Desk, caller: Principal, request: RetryRequest) -> RetryResponse:
    group, indices = target(request.target)
    if request.memory and (request.held or request.cancelled or request.unreachable):
        raise UsageError("--memory is for jobs that ran out of memory alone; leave the other options out")
    memory_bytes, memory_factor = _more_memory(request.memory)
    done = await desk.request(
        views.Ok,
        lambda number: RetryJobs(
            request=number,
            principal=caller,
            group=group,
            indices=indices,
            held=request.held,
            cancelled=request.cancelled,
            unreachable=request.unreachable,
            memory_bytes=memory_bytes,
            memory_factor=memory_factor,
        ),
    )
    return RetryResponse(jobs=done.count)


_FACTOR = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4})?x\Z")


def _more_memory(text: str) -> tuple[int, float]:
    """(bytes, factor) of `8G` or `2x`; both 0 where nothing was asked for."""
    if not text:
        return 0, 0.0
    if _FACTOR.match(text):
        if float(text[:-1]) <= 1:
            raise UsageError(f"--memory {text}: no more than they had; write more than 1x, such as 2x")
        return 0, float(text[:-1])
    try:
        size = memory_bytes(text)
    except ValueError as error:
        raise UsageError(f"--memory: {error}, or a factor, such as 2x") from None
    if not size:
        raise UsageError("--memory 0: write how much each job is to have, such as 8G, or 2x")
    return size, 0.0


MOST_DROPPED = 1000
"""Groups of one call: each costs a record and a look at a folder."""


async def drop(desk: Desk, caller: Principal, request: DropRequest) -> DropResponse:
    groups = tuple(dict.fromkeys(map(checked_group, request.groups)))
    if not 0 < len(groups) <= MOST_DROPPED:
        raise UsageError(f"drop: {len(groups):,} groups; name 1 to {MOST_DROPPED:,} at a time")
    # Of two machines that lead a site the other may have gathered them.
    told = desk.door.store.facts if desk.pair is not None else None
    have_files = frozenset() if request.outputs else await asyncio.to_thread(with_outputs, desk.data, groups, told)
    done = await desk.request(
        views.GroupsDropped,
        lambda number: DropGroups(
            request=number,
            principal=caller,
            groups=groups,
            outputs=request.outputs,
            have_files=have_files,
            each=request.each,
        ),
    )
    return DropResponse(groups=done.groups, left=tuple(GroupLeft(group=group, why=why) for group, why in done.left))


def with_outputs(
    data: DataDir, groups: Iterable[GroupId], told: Callable[[GroupId], Iterable[tuple[FactsKey, Facts]]] | None
) -> frozenset[GroupId]:
    """Return those of the groups for which outputs lie in the node's own folder, also where their names are hidden
    ones, and those that `told`, if it is there, tells outputs of. Blocks on the disk."""

    def has(group: GroupId) -> bool:
        names = (name for _, _, files in os.walk(data.gathered(group)) for name in files)
        if any(not name.startswith(PART_PREFIX) for name in names):
            return True
        return told is not None and any(facts.outputs for _, facts in told(group))

    return frozenset(filter(has, groups))


def target(text: str) -> tuple[GroupId, IndexSet | None]:
    """`alpha-12`, `alpha-12.3` or `alpha-12.[3-9,12]`; None stands for all jobs of the group."""
    group, _, part = text.partition(".")
    if part.startswith("[") and part.endswith("]"):
        try:
            return checked_group(group), IndexSet.parse(part[1:-1])
        except ValueError as error:
            raise UsageError(f"{text!r}: {error}") from None
    name, index = checked_job(text)
    return name, None if index is None else IndexSet.span(index, index + 1)
