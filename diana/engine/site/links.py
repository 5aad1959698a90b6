"""Links between sites: samples come in, one record now and then keeps them, summaries tell the freshest on."""

from __future__ import annotations

from diana.engine.journal.effects import Gather, StageIn
from diana.engine.journal.events import LinkMeasured
from diana.engine.journal.records import LinksRecorded
from diana.engine.messages.messages import LinkEstimate
from diana.engine.site.context import Context
from diana.engine.site.timers import SiteTimer
from diana.engine.site.view import ToldLinks
from diana.model.ids import SiteId

MOST_TOLD = 16
"""Links in a summary."""
TOLD_EVERY_S = 10.0
"""Seconds between summaries with links: forecasts move slowly, and the summaries between are spared them."""
TOLD_IDLE_S = 30.0
"""The same by a site that has no work: its links are measured as seldom."""
TOLD_AGAIN_S = 1.0
"""Seconds for which newcomers are told the same links."""
_RECORD = SiteTimer("links")


def on_measured(core: Context, event: LinkMeasured) -> None:
    if event.site == core.site:
        return
    book = core.view.book
    book.link(event.site).measured(core.now, event.rtt_s, event.bytes_per_s, event.sent, event.lost)
    book.fresh(event.site)
    if _RECORD not in core.timers:
        core.after(_RECORD, core.state.settings.link_history_every_s)


def record(core: Context) -> None:
    """Persist the new samples; due once after the first that is not kept yet, so that an idle link wakes nobody."""
    taken = core.view.book.take()
    if taken:
        core.persist(LinksRecorded(links=taken))
        core.view.book.attach(one.site for one in taken)


def told_now(core: Context) -> tuple[LinkEstimate, ...]:
    """Return this site's freshest estimates for its next summary; none if they are not due."""
    view = core.view
    if core.now < view.told_again_s:
        return ()
    busy = core.totals.waiting() or core.totals.started()
    view.told_again_s = core.now + (TOLD_EVERY_S if busy else TOLD_IDLE_S)
    return view.book.freshest(MOST_TOLD)


def told_always(core: Context) -> tuple[LinkEstimate, ...]:
    """Return the links for a peer that has heard none yet. A site that meets many at once tells all of them the
    same."""
    view = core.view
    if core.now - view.told_s >= TOLD_AGAIN_S:
        view.told, view.told_s = view.book.freshest(MOST_TOLD), core.now
    return view.told


def heard(core: Context, sender: SiteId, told: tuple[LinkEstimate, ...]) -> None:
    """Keep what a peer tells of its links: a claim, never trusted over an own measurement."""
    if len(told) > MOST_TOLD or any(one.site == sender for one in told):
        told = tuple(one for one in told[:MOST_TOLD] if one.site != sender)
    # Else as it came: in a simulation many sites keep one object.
    core.view.peers[sender].told = ToldLinks(told, core.now)


def ordered(core: Context, order: StageIn | Gather, size_bytes: int = 0) -> None:
    """Count the bytes that will come here, until the order's StageDone, on the best source of each file. `size_bytes`:
    those of a Gather, whose files the order does not name."""
    if isinstance(order, Gather):
        sizes = {order.source: size_bytes}
    else:
        sizes = {}
        for fetch in order.files:
            if fetch.sources:
                sizes[fetch.sources[0]] = sizes.get(fetch.sources[0], 0) + fetch.file.size_bytes
    core.view.book.ordered(order.ticket, sorted((s, n) for s, n in sizes.items() if s != core.site and n > 0))


def settled(core: Context, ticket: int) -> None:
    core.view.book.settled(ticket)
