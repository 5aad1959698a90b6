"""The executing site's side of leases: an origin's work with `on_site_lost = "rerun"` starts and runs here only while
that origin renews (PROMISES section 2, "Leases"; the other side: `handover/leases.py`).

A lease counts from the sending of the request that was granted. It is asked for when the first such work is committed,
again long before it ends, and after a restart, whose clock knows nothing of the boot before. Whatever becomes of this
process, each machine's own timer ends the jobs when the lease is over (`effects.RenewLease`); they are then tried again
under another.
"""

from __future__ import annotations

from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.dispatch.lease_book import LeaseBook
from diana.engine.journal.effects import RenewLease
from diana.engine.journal.state import Custody
from diana.engine.messages.leases import Renew, Renewed
from diana.engine.site.context import Context
from diana.engine.site.timers import PeerTimer
from diana.model.ids import SiteId

MOST_S = 86400.0
"""Longest lease in seconds, whatever a peer says."""


def leased(core: Context, custody: Custody) -> bool:
    return custody.origin != core.site and custody.spec.on_site_lost == "rerun"


def lapsed(core: Context, custody: Custody) -> bool:
    """True if the custody needs a lease and has none: nothing of it starts now."""
    if not leased(core, custody):
        return False
    known = core.state.peers.get(custody.origin)
    if custody.origin_db and known is not None and custody.origin_db != known.db_uuid:
        # Another database grants the lease than gave the work: it may not know what that one placed anew.
        return True
    return core.now >= core.book(LeaseBook).until.get(custody.origin, float("-inf"))


def begin(core: Context) -> None:
    """Ask, at start, for leases of all work that needs one; so does what stands at a barrier."""
    for key in sorted(core.state.custodies):
        custody = core.state.custodies[key]
        if custody.runnable or custody.running:
            committed(core, custody)


def committed(core: Context, custody: Custody) -> None:
    if not leased(core, custody):
        return
    mine = core.book(LeaseBook).under.setdefault(custody.origin, set())
    mine.add(custody.key)
    # A renewal that came due while all such work was over asked for no other.
    if lapsed(core, custody) or PeerTimer("renew", custody.origin) not in core.timers:
        core.tries.pop(PeerTimer("renew", custody.origin), None)
        ask(core, custody.origin)


def on_peer_up(core: Context, site: SiteId) -> None:
    if site in core.book(LeaseBook).under:
        _look_again(core, site)
        core.tries.pop(PeerTimer("renew", site), None)
        ask(core, site)


def ask(core: Context, origin: SiteId) -> None:
    """Ask the origin for a lease, again and again until it is granted; no more once all such work of it is over."""
    book, custodies = core.book(LeaseBook), core.state.custodies
    mine = {key for key in book.under.get(origin, ()) if key in custodies and not custodies[key].over()}
    timer = PeerTimer("renew", origin)
    if not mine:
        book.under.pop(origin, None)
        core.settle(timer)
        return
    book.under[origin] = mine
    core.send(origin, Renew(generation=core.state.generation, sent_s=core.now))
    if core.now < book.until.get(origin, float("-inf")):
        core.after(timer, book.granted_s[origin] / 8)
    else:
        core.back_off(timer)


def granted(core: Context, sender: SiteId, message: Renewed) -> None:
    book = core.book(LeaseBook)
    if sender not in book.under or message.generation != core.state.generation or message.sent_s > core.now:
        return
    lease_s = min(message.lease_s, MOST_S)
    until_s, before_s = message.sent_s + lease_s, book.until.get(sender, float("-inf"))
    if until_s <= max(before_s, core.now):
        return
    book.until[sender], book.granted_s[sender] = until_s, lease_s
    core.emit(RenewLease(origin=sender, until_s=until_s))
    core.timers.set(PeerTimer("lease-over", sender), until_s)
    core.settle(PeerTimer("renew", sender))
    core.timers.set(PeerTimer("renew", sender), max(core.now, message.sent_s + lease_s / 4))
    if before_s <= core.now:
        _look_again(core, sender)


def over(core: Context, origin: SiteId) -> None:
    core.count("leases_over")
    _look_again(core, origin)


def _look_again(core: Context, origin: SiteId) -> None:
    """Count the origin's work under lease anew: it stands in the queues only while it may start, and a claim keeps
    lesser ones from beginning only then."""
    core.book(ClaimBook).stale = True
    core.requeue.update(key for key in core.book(LeaseBook).under.get(origin, ()) if key in core.state.custodies)
