"""Reservations at the origin: jobs that can start nowhere at once stay unplaced and wait for their turn at several
sites. The site that calls first is handed some of them, in the usual way.

Volatile: after a restart groups with unplaced jobs are drafted anew, and the sites are told again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from diana.engine.dispatch import turns
from diana.engine.guard import guard
from diana.engine.journal.state import Group
from diana.engine.messages.binding import Reserve, TurnCall
from diana.engine.messages.wanted import carried
from diana.engine.placement.draft import Draft, quote_request
from diana.engine.placement.manifest import Manifest
from diana.engine.queue.entries import WHOLE
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.engine.site.timers import GroupTimer
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.views.decision import Decision, Foretold
from diana.policy.binding import choice, horizon

MOST_SITES = 16
"""Sites at which a group waits for its turn."""
AGAIN_S = 60.0
"""Seconds after which a group that waits is priced again: sites came, went and changed since."""
SOONEST_S = 2.0
"""Least seconds between two pricings of a group that waits."""
MOST_NAMED = 5
TELL_PART = 0.75
"""Sites are told anew when less than this part of the jobs that they know of is left."""


class Seat(NamedTuple):
    """A site's part in the waiting of a group."""

    weight: float
    """Jobs per second that the site would end, as the quotes have it; sites count the jobs in this proportion."""
    stage_s: float
    """Seconds until the inputs of the first jobs would be there."""
    lanes: int
    """Jobs that its slots run at a time."""
    each_s: float
    """Seconds that a job would run there."""


class LastWord:
    """The last word to a site."""

    def __init__(self) -> None:
        self.jobs = 0
        self.called = 0
        """Number of its last call that was answered."""


class WaitingGroup:
    """A group of which jobs wait for their turn."""

    def __init__(self, draft: Draft, manifest: Manifest, seats: dict[SiteId, Seat], told: Decision) -> None:
        self.draft = draft
        self.told = told
        """The prices it waits by, and the end foretold."""
        self.manifest = manifest
        self.seats = seats
        self.new = True
        """True until a decision with these prices is recorded."""
        self.lots = choice.lots(manifest.needs(draft.indices), draft.indices, seats)
        """The data that decide which jobs a call is given."""


class Reservations:
    """The groups of this site that wait, and what the sites were told of them."""

    def __init__(self) -> None:
        self.groups: dict[GroupId, WaitingGroup] = {}
        self.told: dict[GroupId, dict[SiteId, LastWord]] = {}
        self.foretold: dict[GroupId, Foretold] = {}
        """Forecasts of groups of which nothing is placed yet; they become durable with the first placement."""
        self.seq = 0
        self.closed = False
        """True once this site is about to stop: nothing waits for its turn any more."""


def bind_all(core: Context) -> None:
    """Bind what waits to sites, and let nothing wait from now on."""
    book = core.book(Reservations)
    book.closed = True
    core.to_place.update(book.groups)


def reserve(
    core: Context,
    group: Group,
    draft: Draft,
    manifest: Manifest,
    seats: dict[SiteId, Seat],
    told: Decision,
    again_s: float,
) -> None:
    """Let the unplaced jobs of the group wait for their turn at these sites, and at no others any more. `told`: the
    prices it waits by; `again_s`: seconds until the group is priced again, if that is sooner than usual."""
    groups = core.book(Reservations).groups
    draft.decided()
    old, groups[group.group] = groups.get(group.group), WaitingGroup(draft, manifest, seats, told)
    groups[group.group].new = not group.decisions or (old is not None and (old.new or old.seats.keys() != seats.keys()))
    core.after(GroupTimer("place", group.group), min(AGAIN_S, max(SOONEST_S, again_s)))
    _note(core, group)
    _tell_all(core, group)


def _note(core: Context, group: Group) -> None:
    """Let the group's status say where its jobs wait."""
    waiting = core.book(Reservations).groups[group.group]
    core.waiting_notes[group.group] = f"wait for their turn at {_named(waiting.seats)}"


def _named(seats: Mapping[SiteId, Seat]) -> str:
    some = list(seats)[:MOST_NAMED]
    more = len(seats) - len(some)
    return ", ".join(some) + (f" and {more} more" if more else "")


def touched(core: Context, group: Group) -> None:
    """Tell the sites how many jobs are left, if these are much fewer than they know, or more."""
    told = core.book(Reservations).told.get(group.group)
    if not told:
        return
    left, known = len(_left(core, group)), max(one.jobs for one in told.values())
    if not left or left < TELL_PART * known or left > known:
        _tell_all(core, group)


def called(core: Context, sender: SiteId, call: TurnCall) -> tuple[Group, WaitingGroup, IndexSet] | None:
    """Take a call. Return (group, how it waits, jobs that the site is given); None: the call is not about anything that
    waits there. What a site calls and does not start is called back as any other work."""
    book = core.book(Reservations)
    waiting, group = book.groups.get(call.group), core.state.groups.get(call.group)
    told = book.told.get(call.group, {}).get(sender)
    if group is None or told is None or call.call <= told.called or not (call.jobs > 0 or call.stopped):
        core.count("late_calls")
        return None
    told.called = call.call
    if call.stopped:
        guard.on_stopped_group(core, group, sender, call.stopped)
    if waiting is None or sender not in waiting.seats or sender in core.view.banned or journal_doubt.fallen(core):
        return None
    avoided = core.view.why_avoided(group.group, sender, core.now) or guard.why_not(core, group.group, sender)
    if avoided or not waiting.draft.match(core).may_meet(sender):
        # It waits there no more until the group is priced again, or the site would call again at once.
        del waiting.seats[sender]
        _tell(core, group, sender, 0)
        return None
    if call.stopped:
        return None
    left = _left(core, group)
    jobs = min(call.jobs, _bearable(core, group, sender, left))
    if left and not jobs:
        del waiting.seats[sender]
        _tell(core, group, sender, 0)
        return None
    return group, waiting, choice.choose(left, jobs, sender, waiting.seats, waiting.lots)


def _bearable(core: Context, group: Group, site: SiteId, left: IndexSet) -> int:
    """Return how many more jobs of the group the site bears by its own quote, whatever it calls for."""
    waiting = core.book(Reservations).groups[group.group]
    seat = waiting.seats[site]
    whole = sum(one.weight for one in waiting.seats.values())
    share = int(WHOLE * len(left) * seat.weight / whole)
    peer = core.view.peers.get(site)
    rtt_s = peer.rtt_s or 0.0 if peer is not None else 0.0
    most = horizon.most_open(seat.lanes, seat.each_s, seat.stage_s, rtt_s, horizon.chunk(share, WHOLE))
    if (more := most - core.parties.open_at(group.group, site)) > 0:
        return more
    # What it lost with its disk is not there any more, and nobody can tell what became of it.
    lost = (part for part in group.subgroups.values() if part.site == site and part.unreachable)
    return max(0, more + sum(part.open_jobs() for part in lost))


def answered(core: Context, group: Group, sender: SiteId) -> None:
    """Tell the caller what is left, and the others where that is much less than they know."""
    told = core.book(Reservations).told.get(group.group)
    if not told:
        return
    left = len(_left(core, group))
    if left:
        _note(core, group)
    known = max((one.jobs for site, one in told.items() if site != sender), default=0)
    if not left or left < TELL_PART * known:
        _tell_all(core, group)
    elif sender in told:
        _tell(core, group, sender, left)


def parted(core: Context, site: SiteId) -> None:
    """Forget what a site was told that is out of touch: it forgets it too, and may count its calls anew when it is
    back, as one does that lost its disk."""
    book = core.book(Reservations)
    for name in core.parties.awaited(site):
        book.told.get(name, {}).pop(site, None)


def _left(core: Context, group: Group) -> IndexSet:
    if group.state or group.on_hold or group.group not in core.book(Reservations).groups:
        return IndexSet()
    return group.placeable()


def _tell_all(core: Context, group: Group) -> None:
    book, left = core.book(Reservations), len(_left(core, group))
    waiting = book.groups.get(group.group)
    told = book.told.get(group.group, {})
    for site in sorted({*told, *(waiting.seats if waiting is not None and left else ())}):
        _tell(core, group, site, left if waiting is not None and site in waiting.seats else 0)
    if not left and waiting is not None:
        for site in waiting.seats:
            core.parties.awaits_no_more(site, group.group)
        del book.groups[group.group]
        book.foretold.pop(group.group, None)
        core.timers.cancel(GroupTimer("place", group.group))
        core.waiting_notes.pop(group.group, None)


def _tell(core: Context, group: Group, site: SiteId, left: int) -> None:
    book = core.book(Reservations)
    waiting, some = book.groups.get(group.group), book.told.setdefault(group.group, {})
    told = some.setdefault(site, LastWord())
    told.jobs = left
    book.seq += 1
    if left and waiting is not None:
        word = _word(core, group, waiting, site, told)
        core.parties.awaits(site, group.group)
    else:
        word = Reserve(
            group=group.group,
            seq=book.seq,
            jobs=0,
            share=0,
            called=told.called,
            processors=1,
            submitted_s=0.0,
            stage_s=0.0,
        )
        del some[site]
        core.parties.awaits_no_more(site, group.group)
        if not some:
            del book.told[group.group]
    if site == core.site:
        turns.on_reserve(core, core.site, word)
    else:
        core.send(site, word)


def _word(core: Context, group: Group, waiting: WaitingGroup, site: SiteId, told: LastWord) -> Reserve:
    seat, asked = waiting.seats[site], quote_request(waiting.draft)
    whole = sum(one.weight for one in waiting.seats.values())
    return carried(
        Reserve,
        asked,
        group=group.group,
        seq=core.book(Reservations).seq,
        jobs=told.jobs,
        share=int(WHOLE * told.jobs * seat.weight / whole),
        called=told.called,
        submitted_s=group.submitted_s,
        stage_s=seat.stage_s,
        owner=group.owner,
    )
