"""Contacts of sites: told to the driver, and recorded for the next start."""

from __future__ import annotations

from diana.engine.journal.effects import Contact
from diana.engine.journal.records import ContactsLearned
from diana.engine.membership.table import MembershipTable
from diana.engine.site.context import Context
from diana.engine.site.timers import SiteTimer
from diana.engine.site.view import PeerView
from diana.model.ids import SiteId
from diana.model.trust.contact import KnownAt

MOST_CONTACTS = 256
"""Contacts in the journal: enough to find the VO again."""
CONTACTS_EVERY_S = 5.0
AT_ONCE = 4
"""Number of first contacts that are recorded at once, and not with others."""


def tell(core: Context, peer: PeerView) -> None:
    """Tell the driver how the site is reached, whole each time."""
    via = peer.summary.via if peer.summary else ()
    known = core.state.contacts.get(peer.site)
    address = peer.address or (known.address if known and peer.summary is None else "")
    keep = peer.site in core.book(MembershipTable).kept
    core.emit(Contact(site=peer.site, address=address, via=via, keep=keep))


def learn(core: Context, site: SiteId) -> None:
    """Have a contact recorded, with others of the next seconds in one record; the first few at once, since a standby
    that takes over then knows nobody else's address."""
    members, contacts = core.book(MembershipTable), core.state.contacts
    peer = core.view.peers[site]
    if not peer.address and not (peer.summary and peer.summary.via):
        return
    if site in contacts or len(contacts) + len(members.unsaved) < MOST_CONTACTS:
        members.unsaved[site] = None
        first = site not in contacts and len(contacts) < AT_ONCE
        if first or SiteTimer("contacts") not in core.timers:
            core.after(SiteTimer("contacts"), 0.0 if first else CONTACTS_EVERY_S)


def save(core: Context) -> None:
    changed = []
    for site in core.book(MembershipTable).unsaved:
        peer = core.view.peers.get(site)
        if peer is not None:
            at = KnownAt(site, peer.address, peer.summary.via if peer.summary else ())
            if (at.address or at.via) and core.state.contacts.get(site) != at:
                changed.append(at)
    core.book(MembershipTable).unsaved.clear()
    if changed:
        core.persist(ContactsLearned(contacts=tuple(sorted(changed, key=lambda one: one.site))))
