"""Contacts of sites: told to the driver, and recorded for the next start.

Whoever is in the VO can name sites and addresses that are none. So the journal keeps a contact only by the word of the
site itself, over a stream that its own certificate opened.
"""

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


def forget_unproven(core: Context) -> None:
    """Drop, at start, contacts that earlier releases kept by others' word, unless there are no better ones."""
    gone = sorted(core.state.contacts.keys() - core.state.peers.keys())
    if gone and len(gone) < len(core.state.contacts):
        core.persist(ContactsLearned(gone=tuple(gone)))


def learn(core: Context, site: SiteId) -> None:
    """Have the contact that a site gave of itself recorded, with others of the next seconds in one record; the first
    few at once, since a standby that takes over then knows nobody else's address."""
    members, contacts = core.book(MembershipTable), core.state.contacts
    peer, known = core.view.peers[site], core.state.contacts.get(site)
    if not peer.address and not (peer.summary and peer.summary.via):
        return
    if known is not None and known.address == peer.address and (known.address or known.via):
        return
    if site in contacts or len(contacts) + len(members.unsaved) < MOST_CONTACTS:
        members.unsaved[site] = KnownAt(site, peer.address, peer.summary.via if peer.summary else ())
        first = site not in contacts and len(contacts) < AT_ONCE
        if first or SiteTimer("contacts") not in core.timers:
            core.after(SiteTimer("contacts"), 0.0 if first else CONTACTS_EVERY_S)


def save(core: Context) -> None:
    told = core.book(MembershipTable).unsaved.values()
    changed = [at for at in told if core.state.contacts.get(at.site) != at]
    core.book(MembershipTable).unsaved.clear()
    if changed:
        core.persist(ContactsLearned(contacts=tuple(sorted(changed, key=lambda one: one.site))))
