"""Turns of reserved work: jobs that their origin has bound to no site yet stand in the queues as any others do, inert.
When they would start as soon as they could be here, their turn has come, and the origin is called.

Volatile: a call is a request and no promise, and an origin tells a site that restarted again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import chain, islice
from math import exp2, inf, isfinite
from typing import NamedTuple

from diana.engine.dispatch import capacity, forecast, maintenance, use, wide_places
from diana.engine.guard import guard
from diana.engine.guard.programs import Program
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.machines import requirements
from diana.engine.messages.binding import Reserve, TurnCall
from diana.engine.messages.wanted import Wanted
from diana.engine.messages.weighing import weight_bytes
from diana.engine.queue.entries import WHOLE, QueueEntry
from diana.engine.site.context import Context
from diana.engine.site.timers import SiteTimer
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of, origin_of
from diana.model.job.resources import SIZES, ResourceRequest, countable
from diana.model.trust.principal import Principal
from diana.policy.binding import horizon
from diana.policy.queueing.forecast import Slots
from diana.policy.queueing.heavy import GroupLoad
from diana.policy.trust.authorise import Action, authorise

ANSWER_S = 5.0
"""Seconds until a call that was not answered is no longer counted."""
LAND_S = 10.0
"""Seconds for which jobs that were called are counted as coming, and as many more once they are offered."""
MOST_UNANSWERED = 3
"""Calls in a row without an answer, after which the reservation is dropped."""
MOST_VAIN = 3
"""Room that may be kept for an origin to no end, in all slots of this site for `LAND_S`. Beyond it no room is kept for
what it is called for and offers, and it is called once in `LAND_S`: others are not held up by one that lies or is
broken. What it commits makes up for it."""
HALF_S = 3600.0
"""Seconds in which half of that is forgotten."""
MOST_CALLS = 3
"""Calls of one group that may be on their way at a time."""
MOST_OF_ONE = 10_000
MOST_BYTES_OF_ONE = 32 << 20
"""Groups for which one origin may wait here at a time, and their weight in memory; more are not taken in."""
BACKDATED_S = 3600.0
"""Seconds before the first word of a group from which its waiting may count here: a peer's word alone ages nothing
further."""
MOST_JOBS = 10**12
MOST_PROCESSORS = 1_000_000
MOST_BYTES = 1 << 62
MOST_S = 1e9
"""Bounds of what a peer may say of a group (`MOST_JOBS`, `MOST_PROCESSORS`, `MOST_BYTES`, `MOST_S`)."""
LOOKS = 64
"""Reservations looked at after each event, best first."""
MISSES = 8
"""Reservations met whose turn is not yet, after which no more are looked at; as many are met that are refused."""
TURN_ORIGINS, TURN_GROUPS = 2, 2
"""Origins, and groups of each, that are looked at beyond these bounds, in turn: no origin can hide the others."""
MOST_JUDGED = 256
"""Reservations looked at in `SOON_S` because machines came, changed or went: one machine that changes again and again
costs no more."""
MOST_NEWS = 32
"""Words of one origin in `SOON_S` that are heeded at once; more wait for the next of these times."""
SOON_S = 0.25
REST_S = 5.0
"""Least and most seconds until the next look while nothing happens."""


class Reserved:
    """One group's reservation here."""

    def __init__(self, origin: SiteId, told: Reserve, heard_s: float) -> None:
        self.origin = origin
        self.told = told
        self.heard_s = heard_s
        """Site time of the first word of it."""
        self.weight = 0
        """Bytes that the word takes."""
        self.calling = 0
        """Jobs of calls that were not answered."""
        self.called_s = -inf
        self.last_call = 0
        self.unanswered = 0

    @property
    def key(self) -> CustodyKey:
        return (SubgroupId(self.told.group), 0)

    def callable(self) -> int:
        return max(0, self.told.jobs - self.calling)


class OriginsPart:
    """The reservations of one origin."""

    def __init__(self) -> None:
        self.groups: dict[GroupId, None] = {}
        """In the order in which they are looked at in turn."""
        self.weight = 0
        """Bytes that its words take."""


class OriginsAnswers:
    """Account of the room that was kept for an origin."""

    def __init__(self) -> None:
        self.wasted = 0.0
        """Processors for which room was kept to no end, each counted by the part of `LAND_S`, less those of what it
        committed."""
        self.at_s = 0.0
        """Time at which `wasted` was counted."""
        self.called_s = -inf
        """When it was called last."""

    def left(self, now_s: float) -> float:
        """Return what is left of `wasted` now."""
        return self.wasted * exp2(-max(0.0, now_s - self.at_s) / HALF_S)

    def count(self, processors: float, now_s: float) -> None:
        """Count room for so many processors as kept to no end; negative: as made use of."""
        self.wasted, self.at_s = max(0.0, self.left(now_s) + processors), now_s


class ComingJobs(NamedTuple):
    """Jobs that were called or offered and are not committed here yet."""

    origin: SiteId
    since_s: float
    """When it was called or offered."""
    until_s: float
    """-inf: no room is kept for it any more."""
    processors: int
    work_s: float
    """Processor-seconds."""
    request: ResourceRequest
    """Request of each of them."""


class Turns:
    """The reservations here, and what was called."""

    def __init__(self) -> None:
        self.reserved: dict[GroupId, Reserved] = {}
        self.of_origin: dict[SiteId, OriginsPart] = {}
        """In the order in which origins are looked at in turn."""
        self.calling: dict[GroupId, None] = {}
        """Groups that were called for and whose origin has not answered."""
        self.coming: dict[GroupId, list[ComingJobs]] = {}
        """Group -> jobs that were called and not offered yet."""
        self.arriving: dict[CustodyKey, ComingJobs] = {}
        """Work that was offered here and is not committed."""
        self.taken: dict[GroupId, dict[CustodyKey, None]] = {}
        """Group -> work of it that was offered here since the boot; what is over goes now and then."""
        self.taken_most = 64
        """Groups in `taken` at which what is over goes."""
        self.unfit: set[GroupId] = set()
        """Groups whose jobs this site would never take, with the machines of `offers`: they stand in no queue."""
        self.offers = 0
        """Version of what the machines offer, with which `unfit` was found."""
        self.unjudged: dict[GroupId, None] = {}
        """Groups that were not looked at with it yet, in the order in which they will be."""
        self.judged = (0, 0)
        """Number of the time of `SOON_S` that is now, and the groups looked at with it in that time."""
        self.changed: set[GroupId] = set()
        """Groups whose entry in the queues is renewed when the event at hand is through: until then others may look at
        the order as it was settled."""
        self.later: set[GroupId] = set()
        """The same of origins that say very much: they wait for the next time of `SOON_S`."""
        self.news: dict[SiteId, int] = {}
        """Words of each origin in the time that is now, numbered `news_at`."""
        self.news_at = 0
        self.answers: dict[SiteId, OriginsAnswers] = {}
        """Accounts of the origins that were called or have offered."""
        self.calls = 0
        self.changes = 0
        """Version counter: rises when a reservation comes, changes or goes."""
        self.stamp: tuple[int, ...] = ()
        """The state of things at the last look."""


# --- reservations ------------------------------------------------------------------------------------------


def on_reserve(core: Context, sender: SiteId, told: Reserve) -> None:
    """Take in the origin's word about a group, which may speak of its own groups alone. A lie about a user's jobs lasts
    as long as the origin stays in touch, and moves others' turns here, no job."""
    why = authorise(Principal.peer(sender), Action.OFFER, origin_of(told.group))
    if why or not _sane(told):
        core.warn(f"{sender} reserves for {told.group}: {why or 'makes no sense'}")
        return
    book = core.book(Turns)
    old = book.reserved.get(told.group)
    if old is not None and told.seq <= old.told.seq:
        return
    if not told.jobs:
        if old is not None and told.called < old.last_call:
            # The call and this word passed each other: nothing comes of it.
            for coming in book.coming.pop(told.group, ()):
                _wasted(core, coming)
        drop(core, told.group)
        return
    weight = weight_bytes(told)
    if full := _full(book, sender, old, weight):
        core.warn(f"{sender} waits here {full}: no more are taken in")
        return
    some = book.of_origin.setdefault(sender, OriginsPart())
    if old is None:
        some.groups[told.group] = None
        core.parties.awaits(sender, told.group)
        old = book.reserved[told.group] = Reserved(sender, told, core.now)
    some.weight += weight - old.weight
    old.told, old.weight = told, weight
    if told.called >= old.last_call:
        # All that was called is on its way, and is counted as coming.
        old.calling, old.unanswered = 0, 0
        book.calling.pop(told.group, None)
    _note(core, sender, told.group)


def _note(core: Context, sender: SiteId, group: GroupId) -> None:
    """Have the word be heeded: at once, unless its origin says very much."""
    book, at = core.book(Turns), int(core.now / SOON_S)
    if book.news_at != at:
        _heed_all(core, at)
    book.news[sender] = book.news.get(sender, 0) + 1
    if sender == core.site or book.news[sender] <= MOST_NEWS:
        book.changed.add(group)
    else:
        if not book.later:
            core.after(SiteTimer("turns"), SOON_S)
        book.later.add(group)


def _heed_all(core: Context, at: int) -> None:
    book = core.book(Turns)
    book.news_at = at
    book.news.clear()
    book.changed |= book.later
    book.later.clear()


def _full(book: Turns, sender: SiteId, old: Reserved | None, weight: int) -> str:
    """Say with how much the origin waits here if this word would be too much; empty: it may be taken in."""
    some = book.of_origin.get(sender)
    if some is None:
        return ""
    if old is None and len(some.groups) >= MOST_OF_ONE:
        return f"for {MOST_OF_ONE:,} groups"
    more = weight - (old.weight if old is not None else 0)
    if more > 0 and some.weight + more > MOST_BYTES_OF_ONE:
        return f"with words of {MOST_BYTES_OF_ONE >> 20} MiB"
    return ""


def _sane(told: Reserve) -> bool:
    """True if no field is beyond what a group can have: sums over the queues stay finite, whatever a peer says."""
    counts = 0 <= told.jobs <= MOST_JOBS and 0 <= told.share <= WHOLE * told.jobs
    sizes = told.is_sane and told.processors <= MOST_PROCESSORS and 0 <= told.group_bytes <= MOST_BYTES
    amounts = told.request.amounts
    sizes = sizes and all(some <= (MOST_BYTES if name in SIZES else MOST_PROCESSORS) for name, some in amounts)
    times = (told.stage_s, told.work_s, told.begins_before_s)
    sums = isfinite(told.submitted_s) and 0 <= told.group_work_s < inf and 0 <= told.time_limit_s < inf
    return counts and sizes and sums and all(0 <= some_s <= MOST_S for some_s in times)


def drop(core: Context, group: GroupId) -> None:
    book = core.book(Turns)
    one = book.reserved.pop(group, None)
    if one is None:
        return
    book.changes += one.key in core.queues.entries
    book.calling.pop(group, None)
    book.unfit.discard(group)
    some = book.of_origin[one.origin]
    del some.groups[group]
    some.weight -= one.weight
    if not some.groups:
        del book.of_origin[one.origin]
    core.parties.awaits_no_more(one.origin, group)
    core.queues.remove(one.key)


def parted(core: Context, site: SiteId) -> None:
    """Drop the reservations of a site that is out of touch: nobody would answer a call. It tells again when it is
    back."""
    some = core.book(Turns).of_origin.get(site)
    for group in sorted(some.groups) if some is not None else ():
        drop(core, group)


def _stand(core: Context, one: Reserved) -> None:
    """Put a reservation into the queues as it is now."""
    told, book = one.told, core.book(Turns)
    book.changes += 1
    core.queues.remove(one.key)
    jobs = one.callable()
    if told.group in book.unfit or not jobs:
        return
    core.queues.put(
        QueueEntry(
            one.key,
            user=told.owner,
            origin=one.origin,
            kind=requirements.kind(told.request),
            submitted_s=_since_s(core, one),
            jobs=jobs,
            ready=0,
            run_s=forecast.each_s(core, told),
            # T is never 0 while something waits: the users' shares of it are taken.
            unit=max(1, told.share // told.jobs),
            reserved=True,
            load=GroupLoad(told.group_work_s, told.group_bytes),
        ),
        core.now,
    )


def _since_s(core: Context, one: Reserved) -> float:
    """Return the site time from which the group's waiting counts here."""
    told_s = min(one.told.submitted_s, core.now)
    return told_s if one.origin == core.site else max(told_s, one.heard_s - BACKDATED_S)


# --- calls -------------------------------------------------------------------------------------------------


def look(core: Context) -> list[TurnCall]:
    """Call for the reserved jobs whose turn has come, best priority first. Return the calls to this site itself."""
    book = core.book(Turns)
    if book.later and book.news_at != (time := int(core.now / SOON_S)):
        _heed_all(core, time)
    _judge_again(core)
    if book.changed:
        for group in sorted(book.changed & book.reserved.keys()):
            one = book.reserved[group]
            (book.unfit.add if _is_unfit(core, one) else book.unfit.discard)(group)
            _stand(core, one)
        book.changed.clear()
        core.queues.settle(core.now)
    if not book.reserved or core.drained() or not core.workers.slots():
        return []
    if _stamp(core) == book.stamp:
        return []
    _overdue(core)
    core.queues.settle(core.now)
    at = _Look(core)
    seen: set[CustodyKey] = set()
    origins: set[SiteId] = set()
    for entry in list(islice(core.queues.reservations(), LOOKS)):
        seen.add(entry.key)
        origins.add(entry.origin)
        at.calls(entry)
        if at.misses >= MISSES or at.refused >= MISSES:
            break
    if at.misses >= MISSES or at.refused >= MISSES or len(seen) >= LOOKS:
        # What is refused may hide others of the same origin, what waits its turn comes before them.
        for entry in _in_turn(core, set() if at.refused >= MISSES else origins, seen):
            at.calls(entry)
    # Calls changed what stands, and others look at it before anything arrives.
    core.queues.settle(core.now)
    book.stamp = _stamp(core)
    if book.reserved:
        core.after(SiteTimer("turns"), min(at.next_s, SOON_S) if book.later or book.unjudged else at.next_s)
    return at.own


def _is_unfit(core: Context, one: Reserved) -> bool:
    return bool(capacity.never(core, one.told, for_peer=one.origin != core.site))


def _judge_again(core: Context) -> None:
    """Once machines changed, look anew at what this site could ever take, a part of it at a time."""
    book = core.book(Turns)
    if book.offers != (offers := core.workers.offers.changes):
        book.offers = offers
        # What is left from the time before comes first: else what stands behind it would never be looked at.
        book.unjudged |= dict.fromkeys(book.reserved)
    if not book.unjudged:
        return
    at, judged = int(core.now / SOON_S), 0
    if book.judged[0] == at:
        judged = book.judged[1]
    some = list(islice(book.unjudged, MOST_JUDGED - judged))
    book.judged = (at, judged + len(some))
    for group in some:
        del book.unjudged[group]
        one = book.reserved.get(group)
        if one is not None and _is_unfit(core, one) != (group in book.unfit):
            book.changed.add(group)


def _in_turn(core: Context, without: Collection[SiteId], seen: Collection[CustodyKey]) -> list[QueueEntry]:
    """Return the next reservations of the next origins: of none of `without`, and none of `seen`."""
    book, found, origins = core.book(Turns), list[QueueEntry](), 0
    for origin in list(islice(book.of_origin, LOOKS)):
        some = book.of_origin[origin] = book.of_origin.pop(origin)
        if origin in without:
            continue
        for group in list(islice(some.groups, TURN_GROUPS)):
            some.groups[group] = some.groups.pop(group)
            entry = core.queues.entries.get(book.reserved[group].key)
            found += [entry] if entry is not None and entry.key not in seen else []
        origins += 1
        if origins >= TURN_ORIGINS:
            break
    return found


class _Look:
    """One look at the reservations: what was called by it stands before what it comes to next."""

    def __init__(self, core: Context) -> None:
        self.core = core
        self.slots, self.given_s = capacity.slots_of(core)
        self.untaken = capacity.untaken(core)
        self.processors, self.work_s = _coming(core)
        self.unit_s = _coming_unit_s(core)
        """Device or licence -> seconds of the jobs that are on their way, or called for by this look, times its
        units."""
        self.places = wide_places.processors(core)
        self.own: list[TurnCall] = []
        """The calls to this site itself."""
        self.next_s = REST_S
        self.misses = self.refused = 0
        """Reservations whose turn has not come, by what stands before them, and those that are not taken just now."""

    def calls(self, entry: QueueEntry) -> None:
        """Call for the jobs of the reservation that are due."""
        core, book = self.core, self.core.book(Turns)
        one = book.reserved[GroupId(entry.key[0])]
        if entry.kind in self.untaken or _called_enough(core, one):
            return
        before, before_s = core.queues.here_before(entry, self.untaken)
        kept = wide_places.behind(core, core.queues.least_of(entry))
        before += self.processors + kept.processors
        before_s += self.given_s + self.work_s + kept.work_s
        due = _due(core, one, entry, self.slots, horizon.Ahead(before, before_s), self.places, self._units(entry))
        self.next_s = min(self.next_s, due.next_s)
        self.misses += due.misses
        self.refused += due.refused
        if not due.jobs:
            return
        if not _in_vain(core, one.origin):
            self.processors += due.jobs * entry.processors
            self.work_s += due.jobs * entry.processors * entry.run_s
            for name, count in countable(entry.kind.amounts):
                self.unit_s[name] = self.unit_s.get(name, 0.0) + due.jobs * count * entry.run_s
        call = _call(core, one, entry, due.jobs)
        if one.origin == core.site:
            self.own.append(call)
        else:
            core.send(one.origin, call)

    def _units(self, entry: QueueEntry) -> dict[str, float]:
        """Device or licence that its jobs ask for -> seconds of what stands before them, times its units."""
        found = {}
        for name, _ in countable(entry.kind.amounts) if entry.kind.amounts else ():
            before_s = self.core.queues.weighed_here_s(entry, name, self.untaken)
            found[name] = before_s + self.unit_s.get(name, 0.0)
        return found


class _Due(NamedTuple):
    """The turn of one reservation."""

    jobs: int
    """Jobs to call for now."""
    next_s: float
    """Seconds until more may be due if nothing happens."""
    misses: bool = False
    """True if its turn has not come by what stands before it."""
    refused: bool = False
    """True if its turn has come and this site takes no such jobs just now."""


def _due(
    core: Context,
    one: Reserved,
    entry: QueueEntry,
    slots: Slots,
    ahead: horizon.Ahead,
    places: int,
    before_s: Mapping[str, float],
) -> _Due:
    """Return the turn of a reservation. `places`: processors of the jobs that have a place here, which `ahead` counts
    too. `before_s`: device or licence -> seconds of what stands before, times its units."""
    peer = core.view.peers.get(one.origin)
    # Nothing is called for that would have to wait here for the end of a window.
    open_s = maintenance.open_s(core, forecast.holds_s(one.told, entry.run_s))
    if open_s < 0:
        return _Due(0, REST_S)
    until_s = min(open_s, horizon.seconds(one.told.stage_s, (peer.rtt_s or 0.0) if peer is not None else 0.0))
    jobs = horizon.fitting(slots, entry.processors, entry.run_s, ahead, until_s)
    if jobs:
        more_s = until_s + horizon.batch_s(entry.run_s)
        jobs = horizon.fitting(slots, entry.processors, entry.run_s, ahead, more_s)
    if not jobs and places:
        others = max(0.0, ahead.processors - places)
        jobs = horizon.passing(slots, entry.processors, entry.run_s, places, others, until_s)
    if not jobs and entry.processors > 1 and not ahead.processors:
        # Nothing waits before it: it gets a place here once that is worth it, and narrow jobs do not pass it for ever.
        drains_s = slots.starts_s(entry.processors, ahead.work_s)
        if drains_s > open_s or not horizon.is_worth_a_place(drains_s, core.now - entry.submitted_s):
            return _Due(0, max(SOON_S, drains_s - until_s))
        jobs = 1
    if jobs and entry.kind.amounts:
        jobs = min(jobs, use.due(core, entry, before_s, until_s))
        if not jobs:
            # Not a miss: those behind it may ask for none of these.
            return _Due(0, REST_S)
    refused = bool(jobs and capacity.rejection(core, one.told, for_peer=one.origin != core.site))
    if not jobs or refused:
        next_s = max(SOON_S, slots.starts_s(entry.processors, ahead.work_s) - until_s)
        return _Due(0, next_s, misses=not refused, refused=refused)
    jobs = min(one.callable(), max(jobs, horizon.chunk(one.told.share, WHOLE)))
    if isfinite(open_s):
        jobs = min(jobs, max(1, horizon.fitting(slots, entry.processors, entry.run_s, ahead, open_s)))
    guarded = _guarded(core, one.told.group, one.told)
    if guarded is None or guarded >= jobs:
        return _Due(jobs, REST_S)
    opens_s = guard.opens_s(core, one.told.group)
    return _Due(guarded, max(SOON_S, opens_s - core.now) if opens_s is not None else REST_S)


def _called_enough(core: Context, one: Reserved) -> bool:
    """True if no more is called for now: calls are on their way, or the origin was called in vain."""
    book = core.book(Turns)
    if len(book.coming.get(one.told.group, ())) >= MOST_CALLS:
        return True
    return _in_vain(core, one.origin) and core.now - book.answers[one.origin].called_s < LAND_S


def _guarded(core: Context, group: GroupId, asked: Wanted) -> int | None:
    """Return how many jobs of the group the guard lets begin here now, beside those that are here or on their way;
    None: no limit."""
    program = Program(asked.owner, asked.program)
    more = guard.room(core, group, program, asked.template, asked.jobs)
    if more is None:
        return None
    coming = sum(one.processors for one in core.book(Turns).coming.get(group, ()))
    return max(0, more - _waiting_of(core, group) - coming // max(1, asked.processors))


def _waiting_of(core: Context, group: GroupId) -> int:
    """Return how many jobs of the group are here, or offered, and given to no machine yet."""
    book, custodies = core.book(Turns), core.state.custodies
    mine = [key for key in book.taken.get(group, ()) if key in custodies]
    if mine:
        book.taken[group] = dict.fromkeys(mine)
    else:
        book.taken.pop(group, None)
    some = (custodies[key] for key in mine)
    return sum(len(one.unstarted()) for one in some)


def _stamp(core: Context) -> tuple[int, ...]:
    return core.state.seq, core.totals.runs.changes, core.book(Turns).changes, int(core.now / SOON_S)


def _call(core: Context, one: Reserved, entry: QueueEntry, jobs: int) -> TurnCall:
    book = core.book(Turns)
    one.calling += jobs
    one.called_s = core.now
    book.calling[one.told.group] = None
    one.last_call = _next_call(core)
    if one.origin != core.site:
        # This site binds its own jobs before anything else happens; then they stand in the queues.
        processors = jobs * entry.processors
        book.answers.setdefault(one.origin, OriginsAnswers()).called_s = core.now
        if not _in_vain(core, one.origin):
            until_s = core.now + LAND_S
            coming = ComingJobs(one.origin, core.now, until_s, processors, processors * entry.run_s, one.told.request)
            book.coming.setdefault(one.told.group, []).append(coming)
    _stand(core, one)
    core.count("calls")
    return TurnCall(group=one.told.group, call=one.last_call, jobs=jobs)


def tell_stopped(core: Context) -> None:
    """Tell origins of the groups whose jobs wait for a turn that the guard does not let come."""
    book = core.book(Turns)
    for group in sorted(core.book(guard.Guard).stopped & book.reserved.keys()):
        one, why = book.reserved[group], guard.stopped_group(core, group)
        if why and one.origin != core.site:
            one.last_call = _next_call(core)
            core.send(one.origin, TurnCall(group=group, call=one.last_call, jobs=0, stopped=why))


def _next_call(core: Context) -> int:
    """Return the number of a new call: the highest so far, over boots too."""
    book = core.book(Turns)
    book.calls += 1
    return (core.state.generation << 32) + book.calls


def _overdue(core: Context) -> None:
    """Count calls as lost that nobody answered; drop a reservation of which several were lost in a row."""
    book = core.book(Turns)
    for group in list(book.calling):
        one = book.reserved[group]
        if core.now - one.called_s <= ANSWER_S:
            continue
        del book.calling[group]
        one.calling = 0
        one.unanswered += 1
        for coming in book.coming.pop(group, ()):
            _wasted(core, coming)
        if one.unanswered >= MOST_UNANSWERED:
            drop(core, group)
        else:
            _stand(core, one)


# --- jobs on their way ---------------------------------------------------------------------------------------


def offered(core: Context, custody: Custody) -> None:
    """Count work that was offered here, called or not, until it is committed or dropped."""
    if custody.spec.is_gang:
        # A claim counts as running long before that.
        return
    book, group = core.book(Turns), group_of(custody.subgroup)
    processors = len(custody.indices) * custody.spec.resources.processors
    until_s = -inf if _in_vain(core, custody.origin) else core.now + LAND_S
    work_s = processors * core.run_book.expected_s(custody)
    book.arriving[custody.key] = ComingJobs(
        custody.origin, core.now, until_s, processors, work_s, requirements.asked(custody.spec)
    )
    book.taken.setdefault(group, {})[custody.key] = None
    if len(book.taken) > book.taken_most:
        for name in list(book.taken):
            _waiting_of(core, name)
        book.taken_most = 64 + 2 * len(book.taken)
    coming = book.coming.get(group, [])
    while coming and processors > 0:
        first = coming.pop(0)
        left = first.processors - processors
        processors -= first.processors
        if left > 0:
            coming.insert(0, first._replace(processors=left, work_s=first.work_s * left / first.processors))
    if not coming:
        book.coming.pop(group, None)


def landed(core: Context, custody: Custody) -> None:
    """Count offered work as committed: it stands in the queues now, and speaks for its origin."""
    book = core.book(Turns)
    one, answers = book.arriving.pop(custody.key, None), book.answers.get(custody.origin)
    if one is not None and answers is not None:
        answers.count(-one.processors, core.now)


def _wasted(core: Context, one: ComingJobs) -> None:
    """Count the room that was kept for this as kept to no end."""
    if one.until_s > -inf and one.origin != core.site:
        part = min(1.0, (core.now - one.since_s) / LAND_S)
        core.book(Turns).answers.setdefault(one.origin, OriginsAnswers()).count(part * one.processors, core.now)


def _coming(core: Context) -> tuple[int, float]:
    """(processors, processor-seconds) of jobs that were called or offered and are not committed yet."""
    book = core.book(Turns)
    for key, one in list(book.arriving.items()):
        if key not in core.state.custodies:
            _wasted(core, book.arriving.pop(key))
        elif one.until_s <= core.now:
            _wasted(core, one)
            book.arriving[key] = one._replace(until_s=-inf)
    for group in list(book.coming):
        for one in book.coming[group]:
            if one.until_s <= core.now:
                _wasted(core, one)
        book.coming[group] = [one for one in book.coming[group] if one.until_s > core.now]
        if not book.coming[group]:
            del book.coming[group]
    offered = (one for one in book.arriving.values() if one.until_s > core.now)
    every = [*offered, *(one for some in book.coming.values() for one in some)]
    return sum(one.processors for one in every), sum(one.work_s for one in every)


def _coming_unit_s(core: Context) -> dict[str, float]:
    """Return device or licence -> seconds of what `_coming` counts, times its units."""
    book, found = core.book(Turns), dict[str, float]()
    for one in chain(book.arriving.values(), *book.coming.values()):
        amounts = countable(one.request.amounts) if one.request.amounts and one.until_s > core.now else ()
        for name, count in amounts:
            found[name] = found.get(name, 0.0) + one.work_s * count / one.request.processors
    return found


def _in_vain(core: Context, origin: SiteId) -> bool:
    answers = core.book(Turns).answers.get(origin)
    return answers is not None and answers.left(core.now) >= MOST_VAIN * core.workers.slots()


def startable(core: Context, asked: Wanted) -> int:
    """Return how many of the asked jobs would start at once, behind all that stands here and is reserved, and as far as
    the guard lets them begin."""
    if core.drained() or not core.workers.slots():
        return 0
    untaken = capacity.untaken(core)
    load = GroupLoad(asked.group_work_s, asked.group_bytes)
    place = core.queues.prospect(asked.owner, asked.processors, asked.jobs, 0.0, untaken, load=load)
    slots, given_s = capacity.slots_of(core)
    processors, work_s = _coming(core)
    each_s = forecast.each_s(core, asked)
    kept = wide_places.behind(core, place.least)
    before_s = place.work_ahead_s + given_s + work_s + kept.work_s
    ahead = horizon.Ahead(place.processors_ahead + processors + kept.processors, before_s)
    open_s = maintenance.open_s(core, forecast.holds_s(asked, each_s))
    until_s = min(open_s, horizon.seconds(0.0, 0.0) + horizon.batch_s(each_s))
    if until_s < 0:
        return 0
    fitting = min(asked.jobs, horizon.fitting(slots, asked.processors, each_s, ahead, until_s))
    if fitting and (amounts := asked.request.amounts):
        coming_s = _coming_unit_s(core) if countable(amounts) else {}
        units_s = {
            name: core.queues.weighed_ahead_s(place, name, untaken) + coming_s.get(name, 0.0)
            for name, _ in countable(amounts)
        }
        fitting = min(fitting, use.fitting(core, amounts, each_s, units_s, until_s))
    guarded = _guarded(core, GroupId(asked.group), asked)
    return fitting if guarded is None else min(fitting, guarded)
