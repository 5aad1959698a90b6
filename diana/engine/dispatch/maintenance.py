"""Windows of maintenance. Before one, nothing is started that would not end in time. In it, the site takes no work, or
some of its machines have no slots. After it, they go on by themselves.

Windows are announced in wall-clock time. The driver tells how far that clock is ahead of site time; all times here are
site time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import NamedTuple

from diana.engine.journal.effects import Refusal, Reply
from diana.engine.journal.events import CalendarTold, DrainSite
from diana.engine.journal.records import MaintenancePlanned
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.machines.calendar import Calendar
from diana.engine.machines.machine import Worker
from diana.engine.site.context import Context
from diana.engine.site.timers import CustodyTimer, SiteTimer
from diana.model.durations import seconds
from diana.model.ids import MAIN_MACHINE
from diana.model.job.spec import CheckpointSpec, GroupSpec
from diana.model.maintenance import MOST_WINDOWS, Window
from diana.model.views.views import Ok
from diana.policy.grads.rescheduling import RESTART_S, SAVE_S
from diana.policy.queueing import maintenance as policy

# --- what is planned -----------------------------------------------------------------------------------------


def told(core: Context, event: CalendarTold) -> None:
    """Take over the driver's word: the windows of `site.toml`, and how far the wall clock is ahead of site time."""
    core.calendar.configured, core.calendar.ahead_s = event.windows[:MOST_WINDOWS], event.wall_ahead_s
    look(core)


def plan(core: Context, event: DrainSite) -> None:
    """Add the window that an operator announces, authorised already. Answered by `Reply(Ok | Refusal)`."""
    wall_s = core.now + core.calendar.ahead_s
    standing = [one for one in core.state.maintenance if one.to_wall_s > wall_s]
    try:
        new = Window(from_wall_s=event.from_wall_s or wall_s, to_wall_s=event.to_wall_s, reason=event.reason)
        if new.to_wall_s <= wall_s:
            raise ValueError("to: that time has passed; give one that is to come")
        if len(standing) >= MOST_WINDOWS:
            raise ValueError(f"{MOST_WINDOWS} windows are planned already; diana site undrain drops them")
    except ValueError as error:
        core.reply(Reply(event.request, Refusal(code="usage", text=f"site drain: {error}")))
        return
    core.persist(MaintenancePlanned(windows=(*standing, new)))
    look(core)
    core.reply(Reply(event.request, Ok(count=1)))


def drop(core: Context) -> bool:
    """Drop all windows that operators announced; True if there were any. Those of `site.toml` stand."""
    if not core.state.maintenance:
        return False
    core.persist(MaintenancePlanned())
    look(core)
    return True


def look(core: Context) -> None:
    """Settle who is closed now and when to look again; called whenever windows change, begin or end."""
    calendar, before = core.calendar, core.calendar.closed
    notice = calendar.notice
    calendar.settle(core.state.maintenance, core.now)
    core.workers.close(calendar.closed_machines)
    core.workers.look_again()
    if calendar.closed != before or calendar.notice != notice:
        core.after(SiteTimer("summary"), 0.0)
    if calendar.closed != before:
        core.to_place.update(name for name in core.totals.unplaced() if not core.state.groups[name].state)
    for custody in core.state.custodies.values() if calendar.ahead() else ():
        ask_in_time(core, custody, late=True)
    core.timers.cancel(SiteTimer("maintenance"))
    if calendar.next_s < inf:
        core.after(SiteTimer("maintenance"), calendar.next_s - core.now)


# --- what follows for the site as a whole --------------------------------------------------------------------


def around(core: Context, first_s: float, end_s: float, run_s: float, hold_s: float) -> tuple[float, float]:
    """Return a forecast, (first start, last end) in seconds from now, moved round the windows that are known."""
    closed = core.calendar.closings
    if not closed:
        return first_s, end_s
    ahead = [(from_s - core.now, to_s - core.now) for from_s, to_s in closed if to_s > core.now]
    return policy.around(ahead, first_s, end_s, run_s, hold_s)


def takes_s(core: Context, custody: Custody) -> float:
    """Return how long one of its jobs may hold its processors: its time limit, else its expected run time."""
    return custody.spec.resources.time_limit_s or core.run_book.expected_s(custody)


def least_s(custody: Custody, takes_s: float) -> float:
    """Return how long before a window its jobs begin at the latest, which take `takes_s`: one that saves its state, and
    goes on from there, need not end before it. A gang does, since what stops it must reach all its sites."""
    return min(takes_s, begins_before_s(custody.spec) or takes_s)


def begins_before_s(spec: GroupSpec) -> float:
    """Return how long before a window a job begins at the latest that saves its state and goes on from there; 0: it has
    to end before it."""
    if spec.checkpoint is None or spec.is_gang:
        return 0.0
    return policy.begins_before_s(saves_s(spec.checkpoint), SAVE_S + RESTART_S)


def open_s(core: Context, holds_s: float) -> float:
    """Return for how many seconds from now jobs may begin here that do not begin later than `holds_s` before a window.
    inf: no window is planned; negative: none begins before it any more."""
    if not core.calendar.ahead():
        return inf
    return core.calendar.last_of(core.workers.names) - core.now - holds_s


def saves_s(checkpoint: CheckpointSpec) -> float:
    """Return how long before a window a job is asked to save, so that it has stopped by then: as long as its user gives
    it to heed that, and as its writing takes."""
    return checkpoint.wait_s + SAVE_S


def ask_in_time(core: Context, custody: Custody, *, late: bool = False) -> None:
    """Have jobs that run be asked to save before their machines close. `late`: also where the time for that has passed,
    since the window was not known, or nobody was here."""
    checkpoint = custody.spec.checkpoint
    if checkpoint is None or not custody.running or not core.calendar.ahead():
        return
    asked_s = [core.calendar.closes_of(name) - saves_s(checkpoint) for name in (MAIN_MACHINE, *custody.given)]
    due_s = min((at_s for at_s in asked_s if late or at_s > core.now), default=inf)
    if due_s < inf:
        core.timers.set(CustodyTimer("closing", *custody.key), max(core.now, due_s))


def note(core: Context, key: CustodyKey) -> str:
    """Return why its jobs wait though there may be room: they would not end before the site closes. Empty: they
    would."""
    custody = core.state.custodies.get(key)
    if custody is None or not custody.pending or not is_late(core, custody):
        return ""
    takes = seconds(takes_s(core, custody))
    return f"its jobs may take {takes} and wait for the end of the {core.calendar.notice}"


def is_late(core: Context, custody: Custody) -> bool:
    """True if its jobs begin no more before the site closes, since they would not end in time."""
    if not core.calendar.closings:
        return False
    return core.now + least_s(custody, takes_s(core, custody)) > core.calendar.closes_s


# --- what may start ------------------------------------------------------------------------------------------


class Takes(NamedTuple):
    """Seconds of a job on its processors."""

    whole_s: float
    """Until it ends by itself, at most."""
    least_s: float
    """Before a window, from when on it does not begin any more."""


class Closing:
    """Limits while the machines are filled: how many jobs each may be given so that none is running when it closes."""

    def __init__(self, core: Context) -> None:
        self._core = core
        self._calendar: Calendar = core.calendar
        self._through: dict[str, float] = {}

    def any_left(self, takes_s: float) -> bool:
        """True if a job that takes so long may start at all before the site closes."""
        return self._core.now + takes_s <= self._calendar.closes_s

    def in_time(self, takes_s: float, name: str, at_s: float) -> bool:
        """True if a job that takes so long and starts there at `at_s` is over before that machine closes."""
        return at_s + takes_s <= self._calendar.closes_of(name)

    def caps(self, processors: int, takes: Takes, caps: Mapping[str, int]) -> Mapping[str, int]:
        """Return machine -> the most jobs of this width it may be given, where that is less than it has room for."""
        return _Caps(self, processors, takes, caps) if self._calendar.ahead() else caps

    def gave(self, shares: Mapping[str, int], processors: int, takes_s: float) -> None:
        for name, jobs in shares.items():
            if name in self._through:
                self._through[name] += jobs * processors * takes_s

    def most(self, name: str, processors: int, takes: Takes) -> int | None:
        """Return the most such jobs the machine may be given; None: as many as it has room for.

        Jobs given ahead of free slots start when the work before them, poured over all slots, is through. They start
        later than that only where wide jobs leave processors idle.
        """
        closes_s, worker = self._calendar.closes_of(name), self._core.workers.find(name)
        if closes_s == inf or worker is None:
            return None
        left_s = closes_s - self._core.now - worker.lane.delay_s - takes.least_s
        if left_s < 0:
            return 0
        lane = worker.lane
        free, room = max(0, lane.slots - lane.load) // processors, worker.counted.room // processors
        if room <= free:
            return None
        before_s = left_s * lane.slots - self._through_s(worker)
        most = max(free, int(before_s / (processors * max(takes.whole_s, 1e-3))) if before_s > 0 else 0)
        return most if most < room else None

    def _through_s(self, worker: Worker) -> float:
        """Return the processor-seconds that all its jobs take at most."""
        found = self._through.get(worker.name)
        if found is None:
            core, takes = self._core, dict[CustodyKey, float]()
            found = 0.0
            for some in (worker.lane.on, worker.lane.ahead):
                for run in some.values():
                    if run.key not in takes:
                        takes[run.key] = takes_s(core, core.state.custodies[run.key])
                    found += takes[run.key] * run.processors
            self._through[worker.name] = found
        return found


class _Caps(Mapping[str, int]):
    """Caps that are looked up only for the machines that are about to be given something."""

    def __init__(self, closing: Closing, processors: int, takes: Takes, caps: Mapping[str, int]) -> None:
        self._closing, self._processors, self._takes, self._caps = closing, processors, takes, caps
        self._found: dict[str, int | None] = {}

    def __getitem__(self, name: str) -> int:
        if name not in self._found:
            most, cap = self._closing.most(name, self._processors, self._takes), self._caps.get(name)
            self._found[name] = cap if most is None else most if cap is None else min(cap, most)
        found = self._found[name]
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._closing._core.workers.names() if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
