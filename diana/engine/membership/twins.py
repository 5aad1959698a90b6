"""Two nodes that show the name of one site, as gossip sees them: the site's address goes back and forth.

Each refutes what it hears of itself, so now the one and now the other has said something newer, and everybody hears
both by turns. A site that moved, was restored or was taken over changes its address once. A site that holds a stream to
one of them and is dialled by the other sees it at once (`adapters/grpc_transport`); in a large VO there may be none.
"""

from __future__ import annotations

from diana.engine.membership.table import Changes, MembershipTable
from diana.engine.site.context import Context
from diana.model.ids import SiteId

FRESH_S = 60.0
"""Seconds; a change this long after the last one begins anew."""
TELL_S = 180.0
"""Seconds for which two nodes are told of after the last change."""
SURE = 6
SURE_S = 15.0
"""`SURE` changes over `SURE_S` seconds are no move of a site."""
MOST = 256


def heard(core: Context, site: SiteId, was_at: str, now_at: str) -> None:
    """Count a change of address between two words of the site, the last and a newer one; either may be empty: it does
    not say."""
    if not was_at or not now_at or was_at == now_at:
        return
    changes = core.book(MembershipTable).twins
    found = changes.get(site)
    if found is None or core.now - found.last_s > FRESH_S:
        for gone in [one for one, old in changes.items() if core.now - old.last_s > TELL_S]:
            del changes[gone]
        if len(changes) >= MOST:
            return
        found = changes[site] = Changes(core.now)
    if found.count and {was_at, now_at} != {found.was_at, found.now_at}:
        # A third address: none of them comes back.
        found.count, found.first_s = 0, core.now
    found.count, found.last_s = found.count + 1, core.now
    found.was_at, found.now_at = was_at, now_at


def note(core: Context, site: SiteId) -> str:
    """Say where two nodes of the name are; empty: it has one, or that is not sure yet."""
    found = core.book(MembershipTable).twins.get(site)
    if found is None or core.now - found.last_s > TELL_S:
        return ""
    if found.count < SURE or found.last_s - found.first_s < SURE_S:
        return ""
    first, second = sorted((found.was_at, found.now_at))
    return f"two nodes: one at {first}, another at {second}; stop one of them"
