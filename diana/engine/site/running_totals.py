"""Running totals of all that stands at this site, changed with the records: a submission, a quote and a summary cost
the same with ten groups and with ten thousand.

`Context.persist` names every record; the custodies and groups it concerns are counted anew at the next question, and
nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from diana.engine.journal import records as r
from diana.engine.journal.state import Custody, CustodyKey, SiteState
from diana.engine.machines.running import GivenRuns
from diana.model.ids import GroupId, group_of
from diana.model.job.resources import of_job

Expected = Callable[[Custody], float]
"""Gives the expected run time of one of the custody's jobs here, in seconds."""


class CustodyCount(NamedTuple):
    """A custody as it was counted last. Work is in whole microseconds of processors, so that sums stay exact."""

    owner: str
    template: str
    waiting: int
    """Jobs that have no slot and were not given to the LRM; held and inert ones included."""
    started: int
    """Jobs from STARTING until their end is durable."""
    ahead_us: int
    """Work of its jobs that wait and are not held, at this site's speed, in processor-microseconds."""
    gang_processors: int
    """Processors that its components hold, claimed and let go; 0 for ordinary jobs."""


class Totals:
    """The sums over all custodies and groups of a state. Volatile."""

    def __init__(self, state: SiteState, expected: Expected, now: float) -> None:
        self.runs = GivenRuns(state.settings.slots)
        self._state = state
        self._expected = expected
        self._rows: dict[CustodyKey, CustodyCount] = {}
        self._unplaced: dict[GroupId, tuple[str, int]] = {}
        self._custodies: dict[CustodyKey, None] = dict.fromkeys(state.custodies)
        """Custodies to be counted anew; a dict, so that the order is that of touching."""
        self._groups: dict[GroupId, None] = dict.fromkeys(state.groups)
        self._waiting = self._started = self._ahead_us = self._gang_processors = 0
        self._waiting_of: dict[str, int] = {}
        self._started_of: dict[str, int] = {}
        self._unplaced_of: dict[str, int] = {}
        self._of_template: dict[str, set[CustodyKey]] = {}
        self._gangs: set[CustodyKey] = set()
        for key in sorted(state.custodies):
            custody = state.custodies[key]
            need = custody.spec.resources
            amounts, run_s = of_job(need), expected(custody)
            for machine, indices in custody.by_machine(sorted(custody.running)).items():
                self.runs.give(key, indices, need.processors, now, machine, amounts, run_s)

    # --- what happens --------------------------------------------------------------------------------

    def saw(self, record: r.Record, now: float) -> None:
        """Follow `record`, which was folded into the state just now."""
        match record:
            case r.SettingsChanged():
                self._custodies |= dict.fromkeys(self._state.custodies)
                self.runs.expects_anew()
                return
            case r.GroupPlaced():
                self._custodies |= dict.fromkeys((part.subgroup, part.epoch) for part in record.parts)
            case r.MergeStarted():
                self._custodies[(record.part.subgroup, record.part.epoch)] = None
            case r.RunsStarted():
                key = (record.subgroup, record.epoch)
                custody = self._state.custodies[key]
                need, run_s = custody.spec.resources, self._expected(custody)
                self.runs.give(key, record.indices, need.processors, now, record.worker, of_job(need), run_s)
            case r.RunsEnded():
                key = (record.subgroup, record.epoch)
                self.runs.forget(key, record.ended, now)
                if record.took:
                    custody = self._state.custodies[key]
                    self.runs.learned(custody.template, custody.owner)
            case r.MachineKnown():
                self.runs.configure(record.slots, record.machine)
                return
            case r.MachineGone():
                self.runs.configure(0, record.machine)
                return
            case r.RunsVoided() | r.RunsReturned() | r.RunsRepeated():
                self.runs.forget((record.subgroup, record.epoch), record.indices, now)
        part, group = getattr(record, "subgroup", None), getattr(record, "group", None)
        if part is not None:
            self._custodies[(part, record.epoch)] = None  # type: ignore[union-attr]
            group = group_of(part)
        if group is not None:
            self._groups[group] = None

    def touch(self, key: CustodyKey) -> None:
        """Count a custody anew: something it is counted by, other than its state, changed."""
        self._custodies[key] = None

    def relearned(self, template: str) -> list[CustodyKey]:
        """Count anew the custodies of a template whose expected run times changed; return these custodies."""
        self._settle()
        keys = sorted(self._of_template.get(template, ()))
        self._custodies |= dict.fromkeys(keys)
        return keys

    # --- questions -----------------------------------------------------------------------------------

    def gangs(self) -> list[Custody]:
        """Return the custodies of components, in order."""
        self._settle()
        return [self._state.custodies[key] for key in sorted(self._gangs)]

    def gang_processors(self) -> int:
        """Processors that components hold here, claimed and let go."""
        self._settle()
        return self._gang_processors

    def waiting(self) -> int:
        """Jobs held here that were not given to the LRM: queued, held, and those of inert parts."""
        self._settle()
        return self._waiting

    def waiting_of(self, user: str) -> int:
        self._settle()
        return self._waiting_of.get(user, 0)

    def started(self) -> int:
        """Jobs from STARTING until their end is durable."""
        self._settle()
        return self._started

    def started_by_user(self) -> dict[str, int]:
        self._settle()
        return dict(self._started_of)

    def unplaced_of(self, user: str) -> int:
        """Jobs the user submitted here that no site has."""
        self._settle()
        return self._unplaced_of.get(user, 0)

    def unplaced(self) -> list[GroupId]:
        """Groups with jobs no site has, in no order."""
        self._settle()
        return list(self._unplaced)

    def ahead_s(self) -> float:
        """Return the processor-seconds, at this site's speed, of jobs that wait and may start; jobs given to the LRM
        are not among them."""
        self._settle()
        return self._ahead_us * 1e-6

    # --- inside --------------------------------------------------------------------------------------

    def _settle(self) -> None:
        while self._custodies:
            key, _ = self._custodies.popitem()
            self._count(key, self._state.custodies.get(key))
        while self._groups:
            name, _ = self._groups.popitem()
            group = self._state.groups.get(name)
            owner, had = self._unplaced.pop(name, ("", 0))
            _add(self._unplaced_of, owner, -had)
            if group is not None and group.unplaced:
                self._unplaced[name] = (group.owner, len(group.unplaced))
                _add(self._unplaced_of, group.owner, len(group.unplaced))

    def _count(self, key: CustodyKey, custody: Custody | None) -> None:
        old = self._rows.pop(key, None)
        if old is not None:
            self._sum(key, old, -1)
        self._gangs.discard(key)
        if custody is not None:
            if custody.spec.is_gang:
                self._gangs.add(key)
            row = self._rows[key] = _row(custody, self._expected(custody))
            self._sum(key, row, 1)

    def _sum(self, key: CustodyKey, row: CustodyCount, sign: int) -> None:
        self._waiting += sign * row.waiting
        self._started += sign * row.started
        self._ahead_us += sign * row.ahead_us
        self._gang_processors += sign * row.gang_processors
        _add(self._waiting_of, row.owner, sign * row.waiting)
        _add(self._started_of, row.owner, sign * row.started)
        if sign > 0:
            self._of_template.setdefault(row.template, set()).add(key)
        else:
            self._of_template[row.template].discard(key)
            if not self._of_template[row.template]:
                del self._of_template[row.template]


def _row(custody: Custody, run_s: float) -> CustodyCount:
    waiting = custody.unstarted()
    starts, processors = waiting - custody.held, custody.spec.resources.processors
    return CustodyCount(
        owner=custody.owner,
        template=custody.template,
        waiting=len(waiting),
        started=len(custody.running),
        ahead_us=len(starts) * round(run_s * processors * 1e6),
        gang_processors=len(custody.running) * processors if custody.spec.is_gang else 0,
    )


def _add(sums: dict[str, int], name: str, by: int) -> None:
    count = sums.get(name, 0) + by
    if count:
        sums[name] = count
    else:
        sums.pop(name, None)
