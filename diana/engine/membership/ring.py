"""The sites that a table keeps when the VO has more than it should hold: those nearest on a ring of hashed names.

All sites hash to places on one ring, and each keeps the `known_sites` nearest to its own. Neighbours keep nearly the
same ones, so the words of one are of use to the other, and an entry's age depends on `known_sites`, not on the VO;
neighbourhoods overlap all round the ring, so work still flows from any of them to any other. Sites that are spoken to
or that hold work are kept wherever they are. The rule hangs on names alone: tables settle however sites become known.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from diana.engine.journal.effects import ForgetContact
from diana.engine.membership.table import MembershipTable
from diana.engine.placement.draft import Drafts
from diana.model.ids import SiteId
from diana.policy.membership import State, ring_distance

if TYPE_CHECKING:
    from diana.engine.site.context import Context
    from diana.engine.site.view import PeerView

SLACK = 8
"""Divisor of the table's size: it grows by one such part before it is cut back, since a cut looks at all of it."""


def admits(core: Context, site: SiteId) -> bool:
    """True if others' word of a site that is not known yet is of use here."""
    reach = core.book(MembershipTable).reach
    return reach is None or ring_distance(core.site, site) < reach


def is_far(core: Context, peer: PeerView) -> bool:
    """True if the peer's table holds none of the sites that this one is to hold: each keeps those around it."""
    reach = core.book(MembershipTable).reach
    return reach is not None and _apart(core, peer) >= 2 * reach


def look(core: Context) -> None:
    """Cut the table, at each turn, if it is too large; welcome farther sites again if it has lost too many. Lost sites
    take nobody's place, but as many as living ones are remembered, so that no old word brings them back to life."""
    members, wanted = core.book(MembershipTable), core.state.settings.known_sites
    slack, living = wanted // SLACK, members.alive - 1
    if members.reach is not None and living < wanted - slack:
        members.reach = None
    if living <= wanted + slack and len(core.view.peers) <= 2 * (wanted + slack):
        return
    peers = core.view.peers
    found = [(_apart(core, peer), site) for site, peer in peers.items()]
    near = nsmallest(wanted, [one for one in found if peers[one[1]].state < State.LOST])
    lost = nsmallest(wanted, [one for one in found if peers[one[1]].state >= State.LOST])
    if len(near) == wanted:
        members.reach = near[-1][0] + 1
    partners = core.parties.sites() | {site for draft in core.book(Drafts).open.values() for site in draft.waiting}
    kept = members.kept | partners | {site for _, site in (*near, *lost, *members.chosen)}
    for _, site in found:
        if site not in kept and not peers[site].up:
            if peers[site].state < State.LOST and site not in core.state.contacts:
                members.hear_of(site, peers[site].address, peers[site].summary)
            forget(core, site)
    members.order = [site for site in members.order if site in peers]
    members.at = members.digest_at = 0


def _apart(core: Context, peer: PeerView) -> int:
    if peer.apart < 0:
        peer.apart = ring_distance(core.site, peer.site)
    return peer.apart


def forget_all(core: Context, sites: Collection[SiteId]) -> None:
    """Forget these sites, and take them from the order in which the others are told."""
    if not sites:
        return
    members = core.book(MembershipTable)
    for site in sites:
        forget(core, site)
    members.order = [site for site in members.order if site in core.view.peers]
    members.chosen = [one for one in members.chosen if one[1] in core.view.peers]
    members.at = members.digest_at = 0
    members.replan = True


def forget(core: Context, site: SiteId) -> None:
    """Forget all that is known of the site, as if it had never been heard of; `MembershipTable.order` is left to the
    caller."""
    members, peer = core.book(MembershipTable), core.view.peers.pop(site)
    members.hearsay.release(peer)
    if peer.state < State.LOST:
        members.count(site, -1)
    tables: tuple[dict[SiteId, Any], ...] = (
        members.standing,
        members.suspicions,
        members.news,
        members.fresh,
        members.doubts,
        members.awaited,
        members.warned,
        members.unmet,
        members.vain,
        core.view.detours,
    )
    for table in tables:
        table.pop(site, None)
    members.kept.discard(site)
    core.roster.touch(site)
    core.emit(ForgetContact(site))
