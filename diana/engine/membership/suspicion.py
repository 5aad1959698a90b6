"""Silence judged: doubt here, suspicion told to others, loss when nobody refutes it, and life again at any newer word.

A stream that fell makes its site doubtful here at once: it gets no new work. When it cannot be had again soon, the site
is suspected at the version last heard, and that is told. Whoever has heard a newer version says so, which ends the
suspicion everywhere; else it ends in loss. Whoever hears nobody at all suspects nobody: it is the one that is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from diana.engine.membership.table import MembershipTable, Suspicion
from diana.engine.messages.messages import Gossip, Rumour
from diana.engine.site.timers import SiteTimer
from diana.engine.site.view import UNHEARD, Version
from diana.model.ids import SiteId
from diana.policy.membership import CONFIRMATIONS, MOST_HEALTH, PACES, State, suspicion_s

if TYPE_CHECKING:
    from diana.engine.site.context import Context
    from diana.engine.site.view import PeerView

DETOUR_S = 60.0
"""Seconds that a site that others hear and that cannot be reached from here is left alone."""
FIRST_STREAM_S = 5.0
"""Seconds that a first stream may take longer than one that is had again."""
WARN_EVERY_S = 1.0
MOST_VOICES = 64
"""Voices for one suspicion that are remembered: anybody can name as many as it likes."""
NEWS_TURNS = 0.2
"""Part of a turn between hearing news and telling it, and between two tellings."""
STALE_TURNS = 60.0
"""An entry nobody renewed for so many turns is suspect; more among many sites, whose entries come round less often."""
STALE_TURNS_PER_SITE = 0.2


def spread(core: Context, site: SiteId) -> None:
    """Tell the site's state as news, from the start and soon."""
    core.book(MembershipTable).spread(site)
    hurry(core)


def hurry(core: Context) -> None:
    if SiteTimer("news") not in core.timers:
        core.after(SiteTimer("news"), NEWS_TURNS * core.state.settings.summary_every_s)


def renew(core: Context, peer: PeerView) -> None:
    """Set the version the peer is known by, after the word told of it, by itself or by others, changed."""
    told = core.book(MembershipTable).standing.get(peer.site) or peer.summary
    peer.version = (told.generation, told.counter) if told is not None else UNHEARD


def look(core: Context) -> None:
    """Judge, at each turn, the sites that have been silent for too long."""
    members, settings = core.book(MembershipTable), core.state.settings
    _feel(core)
    slow = 1 + members.health
    for site in list(members.linked):
        peer = core.view.peers[site]
        if peer.tied and core.now - max(peer.last_heard_s, peer.held_s) > settings.suspect_after_s * slow:
            _miss(core, site)
    redial_s = PACES[settings.network].redial_s * slow
    for site, since_s in list(members.doubts.items()):
        if core.now - since_s >= redial_s:
            _miss(core, site)
    for site, since_s in list(members.awaited.items()):
        if core.now - since_s >= redial_s + FIRST_STREAM_S:
            del members.awaited[site]
            if core.view.peers[site].address:
                members.doubts[site] = since_s
                _miss(core, site)
    _expire(core)
    for site, until_s in list(core.view.detours.items()):
        if until_s <= core.now:
            del core.view.detours[site]
            members.replan = True


def _feel(core: Context) -> None:
    """Update Lifeguard's local health: turns that come late say that this site, not the others, is slow."""
    members, every_s = core.book(MembershipTable), core.state.settings.summary_every_s
    late = members.due_s >= 0 and core.now - members.due_s > 0.5 * every_s
    members.health = min(MOST_HEALTH, members.health + 1) if late else max(0, members.health - 1)
    members.due_s = core.now + every_s


def _expire(core: Context) -> None:
    members = core.book(MembershipTable)
    if members.streamless():
        return
    base_s = PACES[core.state.settings.network].suspicion_s
    for site, suspicion in list(members.suspicions.items()):
        others = len(suspicion.by) - 1
        if core.now - suspicion.since_s >= suspicion_s(base_s, members.alive, others, members.health):
            told = members.standing[site]
            stand(core, core.view.peers[site], (told.generation, told.counter), State.LOST, core.site)


def stale(core: Context, peer: PeerView) -> None:
    """Suspect `peer`, which comes round as an entry to tell, if nobody has heard it lately."""
    turns = STALE_TURNS + STALE_TURNS_PER_SITE * core.book(MembershipTable).alive
    if not peer.up and core.now - peer.last_heard_s > turns * core.state.settings.summary_every_s:
        _miss(core, peer.site)


def _miss(core: Context, site: SiteId) -> None:
    """Suspect a site first-hand: this one cannot hear it."""
    peer = core.view.peers[site]
    if peer.state is State.ALIVE and not core.book(MembershipTable).streamless():
        core.count("suspicions_raised")
        stand(core, peer, peer.version, State.SUSPECT, core.site)


def fell(core: Context, site: SiteId) -> None:
    """Doubt a site: the stream to it ended, and one of the two wanted it."""
    peer = core.view.peers[site]
    if peer.state is not State.LEFT:
        peer.doubted = True
        core.book(MembershipTable).doubts[site] = core.now


def hears(core: Context, peer: PeerView) -> bool:
    """True if this site hears the peer first-hand."""
    return peer.tied and core.now - peer.last_heard_s <= core.state.settings.suspect_after_s


def heard_rumour(core: Context, peer: PeerView, rumour: Rumour) -> None:
    """Tell a site that this one hears of a rumour about it, so that it says something newer, which is news then."""
    members = core.book(MembershipTable)
    if core.now - members.warned.get(peer.site, float("-inf")) >= WARN_EVERY_S:
        members.warned[peer.site] = core.now
        core.send(peer.site, Gossip(rumours=(rumour,)))
        spread(core, peer.site)


def stand(core: Context, peer: PeerView, at: Version, state: State, by: SiteId) -> None:
    """Believe that the site stands so at this version, and tell it on. The higher state of two words about one version
    counts; a further voice for the same shortens a suspicion."""
    members, site = core.book(MembershipTable), peer.site
    held = members.standing.get(site)
    if held is not None and (held.generation, held.counter, held.state) >= (*at, state):
        suspicion = members.suspicions.get(site)
        same = (held.generation, held.counter, held.state) == (*at, state)
        if same and suspicion is not None and by not in suspicion.by and len(suspicion.by) < MOST_VOICES:
            suspicion.by.add(by)
            members.standing[site] = Rumour(site, *at, state, by)
            if len(suspicion.by) <= CONFIRMATIONS + 1:
                # More voices make it no shorter.
                spread(core, site)
        return
    members.standing[site] = Rumour(site, *at, state, by)
    if state is State.SUSPECT:
        suspicion = members.suspicions.setdefault(site, Suspicion(core.now))
        suspicion.since_s = core.now
        suspicion.by = {by}
    else:
        members.suspicions.pop(site, None)
    renew(core, peer)
    if state >= State.LOST > peer.state:
        members.count(site, -1)
        members.fresh.pop(site, None)
        core.count("sites_left" if state is State.LEFT else "sites_lost")
    peer.state = state
    spread(core, site)
    members.replan = True
    core.roster.touch(site)


def alive_again(core: Context, peer: PeerView) -> None:
    """Take the peer for alive: a newer word of it came."""
    members, site = core.book(MembershipTable), peer.site
    members.doubts.pop(site, None)
    members.awaited.pop(site, None)
    if peer.doubted or peer.state is not State.ALIVE:
        if not peer.up and site in members.kept and peer.state < State.LOST:
            # Others hear it: the way from here is what is broken.
            core.view.detours[site] = core.now + DETOUR_S
            core.count("suspicions_refuted")
        if peer.state >= State.LOST:
            members.count(site, 1)
        if peer.state is not State.ALIVE:
            spread(core, site)
        members.suspicions.pop(site, None)
        members.standing.pop(site, None)
        renew(core, peer)
        peer.doubted, peer.state = False, State.ALIVE
        members.replan = True
        core.roster.touch(site)


def refute(core: Context, generation: int, counter: int) -> None:
    """Make this site's next version newer than one that somebody tells of it, at or beyond its own. A generation beyond
    its own is that of a journal it no longer has."""
    members = core.book(MembershipTable)
    members.pressed = True
    if generation > members.incarnation:
        members.incarnation, core.summary_counter = generation + 1, 0
    elif generation == members.incarnation:
        core.summary_counter = max(core.summary_counter, counter)
    core.count("rumours_of_own_end")
