"""The `[[events]]` of a scenario in the simulator: each does what it says, all of them leave the promises standing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.errors import UsageError
from diana.sim.report.report import Report
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.specs.event_spec import EventSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate
from tests.runs import SOAK

GRID = """version = 1
sites = [{ name = "a", slots = 2 }, { name = "b", slots = 4 }, { name = "c", slots = 4 }]
[[workload]]
name = "w"
site = "a"
jobs = 30
work_s = 3.0
on_crash = "rerun"
"""


def grid(*events: EventSpec, **more: object) -> Scenario:
    # Which site runs which job is then settled before anything happens.
    settings = {**sc.parse(GRID).settings, "binding": "early"}
    return msgspec.structs.replace(sc.parse(GRID), events=events, settings=settings, **more)


def ran(*events: EventSpec, seed: int = 0) -> Report:
    report = simulate(grid(*events), seed)
    assert report.good(), report
    return report


def test_a_killed_site_runs_nothing_until_it_is_started_again() -> None:
    events = [EventSpec(at_s=4.0, kind="kill", sites=("b",)), EventSpec(at_s=30.0, kind="restart")]
    report = ran(*events)
    group = report.groups["w"]
    assert group.done == 30 and report.sites["b"].boots == 2
    # What ran at b when it fell ran again after it was back.
    assert group.makespan_s > 30.0
    assert report.fault_kinds == {"kill": 1, "restart": 1}


def test_a_killed_site_comes_back_by_itself_after_for_s() -> None:
    report = ran(EventSpec(at_s=4.0, kind="kill", sites=("b",), for_s=6.0))
    assert report.sites["b"].boots == 2 and report.groups["w"].done == 30


def test_a_restart_of_a_running_site_leaves_its_jobs_alone() -> None:
    quiet, report = ran(), ran(EventSpec(at_s=4.0, kind="restart", sites=("b",)))
    assert report.sites["b"].boots == 2
    assert report.sites["b"].executed == quiet.sites["b"].executed


def test_a_stopped_site_answers_when_it_goes_on() -> None:
    quiet = ran().groups["w"].makespan_s
    report = ran(EventSpec(at_s=1.0, kind="stop", sites=("a",), for_s=40.0))
    assert report.sites["a"].boots == 1 and report.groups["w"].makespan_s > quiet


def test_a_partition_keeps_results_back_until_it_ends() -> None:
    cut = EventSpec(at_s=2.0, kind="partition", sites=("b", "c"))
    healed = ran(cut, EventSpec(at_s=50.0, kind="heal")).groups["w"]
    by_itself = ran(EventSpec(at_s=2.0, kind="partition", sites=("b", "c"), for_s=48.0)).groups["w"]
    assert healed.done == by_itself.done == 30
    held_back = simulate(grid(cut, limit_s=100.0), 0)
    assert held_back.stuck > 0


def test_a_partition_within_a_partition_ends_when_both_have_ended() -> None:
    wide = EventSpec(at_s=2.0, kind="partition", sites=("b",), for_s=60.0)
    short = EventSpec(at_s=2.5, kind="partition", sites=("b", "c"), for_s=3.0)
    later = simulate(grid(wide, short, limit_s=50.0), 0)
    assert later.stuck > 0, "b is cut from a until 62 s"
    assert ran(wide, short).groups["w"].done == 30


EVENTS = st.builds(
    EventSpec,
    at_s=st.floats(0, 30),
    kind=st.sampled_from(("kill", "stop", "restart", "partition", "heal")),
    sites=st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True).map(tuple),
    for_s=st.floats(0.1, 20),
)


@pytest.mark.wide
@settings(max_examples=40, deadline=None)
@given(st.lists(EVENTS, max_size=6), st.integers(0, 1000))
def test_whatever_happens_every_job_ends_once_when_all_is_whole_again(events: list[EventSpec], seed: int) -> None:
    instant = ("restart", "heal")
    some = [EventSpec(e.at_s, e.kind, e.sites, 0.0 if e.kind in instant else e.for_s) for e in events]
    scenario = grid(*some)
    assert sc.parse(written(scenario)) == scenario
    report = simulate(scenario, seed)
    assert report.good() and report.groups["w"].done == 30, (seed, some, report)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ('at_s = 1\nkind = "kil"\nsites = ["a"]', "events[0].kind: 'kil' is not known; did you mean 'kill'?"),
        ('at_s = 1\nkind = "kill"', "events[0] (kill): sites: none; name at least one"),
        ('at_s = 1\nkind = "kill"\nsites = ["d"]', "events[0] (kill): sites: 'd' is not known; known: a, b, c"),
        ('at_s = 1\nkind = "stop"\nsites = ["a"]', "events[0] (stop): for_s = 0: want how long, above 0"),
        ('at_s = 1\nkind = "heal"\nfor_s = 2', "events[0] (heal): for_s = 2: it happens at once; leave for_s out"),
        (
            'at_s = 1\nkind = "partition"\nsites = ["a", "b", "c"]',
            "events[0] (partition): sites: all 3 of them; leave at least one on the other side",
        ),
        ('at_s = -1\nkind = "heal"', "events[0] (heal): at_s = -1.0, for_s = 0.0: want 0 to 1e+09"),
        ('at_s = 1\nkind = "heal"\nsite = "a"', "unknown key 'site' in events[0]; did you mean 'sites'?"),
    ],
)
def test_a_wrong_event_is_one_line(event: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        sc.parse(f"{GRID}\n[[events]]\n{event}\n", "x.toml")
    assert str(error.value).startswith(f"x.toml: {says}") and "\n" not in str(error.value)


PAIR = """version = 1
sites = [{ name = "a", slots = 2, standby = true, witness = "b" }, { name = "b", slots = 4 }, { name = "c", slots = 4 }]
[[workload]]
name = "w"
site = "a"
jobs = 30
work_s = 3.0
on_crash = "rerun"
"""


@pytest.mark.parametrize("event", ["kill", "stop"])
def test_of_a_site_with_a_standby_the_machine_that_leads_is_struck_and_the_other_takes_over(event: str) -> None:
    for_s = 40.0
    scenario = sc.parse(f'{PAIR}[[events]]\nat_s = 3\nkind = "{event}"\nsites = ["a"]\nfor_s = {for_s}\n')
    report = simulate(scenario, 0)
    assert report.good(), report
    assert report.sites["a"].boots == 2 and report.groups["w"].done == 30
    # Nobody waited for the one that was away.
    assert report.groups["w"].makespan_s < for_s


def test_a_restart_of_a_pair_brings_back_the_half_that_was_killed() -> None:
    events = '[[events]]\nat_s = 3\nkind = "kill"\nsites = ["a"]\n[[events]]\nat_s = 30\nkind = "restart"\n'
    report = simulate(sc.parse(PAIR.replace("jobs = 30", "jobs = 120") + events), 0)
    assert report.good(), "after the end both halves are in sync again"


@pytest.mark.parametrize("name", ["agreement", "compose-rough", "compose-standby"])
def test_scenarios_for_real_nodes_hold_in_the_simulator_too(name: str) -> None:
    scenario = sc.load(Path(__file__).parents[3] / "scenarios" / f"{name}.toml")
    for seed in range(5 if SOAK else 1):
        report = simulate(scenario, seed)
        assert report.good(), (seed, report.unmet, report.violations)
