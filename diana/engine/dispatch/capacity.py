"""The work that stands at this site, and why it takes no more. Every figure is a running total or one look at what the
local resource manager holds: none costs by the number of groups."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import chain
from math import inf
from typing import NamedTuple

from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.machines.requirements import Kind
from diana.engine.machines.running import Lane
from diana.engine.machines.software import Sorted
from diana.engine.messages.wanted import Wanted
from diana.engine.site import journal_doubt
from diana.engine.site.context import Context
from diana.model.arrays import np
from diana.model.job import resources, software
from diana.model.job.resources import SIZES, Amounts, Lack, ResourceRequest, lacking
from diana.model.job.urls import MOST_BEGINNINGS, may_be_allowed, shown
from diana.model.words import counted
from diana.policy.migration.capacity import Promises
from diana.policy.queueing import limits, residual
from diana.policy.queueing.forecast import Slots

MOST_LOOKED_AT = 512
"""Jobs on slots looked at to tell when slots come free; of more, an even sample."""


class Given(NamedTuple):
    """Jobs the LRM holds, as far as it has told."""

    left_s: list[float]
    """Expected seconds still to run of those on slots."""
    widths: list[int]
    """The processors of each."""
    ahead_s: float
    """Processor-seconds expected of those given ahead of free slots."""
    ends: dict[str, list[tuple[float, int]]]
    """Resource in whole pieces -> (expected seconds still to run, pieces) of those on slots that have any."""
    devices_ahead_s: dict[str, float]
    """Resource -> seconds expected of those given ahead of free slots, times their pieces."""

    def work_s(self) -> float:
        """Return the processor-seconds until all of it is through."""
        return self.ahead_s + sum((left_s * width for left_s, width in zip(self.left_s, self.widths, strict=True)), 0.0)


ROOM_S = 60.0
"""Seconds until room that was kept and not used is free again: a recall with its retries is through or given up."""
MOST_DUE = 10_000


class PromisedCapacity:
    """Room kept here for work that is to move here. Volatile: a site that asked and hears nothing asks again."""

    def __init__(self) -> None:
        self.rooms = Promises(ROOM_S)
        """Rooms kept here for others, in processors."""
        self._due_s: list[float] = []
        """Heap of the site times by which jobs that room was made for are to have started."""

    def due(self, now: float, gain_s: float) -> None:
        """Note that room was made for work that is to start within `gain_s`."""
        if len(self._due_s) < MOST_DUE:
            heappush(self._due_s, now + gain_s)

    def within_s(self, now: float) -> float:
        """Return the seconds within which further work is to start here: the shortest time that any work with room has
        left; inf: none has room. Later work may push back none that came before it: the queue knows nothing of the
        gains, and the work with the larger gain may stand first."""
        while self._due_s and self._due_s[0] <= now:
            heappop(self._due_s)
        return self._due_s[0] - now if self._due_s else inf


class Capacity:
    """The latest look at what the LRM holds."""

    def __init__(self) -> None:
        self.stamp: tuple[float, int, int] | None = None
        """Site time, changes of runs and of what runs are expected to take at which `held` was counted."""
        self.held = Given([], [], 0.0, {}, {})
        self.free: tuple[int, list[tuple[float, int]]] | None = None
        """Slots, and those that come late, with which `slots` were counted; None: they are to be counted."""
        self.slots = Slots(0, [])


def held(core: Context) -> Given:
    """Return the jobs the LRM holds. One look serves all questions of one instant: a quote alone asks twice."""
    stamp, last = (core.now, core.totals.runs.changes, core.run_book.changes), core.book(Capacity)
    if last.stamp != stamp:
        last.stamp, last.held, last.free = stamp, _held(core), None
    return last.held


def slots_of(core: Context) -> tuple[Slots, float]:
    """The site's processors as they come free, and the work given to the LRM ahead of them (processor-seconds)."""
    given, last = held(core), core.book(Capacity)
    at = (core.workers.slots(), core.workers.late())
    if last.free != at:
        slots, late = at
        left_s = [*given.left_s, *(at_s for at_s, _ in late)] if late else given.left_s
        widths = [*given.widths, *(width for _, width in late)] if late else given.widths
        last.free, last.slots = at, Slots.of_columns(slots - sum(widths), left_s, widths)
    return last.slots, given.ahead_s


def _held(core: Context) -> Given:
    runs = core.totals.runs
    left_s, widths, ends = _on_slots(core)
    ahead, other = runs.sample_ahead(MOST_LOOKED_AT)
    if not ahead:
        return Given(left_s, widths, 0.0, ends, {})
    expected = _expected(core, (run.key for run in ahead))
    ahead_s = sum(expected[run.key] * run.processors for run in ahead) * other
    devices_s: dict[str, float] = {}
    for run in ahead:
        for name, count in resources.devices(run.held) if run.held else ():
            devices_s[name] = devices_s.get(name, 0.0) + expected[run.key] * count
    return Given(left_s, widths, ahead_s, ends, {name: seconds * other for name, seconds in devices_s.items()})


def _on_slots(core: Context) -> tuple[list[float], list[int], dict[str, list[tuple[float, int]]]]:
    """(expected seconds still to run, processors of each, ends as in `Given`) of jobs on slots."""
    runs = core.totals.runs
    if not len(runs.rows):
        return [], [], {}
    for key in core.run_book.moved:
        runs.rows.moved(key)
    core.run_book.moved.clear()
    away = [lane.number for lane in runs.lanes.values() if lane.away]
    book = core.run_book
    rows, every = runs.rows.columns(MOST_LOOKED_AT, core.state.custodies, book.mean_s, book.of_kind_s, away)
    left = residual.left_s(rows.expected_s, core.now - rows.on_s)
    if any(lane.delay_s for lane in runs.lanes.values()):
        late_s = np.array([lane.delay_s for lane in runs.lanes.values()])
        left = np.maximum(late_s[rows.lane], left)
    left_s = left.tolist()
    ends: dict[str, list[tuple[float, int]]] = {}
    for at in np.flatnonzero(rows.devices):
        for name, count in runs.rows.devices[rows.devices[at]]:
            ends.setdefault(name, []).append((left_s[at], count * every))
    return left_s, (rows.processors * every).tolist(), ends


def _expected(core: Context, *lists: Iterable[CustodyKey]) -> dict[CustodyKey, float]:
    """Return `expected_s` of many custodies, however often each is named. Where groups have one job each, every run has
    a custody of its own, but few templates stand behind them: learned times are looked up once per template and
    user."""
    out: dict[CustodyKey, float] = {}
    seen, custodies, means = core.run_book.mean_s, core.state.custodies, dict[tuple[str, str], float | None]()
    for key in chain(*lists):
        if key in out:
            continue
        run_s = seen.get(key)
        if run_s is None:
            custody = custodies[key]
            kind = (custody.template, custody.owner)
            if kind not in means:
                means[kind] = core.state.run_times.mean_s(*kind)
            run_s = means[kind]
            if run_s is None:
                run_s = core.run_book.expected_s(custody)
        out[key] = run_s
    return out


def ends(core: Context, lane: Lane) -> list[tuple[float, int, Amounts]]:
    """(expected end, processors, amounts) of each job the machine holds, the first to end first; what waits there has
    all of its run before it."""
    runs = list(core.totals.runs.of(lane))
    expected, now = _expected(core, (run.key for run in runs)), core.now
    ran_s = (now - run.on_s if run.on_s >= 0 else 0.0 for run in runs)
    left_s = (residual.left_s(expected[run.key], s) for run, s in zip(runs, ran_s, strict=True))
    return sorted((now + s, run.processors, run.held) for run, s in zip(runs, left_s, strict=True))


def licence_ends(core: Context, name: str) -> list[tuple[float, int]]:
    """(expected seconds still to run, licences) of what holds any of the name: together all that are held."""
    some = core.totals.runs.licence_sample(name, MOST_LOOKED_AT)
    expected = _expected(core, (key for key, _, _ in some))
    return [(residual.left_s(expected[key], core.now - given_s), count) for key, given_s, count in some]


def queued_jobs(core: Context) -> int:
    """Jobs this site holds that have no slot yet, prepared and claimed ones included."""
    return core.totals.waiting() + claimed_jobs(core)


def on_slots(core: Context) -> dict[CustodyKey, int]:
    """Jobs of each custody that have a slot; what was claimed ahead waits in the LRM, which starts jobs in the order
    it is given them."""
    return core.totals.runs.on_slots()


def running_jobs(core: Context) -> int:
    return core.totals.runs.running


def running_here(core: Context, custody: Custody) -> int:
    """Return the custody's part of `running_jobs`; 0 for components that hold their processors until their gang may
    start."""
    return core.totals.runs.running_of(custody.key) if custody.runnable else 0


def holding_jobs(core: Context) -> int:
    """Return the part of `running_jobs` that are components at the barrier: they hold processors and have not begun."""
    return sum(core.totals.runs.running_of(one.key) for one in core.totals.gangs() if not one.runnable)


def claimed_jobs(core: Context) -> int:
    """Return the number of jobs given to the LRM that wait there for a slot."""
    return core.totals.started() - core.totals.runs.running


def queued_of(core: Context, user: str) -> int:
    """The user's part of `queued_jobs`, claimed ones left out."""
    return core.totals.waiting_of(user)


def unplaced_of(core: Context, user: str) -> int:
    """Jobs the user submitted here that no site has."""
    return core.totals.unplaced_of(user)


def running_of(core: Context) -> dict[str, int]:
    """User -> jobs running here, claimed ones included."""
    return core.totals.started_by_user()


def work_ahead_s(core: Context) -> float:
    """Processor-seconds at reference speed of all that runs or waits here."""
    return (core.totals.ahead_s() + held(core).work_s()) * core.state.settings.speed


def free_slots(core: Context) -> int:
    """Return the slots that no running or claimed job wants and that are ours at once."""
    return core.workers.free_slots() - sum(width for _, width in core.workers.late())


class Obstacle(NamedTuple):
    """A condition that jobs fail here."""

    why: str
    """The condition in words, with its figures."""
    mend: str
    """The change to the jobs that would meet it; empty: it is not about them."""
    passes: bool = False
    """True if it may be gone in a moment, with the same machines and settings."""


def rejection(core: Context, asked: Wanted, *, for_peer: bool = True) -> str:
    """Return why this site takes no such jobs: the first condition that fails. Empty: it takes them."""
    found = obstacles(core, asked, for_peer=for_peer)
    return found[0].why if found else ""


def never(core: Context, asked: Wanted, *, for_peer: bool = True) -> str:
    """Return why this site takes no such jobs with its machines and settings as they are, however little stands here.
    Empty: it may take them, now or later."""
    found = obstacles(core, asked, for_peer=for_peer)
    return next((one.why for one in found if not one.passes), "")


def room(core: Context, asked: Wanted) -> int:
    """Return how many of the asked jobs this site would queue now, by its own limit and its limit for their user."""
    settings = core.state.settings
    left = settings.max_queued_jobs - queued_jobs(core)
    if settings.user_max_queued:
        left = min(left, settings.user_max_queued - queued_of(core, asked.owner))
    return max(0, min(asked.jobs, left))


def obstacles(core: Context, asked: Wanted, *, for_peer: bool = True, in_part: bool = False) -> list[Obstacle]:
    """Return every condition that such jobs fail at this site, the gravest first. `in_part`: taking some of them will
    do."""
    settings = core.state.settings
    if not asked.is_sane:
        return [Obstacle("is asked for less than nothing", "")]
    request, offer = asked.request, core.workers.offer()
    if offer.processors == 0:
        trouble = core.workers.trouble()
        return [Obstacle(f"has no slots ({trouble})" if trouble else "has no slots", "", passes=True)]
    found = []
    if fallen := journal_doubt.fallen(core):
        found.append(Obstacle(f"{core.site} {fallen}", ""))
    if drained := core.drained():
        found.append(Obstacle(f"{core.site} is drained: {drained}", "", passes=True))
    if core.low_room:
        found.append(Obstacle(core.low_room, "", passes=True))
    lacks = lacking(request, offer)
    named = [lack for lack in lacks if not _is_of_machines(lack)]
    found += [Obstacle(lack.why, lack.mend) for lack in lacks if _is_of_machines(lack)]
    # What no machine has is told by itself.
    together = request if not named else resources.without_names(request)
    if not found and (why := _no_machine(core, together)):
        found.append(Obstacle(why, ""))
    if software.is_package(asked.software) and not {"*", asked.owner} & set(settings.package_users):
        found.append(Obstacle("runs no packages of this user (package_users in its site.toml)", ""))
    if for_peer and not settings.accept_remote:
        found.append(Obstacle("takes no work from other sites", ""))
    closed = [url for url in asked.urls[:MOST_BEGINNINGS] if not may_be_allowed(url, core.allowed_urls)]
    if closed:
        found.append(Obstacle(f"its operator does not allow {shown(closed[0])} (staging.urls in its site.toml)", ""))
    found += [Obstacle(lack.why, lack.mend) for lack in named]
    if in_part and room(core, asked):
        return found
    free = max(0, settings.max_queued_jobs - queued_jobs(core))
    if asked.jobs > free:
        why = f"holds its limit of {counted(settings.max_queued_jobs, 'job')}"
        found.append(Obstacle(why, f"jobs <= {free}" if free else "", passes=True))
    waiting = queued_of(core, asked.owner) if settings.user_max_queued else 0
    why = limits.queued(settings, asked.jobs, waiting)
    if why:
        left = max(0, settings.user_max_queued - waiting)
        found.append(Obstacle(why, f"jobs <= {left}" if left else "", passes=True))
    return found


def unfit(core: Context, request: ResourceRequest) -> str:
    """Return why no machine of this site could ever run such a job; empty: one could."""
    lacks = lacking(request, core.workers.offer())
    return lacks[0].why if lacks else _no_machine(core, request)


def _no_machine(core: Context, request: ResourceRequest) -> str:
    """Return that no machine has all of it together; empty: one has."""
    if request.is_plain or core.workers.suits_any(request):
        return ""
    return f"has no machine with {resources.shown(request)}, which a job needs"


def kinds(core: Context) -> Sorted:
    """Return the kinds of queued jobs by who can run them; plain jobs are left out."""
    classes = core.queues.classes
    return core.workers.sorted(classes.special(), classes.kind_changes)


def untaken(core: Context) -> frozenset[Kind]:
    """Return the queued kinds that no machine can run that is here or soon will be: they keep nobody waiting."""
    return kinds(core).untaken


def _is_of_machines(lack: Lack) -> bool:
    """True for what each machine has for itself; licences, and what a machine can do, are told of after the rest."""
    return lack.wanted > 0 and not lack.resource.startswith(resources.LICENCE)


def nobody_takes(core: Context, request: ResourceRequest) -> str:
    """Return why no machine that is in touch can run such a job, however long it waits; empty: some can."""
    workers = core.workers
    if workers.takers(request):
        return ""
    lacks = next((lack for lack in lacking(request, workers.offer_now()) if lack.resource not in _SHOWN_TOGETHER), None)
    why = f"{core.site} {lacks.why if lacks else f'has no machine with {resources.shown(request)}'}"
    full = next((w for w in workers.present() if not w.closed and workers.offers.suits(w, request)), None)
    if full is not None:
        return f"{why} just now: others leave {resources.room(full.scratch_room)} of it at machine {full.name}"
    away = next((w.name for w in workers.away() if workers.offers.suits(w, request)), "")
    return f"{why} just now: machine {away} is away" if away else why


_SHOWN_TOGETHER = SIZES | {resources.PROCESSORS, resources.GPUS}
"""Resources of which it matters that one machine has enough of all of them."""
