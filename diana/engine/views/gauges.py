"""Counts of what a site holds, for those who watch it over time (`docs/metrics.md`), at a cost that does not depend on
how much it holds.

Nothing is counted before somebody asks, nor once nobody has asked for long. From the first question on the
records name the groups that changed, and only those are counted anew at the next; the rest are sums. Groups and sites
are looked at some at a time, so that no question holds up the site: whoever asks is told how many are left and asks
again.
"""

from __future__ import annotations

from collections import Counter
from operator import add, sub
from typing import NamedTuple

from diana.engine.data.stage_book import StageBook
from diana.engine.dispatch import capacity
from diana.engine.guard.guard import Guard
from diana.engine.journal.records import Record
from diana.engine.journal.state import Group, SiteState
from diana.engine.site.context import Context
from diana.engine.site.dependencies import Dependencies
from diana.engine.site.view import PeerView, standing
from diana.engine.views.gangs import counted
from diana.model.ids import GroupId, SiteId, group_of
from diana.model.views.figures import NodeFigures, SiteFigures
from diana.model.views.views import Ok
from diana.policy.breaker import Stand

STEP = 2000
"""Groups, parts of them and sites looked at for one question: some milliseconds. A group is looked at whole."""
MOST_UNASKED = 200_000
"""Records between two questions; after more of them nobody watches."""
MOST_SITES = 100
"""Sites told one by one."""
OTHERS = SiteId("other")
"""Stands for all the rest, a site of that name among them."""


class _Row(NamedTuple):
    """A group as it was counted last."""

    stands: str
    jobs: tuple[tuple[str, int], ...]
    gangs: tuple[int, int]
    """Those that wait and those that run."""
    placed: tuple[tuple[SiteId, int], ...]


class Gauges:
    """Volatile. `saw` takes each folded record, from the first question on."""

    def __init__(self, state: SiteState) -> None:
        self._state = state
        self._touched: dict[GroupId, None] = dict.fromkeys(state.groups)
        self._rows: dict[GroupId, _Row] = {}
        """Rows of the groups that are not final."""
        self._stands: Counter[str] = Counter()
        self._jobs: Counter[str] = Counter()
        self._gangs: Counter[str] = Counter()
        self._placed: Counter[SiteId] = Counter()
        self._round: _Round | None = None
        self._unasked = 0

    def saw(self, record: Record) -> bool:
        """Note a folded record. False if nobody is likely to ask again: better count all anew when somebody does."""
        part = getattr(record, "subgroup", None)
        group = getattr(record, "group", None) if part is None else group_of(part)
        # Others' groups stand in records too, and nothing is to be counted of those that are forgotten.
        if group is not None and (group in self._state.groups or group in self._rows):
            self._touched[group] = None
        self._unasked += 1
        return self._unasked <= MOST_UNASKED

    def look(self, core: Context, most: int = STEP) -> int | NodeFigures:
        """Return the figures, or how many groups and sites are still to be looked at."""
        self._unasked = 0
        done = self._settle(most)
        if self._touched:
            return len(self._touched) + len(core.view.peers)
        if self._round is None:
            self._round = _Round(core)
        left = self._round.look(core, self._placed, most - done)
        if left:
            return left
        found, self._round = self._round, None
        return _figures(core, self, found)

    def groups(self) -> dict[str, int]:
        final = len(self._state.groups) - len(self._rows)
        return {**{stands: self._stands[stands] for stands in ("placing", "open", "merging", "held")}, "final": final}

    def jobs(self) -> dict[str, int]:
        kinds = ("unplaced", "held", "placed", "done", "failed", "cancelled", "unknown")
        return {kind: self._jobs[kind] for kind in kinds}

    def gangs(self) -> dict[str, int]:
        return {state: self._gangs[state] for state in ("waiting", "running")}

    def placed_at(self, site: SiteId) -> int:
        return self._placed[site]

    def _settle(self, most: int) -> int:
        done = 0
        while self._touched and done < most:
            name, _ = self._touched.popitem()
            old = self._rows.pop(name, None)
            if old is not None:
                self._sum(old, -1)
            group = self._state.groups.get(name)
            if group is not None and not group.state:
                row = self._rows[name] = _row(group)
                self._sum(row, 1)
                done += len(group.subgroups)
            done += 1
        return done

    def _sum(self, row: _Row, sign: int) -> None:
        self._stands[row.stands] += sign
        for kind, jobs in row.jobs:
            self._jobs[kind] += sign * jobs
        for state, gangs in zip(("waiting", "running"), row.gangs, strict=True):
            self._gangs[state] += sign * gangs
        for site, jobs in row.placed:
            self._placed[site] += sign * jobs
            if not self._placed[site]:
                del self._placed[site]


def _row(group: Group) -> _Row:
    placed: Counter[SiteId] = Counter()
    for part in group.subgroups.values():
        # The merge is no job of the user's.
        if part.open_jobs() and part.indices.bounds[:1] != (group.jobs,):
            placed[part.site] += part.open_jobs()
    held = len(group.holding)
    jobs = {
        "unplaced": len(group.unplaced) - held,
        "held": held,
        "placed": placed.total(),
        "done": len(group.done),
        "failed": len(group.failed),
        "cancelled": len(group.cancelled),
        "unknown": len(group.held),
    }
    _, *gangs = counted(group)
    told = tuple((kind, n) for kind, n in jobs.items() if n)
    return _Row(_stands(group), told, (gangs[0], gangs[1]), tuple(placed.items()))


def _stands(group: Group) -> str:
    if group.on_hold:
        return "held"
    if group.merge == "running":
        return "merging"
    return "placing" if len(group.unplaced) == group.jobs else "open"


class _Sums(NamedTuple):
    """Figures that add up over sites."""

    slots: int = 0
    free_slots: int = 0
    queued_jobs: int = 0
    running_jobs: int = 0
    work_ahead_s: float = 0.0
    placed_jobs: int = 0

    def plus(self, other: _Sums) -> _Sums:
        return _Sums(*map(add, self, other))

    def minus(self, other: _Sums) -> _Sums:
        return _Sums(*(max(0, left) for left in map(sub, self, other)))


class _Round:
    """One look over all other sites."""

    def __init__(self, core: Context) -> None:
        self._left = sorted(core.view.peers, reverse=True)
        self.states: Counter[str] = Counter()
        self.near: list[SiteId] = []
        """Sites with work of this site's or a stream to it, in order of their names; `far`: the others."""
        self.far: list[SiteId] = []
        self.sums = _Sums()

    def look(self, core: Context, placed: Counter[SiteId], most: int) -> int:
        """Look at up to `most` more sites; return how many are left."""
        patience_s = core.state.settings.suspect_after_s
        while self._left and most > 0:
            site, most = self._left.pop(), most - 1
            peer = core.view.peers.get(site)
            if peer is None:
                continue
            age_s = max(0.0, core.now - peer.last_heard_s)
            self.states["banned" if site in core.view.banned else standing(peer, age_s, patience_s)] += 1
            (self.near if peer.up or site in placed else self.far).append(site)
            self.sums = self.sums.plus(_told(peer, placed[site]))
        return len(self._left)


def figures(core: Context) -> NodeFigures | Ok:
    """Return the figures; or Ok, with how many groups and sites are left: ask again."""
    gauges = core.watcher
    if not isinstance(gauges, Gauges):
        core.watcher = gauges = Gauges(core.state)
    found = gauges.look(core)
    return Ok(found) if isinstance(found, int) else found


def _figures(core: Context, gauges: Gauges, found: _Round) -> NodeFigures:
    state, flow = core.state, core.line.flow
    queue, rates = flow.figures(core.now), core.line.rates.rates(core.now)
    known = [site for site in (*found.near, *found.far) if site in core.view.peers]
    shown = [site for site in known if site != OTHERS][:MOST_SITES]
    told = {site: _told(core.view.peers[site], gauges.placed_at(site)) for site in shown}
    rest = found.sums
    for sums in told.values():
        rest = rest.minus(sums)
    core.queues.settle(core.now)
    return NodeFigures(
        generation=state.generation,
        records=state.seq,
        slots=core.workers.slots(),
        free_slots=capacity.free_slots(core),
        machines=_machines(core),
        drained=bool(core.drained()),
        low_room=bool(core.low_room),
        past_ends=state.past_ends.error(),
        congested=max(0.0, 1.0 - rates.started / rates.arrived) if rates.arrived else 0.0,
        work_ahead_s=capacity.work_ahead_s(core),
        jobs={
            "queued": flow.queued,
            "kept": max(0, core.totals.waiting() - flow.queued),
            "claimed": capacity.claimed_jobs(core),
            "running": capacity.running_jobs(core),
        },
        levels=core.queues.classes.by_level(),
        queue_mean_jobs=queue.mean_queued,
        queue_mean_wait_s=queue.mean_wait_s,
        queue_arrivals_per_s=queue.arrivals_per_s,
        queue_deviation_jobs=queue.deviation,
        transfers=len(core.book(StageBook).tickets),
        groups=gauges.groups(),
        blocked_groups=len(core.book(Dependencies).blocked),
        group_jobs=gauges.jobs(),
        gangs=gauges.gangs(),
        gang_processors=_gang_processors(core),
        placed_here=gauges.placed_at(core.site),
        stopped_groups=len(core.book(Guard).stopped),
        sites_on_probation=sum(b.stand in (Stand.PROBATION, Stand.BARRED) for b in core.book(Guard).sites.values()),
        peers=dict(found.states),
        sites=tuple(_site(core, core.view.peers[site], sums) for site, sums in told.items()),
        others=SiteFigures(site=OTHERS, linked=False, **rest._asdict()) if len(shown) < len(known) else None,
        counters=dict(core.counters),
    )


def _told(peer: PeerView, placed: int) -> _Sums:
    told = peer.summary
    if told is None:
        return _Sums(placed_jobs=placed)
    return _Sums(told.slots, told.free_slots, told.queued_jobs, told.running_jobs, told.work_ahead_s, placed)


def _site(core: Context, peer: PeerView, sums: _Sums) -> SiteFigures:
    return SiteFigures(
        site=peer.site,
        linked=peer.up,
        rtt_s=-1.0 if peer.rtt_s is None else peer.rtt_s,
        bytes_per_s=peer.bytes_per_s or -1.0,
        silence_s=max(0.0, core.now - peer.last_heard_s),
        summary_age_s=-1.0 if peer.summary is None else max(0.0, core.now - peer.summary_s),
        **sums._asdict(),
    )


def _gang_processors(core: Context) -> dict[str, int]:
    held = [one for one in core.totals.gangs() if not one.runnable]
    idle = sum(len(one.running) * one.spec.resources.processors for one in held)
    return {"held": idle, "running": core.totals.gang_processors() - idle}


def _machines(core: Context) -> dict[str, int]:
    """Count the machines that are here and away, without those an operator gave up."""
    out = {"here": 0, "away": 0}
    for name in core.workers.names():
        worker, known = core.workers.find(name), core.state.machines.get(name)
        if worker is not None and (name == core.workers.own or (known is not None and not known.gone)):
            out["away" if worker.session is None else "here"] += 1
    return out
