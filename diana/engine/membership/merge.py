"""Takes in what others say of sites: the newest word of each stands, whatever the order, loss or repetition.

Others' word is bounded: so many sites, so large a message, no leap in a version; what a site says of itself over its
own stream counts whatever others said, because it answers a version it never spoke by a newer one.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from msgspec.structs import replace

from diana.engine.membership import active, contacts, hearsay, ring, suspicion, twins
from diana.engine.membership.sizes import rumour_bytes, summary_bytes
from diana.engine.membership.table import MOST_HEARSAY_NAMES_BYTES, MOST_LEAP, MOST_VALUE, MembershipTable, Served
from diana.engine.messages.messages import Gossip, HeardFrom, Rumour, Summary
from diana.engine.site.view import UNHEARD, Version
from diana.model.ids import SiteId
from diana.model.job import declared, properties
from diana.policy.membership import State

if TYPE_CHECKING:
    from diana.engine.site.context import Context
    from diana.engine.site.view import PeerView

MAX_NAMED_DATASETS = 256
"""Datasets named in a summary; more are found by asking for a quote."""
MOST_VIA = 4
MOST_TOLD = 4096
"""Rows of any kind that are read of one message."""
MOST_TEXT = 300
MOST_SERVED = 4
"""Newcomers told everything at the same time."""


def sane(told: Summary) -> bool:
    """True if the entry may be kept and passed on."""
    if not (0 <= told.generation < MOST_VALUE and 0 <= told.counter < MOST_VALUE):
        return False
    if len(told.address) > MOST_TEXT or len(told.release) > MOST_TEXT:
        return False
    return not told.datasets or max(map(len, told.datasets)) <= MOST_TEXT


def on_gossip(core: Context, sender: SiteId, message: Gossip) -> None:
    peers = core.view.peers
    untold = len(message.heard_from) not in (0, len(message.entries))
    if sender not in peers or len(message.entries) != len(message.ages_s) or untold:
        core.warn(f"{sender} sent gossip that makes no sense")
        return
    newer: dict[SiteId, None] = {}
    refuted: dict[SiteId, None] = {}
    wanted: dict[SiteId, None] = {}
    alive = State.ALIVE
    # Most entries come in the same few ways, which are kept once each.
    ways: dict[HeardFrom, hearsay.Way] = {}
    heard = message.heard_from or repeat(hearsay.NOWHERE)
    for entry, age_s, told_from in zip(message.entries[:MOST_TOLD], message.ages_s, heard, strict=False):
        site = entry.site
        peer = peers.get(site)
        if peer is not None and peer.state is alive:
            # Most entries by far say what is known, or less.
            at, known = (entry.generation, entry.counter), peer.version
            if at < known:
                newer[site] = None
                continue
            if at == known and not (peer.summary and peer.summary.unnamed and not entry.unnamed):
                continue
        if site == core.site:
            if entry.generation >= core.book(MembershipTable).incarnation:
                # This run never named another address.
                twins.heard(core, core.site, core.book(MembershipTable).address, entry.address[:MOST_TEXT])
            if (entry.generation, entry.counter) > (core.book(MembershipTable).incarnation, core.summary_counter):
                _told_of_self(core, entry.generation, entry.counter)
            continue
        way = ways.get(told_from)
        if way is None:
            way = ways[told_from] = hearsay.way(sender, told_from)
        if not _entry(core, entry, age_s, way, wanted):
            newer[site] = None
    for rumour in message.rumours[:MOST_TOLD]:
        if _rumour(core, rumour):
            refuted[rumour.site] = None
    for row in message.digest[:MOST_TOLD]:
        peer = peers.get(row.site)
        if peer is not None and peer.state is alive and row.state == alive:
            at, known = (row.generation, row.counter), peer.version
            if at < known:
                newer[row.site] = None
            elif at > known:
                wanted[row.site] = None
        else:
            _compare(core, row, newer if row.state == alive else refuted, wanted)
    newer.update((site, None) for site in message.asks[:MOST_TOLD] if site in peers)
    answer(core, sender, list(refuted), [site for site in newer if site not in refuted], list(wanted))
    serving = core.book(MembershipTable).serving
    if message.asks_all and len(serving) < MOST_SERVED and all(served.site != sender for served in serving):
        serving.append(Served(sender, 0))


def answer(core: Context, sender: SiteId, refuted: list[SiteId], newer: list[SiteId], wanted: list[SiteId]) -> None:
    """Send words that are newer here than the sender knows, and ask for those that are wanted of it, within the budget
    of one message. Words that refute the sender's go first. All others must also stay within the weight of this turn's
    answers, so that traffic does not grow with the number of sites that have something to say."""
    members, budget = core.book(MembershipTable), core.state.settings.gossip_bytes
    entries: list[Summary] = []
    rumours: list[Rumour] = []
    left, peers, urgent = budget, core.view.peers, len(refuted)
    for at, site in enumerate((*refuted, *newer)):
        if left <= 0 or (at >= urgent and budget - left >= members.answer_bytes):
            break
        standing = members.standing.get(site)
        if standing is not None:
            rumours.append(standing)
            left -= rumour_bytes(standing)
        elif (told := peers[site].summary) is not None and site != sender:
            entries.append(told)
            left -= summary_bytes(told)
    members.answer_bytes -= budget - left
    if entries or rumours or wanted:
        now = core.now
        ages_s = tuple([max(0.0, now - peers[one.site].last_heard_s) for one in entries])
        said = Gossip(
            entries=tuple(entries),
            ages_s=ages_s,
            rumours=tuple(rumours),
            asks=tuple(wanted[:64]),
            heard_from=hearsay.ways(core, [one.site for one in entries]),
        )
        core.send(sender, said)


def age_s(core: Context, site: SiteId) -> float:
    return max(0.0, core.now - core.view.peers[site].last_heard_s)


def _told_of_self(core: Context, generation: int, counter: int) -> None:
    if 0 <= generation < MOST_VALUE and 0 <= counter < MOST_VALUE:
        suspicion.refute(core, generation, counter)
    else:
        core.count("nonsense")


# --- entries -----------------------------------------------------------------------------------------


def first_hand(core: Context, peer: PeerView, told: Summary) -> bool:
    """Take in a site's word about itself. False: it has said something newer before, or others say so; then it is
    told."""
    members, now = core.book(MembershipTable), (told.generation, told.counter)
    peer.loose_there = told.loose
    if not sane(told):
        core.warn(f"{peer.site} sent a summary that makes no sense")
        return False
    if now <= peer.version:
        held = members.standing.get(peer.site)
        if held is None and peer.summary is not None and now == (peer.summary.generation, peer.summary.counter):
            return False
        core.send(peer.site, Gossip(rumours=(Rumour(peer.site, *peer.version, State.SUSPECT, core.site),)))
        return False
    if told.left:
        _keep(core, peer, told, core.now)
        suspicion.stand(core, peer, now, State.LEFT, peer.site)
        return True
    suspicion.alive_again(core, peer)
    _keep(core, peer, told, core.now)
    contacts.learn(core, peer.site)
    return True


def _entry(core: Context, told: Summary, age: float, way: hearsay.Way, wanted: dict[SiteId, None]) -> bool:
    """Take in another's word about a site. False: something newer is known here."""
    peers, now = core.view.peers, (told.generation, told.counter)
    peer = peers.get(told.site)
    if hearsay.banned(core, way):
        core.count("entries_refused")
        return True
    if peer is None:
        if not ring.admits(core, told.site):
            return True
        if not sane(told) or told.left:
            core.count("entries_refused")
            return True
    else:
        known = peer.version
        if now <= known:
            again = now == known and peer.summary is not None and peer.summary.unnamed and not told.unnamed
            if again and (fitting := _fitting(core, peer, told, way)) and not fitting.unnamed:
                _keep(core, peer, fitting, peer.last_heard_s, way)
            return again or (now == known and told.site not in core.book(MembershipTable).standing)
        if not sane(told) or leaps(known, now):
            core.count("entries_refused")
            return True
    if told.left and peer is not None:
        suspicion.stand(core, peer, now, State.LEFT, told.site)
        return True
    fitting = _fitting(core, peer, told, way)
    if fitting is None:
        core.count("entries_refused")
        return True
    learn(core, fitting, core.now - max(0.0, age), way)
    kept = core.view.peers[told.site]
    if told.unnamed and kept.summary.unnamed and _room_for_names(core, kept):  # type: ignore[union-attr]
        wanted[told.site] = None
    return True


def _fitting(core: Context, peer: PeerView | None, told: Summary, way: hearsay.Way) -> Summary | None:
    """Return as much of others' word as is kept; None: nothing. Whoever was met is not counted."""
    if peer is not None and not hearsay.is_hearsay(core, peer):
        return told
    return hearsay.fit(core, peer, _cut(told), way[0])


def _room_for_names(core: Context, peer: PeerView) -> bool:
    """True if it is of use to ask for the names of its datasets."""
    full = core.book(MembershipTable).hearsay.total.names >= MOST_HEARSAY_NAMES_BYTES // 2
    return not full or not hearsay.is_hearsay(core, peer)


def learn(core: Context, told: Summary, heard_s: float, way: hearsay.Way = ()) -> None:
    """Keep a newer word of a site, by others: it is alive."""
    peer = core.view.peers.get(told.site) or joined(core, told.site)
    suspicion.alive_again(core, peer)
    _keep(core, peer, told, max(peer.last_heard_s, heard_s), way)


def leaps(known: Version, told: Version) -> bool:
    """True if the version is too far ahead to be believed from others; before anything is known, any is believed."""
    if known == UNHEARD:
        return False
    ahead = told[1] - known[1] if told[0] == known[0] else told[1]
    return ahead > MOST_LEAP or told[0] - known[0] > MOST_LEAP


def joined(core: Context, site: SiteId) -> PeerView:
    """Make the site known from now on."""
    members = core.book(MembershipTable)
    peer = core.view.entry(site)
    members.order.append(site)
    members.count(site, 1)
    suspicion.spread(core, site)
    active.consider(core, site)
    return peer


def _keep(core: Context, peer: PeerView, told: Summary, heard_s: float, way: hearsay.Way = ()) -> None:
    """Keep the newest word of a site, cut (`_cut`). `way`: how it came; none: from the site itself."""
    old, members = peer.summary, core.book(MembershipTable)
    if told.unnamed and old is not None and (old.generation, old.named_at) == (told.generation, told.named_at):
        told = replace(told, datasets=old.datasets, unnamed=old.unnamed)
    elif told.unnamed and old is not None:
        told = replace(told, datasets=old.datasets)
    told = _cut(told)
    members.hearsay.release(peer)
    peer.summary, peer.summary_s, peer.last_heard_s = told, heard_s, heard_s
    if way and hearsay.is_hearsay(core, peer):
        hearsay.keep(peer, way, told.address if old is None else old.address)
        members.hearsay.charge(peer)
    suspicion.renew(core, peer)
    members.fresh.setdefault(peer.site)
    members.lively = members.lively or _tells_more(old, told)
    core.roster.touch(peer.site)
    if old is None or old.address != told.address or old.via != told.via:
        contacts.tell(core, peer)
        twins.heard(core, peer.site, old.address if old else "", told.address)
        if old is None or old.address != told.address:
            active.consider(core, peer.site)


def _cut(told: Summary) -> Summary:
    """Return a word without its first-hand fields and what cannot be, and no longer than is passed on. It is made once:
    in a simulation many sites are told by one object, and keep one."""
    long = len(told.datasets) > MAX_NAMED_DATASETS or len(told.via) > MOST_VIA
    odd = bool(told.resources) and dict(declared.sane(told.resources.items())) != told.resources
    own = bool(told.properties) and properties.sane(told.properties) != told.properties
    if not (told.links or told.known or told.seal or long or odd or own):
        return told
    kept: Summary | None = told.__dict__.get("cut")
    if kept is None:
        kept = told.__dict__["cut"] = replace(
            told,
            links=(),
            seal=b"",
            known=0,
            members=0,
            complete=False,
            loose=False,
            datasets=told.datasets[:MAX_NAMED_DATASETS],
            via=told.via[:MOST_VIA],
            resources=dict(declared.sane(told.resources.items())) if odd else told.resources,
            properties=properties.sane(told.properties) if own else told.properties,
        )
    return kept


def _tells_more(old: Summary | None, told: Summary) -> bool:
    """True if others plan by what changed between these words, or if the site has work, which changes all the time."""
    if old is None or told.queued_jobs or told.running_jobs or told.work_ahead_s:
        return True
    new = (
        told.slots,
        told.free_slots,
        told.accepting,
        told.drained,
        told.notice,
        told.named_at,
        told.speed,
        told.address,
        told.widest,
        told.resources,
        told.properties,
        told.declares,
    )
    return new != (
        old.slots,
        old.free_slots,
        old.accepting,
        old.drained,
        old.notice,
        old.named_at,
        old.speed,
        old.address,
        old.widest,
        old.resources,
        old.properties,
        old.declares,
    )


# --- rumours and digests ------------------------------------------------------------------------------


def _rumour(core: Context, told: Rumour) -> bool:
    """Take in a rumour. True: something newer is known here that refutes it."""
    at = (told.generation, told.counter)
    if told.site == core.site:
        if told.state > State.ALIVE:
            # Not all have heard this site's last words: the next go to everybody.
            core.book(MembershipTable).pressed = True
            if at >= (core.book(MembershipTable).incarnation, core.summary_counter):
                _told_of_self(core, *at)
        return False
    peer = core.view.peers.get(told.site)
    if peer is None or not State.SUSPECT <= told.state <= State.LEFT:
        return False
    known = peer.version
    if at < known:
        return told.state is not State.LEFT or peer.state is State.ALIVE
    if leaps(known, at):
        core.count("rumours_refused")
    elif suspicion.hears(core, peer):
        suspicion.heard_rumour(core, peer, told)
    else:
        suspicion.stand(core, peer, at, State(told.state), told.by)
    return False


def _compare(core: Context, row: Rumour, newer: dict[SiteId, None], wanted: dict[SiteId, None]) -> None:
    at = (row.generation, row.counter)
    if row.site == core.site:
        if at > (core.book(MembershipTable).incarnation, core.summary_counter) or (
            row.state > State.ALIVE and at >= (core.book(MembershipTable).incarnation, core.summary_counter)
        ):
            _told_of_self(core, *at)
        return
    peer = core.view.peers.get(row.site)
    if peer is None:
        if row.state < State.LOST and ring.admits(core, row.site):
            wanted[row.site] = None
        return
    known, state = peer.version, peer.state
    if (known, state) > (at, row.state):
        newer[row.site] = None
    elif row.state > State.ALIVE:
        _rumour(core, row)
    elif at > known:
        wanted[row.site] = None


# --- contacts ----------------------------------------------------------------------------------------
