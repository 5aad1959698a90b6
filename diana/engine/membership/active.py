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
from diana.engine.membership import contacts, hearsay, ring
from diana.engine.membership.table import MembershipTable
from diana.engine.migration.table import LongerPause
from diana.model.ids import SiteId
from diana.model.trust.contact import KnownAt
from diana.policy.membership import State, drawn, mark, score, tries

if TYPE_CHECKING:
    from diana.engine.site.context import Context
    from diana.engine.site.view import PeerView

MOST_PARTNERS = 256
RETRIES = 2
"""Lost sites tried at a time, at most, and as many living ones beyond the table."""
RETRY_TURNS = 8
FORGET_AFTER_S = 86400.0
"""Seconds until a site that was lost or left is forgotten."""
UNMET_S = 60.0
"""Seconds for which a site that was never met is dialled."""
VAIN_FIRST_S, VAIN_MOST_S = 60.0, 3600.0
"""Seconds for which it is left alone then, the first time and at most."""
VAIN_ALONE_S = 21600.0
"""The most where one site alone vouches for its address."""
MOST_FORGOTTEN = 64
"""Sites forgotten at one turn."""


def begin(core: Context) -> None:
    """Tell the driver, at start, the contacts of the last run."""
    contacts.forget_unproven(core)
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
    _give_up(core)
    again = members.turn % RETRY_TURNS == 0
    partners = core.parties.sites()
    if not (members.replan or again or partners - members.kept):
        return
    members.replan = False
    wanted = _wanted(core, again)
    wanted.update(sorted(partners)[:MOST_PARTNERS])
    wanted.discard(core.site)
    if again:
        _forget(core)
    for site in sorted(wanted - members.kept):
        _hold(core, site)
    for site in sorted(members.kept - wanted):
        _release(core, site)


def _give_up(core: Context) -> None:
    """Let go, for a pause that doubles, of sites never met that did not come in time."""
    members = core.book(MembershipTable)
    for site, since_s in list(members.unmet.items()):
        if core.now - since_s >= UNMET_S:
            del members.unmet[site]
            most_s = VAIN_MOST_S if hearsay.several(core.view.peers[site]) else VAIN_ALONE_S
            members.vain[site] = members.vain.get(site, LongerPause()).again(core.now, VAIN_FIRST_S, most_s)
            members.replan = True


def _wanted(core: Context, again: bool) -> set[SiteId]:
    members, peers = core.book(MembershipTable), core.view.peers
    if _small(core):
        return {site for site, peer in peers.items() if peer.state is not State.LEFT and not _vain(core, peer)} | {
            site for site in core.state.contacts if site not in peers
        }
    _draw(core)
    wanted = {site for _, site in members.chosen}
    lost = sorted(
        site for site, told in members.standing.items() if told.state == State.LOST and not _vain(core, peers[site])
    )
    seed = mark(f"{core.site}{members.turn // RETRY_TURNS}")
    wanted.update(drawn(lost, min(RETRIES, tries(len(lost), members.alive, seed)), seed))
    # Far sites, met or only heard of, tell of those that are near to this one and that no neighbour knows. A round
    # calls so many, however often the plan is made anew in it: streams to them are talk on top of all other.
    if again:
        members.called.clear()
    far = {*core.state.contacts, *members.heard}.difference(peers, members.called)
    due = min(RETRIES, tries(len(far), members.alive, seed)) if again else 0
    lonely = core.state.settings.active_peers // 2 - len(members.linked)
    members.called += drawn(sorted(far), max(due, lonely) - len(members.called), seed)
    wanted.update(members.called)
    return wanted


def met(core: Context, site: SiteId) -> None:
    """Note that a stream to the site stands. In a small VO it is held at once, so that its end is noticed from the
    start."""
    members, peer = core.book(MembershipTable), core.view.peers[site]
    members.unmet.pop(site, None)
    members.vain.pop(site, None)
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
    there = bool(reached) and peer.state < State.LOST
    return there and peer.site not in core.view.detours and not _vain(core, peer)


def _vain(core: Context, peer: PeerView) -> bool:
    """True while a site that was never met is not dialled again: anybody can invent one, and an address with it."""
    tried = core.book(MembershipTable).vain.get(peer.site)
    return tried is not None and tried.until_s > core.now and not peer.up


def _hold(core: Context, site: SiteId) -> None:
    members = core.book(MembershipTable)
    members.kept.add(site)
    peer = core.view.peers.get(site)
    if peer is None:
        # One heard of is tried once: anybody can invent it, and an address with it.
        known = core.state.contacts.get(site) or members.heard.pop(site, None) or KnownAt(site, "")
        core.emit(Contact(site=site, address=known.address, via=known.via, keep=True))
        return
    peer.loose, peer.held_s = False, core.now
    if peer.hello is None and site not in core.state.peers:
        members.unmet.setdefault(site, core.now)
    if not peer.up and peer.state is State.ALIVE and not peer.doubted:
        members.awaited[site] = core.now
    contacts.tell(core, peer)


def _release(core: Context, site: SiteId) -> None:
    members = core.book(MembershipTable)
    members.kept.discard(site)
    members.awaited.pop(site, None)
    members.doubts.pop(site, None)
    members.unmet.pop(site, None)
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
