"""Calls that change what becomes of a group's jobs: cancel, hold, move, release, retry."""

from __future__ import annotations

from diana.engine.journal.events import CancelJobs, HoldJobs, MoveJobs, ReleaseJobs, RetryJobs
from diana.errors import UsageError
from diana.model.ids import GroupId, site_id
from diana.model.indexset import IndexSet
from diana.model.trust.principal import Principal
from diana.model.views import views
from diana.node.api.desk import Desk, checked_group, checked_job
from diana.wire.client.control import (
    CancelHeldRequest,
    CancelHeldResponse,
    CancelRequest,
    CancelResponse,
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
        to = site_id(request.to)
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
        ),
    )
    return RetryResponse(jobs=done.count)


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
