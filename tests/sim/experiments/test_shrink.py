"""A failing seed becomes a small scenario that fails by itself; what is printed is what was run."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from diana.sim.experiments.failure import smaller
from diana.sim.experiments.shrink import _least, shrink
from diana.sim.faults.swarm import concrete
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import simulate
from tests.sim import mutants
from tests.sim.checks.test_mutants import SCENARIOS

SEED = 7
"""The first that this mutant fails in that scenario."""
FILES = sorted((Path(__file__).parents[3] / "scenarios").glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_that_is_written_reads_as_the_same_scenario(path: Path) -> None:
    scenario = sc.load(path)
    assert sc.parse(written(scenario)) == scenario
    assert sc.parse(written(concrete(scenario, 7))) == concrete(scenario, 7)


def test_what_is_left_is_wanted_and_none_of_it_can_be_left_out() -> None:
    runs = []

    def wanted(some: tuple[int, ...]) -> bool:
        runs.append(some)
        return {3, 17, 18, 60} <= set(some)

    assert _least(tuple(range(64)), wanted) == (3, 17, 18, 60)
    assert len(runs) < 100
    assert _least((1, 2, 3), lambda some: True) == ()


@pytest.mark.wide
def test_a_failing_seed_is_made_small_and_the_small_one_fails_by_itself() -> None:
    boot = Boot(mutants.TakesBackWhatItCommitted)
    text = smaller(SCENARIOS["few at once"], SEED, 200.0, boot)
    assert "still break" in text and "nothing more can be left out" in text and "story of" in text
    small = sc.parse(text.partition("this FILE:\n")[2].partition(f"\nseed {SEED} fails")[0])
    report = simulate(small, SEED, boot=boot)
    assert not report.good() and "I4" in {v.rule for v in report.violations}
    assert report.faults <= 10 and sum(work.jobs for work in small.workload) <= 10
    assert simulate(small, SEED).good(), "the unbroken engine passes it"


def test_single_faults_are_left_out_by_their_numbers() -> None:
    scenario = concrete(SCENARIOS["moving"], 0)
    some = sc.parse(written(scenario).replace("[faults]", "[faults]\nonly = [1, 4]"))
    assert simulate(some, 0).faults == 2
    assert simulate(scenario, 0).faults > 20


def test_the_search_ends_when_its_time_is_over_with_the_best_so_far() -> None:
    ticks = itertools.count()
    boot = Boot(mutants.TakesBackWhatItCommitted)
    seed = next(seed for seed in range(20) if not simulate(SCENARIOS["moving"], seed, boot=boot).good())
    found = shrink(SCENARIOS["moving"], seed, boot=boot, limit_s=5.0, now_s=lambda: float(next(ticks)))
    assert found is not None and not found.finished and found.runs <= 7
    assert not simulate(found.scenario, seed, boot=boot).good()


def test_a_seed_that_does_not_fail_is_not_made_small() -> None:
    assert shrink(SCENARIOS["few at once"], 0) is None
    assert "breaks no invariant" in smaller(SCENARIOS["few at once"], 0)
