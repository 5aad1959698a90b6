"""Progress of running jobs, as they report it (SPEC G5). A site keeps the last few reports of each job that runs here,
and tells their pace to the origin with the part's progress. Volatile: a job that goes on reports again."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from diana.engine.handover import execution
from diana.engine.journal.events import StepsReported
from diana.engine.journal.state import Custody, CustodyKey
from diana.engine.messages.messages import JobSteps
from diana.engine.site.context import Context
from diana.model.ids import group_of
from diana.model.job.gang import MOST_EXCHANGES
from diana.policy.grads.contract import Steps

MOST_TOLD = 64
"""Jobs of a part whose pace is told to its origin."""
WINDOW = 5
"""Reports that count for a component of a gang, which has no contract."""
MOST_OWN_S = 1e9
"""Seconds of a part of a step that are believed: a job says what it likes, and their sum goes to its origin."""
LEAST_OWN = 3
"""Reports of its own seconds by one roster from which on they are told: one says nothing of the next."""


class OwnPace:
    """Seconds that a component of a gang takes for its own part of a step, as it says."""

    def __init__(self) -> None:
        self.roster = 0
        self._seconds: deque[float] = deque(maxlen=WINDOW)

    def take(self, own_s: float, roster: int) -> None:
        """Take a report. One by another roster begins anew: its part may be another one."""
        if roster != self.roster:
            self._seconds.clear()
        self.roster = roster
        if 0 < own_s <= MOST_OWN_S:
            self._seconds.append(own_s)

    def pace(self) -> tuple[float, float]:
        """Return (the latest, the mean); (0, 0): too few were told."""
        if len(self._seconds) < LEAST_OWN:
            return 0.0, 0.0
        return self._seconds[-1], sum(self._seconds) / len(self._seconds)


class Heard(NamedTuple):
    attempt: int
    steps: Steps
    """Its latest reports."""
    own: OwnPace


class StepBook:
    def __init__(self) -> None:
        self.here: dict[CustodyKey, dict[int, Heard]] = {}
        """Custody -> index -> what it reported; only of jobs that run."""


def on_steps(core: Context, event: StepsReported) -> None:
    """Take reports. They are the words of programs: late ones, those of other attempts and nonsense change nothing."""
    key = (event.subgroup, event.epoch)
    custody = core.state.custodies.get(key)
    if custody is None or not custody.spec.reports:
        return
    window = custody.spec.contract.window if custody.spec.contract is not None else WINDOW
    book = core.book(StepBook).here.setdefault(key, {})
    own = event.own if len(event.own) == len(event.steps) else ((0.0, 0),) * len(event.steps)
    for (index, attempt, at_s, done, total), (own_s, roster) in zip(event.steps, own, strict=True):
        if custody.running.get(index) != attempt or execution.elsewhere(custody, event.worker, (index,)):
            continue
        known = book.get(index)
        if known is None or known.attempt != attempt:
            known = book[index] = Heard(attempt, Steps(window), OwnPace())
        # A clock of a machine may be ahead, and then no later report would be later.
        known.steps.take(min(at_s, core.now), done, total, core.now)
        if custody.spec.spares and 0 <= roster <= MOST_EXCHANGES:
            known.own.take(own_s, roster)
    if custody.origin != core.site:
        core.moved.add(key)
    else:
        core.notify(group_of(event.subgroup))


def told(core: Context, custody: Custody) -> tuple[JobSteps, ...]:
    """Return the pace of the jobs of a custody that run here and reported twice, the first ones of many."""
    book = core.book(StepBook).here.get(custody.key)
    if not book:
        return ()
    out: list[JobSteps] = []
    for index in sorted(book):
        attempt, steps, own = book[index]
        pace = steps.pace(core.now)
        if pace is not None and custody.running.get(index) == attempt and len(out) < MOST_TOLD:
            last_s, mean_s = own.pace()
            told = (steps.done, steps.total, pace.last_s, pace.mean_s, last_s, mean_s, own.roster)
            out.append(JobSteps(index, attempt, *told))
    return tuple(out)


def tidy(core: Context) -> None:
    """Forget jobs that run no more; not at each report, which would cost as many looks as jobs report."""
    here = core.book(StepBook).here
    for key, book in list(here.items()):
        custody = core.state.custodies.get(key)
        running = custody.running if custody is not None else {}
        for index in [index for index, heard in book.items() if running.get(index) != heard.attempt]:
            del book[index]
        if not book:
            del here[key]
