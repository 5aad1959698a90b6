"""The call behind `diana links`."""

from __future__ import annotations

from diana.engine.journal.events import Ask
from diana.errors import UsageError
from diana.model.ids import SiteId, site_id
from diana.model.trust.principal import Principal
from diana.model.views.link import LinkMap
from diana.node.api.convert import to_message
from diana.node.api.desk import Desk
from diana.wire.client import messages as wire


async def links(desk: Desk, caller: Principal, request: wire.LinksRequest) -> wire.LinkMap:
    if request.source and request.paths:
        raise UsageError("links: either the links from a site or the paths of one; ask twice for both")
    source, paths = _site(request.source), _site(request.paths)
    what, site = ("paths", paths) if paths else ("links", source)
    found = await desk.request(LinkMap, lambda number: Ask(request=number, principal=caller, what=what, site=site))
    return to_message(found, wire.LinkMap)


def _site(text: str) -> SiteId | None:
    try:
        return site_id(text) if text else None
    except ValueError as error:
        raise UsageError(f"links: {error}") from None
