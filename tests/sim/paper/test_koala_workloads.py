"""The workloads of KOALA's papers (SPEC K9): all of `scenarios/koala-*.toml` and `claims-race.toml`, bounded, and the
orderings of the papers that hold (docs/koala-figures.md has the others)."""

from __future__ import annotations

from statistics import mean

import pytest
from msgspec.structs import replace

from benchmarks import bench_koala as bench
from diana.sim.report.gang_figures import GangFigures
from diana.sim.scenario.scenario import load, parse
from diana.sim.specs.scenario_spec import ExpectSpec, Scenario
from diana.sim.world.runner import simulate

AS_IT_IS = bench.Variant("as it is")


def ran(scenario: Scenario, variant: bench.Variant = AS_IT_IS) -> GangFigures:
    (found,) = bench.figures(scenario, variant, range(1))
    return found


def shortened(name: str, repeat: int) -> Scenario:
    """The scenario with so many gangs of each kind, without its ordinary jobs; what it expects is not asked."""
    whole = load(bench.SCENARIOS / f"{name}.toml")
    gangs = tuple(replace(work, repeat=min(repeat, work.repeat)) for work in whole.workload if work.components)
    faults = replace(whole.faults, until_s=min(whole.faults.until_s, 600.0))
    return replace(whole, workload=gangs, faults=faults, expect=ExpectSpec())


@pytest.mark.wide
def test_equal_gangs_of_four_origins_at_the_same_sites_all_run_after_few_tries() -> None:
    found = ran(load(bench.SCENARIOS / "claims-race.toml"))
    assert (found.done, found.gangs, found.broken) == (20, 20, 0)
    assert found.placements <= 4


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "koala-w1" else [pytest.mark.wide])
        for name in bench.VARIANTS
        if name != "claims-race"
    ],
)
def test_each_workload_ends_with_all_its_gangs_done(name: str) -> None:
    found = ran(shortened(name, 1))
    assert found.done == found.gangs >= 3


@pytest.mark.wide
def test_close_to_files_moves_less_than_worst_fit_and_less_again_with_replicas() -> None:
    scenario = shortened("koala-spread", 3)
    worst, close, replicas = (ran(scenario, variant) for variant in bench.FILES)
    assert worst.done == close.done == replicas.done == 21
    assert replicas.ftt_s < close.ftt_s < worst.ftt_s


@pytest.mark.wide
def test_flexible_gangs_use_fewer_sites_than_equal_components_and_cluster_minimisation_fewer_than_worst_fit() -> None:
    worst, fewer, divided = (ran(shortened("koala-w1", 3), variant) for variant in bench.DIVIDED)
    assert divided.clusters <= fewer.clusters < worst.clusters


def test_few_sites_shorten_the_run_of_gangs_that_communicate_and_of_no_others() -> None:
    def run_times_s(*slowdown: float) -> list[float]:
        some = (variant._replace(slowdown=slowdown) for variant in bench.DIVIDED)
        return [ran(shortened("koala-w1", 1), variant).execution_s for variant in some]

    worst_s, fewer_s, divided_s = run_times_s(1.0)
    assert fewer_s == pytest.approx(worst_s, abs=0.1) and divided_s == pytest.approx(worst_s, abs=0.1)
    worst_s, fewer_s, divided_s = run_times_s(1.0, 1.2, 1.4, 1.6)
    assert max(fewer_s, divided_s) < worst_s - 5


@pytest.mark.wide
def test_division_pays_where_it_slows_a_run_little_and_not_where_it_slows_it_much() -> None:
    scenario = shortened("koala-slowdown", 5)
    alone, little, much = (ran(scenario, bench.SLOWED[at]).response_s for at in (0, 1, len(bench.SWEPT)))
    assert little < alone < much


ONE = """version = 1
report = ["gang_figures"]
sites = [{{name = "a", slots = 2}}, {{name = "b", slots = 2}}]
settings = {{ claim_wait_s = 60.0 }}
[[workload]]
name = "gang"
site = "a"
jobs = 1
components = "1x2@a+1x2@b"
work_s = 10.0
submit_s = {submit_s}
[[workload]]
name = "other"
site = "b"
sites = ["b"]
jobs = 1
processors = 2
work_s = 20.0
"""


QUEUES = """version = 1
report = ["groups"]
sites = [{name = "a", slots = 2}, {name = "b", slots = 2}]
settings = {claim_wait_s = 60.0, gang_scan_s = 20.0, gang_scans = {higher = 4}}
"""
IN_A_QUEUE = """[[workload]]
name = "NAME"
site = "a"
jobs = 1
components = "1x2@a+1x2@b"
work_s = 50.0
repeat = 4
every_s = 1.0
gang_level = "LEVEL"
"""


@pytest.mark.wide
def test_gangs_of_a_queue_that_is_scanned_more_often_begin_before_others_that_came_as_early() -> None:
    text = "".join(
        IN_A_QUEUE.replace("NAME", name).replace("LEVEL", level)
        for name, level in (("p", "super-low"), ("q", "super-high"))
    )
    report = simulate(parse(QUEUES + text), 0)
    waits = {name: mean(group.wait_mean_s for key, group in report.groups.items() if key[0] == name) for name in "pq"}
    assert not report.violations and waits["q"] < 0.8 * waits["p"], waits


def test_figures_tell_what_a_gang_waited_for_and_held() -> None:
    alone = simulate(parse(ONE.format(submit_s=100.0)), 0).gang_figures
    assert alone is not None and (alone.gangs, alone.done, alone.clusters, alone.spread) == (1, 1, 2, 1)
    assert alone.wait_s < 1 and alone.execution_s == pytest.approx(10.0, abs=0.5) and alone.pwt_s < 2
    late = simulate(parse(ONE.format(submit_s=5.0)), 0).gang_figures
    assert late is not None and late.wait_s == pytest.approx(15.0, abs=1.5)
    # Its two processors at a are claimed late, and left to others until then.
    assert late.pwt_s + late.pgt_s == pytest.approx(2 * 15 + 2 * 15, abs=6) and late.pgt_s > late.pwt_s
