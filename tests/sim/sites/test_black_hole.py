"""SPEC U10, D7: a site where every job exits 1 in 10 ms takes at most 2 % of a group, or 10 jobs if that is more."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from diana.sim.report.report import Report
from diana.sim.scenario.scenario import load, parse
from diana.sim.specs.scenario_spec import ExpectSpec, Scenario
from diana.sim.world.runner import simulate

BLACK_HOLE = Path(__file__).parents[3] / "scenarios" / "black-hole.toml"


def run(jobs: int, seed: int = 0, bad: str = "beta", site: str = "alpha", more: str = "") -> Report:
    """The scenario with so many jobs, submitted at `site`, where `bad` is the black hole."""
    text = BLACK_HOLE.read_text().replace("jobs = 1000", f"jobs = {jobs}{more}").replace("done = 980", "done = -1")
    text = text.replace('site = "alpha"', f'site = "{site}"').replace("fails = true\n", "")
    report = simulate(_failing(parse(text), bad), seed)
    assert report.good(), report.violations
    return report


def _failing(scenario: Scenario, *bad: str) -> Scenario:
    sites = tuple(msgspec.structs.replace(s, fails=s.name in bad) for s in scenario.sites)
    return msgspec.structs.replace(scenario, sites=sites)


@pytest.mark.parametrize(
    ("jobs", "bad"),
    [
        (100, "beta"),
        (1000, "alpha"),
        (1000, "gamma"),
        pytest.param(1000, "beta", marks=pytest.mark.wide),
        pytest.param(3000, "alpha", marks=pytest.mark.wide),
    ],
)
def test_a_black_hole_takes_at_most_its_share_of_a_group(jobs: int, bad: str) -> None:
    group = run(jobs, bad=bad).groups["sweep"]
    assert (group.state, group.done + group.failed) == ("failed", jobs)
    assert 0 < group.failed <= max(10, jobs // 50)
    assert group.sites[bad] == group.failed


@pytest.mark.wide
def test_the_others_are_hardly_later_than_without_the_black_hole() -> None:
    group = run(1000).groups["sweep"]
    assert group.makespan_s <= 1.15 * 1000 * 10.0 / 40


@pytest.mark.wide
def test_a_black_hole_takes_at_most_its_share_of_a_large_group() -> None:
    """A group of 100,000 is in `tests/engine/guard/test_guard.py`."""
    assert 0 < run(10_000).groups["sweep"].failed <= 200


@pytest.mark.parametrize("bad", [("alpha", "beta", "gamma", "delta"), ("beta", "gamma")])
def test_where_several_or_all_sites_fail_the_group_comes_to_its_end(bad: tuple[str, ...]) -> None:
    report = simulate(_failing(parse(BLACK_HOLE.read_text().replace("done = 980", "done = -1")), *bad), 0)
    assert report.good(), report.violations
    group = report.groups["sweep"]
    assert group.done + group.failed == 1000
    assert group.failed == 1000 if len(bad) == 4 else group.failed <= 40


def test_many_groups_of_one_job_hardly_meet_it() -> None:
    report = run(1, more="\nrepeat = 60\nevery_s = 1.0")
    assert sum(group.failed for group in report.groups.values()) <= 4


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(8))
def test_the_share_holds_under_faults(seed: int) -> None:
    """Failures that crashes make both ends forget are not counted here."""
    text = BLACK_HOLE.read_text().replace("done = 980", "done = -1")
    text += "\n[faults]\nuntil_s = 400.0\nloss = 0.05\nduplicate = 0.05\ndelay = 0.1\ncut_every_s = 60.0\n"
    report = simulate(parse(text), seed)
    assert report.good(), report.violations
    group = report.groups["sweep"]
    assert group.failed <= 20 and group.done == 1000 - group.failed


def test_a_broken_machine_of_a_site_takes_as_little_and_the_site_does_the_rest() -> None:
    machines = (
        """machines = [{name = "m1", slots = 8}, {name = "m2", slots = 32, fails = true}, {name = "m3", slots = 8}]"""
    )
    text = f"""version = 1
[[sites]]
name = "alpha"
slots = 0
{machines}
[[workload]]
name = "sweep"
site = "alpha"
jobs = 1000
work_s = 10.0
"""
    report = simulate(parse(text), 0)
    assert report.good(), report.violations
    group = report.groups["sweep"]
    assert 0 < group.failed <= 30 and group.done == 1000 - group.failed
    assert group.makespan_s <= 1.25 * 1000 * 10.0 / 16


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(8))
def test_a_black_hole_amid_chaos_loses_and_doubles_nothing(seed: int) -> None:
    chaos = load(BLACK_HOLE.with_name("chaos.toml"))
    bad = chaos.sites[seed % len(chaos.sites)].name
    report = simulate(_failing(msgspec.structs.replace(chaos, expect=ExpectSpec()), bad), seed)
    assert report.good(), report.violations


@pytest.mark.wide
def test_the_scenario_of_the_repository_holds() -> None:
    report = simulate(load(BLACK_HOLE), 0)
    assert report.good(), report.violations
