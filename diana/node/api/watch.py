"""The calls behind `diana links`, `peers`, `doctor`, `dashboard` and `metrics`: what there is to see of this node, its
links and other sites."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from diana.engine.journal.events import Ask
from diana.errors import UsageError
from diana.model.ids import SiteId, site_id
from diana.model.trust.principal import Principal
from diana.model.views.link import LinkMap
from diana.model.views.peers import Peers
from diana.node.api.desk import Desk
from diana.node.metrics.exposing import Metrics
from diana.node.ways_in.door import Insight, Views
from diana.wire.client import messages as wire
from diana.wire.client.dashboard import ActivityRequest, ActivityResponse, DashboardRequest, DashboardResponse
from diana.wire.client.links import LinksRequest
from diana.wire.client.peers import DoctorResponse, MetricsResponse, PeersResponse
from diana.wire.pages import first_page, pages


async def links(desk: Desk, caller: Principal, request: LinksRequest) -> LinkMap:
    if request.source and request.paths:
        raise UsageError("links: either the links from a site or the paths of one; ask twice for both")
    source, paths = _site(request.source), _site(request.paths)
    what, site = ("paths", paths) if paths else ("links", source)
    return await desk.request(LinkMap, lambda number: Ask(request=number, principal=caller, what=what, site=site))


def _site(text: str) -> SiteId | None:
    try:
        return site_id(text) if text else None
    except ValueError as error:
        raise UsageError(f"links: {error}") from None


async def peers(desk: Desk, caller: Principal, request: wire.Empty) -> PeersResponse:
    found = _insight(desk).describe(await desk.ask(Peers, caller, "peers"))
    bare = msgspec.structs.replace(found, peers=())
    rows, more = first_page(found.peers, bare)
    rows = rows if more else tuple(sorted(rows, key=lambda row: row.site))
    return msgspec.structs.replace(bare, peers=rows, more=more)


async def all_peers(desk: Desk, caller: Principal, request: wire.Empty) -> AsyncGenerator[PeersResponse, None]:
    found = _insight(desk).describe(await desk.ask(Peers, caller, "peers"))
    bare = msgspec.structs.replace(found, peers=())
    for page in pages(found.peers, bare):
        yield msgspec.structs.replace(bare, peers=page)


async def doctor(desk: Desk, caller: Principal, request: wire.Empty) -> DoctorResponse:
    """Answers within about 3 s, whatever hangs."""
    found = await desk.ask(Peers, caller, "peers")
    return DoctorResponse(checks=await _insight(desk).examine(found))


def _insight(desk: Desk) -> Insight:
    if desk.insight is None:
        raise UsageError("this node has no links to other sites to tell of")
    return desk.insight


async def dashboard(desk: Desk, caller: Principal, request: DashboardRequest) -> DashboardResponse:
    return _views(desk).pages.let_in(caller, request)


async def activity(desk: Desk, caller: Principal, request: ActivityRequest) -> ActivityResponse:
    return _views(desk).activity.since(request.after_wall_s)


def _views(desk: Desk) -> Views:
    if desk.views is None:
        raise UsageError("this machine shows no dashboard; ask the one that leads its site")
    return desk.views


async def metrics(desk: Desk, caller: Principal, request: wire.Empty) -> MetricsResponse:
    return await exposed(metrics_of(desk))


def metrics_of(desk: Desk) -> Metrics:
    if desk.metrics is None:
        raise UsageError("this node keeps no metrics")
    return desk.metrics


async def exposed(metrics: Metrics) -> MetricsResponse:
    text, _ = await metrics.exposition()
    return MetricsResponse(text=text.decode())
