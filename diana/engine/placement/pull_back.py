"""Work is pulled back from where it would not fare well: from a site that drains, that has no slots any more, that
called for it and does not begin it, that fails it fast, or that meets its requirements no more (SPEC D7, U10, G1).

Its origin calls back the jobs that have not started and places them elsewhere, as for any move; a job that may run
nowhere else waits there, with the reason. None of it counts as an export.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from diana.engine.dispatch import capacity
from diana.engine.guard import guard
from diana.engine.guard.guard import Guard
from diana.engine.handover import execution
from diana.engine.journal.records import JobsMoved
from diana.engine.journal.state import Custody, Group, Subgroup
from diana.engine.matching.match import Match, allowed
from diana.engine.placement import control
from diana.engine.placement.draft import Draft
from diana.engine.site.context import Context
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.policy.breaker import Fault, at_fault
from diana.policy.membership import State

NO_SLOTS_S = 60.0
"""Seconds until a site without slots gives back waiting jobs: its machines are away, or its cluster refuses."""
UNFIT_AGAIN_S, UNFIT_MOST_S = 300.0, 6 * 3600.0
"""Seconds until a group that can run no more where it waits is called back from there again: at first, and at most; the
pause doubles each time. Only the quotes tell whether another site has what it needs, and it may be that none has."""
UNBEGUN_S = 60.0
"""Seconds in which a site begins or ends jobs of a group that it called for: it calls for those that could start there
at once. `STAGING_TIMES` as long as their inputs were to take is added."""
STAGING_TIMES = 3.0
MOST_LOOKS = 5
"""Such times on end in which it begins none, after which the jobs are called back though nobody else is idle: they
wait for their turn everywhere again, as they would have without its call."""
MOST_TRIED = 8
"""Sites that failed jobs of a group, with none that did any well: the next would only fail them too."""


class Called(NamedTuple):
    """A site that called for jobs of a group, as it is looked at next."""

    due_s: float
    group: GroupId
    site: SiteId
    patience_s: float
    begun: int
    """Most jobs of the group that had begun there, as far as it told."""
    looks: int = 0
    """Looks on end at which no more had begun."""


class PullBack:
    """Calls back of jobs that wait where they fare ill. Volatile."""

    def __init__(self) -> None:
        self.unfit: dict[GroupId, dict[SiteId, tuple[float, float]]] = {}
        """Own groups called back from where they can run no more: (not again before, seconds between the last two)."""
        self.without_slots: dict[SiteId, float] = {}
        """Sites that have no slots -> since when."""
        self.called: list[Called] = []
        """Heap of those that called for jobs, by when they are looked at: each group and site once."""
        self.callers: set[tuple[GroupId, SiteId]] = set()


def tidy(core: Context) -> None:
    """Forget groups that are over."""
    groups, unfit = core.state.groups, core.book(PullBack).unfit
    for name in [name for name in unfit if name not in groups or groups[name].state]:
        del unfit[name]


def look(core: Context) -> None:
    """Note at each turn whose waiting jobs are to be called back: from sites that drain, whenever and from whomever
    this site heard of it, from sites without slots, and from this one where it fails them."""
    idle = _without_slots(core)
    others = _with_slots(core) if idle else []
    here = core.drained()
    drained = f"is drained: {here}" if here else ""
    if why_here := drained or idle.get(core.site, ""):
        for key in sorted(core.state.custodies):
            mine = core.state.custodies[key]
            if mine.origin == core.site and (drained or _may_go(core, mine.spec, others)) and _any_waits(core, mine):
                core.to_pull[(group_of(key[0]), core.site)] = f"{core.site} {why_here}"
    for key in guard.stopped_keys(core):
        custody = core.state.custodies.get(key)
        why = guard.stopped(core, custody) if custody is not None and custody.origin == core.site else ""
        if why and guard.shuns(core, group_of(key[0]), core.site):
            # Jobs that machines had when the group was stopped may wait again.
            core.to_pull[(group_of(key[0]), core.site)] = f"{core.site} fails them fast: {why}"
    _look_at_callers(core)
    for site in sorted(core.parties.sites()):
        peer = core.view.peers.get(site)
        summary = peer.summary if peer is not None else None
        drained = f"is drained: {summary.drained}" if summary is not None and summary.drained else ""
        why = drained or idle.get(site, "")
        for group, _ in core.parties.handed_to(site) if why else ():
            if drained or _may_go(core, group.spec, others):
                core.to_pull[(group.group, site)] = f"{site} {why}"


def _any_waits(core: Context, custody: Custody) -> bool:
    """True if jobs of it wait here, or with machines that may give them back, and were not called back yet."""
    back = execution.recallable(core, custody)
    if custody.spec.checkpoint is not None:
        back = back | IndexSet.of(custody.running)
    return bool(custody.pending or back - custody.recalled)


def unfit(core: Context, site: SiteId, groups: Iterable[GroupId], why: str) -> None:
    """Pull groups back from a site that has not what they need any more, if they may go to another that has slots."""
    others = [other for other in _with_slots(core) if other != site]
    for name in groups:
        group = core.state.groups.get(name)
        if group is not None and not group.state and _may_go(core, group.spec, others) and _is_due(core, name, site):
            core.to_pull[(name, site)] = why


def unmet(core: Context, group: Group, site: SiteId, why: str) -> bool:
    """Pull what waits of a group back from a site that meets its requirements no more, whoever else may take it: it is
    not to run there. False: it was called back from there a short while ago, and stays for now."""
    parts = _parts(group, site)
    waiting = sum(len(_waiting(core, group, part, unless=False)) for part in parts)
    if not waiting or (site != core.site and sum(part.open_jobs() for part in parts) <= _running(core, group, site)):
        return True
    if not _is_due(core, group.group, site):
        return False
    core.to_pull[(group.group, site)] = why
    return True


def _is_due(core: Context, name: GroupId, site: SiteId) -> bool:
    """True if the group is to be called back from the site now; if so, it is not due again soon."""
    book = core.book(PullBack).unfit.setdefault(name, {})
    not_before_s, pause_s = book.get(site, (core.now, 0.0))
    if core.now < not_before_s:
        return False
    pause_s = min(UNFIT_MOST_S, max(UNFIT_AGAIN_S, 2 * pause_s))
    book[site] = (core.now + pause_s, pause_s)
    return True


def called(core: Context, group: Group, site: SiteId, stage_s: float) -> None:
    """Look later whether jobs that another site called for have begun there. `stage_s`: seconds that their inputs
    take on the way."""
    book, key = core.book(PullBack), (group.group, site)
    if site != core.site and key not in book.callers:
        book.callers.add(key)
        patience_s = UNBEGUN_S + STAGING_TIMES * stage_s
        heapq.heappush(book.called, Called(core.now + patience_s, *key, patience_s, _begun(core, group, site)))


def _look_at_callers(core: Context) -> None:
    """Note the groups that a site called for and does not begin while another could: it calls for no more of them for
    some time, which grows."""
    book = core.book(PullBack)
    while book.called and book.called[0].due_s <= core.now:
        one = heapq.heappop(book.called)
        group = core.state.groups.get(one.group)
        here = [] if group is None or group.state else _parts(group, one.site)
        if group is None or sum(part.open_jobs() for part in here) <= _running(core, group, one.site):
            book.callers.discard((one.group, one.site))
            continue
        begun = _begun(core, group, one.site)
        looks = one.looks + 1 if begun <= one.begun else 0
        other = _idle_for(core, group, one.site) if looks else None
        late = looks >= MOST_LOOKS and _another_for(core, group, one.site)
        if (other or late) and _is_due(core, one.group, one.site):
            pause_s = book.unfit[one.group][one.site][1]
            why = "called for jobs of this group just now and began none"
            core.view.avoid(one.group, one.site, core.now + pause_s, why)
            waited, could = f"{one.patience_s * looks:.0f} s", f", and {other} could" if other else ""
            core.to_pull[(one.group, one.site)] = f"{one.site} called for them and began none in {waited}{could}"
        heapq.heappush(
            book.called, one._replace(due_s=core.now + one.patience_s, begun=max(begun, one.begun), looks=looks)
        )


def _running(core: Context, group: Group, site: SiteId) -> int:
    """Return how many jobs of the group run there, as far as the site told: no more can than it has slots for."""
    told = [(part, core.view.progress.get(part.subgroup)) for part in _parts(group, site)]
    running = sum(min(part.open_jobs(), known.running) for part, known in told if known is not None)
    peer = core.view.peers.get(site)
    if peer is not None and peer.summary is not None:
        running = min(running, peer.summary.slots // group.spec.resources.processors)
    return running


def _begun(core: Context, group: Group, site: SiteId) -> int:
    """Return how many jobs of the group run there or have ended there, parts that are over included: a site that ends
    some begins others."""
    ended = sum(part.finished for part in group.subgroups.values() if part.site == site)
    return ended + _running(core, group, site)


def _another_for(core: Context, group: Group, site: SiteId) -> bool:
    """True if some other site may take the group, idle or not."""
    match = Match(core, group.spec)
    some = (other for other in _with_slots(core) if other != site and not guard.shuns(core, group.group, other))
    return any(match.may_take(other) for other in some)


def _idle_for(core: Context, group: Group, site: SiteId) -> SiteId | None:
    """Return a site that has idle processors for a job of the group; None: no other has."""
    match, processors = Match(core, group.spec), group.spec.resources.processors
    for other in _with_slots(core):
        if other == site or not match.may_take(other) or guard.shuns(core, group.group, other):
            continue
        peer = core.view.peers.get(other)
        summary = peer.summary if peer is not None else None
        idle = summary.free_slots if summary is not None else 0
        if other == core.site:
            idle = capacity.free_slots(core)
        if idle >= processors and not core.view.why_avoided(group.group, other, core.now):
            return other
    return None


def _without_slots(core: Context) -> dict[SiteId, str]:
    """Return site -> what is wrong, for sites that have had no slots for long and say so."""
    since, now = core.book(PullBack).without_slots, dict[SiteId, str]()
    patience_s = core.state.settings.suspect_after_s
    for site in core.parties.sites():
        peer = core.view.peers.get(site)
        told = peer.summary if peer is not None and peer.answers(core.now, patience_s) else None
        if told is not None and not told.slots:
            now[site] = "has no slots"
    if not core.workers.slots():
        trouble = core.workers.trouble()
        now[core.site] = f"has no slots ({trouble})" if trouble else "has no slots"
    for site in since.keys() - now.keys():
        del since[site]
    return {site: why for site, why in now.items() if core.now - since.setdefault(site, core.now) >= NO_SLOTS_S}


def _with_slots(core: Context) -> list[SiteId]:
    peers = core.view.peers
    alive = core.view.alive(core.now, core.state.settings.suspect_after_s)
    found = [s for s in alive if (told := peers[s].summary) is not None and told.slots and told.accepting]
    return [core.site, *found] if core.workers.slots() and not core.drained() else found


def _may_go(core: Context, spec: GroupSpec, others: list[SiteId]) -> bool:
    """True if the group may run at a site that has slots: jobs that may run nowhere else wait where they are."""
    if spec.is_gang:
        # A claim lapses by itself, and what was let go runs.
        return False
    match = Match(core, spec)
    return any(match.may_take(site) for site in others)


def settle(core: Context) -> None:
    """Call back, when the event at hand is through, all that is noted to be pulled back."""
    while core.to_pull:
        waiting, core.to_pull = core.to_pull, {}
        for name, site in sorted(waiting):
            group = core.state.groups.get(name)
            if group is not None and not group.state:
                _pull(core, group, site, waiting[(name, site)])


def _pull(core: Context, group: Group, site: SiteId, why: str) -> None:
    failing = guard.shuns(core, group.group, site)
    if failing and site == core.site and not _anybody_else(core, group.group, group.spec):
        # Nobody else would take them: no reason to go round by a new placement.
        core.book(Guard).lifted.add(group.group)
        core.workers.look_again()
        return
    parts = [(s, some) for s in _parts(group, site) if (some := _waiting(core, group, s, unless=failing))]
    if not parts:
        return
    indices, drains = IndexSet.union(some for _, some in parts), _drains(core, site)
    core.persist(JobsMoved(group=group.group, indices=indices, to=SiteId(""), why=why))
    for subgroup, some in parts:
        control.recall(core, group, subgroup, some, why, save=drains)
    if drains:
        control.save_others(core, group, indices)
    core.notify(group.group)


def _drains(core: Context, site: SiteId) -> bool:
    """True if the site drains: what runs there and can save its state goes elsewhere, too."""
    if site == core.site:
        return bool(core.drained())
    peer = core.view.peers.get(site)
    return peer is not None and peer.summary is not None and bool(peer.summary.drained)


def _parts(group: Group, site: SiteId) -> list[Subgroup]:
    return [s for _, s in sorted(group.subgroups.items()) if s.site == site and s.open_jobs() and not s.unreachable]


def _waiting(core: Context, group: Group, subgroup: Subgroup, *, unless: bool) -> IndexSet:
    """Return its jobs that are not known to have started and were not called back yet. `unless`: none, if it was told
    to run them however they fare."""
    if subgroup.indices.bounds[0] >= group.jobs or (unless and subgroup.unguarded):
        return IndexSet()
    indices = group.open_of(subgroup.indices) - subgroup.cancelling - subgroup.recalled
    custody = core.state.custodies.get((subgroup.subgroup, subgroup.epoch)) if subgroup.site == core.site else None
    if custody is None:
        return indices
    running = control.saves_state(group) and _drains(core, subgroup.site)
    back = IndexSet.of(custody.running) if running else execution.recallable(core, custody)
    return indices & (custody.pending | back)


def _anybody_else(core: Context, name: GroupId, spec: GroupSpec) -> bool:
    """True if some peer might take the group, now or when it is heard of again."""
    match = Match(core, spec)
    return any(
        match.may_take(site) and peer.state < State.LOST and site not in core.view.banned
        for site, peer in core.view.peers.items()
        if not guard.shuns(core, name, site) and not (peer.summary is not None and peer.summary.drained)
    )


def broken(core: Context, name: GroupId | None) -> str:
    """Return why the group's failures are its own, wherever it runs; empty: no sign of that."""
    settings = core.book(Guard).settings(core.state.settings)
    breakers = core.book(Guard).there.get(name, {}) if name else {}
    if settings is None or len(breakers) < MOST_TRIED:
        return ""
    fault, told = at_fault({site: b for site, b in breakers.items() if b.lost or b.good}, settings)
    return told if fault is Fault.WORK and sum(b.lost > 0 for b in breakers.values()) >= MOST_TRIED else ""


def lets_go(core: Context, draft: Draft) -> str:
    """Return why sites that the guard holds back may have the jobs all the same: no other takes them. Empty: they may
    not, since a site that gave no quote may yet take them, or since it is not the guard that stands in the way."""
    name = draft.group
    known = sorted(core.book(Guard).shunned.get(name, {})) if name else []
    failing = [site for site in known if guard.shuns(core, name, site)]
    if not failing:
        return (
            "nobody else takes them" if any(guard.why_not(core, None, site) for site in core.book(Guard).sites) else ""
        )
    for site in sorted(core.view.peers):
        peer = core.view.peers[site]
        drained = peer.summary is not None and bool(peer.summary.drained)
        silent = site not in draft.quotes and peer.state < State.LOST and site not in core.view.banned
        if silent and not drained and site not in failing and allowed(draft.spec, site):
            return ""
    return f"fails fast at {', '.join(failing)}, and nobody else takes it"
