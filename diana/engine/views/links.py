"""The answer to `diana links`: own forecasts, what peers told of theirs, and the ways that follow from both."""

from __future__ import annotations

from itertools import chain

from msgspec.structs import replace

from diana.engine.journal.effects import Refusal
from diana.engine.journal.events import Ask
from diana.engine.messages.messages import LinkEstimate
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.model.views.link import LinkMap, LinkView
from diana.policy.links.graph import GridGraph

MOST_ROWS = 2000
"""Rows in one answer."""


def links(core: Context, event: Ask) -> LinkMap | Refusal:
    """Answer `links`: the rows, only those from `site` if it is named; or `paths`: all rows, and how far `site` is."""
    rows = _rows(core)
    if event.site is not None and event.site not in _known(core, rows):
        return Refusal(code="usage", text=f"links: no site {event.site} known here; see: diana sites")
    near = GridGraph(rows).near(event.site) if event.what == "paths" and event.site is not None else []
    if event.what == "links" and event.site is not None:
        rows = [row for row in rows if row.source == event.site]
    return LinkMap(
        site=core.site,
        links=tuple(rows[:MOST_ROWS]),
        links_left_out=max(0, len(rows) - MOST_ROWS),
        near=tuple(near[:MOST_ROWS]),
    )


def _known(core: Context, rows: list[LinkView]) -> set[SiteId]:
    ends = chain.from_iterable((row.source, row.target) for row in rows)
    return {core.site, *core.view.peers, *ends}


def _rows(core: Context) -> list[LinkView]:
    """Return the rows: own ones first, then the others' by who told them; each in order of the source."""
    own = [_own(core, one) for one in core.view.links()]
    told = [
        _told(core, site, one)
        for site in sorted(core.view.peers)
        for one in sorted(core.view.peers[site].told_links, key=lambda one: one.site)
    ]
    return own + told


def _own(core: Context, one: LinkEstimate) -> LinkView:
    link = core.view.book.link(one.site)
    rtt = link.rtt.forecast()
    return replace(
        _row(one, core.site),
        rtt_error_s=rtt.error if rtt else -1.0,
        rtt_predictor=rtt.predictor if rtt else "",
        rtt_age_s=link.rtt.age_s(core.now),
    )


def _told(core: Context, by: SiteId, one: LinkEstimate) -> LinkView:
    since_s = max(0.0, core.now - core.view.peers[by].told_links_s)
    return replace(_row(one, by), age_s=one.age_s + since_s if one.age_s >= 0 else -1.0, told=True)


def _row(one: LinkEstimate, target: SiteId) -> LinkView:
    return LinkView(
        source=one.site,
        target=target,
        rtt_s=one.rtt_s,
        bytes_per_s=one.bytes_per_s,
        jitter_s=one.jitter_s,
        loss=one.loss,
        error=one.error,
        predictor=one.predictor,
        samples=one.samples,
        age_s=one.age_s,
        rtt_error_s=-1.0,
        rtt_age_s=-1.0,
        backlog_bytes=one.backlog_bytes,
    )
