"""Simulated gangs run slower over several sites, as `[communication]` says, and their own placement knows it (SPEC
K9)."""

from __future__ import annotations

import pytest

from diana.sim.report.report import Report
from diana.sim.scenario.scenario import parse
from diana.sim.scenario.text import written
from diana.sim.world.runner import simulate

THREE = """version = 1
report = ["gang_figures", "groups"]
sites = [{name = "a", slots = 2}, {name = "b", slots = 2}, {name = "c", slots = 2}]
"""
BEHIND = THREE.replace("slots = 2", 'slots = 2, lrm = "easy"')
SLOWER = "[communication]\nslowdown = [1, 1.5]\napplications = { heat = [1.0, 1.2, 3.0] }\n"
GANG = '[[workload]]\nname = "g"\nsite = "a"\njobs = 1\nwork_s = 100.0\nsubmit_s = 5.0\n'


def ran(text: str) -> Report:
    report = simulate(parse(text), 0)
    assert not report.violations and report.gang_figures is not None, report.violations
    assert report.gang_figures.done == report.gang_figures.gangs > 0
    return report


def execution_s(text: str) -> float:
    figures = ran(text).gang_figures
    assert figures is not None
    return figures.execution_s


@pytest.mark.parametrize(
    ("components", "factor"),
    [
        ('components = "1x2"', 1.0),
        ('components = "2x1"\ngang_placement = "cluster-min"', 1.0),
        ('components = "2x2"', 1.5),
        ('components = "3x2"', 1.5),
        ('components = "flexible 4"', 1.5),
        ('components = "flexible 6"\ncommunication = "heat"', 3.0),
    ],
)
def test_a_gang_runs_as_long_as_declared_times_the_factor_of_the_sites_it_has(components: str, factor: float) -> None:
    assert execution_s(THREE + SLOWER + GANG + components) == pytest.approx(100 * factor, abs=0.5)


def test_without_the_table_it_runs_as_fast_over_many_sites() -> None:
    assert execution_s(THREE + GANG + 'components = "3x2"') == pytest.approx(100, abs=0.5)


def test_it_is_as_slow_behind_batch_systems() -> None:
    heat = 'components = "3x2"\ncommunication = "heat"\n'
    assert execution_s(BEHIND + SLOWER + GANG + heat) == pytest.approx(300, abs=0.5)


@pytest.mark.parametrize("sites", [THREE, BEHIND], ids=["slots", "easy"])
def test_what_a_slowed_gang_has_done_is_spared_when_it_goes_on_from_its_checkpoint(sites: str) -> None:
    stopped = 'components = "3x2"\ncheckpoint = true\nmoves = [{ to = "", at_s = 80.0 }]\n'
    report = ran(sites + SLOWER + GANG + stopped)
    # Half of its work is done after 75 s; it goes on within a few seconds.
    assert report.groups["g"].makespan_s == pytest.approx(152, abs=2)
    assert sum(site.executed for site in report.sites.values()) == 6


def test_a_load_comes_on_top() -> None:
    load = '[[events]]\nat_s = 80.0\nkind = "load"\nsites = ["a", "b", "c"]\ntimes = 2.0\n'
    assert execution_s(THREE + SLOWER + GANG + 'components = "3x2"\n' + load) == pytest.approx(225, abs=1)


def test_components_that_communicate_take_equally_long() -> None:
    spread = 'components = "3x2"\nspread = 0.5\nrepeat = 3\nevery_s = 400.0\n'
    groups = ran(THREE + "[communication]\nslowdown = [1.0]\n" + GANG + spread).groups
    assert len({round(group.run_mean_s) for group in groups.values()}) == 3
    for group in groups.values():
        # The last component ends when all do.
        assert group.makespan_s - group.wait_max_s == pytest.approx(group.run_mean_s, abs=0.1)


BUSY = """[[workload]]
name = "o"
site = "a"
sites = ["a"]
jobs = 1
processors = 2
work_s = 60.0
"""


@pytest.mark.parametrize(("declared", "sites", "ends_s"), [("", 1, 155), ("gang_slowdown = [1.0]\n", 2, 300)])
def test_turnaround_waits_for_one_site_where_its_job_file_declares_what_is_true(
    declared: str, sites: int, ends_s: float
) -> None:
    wide = THREE.replace('"a", slots = 2', '"a", slots = 4').replace('{name = "c", slots = 2}', '{name = "c"}')
    costs = "[communication]\nslowdown = [1.0, 3.0]\n"
    placed = 'components = "2x2"\ngang_placement = "turnaround"\n'
    figures = ran(wide + costs + BUSY + GANG + placed + declared).gang_figures
    assert figures is not None and figures.clusters == sites
    assert figures.response_s == pytest.approx(ends_s, abs=3)


def test_the_table_is_written_as_it_was_read() -> None:
    scenario = parse(THREE + SLOWER + GANG + 'components = "flexible 6"\ncommunication = "heat"')
    assert parse(written(scenario)) == scenario and "[communication]" in written(scenario)
