"""The calls that are one question to the engine, and those that end the node or add to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

import msgspec

from diana.engine.journal.events import Ask
from diana.errors import UsageError
from diana.model.ids import GroupId, job_id, site_id
from diana.model.trust.principal import Principal
from diana.model.views import views
from diana.model.views.queue import QueueView
from diana.model.views.site import Site
from diana.node.api import ended
from diana.node.api.convert import to_decision, to_results, to_status
from diana.node.api.desk import Desk, checked_group, checked_job
from diana.node.api.live_logs import stand_of, where_is
from diana.node.doctor.names import both
from diana.wire.client import messages as wire
from diana.wire.client.queues import QueueReadRequest
from diana.wire.client.sites import SitesResponse
from diana.wire.pages import first_page, pages

STOP_AFTER_S = 0.05
"""Seconds between the answer to Stop and the stop, so that the answer leaves."""
FEW_GROUPS = 16
"""Named groups up to so many are asked for one by one, more in one question."""
MOST_GROUPS = 10_000
"""Groups that can be asked for by name in one call."""
MOST_LISTED = 3_000
MOST_WITH_SHARES = 64
MOST_DECISIONS = 100
MOST_OUTCOMES = 1000
MOST_WAITING = 1000


async def status(desk: Desk, caller: Principal, request: wire.StatusRequest) -> wire.StatusResponse:
    if not request.groups:
        return await _listed(desk, caller, request)
    if len(request.groups) <= FEW_GROUPS:
        asked = [await desk.group(caller, checked_group(text)) for text in request.groups]
    else:
        asked = await _named(desk, caller, request.groups)
    if request.mine:
        asked = [view for view in asked if view.owner == caller.name]
    if request.active:
        asked = [view for view in asked if not view.final]
    found = list(map(to_status, without_shares(asked)))
    if desk.notices is not None and len(found) <= FEW_GROUPS:
        notices = desk.notices
        stands = await asyncio.to_thread(lambda: [notices.stands(one.group) if one.final else () for one in found])
        found = [msgspec.structs.replace(one, notices=said) for one, said in zip(found, stands, strict=True)]
    return wire.StatusResponse(groups=tuple(found))


async def _listed(desk: Desk, caller: Principal, request: wire.StatusRequest) -> wire.StatusResponse:
    limit = min(request.limit, MOST_LISTED) if request.limit > 0 else MOST_LISTED
    found = await desk.request(
        views.Groups,
        lambda number: Ask(
            request=number, principal=caller, what="groups", mine=request.mine, active=request.active, limit=limit
        ),
    )
    every = [*found.groups, *await _by_name(desk, caller, found.more)]
    return wire.StatusResponse(groups=tuple(map(to_status, without_shares(every))), left_out=found.left_out)


def without_shares(asked: list[views.GroupView]) -> list[views.GroupView]:
    """Take the shares from the groups where there are more than a few, so that one message holds them."""
    return asked if len(asked) <= MOST_WITH_SHARES else [msgspec.structs.replace(view, shares=()) for view in asked]


async def _named(desk: Desk, caller: Principal, names: tuple[str, ...]) -> list[views.GroupView]:
    """The groups of these names, in that order."""
    if len(names) > MOST_GROUPS:
        raise UsageError(f"status of {len(names):,} groups at once: ask for at most {MOST_GROUPS:,}")
    found = await _by_name(desk, caller, tuple(map(checked_group, names)))
    known = {view.group for view in found}
    missing = next((name for name in names if name not in known), None)
    if missing is not None:
        raise UsageError(f"group {missing!r}: not known here, or not yours; `diana status` lists yours")
    return found


async def _by_name(desk: Desk, caller: Principal, names: tuple[GroupId, ...]) -> list[views.GroupView]:
    """Those of the groups that the caller may see. They are asked for a few at a time: other calls come between."""
    found: list[views.GroupView] = []
    for first in range(0, len(names), views.GROUPS_AT_ONCE):
        some = names[first : first + views.GROUPS_AT_ONCE]
        found += (await desk.request(views.Groups, partial(_ask_for, caller, some))).groups
    return found


def _ask_for(caller: Principal, some: tuple[GroupId, ...], number: int) -> Ask:
    return Ask(request=number, principal=caller, what="groups", named=some)


async def explain(desk: Desk, caller: Principal, request: wire.GroupRequest) -> wire.ExplainResponse:
    group, index = checked_job(request.group)
    found = await desk.request(views.Explanation, partial(_ask_why, caller, group, -1 if index is None else index))
    if index is not None:
        return await _explain_job(desk, caller, found, index)
    return wire.ExplainResponse(
        group=found.group,
        decisions=tuple(map(to_decision, found.decisions[-MOST_DECISIONS:])),
        achieved_s=found.achieved_s,
        waiting=found.waiting[:MOST_WAITING],
        outcomes=found.outcomes[-MOST_OUTCOMES:],
        predicted_s=found.predicted_s,
        predicted_low_s=found.predicted_low_s,
        predicted_high_s=found.predicted_high_s,
        placed_s=found.placed_s,
        stays=found.stays,
        gangs=found.gangs,
        contracts=found.contracts,
        ways=tuple(one.line for one in found.ways),
        refused=to_decision(found.refused, refused=found.refused.reason) if found.refused is not None else None,
        exchanges=found.exchanges,
        begun=found.begun,
    )


def _ask_why(caller: Principal, group: GroupId, job: int, number: int) -> Ask:
    return Ask(request=number, principal=caller, what="explain", group=group, job=job)


async def _explain_job(desk: Desk, caller: Principal, found: views.Explanation, index: int) -> wire.ExplainResponse:
    view = await desk.group(caller, found.group)
    if index >= view.indices:
        raise UsageError(f"{found.group} has jobs 0 to {view.indices - 1}, no {index}")
    place = await where_is(desk, caller, found.group, index)
    story = await _ended_story(desk, caller, found.group, index)
    if story is None:
        story = await stand_of(desk, caller, view, index)
    # What is known of a whole part, of the one that the job is in.
    waits = story.state in ("waiting", "held", "queued")
    parts = ("", place.subgroup) if place.site is None else (place.subgroup,)
    return wire.ExplainResponse(
        group=found.group,
        decisions=tuple(map(to_decision, found.decisions[place.decision :][:1])) if place.decision >= 0 else (),
        waiting=tuple(row for row in found.waiting if row.part in parts)[:MOST_WAITING] if waits else (),
        job=story,
        gangs=found.gangs,
        begun=found.begun,
        ways=tuple(one.line for one in found.ways if index in one.jobs),
    )


async def _ended_story(desk: Desk, caller: Principal, group: GroupId, index: int) -> wire.JobStory | None:
    """The story of a job that has ended; None: it has not."""
    wanted = wire.ResultsRequest(group=group, outcome=ended.ANY, first=index, most=1)
    async with aclosing(ended.pages(desk, caller, group, wanted)) as pages:
        async for number, facts in pages:
            for k, at in enumerate(facts.indices):
                if at == index:
                    row = to_results(number, facts)
                    return wire.JobStory(
                        job=job_id(group, index),
                        state=row.outcomes[k],
                        site=row.site,
                        attempt=row.attempts[k],
                        note=next((error.text for error in row.errors if error.index == index), ""),
                        exit_code=row.exit_codes[k],
                        signal=row.signals[k] if row.signals else 0,
                        started_s=row.started_s[k],
                        ended_s=row.ended_s[k],
                        cpu_s=row.cpu_s[k],
                        max_rss_bytes=row.max_rss_bytes[k],
                    )
    return None


async def queue(desk: Desk, caller: Principal, request: QueueReadRequest) -> QueueView:
    """Read the queue of this site, or of another that is asked for it. Unreachable when that does not answer."""
    try:
        site = site_id(request.site) if request.site else None
    except ValueError as error:
        raise UsageError(f"queue: {error}") from None
    return await desk.request(QueueView, lambda number: Ask(request=number, principal=caller, what="queue", site=site))


async def sites(desk: Desk, caller: Principal, request: wire.Empty) -> SitesResponse:
    rows, more = first_page(await _sites(desk, caller))
    # A part of them is those met first, lest sites that somebody invented take the place of those that are.
    return SitesResponse(sites=rows if more else tuple(sorted(rows, key=lambda r: (not r.home, r.site))), more=more)


async def all_sites(desk: Desk, caller: Principal, request: wire.Empty) -> AsyncGenerator[SitesResponse, None]:
    for page in pages(await _sites(desk, caller)):
        yield SitesResponse(sites=page)


async def _sites(desk: Desk, caller: Principal) -> list[Site]:
    """This one, then those that were met, then the others, each in order of the name."""
    found = await desk.ask(views.Sites, caller, "sites")
    began_wall_s = desk.wall_s() - desk.door.now_s()
    rows = [_dated(site, began_wall_s) for site in found.sites]
    noticed = desk.insight.notes() if desk.insight is not None else {}
    for at, row in enumerate(rows):
        if more := noticed.get(row.site, ""):
            rows[at] = msgspec.structs.replace(row, note=both(row.note, more))
    return rows


def _dated(view: views.SiteView, began_wall_s: float) -> Site:
    """Whole seconds: two clocks read one after the other must not make it another row each time."""
    guarded = tuple(
        msgspec.structs.replace(
            entry.shown,
            since_wall_s=float(round(began_wall_s + entry.since_s)),
            until_wall_s=float(round(began_wall_s + entry.until_s)) if entry.until_s >= 0 else 0.0,
        )
        for entry in view.guarded
    )
    return msgspec.structs.replace(view.shown, guarded=guarded) if guarded else view.shown


async def info(desk: Desk, caller: Principal, request: wire.Empty) -> wire.InfoResponse:
    found = await desk.ask(views.Info, caller, "info")
    about = desk.about
    return wire.InfoResponse(
        site=found.site,
        vo=about.vo,
        release=about.release,
        data=str(desk.data.root),
        address=about.address,
        db_uuid=found.db_uuid,
        generation=found.generation,
        pid=os.getpid(),
        groups=found.groups,
        queued_jobs=found.queued_jobs,
        running_jobs=found.running_jobs,
        principal=caller.name,
        role=caller.role.value,
    )


async def stop(desk: Desk, caller: Principal, request: wire.Empty) -> wire.Empty:
    asyncio.get_running_loop().call_later(STOP_AFTER_S, desk.stop)
    return wire.Empty()
