"""The peers of this site: their coming and going, their summaries, and what they tell of their links. Work is priced
by these; `membership/` spreads them beyond the streams at hand."""

from __future__ import annotations

from diana import __version__
from diana.engine.dispatch import capacity, renewals, turns
from diana.engine.handover import destination, leases, machine_events, origin
from diana.engine.journal.state import Step
from diana.engine.membership import active, merge, spreading, suspicion, trust_ledger
from diana.engine.membership.merge import MAX_NAMED_DATASETS
from diana.engine.membership.table import MembershipTable
from diana.engine.messages.messages import Hello, LinkEstimate, Summary
from diana.engine.migration import inviting, metascheduling, rescheduling, stranded, surplus, swaps, unmet
from diana.engine.placement import pull_back
from diana.engine.placement.draft import Drafts
from diana.engine.placement.reservations import Reservations
from diana.engine.queue import littles
from diana.engine.site import journal_doubt, links
from diana.engine.site.context import Context
from diana.engine.site.timers import RequestTimer, SiteTimer
from diana.model.ids import SiteId
from diana.model.job import declared
from diana.model.job.resources import GPUS, MEMORY

__all__ = ["MAX_NAMED_DATASETS", "begin", "leave", "on_peer_down", "on_peer_up", "on_summary", "summary", "tell_all"]


def begin(core: Context, address: str) -> None:
    """Begin, at start. `address`: the one this site is reached at; empty: it can only dial out."""
    core.book(MembershipTable).address, core.book(MembershipTable).incarnation = address, core.state.generation
    spreading.refill(core)
    active.begin(core)
    core.after(SiteTimer("summary"), 0.0)


def on_peer_up(core: Context, hello: Hello) -> None:
    site = hello.site
    if site == core.site:
        core.warn("a peer calls itself by this site's name")
        return
    wrong = journal_doubt.judge(core, hello)
    if wrong:
        # Work committed there can no longer be relied on.
        _distrust(core, site, f"{site} {wrong} than the one that took this work")
    members = core.book(MembershipTable)
    known = core.view.peers.get(site)
    same = known is not None and known.here and known.hello is not None and known.hello.boot_nonce == hello.boot_nonce
    if known is None:
        merge.joined(core, site)
    if known is not None:
        # It speaks for itself now.
        members.hearsay.release(known)
        known.through = known.besides = ()
    peer = core.view.met(hello)
    peer.up, peer.loose_there, peer.last_heard_s = True, False, core.now
    members.linked[site] = None
    core.view.detours.pop(site, None)
    members.meeting.add(site)
    suspicion.alive_again(core, peer)
    active.met(core, site)
    core.roster.touch(hello.site)
    journal_doubt.greet(core, site)
    peer.loose_said = peer.loose
    core.send(site, summary(core, links.told_always(core), loose=peer.loose))
    origin.resend_all(core, site)
    destination.say_again(core, site)
    leases.disown(core, site)
    renewals.on_peer_up(core, site)
    # A stream that comes and goes for single quotes is no reason to price what waits elsewhere; a site that began anew
    # has forgotten what waits there.
    told = core.book(Reservations).told
    unplaced = (name for name in core.totals.unplaced() if not core.state.groups[name].state)
    core.to_place.update(name for name in unplaced if not same or site in told.get(name, ()))


def _distrust(core: Context, site: SiteId, reason: str) -> None:
    if site in core.view.peers:
        # It was counted by generations that are no longer its own.
        core.view.peers[site].summary = None
        core.book(MembershipTable).standing.pop(site, None)
        suspicion.renew(core, core.view.peers[site])
    for group, subgroup in core.parties.handed_to(site):
        if subgroup.unreachable:
            continue
        if subgroup.step is Step.OFFERED:
            origin.take_back(core, group, subgroup, reason)
        else:
            origin.mark_unreachable(core, group, subgroup, reason)


def on_peer_down(core: Context, site: SiteId) -> None:
    peer = core.view.peers.get(site)
    if peer is None:
        return
    was_tied = peer.tied
    peer.up = False
    core.book(MembershipTable).linked.pop(site, None)
    core.book(MembershipTable).hears_all.pop(site, None)
    if was_tied:
        suspicion.fell(core, site)
    core.roster.touch(site)
    for draft in list(core.book(Drafts).open.values()):
        if site in draft.waiting:
            # A peer that is gone gives no quote: do not wait for it.
            draft.waiting.discard(site)
            if not draft.waiting:
                core.after(RequestTimer("quotes", draft.number), 0.0)


def on_summary(core: Context, sender: SiteId, message: Summary) -> None:
    peer, members = core.view.peers.get(sender), core.book(MembershipTable)
    if peer is None or message.site != sender:
        core.warn(f"{sender} sent a summary of {message.site}")
        return
    if not merge.first_hand(core, peer, message):
        return
    if message.complete:
        members.hears_all[sender] = message.members
    else:
        members.hears_all.pop(sender, None)
    if peer.hello is not None:
        journal_doubt.heard(core, sender, peer.hello.db_uuid, message.seq, message.seal)
    trust_ledger.compare(core, sender, message.ledger)
    if message.links:
        links.heard(core, sender, message.links)
    if sender in members.meeting:
        members.meeting.discard(sender)
        spreading.meet(core, peer, message)


def summary(core: Context, told: tuple[LinkEstimate, ...] = (), *, loose: bool = False, left: bool = False) -> Summary:
    settings, members = core.state.settings, core.book(MembershipTable)
    slots, offer = core.workers.slots(), core.workers.offer()
    core.summary_counter += 1
    names = tuple(sorted(core.state.datasets)[:MAX_NAMED_DATASETS])
    if names != members.names:
        members.names, members.named_at = names, core.summary_counter
    return Summary(
        site=core.site,
        generation=max(members.incarnation, core.state.generation),
        counter=core.summary_counter,
        seq=core.state.seq,
        seal=core.seal(),
        slots=slots,
        free_slots=capacity.free_slots(core),
        speed=settings.speed,
        queued_jobs=capacity.queued_jobs(core),
        running_jobs=capacity.running_jobs(core),
        work_ahead_s=capacity.work_ahead_s(core),
        datasets=names,
        accepting=settings.accept_remote and not (core.low_room or core.drained() or journal_doubt.fallen(core)),
        links=told,
        address=members.address,
        via=spreading.via(core),
        release=__version__,
        protocol=1,
        named_at=members.named_at,
        left=left or members.leaving,
        loose=loose,
        known=members.alive,
        members=members.marks,
        complete=len(members.linked) + 1 >= members.alive,
        ledger=trust_ledger.digest(core),
        drained=core.drained(),
        notice=core.calendar.notice,
        machines=machine_events.count(core),
        memory_bytes=offer.most.get(MEMORY, 0),
        gpus=core.workers.whole(GPUS),
        domain=settings.domain,
        widest=offer.processors if offer.processors < slots else 0,
        resources=dict(declared.sane(offer.most.items())),
        properties=settings.properties,
        declares=True,
    )


def tell_all(core: Context) -> None:
    """Do one turn, every `summary_every_s`: judge silence, choose streams, tell of this site and of others."""
    if core.book(MembershipTable).leaving:
        return
    core.after(SiteTimer("summary"), core.state.settings.summary_every_s)
    core.book(MembershipTable).turn += 1
    suspicion.look(core)
    active.look(core)
    spreading.tell_own(core, summary(core, links.told_now(core)))
    spreading.others(core)
    destination.tell_progress(core)
    turns.tell_stopped(core)
    pull_back.look(core)
    rescheduling.look(core)
    swaps.look(core)
    metascheduling.look(core)
    stranded.look(core)
    unmet.look(core)
    surplus.look(core)
    inviting.look(core)
    core.counters.update(littles.counters(core.line.flow.figures(core.now)))


def leave(core: Context) -> None:
    """Say the last word of this run, so that no peer waits for this site or wonders."""
    core.book(MembershipTable).leaving = True
    spreading.tell_own(core, summary(core, left=True))
