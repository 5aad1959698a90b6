"""Jobs that make way for gangs in the simulator (SPEC D4, K5): a gang starts at once over preemptible work and waits
over work that is not, and under faults each job that made way runs again and ends once. Engines that break a sentence
are caught."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from diana.engine.dispatch import way_book
from diana.engine.handover import execution
from diana.engine.handover.gangs import making_way
from diana.engine.journal import columns
from diana.engine.journal import records as r
from diana.engine.journal.state import Custody
from diana.engine.site.context import Context
from diana.model.facts import Facts, Outcome
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.sim.checks.checkers import Checkers
from diana.sim.experiments.failure import failure
from diana.sim.scenario import scenario as sc
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate

FAULTS = sc.load(Path(__file__).parents[3] / "scenarios" / "making-way.toml")
QUIET = sc.parse("""version = 1
report = ["groups"]
limit_s = 5000
sites = [{name = "one", slots = 4}, {name = "two", slots = 4}]
[[workload]]
name = "long"
site = "one"
jobs = 8
work_s = 600.0
preemptible = true
[[workload]]
name = "gang"
site = "two"
jobs = 1
components = "2x2@one+1x1@two"
work_s = 20.0
submit_s = 60.0
""")


class Seen:
    """The records by which jobs make way, over all sites of a run."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.ended: Counter[str] = Counter()
        self.back: Counter[str] = Counter()
        committed = Checkers.committed

        def looks(checkers: Checkers, site: SiteId, record: r.Record) -> None:
            if isinstance(record, r.RunsMakeWay):
                self.ended[record.subgroup] += len(record.indices)
            elif isinstance(record, r.ResultAccepted):
                self.back[record.subgroup] += len(record.made_way)
            committed(checkers, site, record)

        patch.setattr(Checkers, "committed", looks)


def run(scenario: Scenario, seed: int, patch: pytest.MonkeyPatch) -> tuple[str, Seen]:
    """Return what is wrong with a run, empty if nothing is, and what was seen of jobs that make way."""
    with patch.context() as within:
        seen = Seen(within)
        report = simulate(scenario, seed)
    if not report.good():
        return failure(scenario, report), seen
    for name, group in report.groups.items():
        # Nobody cancels these; with a lost database a group may be gone.
        if name in ("long", "saves") and group.cancelled + group.failed and "database_lost" not in report.fault_kinds:
            return f"seed {seed}: {name}: {group}", seen
    return "", seen


@pytest.mark.parametrize("preemptible", [True, False])
def test_a_gang_starts_at_once_over_preemptible_work_and_waits_over_work_that_is_not(preemptible: bool) -> None:
    long, gang = QUIET.workload
    scenario = msgspec.structs.replace(QUIET, workload=(msgspec.structs.replace(long, preemptible=preemptible), gang))
    report = simulate(scenario, 0)
    assert report.good() and all(group.done == group.jobs for group in report.groups.values())
    took_s = report.groups["gang"].makespan_s
    assert took_s < 40.0 if preemptible else took_s > 500.0


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.wide), 37])
def test_those_that_make_way_are_lost_nowhere_and_run_nowhere_twice(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, seen = run(FAULTS, seed, monkeypatch)
    assert not wrong
    assert seen.ended.total() and seen.back.total(), "some job made way and went back"


@pytest.mark.wide
@pytest.mark.parametrize("first", range(100, 160, 10))
def test_so_it_is_under_many_seeds(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, first + 10):
        assert not run(FAULTS, seed, monkeypatch)[0]


# --- mutants -----------------------------------------------------------------------------------------------------


def _counts_as_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(way_book, "as_ended", lambda custody, facts: facts)


def _forgets_the_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(making_way, "_order", lambda core, custody, indices: None)


def _a_done_job_made_way(patch: pytest.MonkeyPatch) -> None:
    as_ended = way_book.as_ended

    def turns(custody: Custody, facts: Facts) -> Facts:
        some, rows = custody.makes_way(), zip(facts.indices, facts.outcomes, strict=True)
        outcomes = [int(Outcome.CANCELLED) if i in some and o == Outcome.DONE else o for i, o in rows]
        return as_ended(custody, msgspec.structs.replace(facts, outcomes=outcomes))

    patch.setattr(way_book, "as_ended", turns)


def _told_before_they_ended(patch: pytest.MonkeyPatch) -> None:
    """A site that gives the jobs back when they are to end, and not when they have."""
    order = making_way._order

    def tells(core: Context, custody: Custody, indices: IndexSet) -> None:
        order(core, custody, indices)
        some = list(indices & IndexSet.of(custody.running))
        attempts, outcomes = [custody.running[index] for index in some], [int(Outcome.CANCELLED)] * len(some)
        facts = columns.never_ran(core.site, some, attempts, outcomes, 0, [], core.now)
        execution._stopped(core, custody, way_book.as_ended(custody, facts), list(range(len(some))))

    patch.setattr(making_way, "_order", tells)


@pytest.mark.wide
@pytest.mark.parametrize(
    "breaks", [_counts_as_cancelled, _a_done_job_made_way, _told_before_they_ended], ids=lambda one: one.__name__[1:]
)
def test_an_engine_that_breaks_a_sentence_is_caught(
    breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks(monkeypatch)
    assert any(run(FAULTS, seed, monkeypatch)[0] for seed in range(12))


@pytest.mark.wide
def test_without_the_order_to_its_machine_a_gang_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    _forgets_the_order(monkeypatch)
    assert simulate(QUIET, 0).groups["gang"].makespan_s > 500.0
