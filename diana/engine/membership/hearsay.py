"""Sites known by others' word alone: how much of it is kept, who vouches for it, and its end with a ban.

Anybody in the VO can invent sites. So words of sites never met are bounded in bytes, and shared out among those who
tell them: whoever tells most makes room for the others, and what was met is never displaced. Each entry comes with its
way, the sites that passed it on without having met its site. The last one is named by the certificate of its stream,
and each honest site names the one before it by that one's; a liar can add names, and cannot leave its own out of
the last four.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from diana.engine.membership import ring
from diana.engine.membership.sizes import kept_bytes, names_bytes
from diana.engine.membership.table import (
    MOST_HEARSAY_BYTES,
    MOST_HEARSAY_NAMES_BYTES,
    MOST_KNOWN,
    HearsayShare,
    MembershipTable,
)
from diana.engine.messages.messages import HeardFrom, Summary
from diana.model.ids import SiteId

if TYPE_CHECKING:
    from diana.engine.site.context import Context
    from diana.engine.site.view import PeerView

Way = tuple[SiteId, ...]
MOST_WAY = 4
"""Sites kept of a way, those nearest to this one."""
FAIR = 2
"""A site's words make room for another's if they take more than so many times as much."""
PART = 8
"""Divisor of a bound: so much room is made at once, since making it looks at all sites."""
NOWHERE = HeardFrom()


def is_hearsay(core: Context, peer: PeerView) -> bool:
    """True if the site was never met, in this run or an earlier one."""
    return peer.hello is None and peer.site not in core.state.peers


def way(sender: SiteId, told: HeardFrom) -> Way:
    """Return the way to this site of an entry that came to `sender` so."""
    return (sender, *told.sites[: MOST_WAY - 1])


def banned(core: Context, heard: Way) -> bool:
    """True if the entry came through a site that the VO has banned."""
    return bool(core.view.banned) and not core.view.banned.isdisjoint(heard)


def ways(core: Context, sites: Iterable[SiteId]) -> tuple[HeardFrom, ...]:
    """Return how the entries of these sites came here, for whoever is told them."""
    some = [core.view.peers[site].through for site in sites]
    return tuple([HeardFrom(one) if one else NOWHERE for one in some]) if any(some) else ()


def several(peer: PeerView) -> bool:
    """True if at least two sites vouch for the address: no single one can have invented it."""
    return bool(peer.besides)


# --- bounds -------------------------------------------------------------------------------------------


def fit(core: Context, peer: PeerView | None, told: Summary, sender: SiteId) -> Summary | None:
    """Return as much of a newer word about a site never met as is kept, perhaps without the names of its datasets;
    None: nothing. Others' words make room for it where they take much more than the sender's."""
    members, before = core.book(MembershipTable), HearsayShare()
    book = members.hearsay
    if peer is not None and peer.summary is not None and peer.through:
        before.add(kept_bytes(peer.summary), names_bytes(peer.summary))
    names, rest = names_bytes(told), kept_bytes(told)
    if names and book.total.names - before.names + names > MOST_HEARSAY_NAMES_BYTES:
        _shorten(core, sender)
        if book.total.names - before.names + names > MOST_HEARSAY_NAMES_BYTES:
            told, names = replace(told, datasets=(), unnamed=True), 0
    size = rest + names
    for attempt in range(2):
        crowded = peer is None and len(core.view.peers) >= MOST_KNOWN
        if not crowded and book.total.weight() - before.weight() + size <= MOST_HEARSAY_BYTES:
            return told
        if attempt or not _evict(core, sender, peer):
            break
    return None


def keep(peer: PeerView, heard: Way, address: str) -> None:
    """Note the way of the word that stands now. `address`: the one of the word before it."""
    told = peer.summary
    if told is not None and told.address != address:
        peer.besides = ()
    elif peer.through and not set(peer.through) & set(heard):
        peer.besides = peer.through
    elif peer.besides and set(peer.besides) & set(heard):
        peer.besides = ()
    peer.through = heard


def _largest(core: Context, sender: SiteId, names: bool) -> SiteId | None:
    """Return the site whose words are to make room for the sender's; None: nobody's are that much more."""
    by = core.book(MembershipTable).hearsay.by
    taken = {site: share.names if names else share.weight() for site, share in by.items()}
    most = max(taken, key=lambda site: (taken[site], site), default=None)
    return most if most is not None and taken[most] > FAIR * taken.get(sender, 0) and most != sender else None


def _told_by(core: Context, teller: SiteId) -> list[PeerView]:
    """Return the sites known by this one's word, those known longest last."""
    peers = core.view.peers
    some = (peers[site] for site in reversed(core.book(MembershipTable).order))
    return [peer for peer in some if peer.through and peer.through[0] == teller]


def _shorten(core: Context, sender: SiteId) -> None:
    """Give up names of datasets that the site told whose names take most."""
    teller = _largest(core, sender, names=True)
    if teller is None:
        return
    book, left = core.book(MembershipTable).hearsay, MOST_HEARSAY_NAMES_BYTES // PART
    for peer in _told_by(core, teller):
        if left <= 0:
            return
        if peer.summary is not None and peer.summary.datasets:
            left -= names_bytes(peer.summary)
            book.release(peer)
            peer.summary = replace(peer.summary, datasets=(), unnamed=True)
            book.charge(peer)
            core.roster.touch(peer.site)


def _evict(core: Context, sender: SiteId, sparing: PeerView | None) -> bool:
    """Forget sites told by the one whose words take most, latest first. False: none could be."""
    teller = _largest(core, sender, names=False)
    if teller is None:
        return False
    partners, bytes_left, rows_left = core.parties.sites(), MOST_HEARSAY_BYTES // PART, MOST_KNOWN // PART
    gone: list[SiteId] = []
    for peer in _told_by(core, teller):
        if bytes_left <= 0 or rows_left <= 0:
            break
        if peer is not sparing and peer.summary is not None and peer.site not in partners:
            bytes_left -= kept_bytes(peer.summary) + names_bytes(peer.summary)
            rows_left -= 1
            gone.append(peer.site)
    ring.forget_all(core, gone)
    core.count("entries_refused", len(gone))
    return bool(gone)


# --- a ban --------------------------------------------------------------------------------------------


def clear(core: Context, sites: frozenset[SiteId]) -> None:
    """Forget, of sites newly banned, what they alone vouched for: sites never met, their contacts and their dials."""
    if not sites:
        return
    members = core.book(MembershipTable)
    partners, gone = core.parties.sites(), list[SiteId]()
    for site in members.order:
        peer = core.view.peers[site]
        if not sites.isdisjoint(peer.besides):
            peer.besides = ()
        if sites.isdisjoint(peer.through):
            continue
        if peer.besides:
            members.hearsay.release(peer)
            peer.through, peer.besides = peer.besides, ()
            members.hearsay.charge(peer)
        elif site not in partners:
            gone.append(site)
    ring.forget_all(core, gone)
    # Who told of those is not known any more; others tell of them again.
    members.heard.clear()
    if gone:
        members.replan = True
