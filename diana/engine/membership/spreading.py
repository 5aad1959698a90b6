"""Words spread at each turn: the own entry over every stream that is held, others' entries to a few drawn sites.

News of membership comes first, each piece about log n times; then newer words this site has not passed on yet, in the
order in which they came (the latest first starves some for a minute); then the rest, round and round. Whoever hears all
sites first-hand and knows the same ones is told nothing of others, so a small VO whose sites all see each other speaks
as if there were no gossip.

A site that has nothing new to say speaks less often: without work it tells each stream every few turns that it is
there, and passes others' entries on as rarely. Whatever others decide by goes out at the next turn.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from diana.engine.membership import hearsay, merge, ring, suspicion
from diana.engine.membership.sizes import rumour_bytes, summary_bytes
from diana.engine.membership.table import MembershipTable, Served
from diana.engine.messages.messages import Gossip, Rumour, Summary
from diana.model.ids import SiteId
from diana.policy.membership import State, drawn, mark

if TYPE_CHECKING:
    from diana.engine.site.context import Context
    from diana.engine.site.view import PeerView

DIGEST_SHARE = 0.4
"""Share of the budget that goes to rows of a digest: each brings the newer word of either side; an entry may bring
nothing."""
ROW_BYTES = 25
MEETING_ROWS = 256
FEW_NAMES = 8
"""An entry with more datasets is passed on without their names; a site that lacks them asks."""
MOST_LOOKED_AT = 64
"""Streams looked at for sites that may relay."""
SERVED_BYTES = 64 * 1024
"""Bytes sent to a newcomer at each turn."""
ASK_ALL_EVERY_S = 10.0
"""Seconds until a newcomer that still lacks much asks somebody again."""
MOST_QUIET_TURNS = 3
"""Turns between two words of a site to which nothing happens."""


def tell_own(core: Context, told: Summary) -> None:
    """Tell the own entry over every stream that one of its two ends holds, in order of the site; where nothing is new,
    every few turns. All are told the same version: whoever missed the last one would take it for a sign of life when
    this site dies."""
    members = core.book(MembershipTable)
    if not is_news(core, told) and (members.turn + mark(core.site)) % quiet_turns(core):
        return
    loose = replace(told, loose=True)
    for site in sorted(members.linked):
        peer = core.view.peers[site]
        if peer.tied or peer.loose_said != peer.loose:
            peer.loose_said = peer.loose
            core.send(site, loose if peer.loose else told)


def is_news(core: Context, told: Summary) -> bool:
    """True if the own entry says more than that this site is there; it counts as said from now on."""
    members = core.book(MembershipTable)
    said = replace(told, counter=0, seq=0, seal=b"", links=())
    news = members.pressed or bool(told.links) or is_busy(told) or said != members.said
    members.said, members.pressed = said, False
    return news


def is_busy(told: Summary) -> bool:
    return bool(told.queued_jobs or told.running_jobs or told.work_ahead_s)


def quiet_turns(core: Context) -> int:
    """Return the turns between two words of this site if it is quiet: so few that a peer hears it twice before it
    doubts it."""
    settings = core.state.settings
    return max(1, min(MOST_QUIET_TURNS, int(settings.suspect_after_s / (2 * settings.summary_every_s))))


def via(core: Context) -> tuple[SiteId, ...]:
    """Return the sites that may relay to this one: peers that can be dialled, first those whose streams stand
    longest."""
    peers = core.view.peers
    dialled = (site for site in islice(core.book(MembershipTable).linked, MOST_LOOKED_AT) if peers[site].address)
    return tuple(islice(dialled, merge.MOST_VIA))


def others(core: Context) -> None:
    """Tell of others: one message, the same for all sites that are drawn, and their share for newcomers."""
    members, settings = core.book(MembershipTable), core.state.settings
    due = members.news or members.lively or members.turn % quiet_turns(core) == 0
    to = targets(core) if due else []
    refill(core)
    if members.news:
        suspicion.hurry(core)
    chosen = drawn(to, settings.gossip_peers, mark(f"{core.site}{members.turn}"))
    if due:
        members.lively = False
    if chosen:
        told = _message(core, settings.gossip_bytes, len(chosen))
        if told is not None:
            for site in chosen:
                core.send(site, told)
    for served in list(members.serving):
        _serve(core, served)


def refill(core: Context) -> None:
    """Refill the bytes that may be said beside a turn's own gossip until the next one: as many again for news, and for
    answers. Bytes for answers that were not needed are kept for a while: questions come in clusters."""
    members, settings = core.book(MembershipTable), core.state.settings
    members.news_bytes = settings.gossip_peers * settings.gossip_bytes
    more = members.news_bytes // (1 if members.lively else quiet_turns(core))
    members.answer_bytes = min(members.news_bytes, max(0, members.answer_bytes) + more)


def hurry(core: Context) -> None:
    """Tell, between two turns, news of membership alone, as long as there is some, within a turn's weight of gossip."""
    members, settings = core.book(MembershipTable), core.state.settings
    to = targets(core) if members.news else []
    chosen = drawn(to, settings.gossip_peers, mark(f"{core.site}{members.turn}.{members.hurried}"))
    left = min(settings.gossip_bytes, members.news_bytes // max(1, len(chosen)))
    if not chosen or left <= 0:
        return
    members.hurried += 1
    entries: dict[SiteId, Summary] = {}
    rumours: list[Rumour] = []
    spent = left - _news(core, left, len(chosen), entries, rumours)
    members.news_bytes -= spent * len(chosen)
    if entries or rumours:
        told = Gossip(
            entries=tuple(entries.values()),
            ages_s=_ages_s(core, entries),
            heard_from=hearsay.ways(core, entries),
            rumours=tuple(rumours),
        )
        for site in chosen:
            core.send(site, told)
    if members.news:
        suspicion.hurry(core)


def targets(core: Context) -> list[SiteId]:
    """Return the sites at the other end of streams for which something of others may be news."""
    members, peers = core.book(MembershipTable), core.view.peers
    return [site for site in sorted(members.linked) if peers[site].tied and not _knows_all(core, site)]


def _knows_all(core: Context, site: SiteId) -> bool:
    return core.book(MembershipTable).marks == core.book(MembershipTable).hears_all.get(site)


def meet(core: Context, peer: PeerView, told: Summary) -> None:
    """Compare, at a peer's first words over a new stream, what both sides know: each gets at once what it lacks."""
    members = core.book(MembershipTable)
    if told.members == members.marks and told.known == members.alive:
        return
    if told.known > 2 * members.alive and core.now - members.asked_all_s >= ASK_ALL_EVERY_S:
        members.asked_all_s = core.now
        core.send(peer.site, Gossip(asks_all=True))
        return
    if ring.is_far(core, peer):
        return
    core.send(peer.site, Gossip(digest=_digest(core, MEETING_ROWS)))


def _message(core: Context, left: int, copies: int) -> Gossip | None:
    members = core.book(MembershipTable)
    entries: dict[SiteId, Summary] = {}
    rumours: list[Rumour] = []
    digest = _digest(core, int(DIGEST_SHARE * left / ROW_BYTES))
    left -= ROW_BYTES * len(digest)
    left = _news(core, left, copies, entries, rumours)
    while left > 0 and members.fresh:
        site = next(iter(members.fresh))
        del members.fresh[site]
        left -= _add(core, site, entries)
    for _ in range(len(members.order)):
        if left <= 0:
            break
        members.at = (members.at + 1) % len(members.order)
        peer = core.view.peers[members.order[members.at]]
        if peer.state is State.ALIVE:
            left -= _add(core, peer.site, entries)
            suspicion.stale(core, peer)
    if not (entries or rumours or digest):
        return None
    return Gossip(
        entries=tuple(entries.values()),
        ages_s=_ages_s(core, entries),
        heard_from=hearsay.ways(core, entries),
        rumours=tuple(rumours),
        digest=digest,
    )


def _ages_s(core: Context, entries: dict[SiteId, Summary]) -> tuple[float, ...]:
    return tuple(merge.age_s(core, site) for site in entries)


def _news(core: Context, left: int, copies: int, entries: dict[SiteId, Summary], rumours: list[Rumour]) -> int:
    """Add news, those told least so far first; return the bytes left."""
    members = core.book(MembershipTable)
    for site in sorted(members.news, key=lambda site: (-members.news[site], site)):
        if left <= 0:
            break
        standing = members.standing.get(site)
        if standing is None:
            left -= _add(core, site, entries)
            members.fresh.pop(site, None)
        else:
            voices = members.suspicions[site].by if site in members.suspicions else {standing.by}
            for by in sorted(voices)[:3]:
                rumours.append(replace(standing, by=by) if by != standing.by else standing)
                left -= rumour_bytes(standing)
        members.news[site] -= copies
        if members.news[site] <= 0:
            del members.news[site]
    return left


def _add(core: Context, site: SiteId, entries: dict[SiteId, Summary]) -> int:
    """Add the site's entry; return its bytes, 0 where there is nothing to tell."""
    told = core.view.peers[site].summary
    if told is None or site in entries or site in core.book(MembershipTable).standing:
        return 0
    if len(told.datasets) > FEW_NAMES:
        told = replace(told, datasets=(), unnamed=True)
    entries[site] = told
    return summary_bytes(told) + 9


def _digest(core: Context, rows: int) -> tuple[Rumour, ...]:
    """Return rows of the next sites round the table."""
    members, peers, order, home = (
        core.book(MembershipTable),
        core.view.peers,
        core.book(MembershipTable).order,
        core.site,
    )
    last = len(order)
    if not last:
        return ()
    rows, first = min(rows, last), (members.digest_at + 1) % last
    sites = order[first : first + rows]
    sites += order[: rows - len(sites)]
    members.digest_at = (first + rows - 1) % last
    some = ((peer := peers[site], peer.version) for site in sites)
    return tuple([Rumour(peer.site, *at, peer.state, home) for peer, at in some if at[1] >= 0])


def _serve(core: Context, served: Served) -> None:
    members, left, at = core.book(MembershipTable), SERVED_BYTES, served.at
    members.serving.remove(served)
    peer = core.view.peers.get(served.site)
    if peer is None or not peer.up:
        return
    entries: dict[SiteId, Summary] = {}
    while left > 0 and at < len(members.order):
        if members.order[at] != served.site:
            left -= _add(core, members.order[at], entries)
        at += 1
    core.send(
        served.site,
        Gossip(entries=tuple(entries.values()), ages_s=_ages_s(core, entries), heard_from=hearsay.ways(core, entries)),
    )
    if at < len(members.order):
        members.serving.append(Served(served.site, at))
