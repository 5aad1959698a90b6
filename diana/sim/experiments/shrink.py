"""A failing seed made small: the least of its work, its sites and its faults that still fails.

Delta debugging over the scenario: leave something out, run the same seed again, keep the smaller one if it fails by the
same rule. The single faults are numbered as they are drawn (`Faults.strikes`), so the last question is which of them it
takes. A run that lost a fault may go another way from there on; whatever still fails is a failure all the same, and the
scenario that is printed was run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from diana.errors import UsageError
from diana.sim.checks.findings import Stopped
from diana.sim.faults import swarm
from diana.sim.report.report import Report
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.sites.driver import Boot
from diana.sim.specs.fault_spec import FaultsSpec
from diana.sim.specs.scenario_spec import ExpectSpec, Scenario
from diana.sim.specs.work_spec import WorkSpec
from diana.sim.world.runner import run
from diana.sim.world.world import World

LIMIT_S = 60.0
"""Real time spent on making a failure small."""

_T = TypeVar("_T")


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    scenario: Scenario
    """Fails under the seed by itself; nothing of it is left to draw but the single faults."""
    report: Report
    rules: tuple[str, ...]
    """Rules by which it was held to be the same failure."""
    faults_before: int
    runs: int
    finished: bool
    """True if nothing more could be left out; else the time was over."""


def shrink(
    scenario: Scenario,
    seed: int,
    *,
    boot: Boot | None = None,
    limit_s: float = LIMIT_S,
    now_s: Callable[[], float] = time.monotonic,
) -> Shrunk | None:
    """The smallest scenario found within `limit_s` seconds of `now_s` that fails as this seed does. None: the seed
    does not fail, or it breaks nothing but what the scenario expects, which says nothing of a smaller one."""
    return _Search(scenario, seed, boot or Boot(), now_s, limit_s).go()


class _TimeOver(Exception):
    pass


class _Search:
    def __init__(self, scenario: Scenario, seed: int, boot: Boot, now_s: Callable[[], float], limit_s: float) -> None:
        self._best = replace(swarm.concrete(scenario, seed), expect=ExpectSpec(), report=("faults",))
        self._seed = seed
        self._boot = boot
        self._now_s = now_s
        self._end_s = now_s() + limit_s
        self._runs = 0
        self._drawn = 0
        self._rules: set[str] = set()
        self._first_s = math.inf
        """Time when the best so far first breaks one of them."""

    def go(self) -> Shrunk | None:
        first, drawn = self._run(self._best)
        self._rules = _broken(first)
        if not self._rules:
            return None
        self._drawn = drawn
        self._first_s = min((v.at_s for v in first.violations), default=math.inf)
        finished = True
        try:
            self._all_of_it()
        except _TimeOver:
            finished = False
        report, _ = self._run(self._best)
        return Shrunk(
            scenario=self._best,
            report=report,
            rules=tuple(sorted(self._rules)),
            faults_before=first.faults,
            runs=self._runs,
            finished=finished,
        )

    def _all_of_it(self) -> None:
        """Leave out all that can be, the largest parts first; again, until nothing more goes."""
        before = None
        while before != self._best:
            before = self._best
            self._shorter()
            self._fewer("workload", self._best.workload)
            self._fewer_kinds()
            self._fewer("events", self._best.events)
            self._fewer("sites", self._best.sites)
            self._fewer("datasets", self._best.datasets)
            for at in range(len(self._best.workload)):
                self._smaller_entry(at)
            self._single_faults()

    # --- runs ------------------------------------------------------------------------------------------

    def _run(self, scenario: Scenario) -> tuple[Report, int]:
        self._runs += 1
        world = World(scenario, self._seed, self._boot)
        report = run(world)
        return report, world.faults.drawn

    def _fails(self, scenario: Scenario) -> bool:
        """True if it fails by a rule that the first failure broke; the run goes no further than that."""
        self._runs += 1
        world = World(scenario, self._seed, self._boot)
        world.checkers.stop_at = frozenset(self._rules)
        try:
            report = run(world)
        except Stopped:
            self._first_s, self._drawn = world.clock.now_s, world.faults.drawn
            return True
        if self._rules & _broken(report):
            self._first_s, self._drawn = math.inf, world.faults.drawn
            return True
        return False

    def _try(self, candidate: Scenario) -> bool:
        """True if it fails by a rule that the first failure broke; then it is the best so far."""
        if self._now_s() > self._end_s:
            raise _TimeOver
        try:
            sc.parse(written(candidate))
        except UsageError:
            return False
        if not self._fails(candidate):
            return False
        self._best = candidate
        return True

    # --- what is left out ------------------------------------------------------------------------------

    def _shorter(self) -> None:
        """Have no faults after the first thing that broke."""
        faults = self._best.faults
        for until_s in (0.0, faults.until_s / 4, faults.until_s / 2, self._first_s + 0.001):
            if until_s < faults.until_s and self._try(replace(self._best, faults=replace(faults, until_s=until_s))):
                return

    def _fewer(self, key: str, entries: Sequence[_T]) -> None:
        def wanted(some: tuple[_T, ...]) -> bool:
            return self._try(replace(self._best, **{key: some}))

        _least(tuple(entries), wanted)

    def _fewer_kinds(self) -> None:
        def wanted(kinds: tuple[str, ...]) -> bool:
            gone = dict.fromkeys((k for k in RATES if k not in kinds), 0.0)
            return self._try(replace(self._best, faults=replace(self._best.faults, **gone)))

        _least(tuple(k for k in RATES if getattr(self._best.faults, k)), wanted)

    def _smaller_entry(self, at: int) -> None:
        """A change that was tried in vain is not tried again until all else is done."""
        vain: list[dict[str, object]] = []
        while True:
            changes = (change for change in _simpler(self._best.workload[at]) if change not in vain)
            change = next(changes, None)
            if change is None:
                break
            if not self._try_entry(at, change):
                vain.append(change)
        while (jobs := self._best.workload[at].jobs) > 1:
            if not any(self._try_entry(at, {"jobs": fewer}) for fewer in (1, jobs // 2, jobs - 1) if fewer < jobs):
                break

    def _try_entry(self, at: int, change: dict[str, object]) -> bool:
        workload = list(self._best.workload)
        workload[at] = _with_jobs(replace(workload[at], **change))
        return self._try(replace(self._best, workload=tuple(workload)))

    def _single_faults(self) -> None:
        """Keep only those of the drawn faults that the failure takes."""

        def wanted(numbers: tuple[int, ...]) -> bool:
            return bool(numbers) and self._try(replace(self._best, faults=replace(self._best.faults, only=numbers)))

        struck = self._best.faults.only or tuple(range(1, self._drawn + 1))
        _least(struck, wanted)


RATES = (
    *(k for k in FaultsSpec.__struct_fields__ if k.endswith("_every_s")),
    *("loss", "duplicate", "delay", "crash", "stage_error", "retell"),
)


def _broken(report: Report) -> set[str]:
    """Rules that the run broke, without what the scenario expected."""
    rules = {violation.rule for violation in report.violations}
    return rules | {key for key in ("lost", "doubled", "stuck") if getattr(report, key)}


def _simpler(work: WorkSpec) -> Iterator[dict[str, object]]:
    """One thing less each time."""
    for key in ("moves", "inputs", "after", "sites"):
        if getattr(work, key):
            yield {key: ()}
    for number in range(len(work.moves)):
        yield {"moves": work.moves[:number] + work.moves[number + 1 :]}
    if work.release_s >= 0 or work.hold_s >= 0:
        yield {"hold_s": -1.0, "release_s": -1.0}
    for key, least in (("retry_s", -1.0), ("cancel_s", -1.0), ("fail_fraction", 0.0), ("spread", 0.0)):
        if getattr(work, key) > least:
            yield {key: least}
    if work.data is not None:
        yield {"data": None}
    if work.trace is not None and work.trace.first > 1:
        yield {"trace": replace(work.trace, first=work.trace.first // 2)}
    if work.generate is not None and work.repeat > 3:
        yield {"repeat": work.repeat // 2}
    for key in ("repeat", "processors"):
        if getattr(work, key) > 1:
            yield {key: 1}
    for key, least_value in (("merge", False), ("produces", ""), ("output_bytes", 0), ("file_per_job", False)):
        if getattr(work, key) != least_value:
            yield {key: least_value}


def _with_jobs(work: WorkSpec) -> WorkSpec:
    """Moves name no jobs that are not there."""
    moves = tuple(replace(m, jobs=min(m.jobs, work.jobs - m.first)) for m in work.moves if m.first < work.jobs)
    return replace(work, moves=moves)


def _least(items: tuple[_T, ...], wanted: Callable[[tuple[_T, ...]], bool]) -> tuple[_T, ...]:
    """A subset of which no single one can be left out, by delta debugging; `items` itself is wanted already."""
    if len(items) > 0 and wanted(()):
        return ()
    parts = 2
    while len(items) >= 2:
        size = -(-len(items) // parts)
        chunks = [items[at : at + size] for at in range(0, len(items), size)]
        for number in range(len(chunks)):
            rest = tuple(one for k, chunk in enumerate(chunks) if k != number for one in chunk)
            if rest and wanted(rest):
                items, parts = rest, max(2, parts - 1)
                break
        else:
            if parts >= len(items):
                break
            parts = min(len(items), 2 * parts)
    return items
