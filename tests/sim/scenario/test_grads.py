"""The scenarios of contracts, moves and metascheduling (SPEC G5-G7): under a load at a quarter of its run a program
moves and ends sooner than the one that stays; at nine tenths it stays, and its contract is relaxed; one that yields
makes way for a shorter one."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from diana.sim.scenario import scenario as sc
from diana.sim.specs.scenario_spec import ExpectSpec, Scenario
from diana.sim.world.runner import simulate

SCENARIOS = Path(__file__).parents[3] / "scenarios"
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in (1, 2))]


def named(name: str) -> Scenario:
    return sc.parse((SCENARIOS / f"{name}.toml").read_text(encoding="utf-8"))


def staying(scenario: Scenario) -> Scenario:
    """The same where nobody holds the program to anything."""
    workload = tuple(replace(work, contract=False) for work in scenario.workload)
    return replace(scenario, workload=workload, expect=ExpectSpec(done=1, starts=1))


def end_s(scenario: Scenario, seed: int) -> float:
    report = simulate(scenario, seed)
    assert report.good() and not report.unmet, report.unmet
    return max(group.makespan_s for group in report.groups.values())


@pytest.mark.wide
@pytest.mark.parametrize("seed", SEEDS)
def test_at_a_quarter_of_its_run_it_moves_and_ends_sooner_than_the_one_that_stays(seed: int) -> None:
    scenario = named("grads-migrate")
    assert end_s(scenario, seed) < 0.5 * end_s(staying(scenario), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_spike_and_a_load_at_nine_tenths_move_nothing(seed: int) -> None:
    scenario = named("grads-contract")
    assert end_s(scenario, seed) == end_s(staying(scenario), seed)


def all_done_s(scenario: Scenario, seed: int) -> float:
    report = simulate(scenario, seed)
    assert report.good() and not report.unmet, report.unmet
    begun = {work.name: work.submit_s for work in scenario.workload}
    return max(begun[name] + group.makespan_s for name, group in report.groups.items())


@pytest.mark.wide
@pytest.mark.parametrize("seed", SEEDS)
def test_one_of_two_long_programs_makes_way_for_a_short_one_and_all_are_done_sooner(seed: int) -> None:
    scenario = named("grads-meta")
    workload = tuple(replace(work, yields=False) for work in scenario.workload)
    without = replace(scenario, workload=workload, expect=ExpectSpec(done=3, starts=3))
    assert all_done_s(scenario, seed) < 0.9 * all_done_s(without, seed)


MANY = """version = 1
limit_s = 20000
report = ["groups"]
sites = [{name = "home", slots = 0}, {name = "one", slots = 1}, {name = "two", slots = 1}]
"""
LONG = """[[workload]]
name = "NAME"
site = "home"
jobs = 1
work_s = 1500.0
submit_s = AT
sites = ["one", "two"]
checkpoint = true
contract = true
yields = true
"""
SHORT = """[[workload]]
name = "NAME"
site = "home"
jobs = 1
work_s = 60.0
submit_s = AT
sites = ["one", "two"]
"""


@pytest.mark.wide
def test_a_job_that_made_way_is_left_alone_for_ten_minutes() -> None:
    stays = LONG.replace("yields = true", "yields = false")
    parts = [(LONG, "a", 5.0), (stays, "b", 6.0), (SHORT, "c", 60.0), (SHORT, "d", 300.0)]
    text = MANY + "".join(part.replace("NAME", name).replace("AT", str(at)) for part, name, at in parts)
    report = simulate(sc.parse(text), 0)
    took_s = {name: group.makespan_s for name, group in report.groups.items()}
    assert took_s["c"] < 120, took_s
    assert 360 < took_s["d"] < 600, "the one that could make way did so within the last ten minutes"
