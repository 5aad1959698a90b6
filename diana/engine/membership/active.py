"""The sites this one holds streams to: some drawn by rank, those it works with, and a few lost ones, in case they
return.

Each site draws half of `active_peers` for itself and is drawn by about as many, so that streams form a random graph
that hangs together with high probability, whatever n is. In a small VO everybody holds streams to everybody.
"""

from __future__ import annotations

from bisect import insort
from heapq import nsmallest
from typing import TYPE_CHECKING

from diana.engine.journal.effects import Contact, ForgetContact
from diana.engine.membership import contacts, ring
from diana.engine.membership.table import MembershipTable
from diana.model.ids import SiteId
from diana.model.trust.contact import KnownAt
from diana.policy.membership import State, drawn, mark, score, tries

if TYPE_CHECKING:
    from diana.engine.site.context import Context
    from diana.engine.site.view import PeerView

MOST_PARTNERS = 256
RETRIES = 2
"""Lost sites tried at a time, at most."""
RETRY_TURNS = 8
FORGET_AFTER_S = 86400.0
"""Seconds until a site that was lost or left is forgotten."""
MOST_FORGOTTEN = 64
"""Sites forgotten at one turn."""


def begin(core: Context) -> None:
    """Tell the driver, at start, the contacts of the last run."""
    small = len(core.state.contacts) <= core.state.settings.active_peers
    sites = sorted(core.state.contacts)
    first = sites if small else drawn(sites, core.state.settings.active_peers // 2, core.state.generation)
    for site in sites:
        known = core.state.contacts[site]
        keep = site in first
        if keep:
            core.book(MembershipTable).kept.add(site)
        core.emit(Contact(site=site, address=known.address, via=known.via, keep=keep))


def consider(core: Context, site: SiteId) -> None:
    """Choose a site that is new, or newly reached, if it ranks before those that were drawn."""
    members, peer = core.book(MembershipTable), core.view.peers[site]
    if _small(core):
        members.replan = True
        return
    entry = (score(core.site, site), site)
    if not _eligible(core, peer) or entry in members.chosen:
        return
    wanted = core.state.settings.active_peers // 2
    if len(members.chosen) < wanted or entry < members.chosen[-1]:
        insort(members.chosen, entry)
        del members.chosen[wanted:]
        members.replan = True


def look(core: Context) -> None:
    """Settle, at each turn, which sites streams are held to."""
    members = core.book(MembershipTable)
    ring.look(core)
    again = members.turn % RETRY_TURNS == 0
    partners = core.parties.sites()
    if not (members.replan or again or partners - members.kept):
        return
    members.replan = False
    wanted = _wanted(core)
    wanted.update(sorted(partners)[:MOST_PARTNERS])
    wanted.discard(core.site)
    if again:
        _forget(core)
    for site in sorted(wanted - members.kept):
        _hold(core, site)
    for site in sorted(members.kept - wanted):
        _release(core, site)


def _wanted(core: Context) -> set[SiteId]:
    members, peers = core.book(MembershipTable), core.view.peers
    if _small(core):
        return {site for site, peer in peers.items() if peer.state is not State.LEFT} | {
            site for site in core.state.contacts if site not in peers
        }
    _draw(core)
    wanted = {site for _, site in members.chosen}
    lost = sorted(site for site, told in members.standing.items() if told.state == State.LOST)
    away = lost + sorted(site for site in core.state.contacts if site not in peers)
    lonely = core.state.settings.active_peers // 2 - len(members.linked)
    seed = mark(f"{core.site}{members.turn // RETRY_TURNS}")
    wanted.update(drawn(away, max(min(RETRIES, tries(len(away), members.alive, seed)), lonely), seed))
    return wanted


def met(core: Context, site: SiteId) -> None:
    """Note that a stream to the site stands. In a small VO it is held at once, so that its end is noticed from the
    start."""
    members, peer = core.book(MembershipTable), core.view.peers[site]
    if _small(core) and site not in members.kept:
        members.kept.add(site)
        contacts.tell(core, peer)
    peer.loose = site not in members.kept


def _small(core: Context) -> bool:
    return max(len(core.view.peers), len(core.state.contacts)) <= core.state.settings.active_peers


def _draw(core: Context) -> None:
    """Fill the places of chosen sites that are gone."""
    members, peers = core.book(MembershipTable), core.view.peers
    wanted = core.state.settings.active_peers // 2
    members.chosen = [one for one in members.chosen if one[1] in peers and _eligible(core, peers[one[1]])]
    if len(members.chosen) < wanted:
        some = ((score(core.site, site), site) for site, peer in peers.items() if _eligible(core, peer))
        members.chosen = nsmallest(wanted, some)


def _eligible(core: Context, peer: PeerView) -> bool:
    reached = peer.up or peer.address
    return bool(reached) and peer.state < State.LOST and peer.site not in core.view.detours


def _hold(core: Context, site: SiteId) -> None:
    core.book(MembershipTable).kept.add(site)
    peer = core.view.peers.get(site)
    if peer is None:
        known = core.state.contacts.get(site) or KnownAt(site, "")
        core.emit(Contact(site=site, address=known.address, via=known.via, keep=True))
        return
    peer.loose, peer.held_s = False, core.now
    if not peer.up and peer.state is State.ALIVE and not peer.doubted:
        core.book(MembershipTable).awaited[site] = core.now
    contacts.tell(core, peer)


def _release(core: Context, site: SiteId) -> None:
    members = core.book(MembershipTable)
    members.kept.discard(site)
    members.awaited.pop(site, None)
    members.doubts.pop(site, None)
    peer = core.view.peers.get(site)
    if peer is not None:
        peer.loose = True
        contacts.tell(core, peer)
    elif site not in core.state.contacts:
        core.emit(ForgetContact(site))


def _forget(core: Context) -> None:
    """Forget sites that are gone for a day and with which nothing is open."""
    members, peers = core.book(MembershipTable), core.view.peers
    busy = core.parties.sites()
    gone = [
        site
        for site, told in members.standing.items()
        if told.state >= State.LOST
        and core.now - peers[site].last_heard_s > FORGET_AFTER_S
        and site not in busy
        and not peers[site].up
    ]
    for site in sorted(gone)[:MOST_FORGOTTEN]:
        members.order.remove(site)
        ring.forget(core, site)
