"""Who is there: peers coming and going, their summaries, what they tell of their links. Work is priced on what this
learns."""

from __future__ import annotations

import msgspec

from diana.engine import custody, handover, links, littles, load
from diana.engine.context import Context
from diana.engine.messages import Hello, LinkEstimate, Summary
from diana.engine.records import PeerSeen
from diana.engine.state import Step
from diana.model.ids import SiteId

MAX_NAMED_DATASETS = 256
"""In a summary; more are found by asking for a quote."""


def on_peer_up(core: Context, hello: Hello) -> None:
    site = hello.site
    if site == core.site:
        core.warn("a peer calls itself by this site's name")
        return
    _remember(core, hello)
    peer = core.view.met(hello)
    peer.up, peer.last_heard_s = True, core.now
    core.roster.touch(hello.site)
    core.send(site, summary(core, links.told_always(core)))
    handover.resend_all(core, site)
    custody.say_again(core, site)
    core.to_place.update(name for name in core.totals.unplaced() if not core.state.groups[name].state)


def _remember(core: Context, hello: Hello) -> None:
    """Notice a database that was lost or put back: what was committed there can no longer be relied on."""
    known = core.state.peers.get(hello.site)
    if known is not None:
        if (hello.db_uuid, hello.generation, hello.boot_nonce) == (known.db_uuid, known.generation, known.boot_nonce):
            return
        what = ""
        if hello.db_uuid != known.db_uuid:
            what = "has another database"
        elif hello.generation <= known.generation or hello.seq < max(known.seq, _heard_seq(core, hello)):
            what = "came back with an older database"
        if what:
            _distrust(core, hello.site, f"{hello.site} {what} than the one that took this work")
    core.persist(
        PeerSeen(
            site=hello.site,
            db_uuid=hello.db_uuid,
            generation=hello.generation,
            boot_nonce=hello.boot_nonce,
            seq=hello.seq,
        )
    )


def _heard_seq(core: Context, hello: Hello) -> int:
    """What the peer's last summary said of its journal, if it was the same database."""
    peer = core.view.peers.get(hello.site)
    same = peer is not None and peer.hello.db_uuid == hello.db_uuid
    return peer.summary.seq if peer is not None and same and peer.summary is not None else 0


def _distrust(core: Context, site: SiteId, reason: str) -> None:
    if site in core.view.peers:
        # Counted by generations that are no longer its own.
        core.view.peers[site].summary = None
    for group, subgroup in core.parties.handed_to(site):
        if subgroup.unreachable:
            continue
        if subgroup.step is Step.OFFERED:
            handover.take_back(core, group, subgroup, reason)
        else:
            handover.mark_unreachable(core, group, subgroup, reason)


def on_peer_down(core: Context, site: SiteId) -> None:
    peer = core.view.peers.get(site)
    if peer is None:
        return
    peer.up = False
    core.roster.touch(site)
    for draft in list(core.drafts.values()):
        if site in draft.waiting:
            # Whoever is gone gives no quote: do not wait for it.
            draft.waiting.discard(site)
            if not draft.waiting:
                core.after(("quotes", str(draft.number)), 0.0)


def on_summary(core: Context, sender: SiteId, message: Summary) -> None:
    peer = core.view.peers.get(sender)
    if peer is None or message.site != sender:
        core.warn(f"{sender} sent a summary of {message.site}")
        return
    old = peer.summary
    if old is None or (old.generation, old.counter) < (message.generation, message.counter):
        # Cut: what a peer names is kept by name, and found again by asking it.
        named = message.datasets[:MAX_NAMED_DATASETS]
        peer.summary = msgspec.structs.replace(message, datasets=named)
        core.roster.touch(sender)
        if message.links:
            links.heard(core, sender, message.links)


def summary(core: Context, told: tuple[LinkEstimate, ...] = ()) -> Summary:
    settings = core.state.settings
    core.summary_counter += 1
    names = sorted(core.state.datasets)
    return Summary(
        site=core.site,
        generation=core.state.generation,
        counter=core.summary_counter,
        seq=core.state.seq,
        slots=settings.slots,
        free_slots=load.free_slots(core),
        speed=settings.speed,
        queued_jobs=load.queued_jobs(core),
        running_jobs=load.running_jobs(core),
        work_ahead_s=load.work_ahead_s(core),
        datasets=tuple(names[:MAX_NAMED_DATASETS]),
        accepting=settings.accept_remote and not core.low_room,
        links=told,
    )


def tell_all(core: Context) -> None:
    """Every `summary_every_s`, to every peer a stream stands to."""
    core.after(("summary",), core.state.settings.summary_every_s)
    mine = summary(core, links.told_now(core))
    for site in sorted(core.view.peers):
        if core.view.peers[site].up:
            core.send(site, mine)
    custody.tell_progress(core)
    littles.export(core)
