"""Policies compared: the same work for all, differences paired by seed, the same table from any number of processes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from diana.errors import UsageError
from diana.sim.experiments import compare as cp
from diana.sim.main import run
from diana.sim.report.figures import NAMES, Figures
from diana.sim.report.intervals import interval
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.comparison import plan
from diana.sim.scenario.text import written
from diana.sim.scenario.variants import faster, under
from diana.sim.specs.compare_spec import PolicySpec
from diana.sim.specs.demand_spec import GenerateSpec
from diana.sim.specs.event_spec import EventSpec
from diana.sim.specs.trace_spec import TraceSpec
from diana.sim.specs.work_spec import MoveSpec, WorkSpec

SMALL = """
version = 1
name = "small"
settings = { migration_threshold = 0.3 }
sites = [{ name = "a", slots = 2 }, { name = "b", slots = 6, settings = { cost_model = "turnaround" } }]
users = [{ name = "ann@vo", count = 2 }]
[[workload]]
name = "day"
site = "a"
jobs = 6
work_s = 30.0
spread = 0.5
repeat = 10
generate = { load = 1.0, homes = "slots" }
[[policies]]
name = "diana"
[[policies]]
name = "paper"
settings = { cost_model = "paper", cost_weights = { network = 0.5 } }
[compare]
loads = [0.5, 0.9]
seeds = 3
warm_up = 0.05
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compare") / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def found(small: Path) -> cp.Comparison:
    out = io.StringIO()
    assert run(small, as_json=True, out=out, workers=1) == 0
    printed = json.loads(out.getvalue())
    assert list(printed) == ["compare"], "without `report` the comparison alone is printed"
    return msgspec.convert(printed["compare"], cp.Comparison)


def test_every_policy_meets_every_load_and_seed(found: cp.Comparison) -> None:
    assert [(row.load, row.seed, row.policy) for row in found.runs] == [
        (load, seed, policy) for load in (0.5, 0.9) for seed in range(3) for policy in ("diana", "paper")
    ]
    assert (found.baseline, found.seeds, found.warm_up, found.confidence) == ("diana", [0, 1, 2], 0.05, 0.95)
    assert all(row.good and row.digest and row.figures.unfinished == 0 for row in found.runs)
    assert len({row.digest for row in found.runs}) == len(found.runs)


def test_tables_and_paired_differences_are_those_of_the_rows(found: cp.Comparison) -> None:
    for table in found.loads:
        rows = {
            name: [r.figures for r in found.runs if (r.load, r.policy) == (table.load, name)] for name in table.policies
        }
        for name, its in table.policies.items():
            assert its.runs == 3 and set(its.figures) == set(NAMES)
            assert its.figures["wait_mean_s"] == interval([one.wait_mean_s for one in rows[name]])
        pairs = list(zip(rows["paper"], rows["diana"], strict=True))
        difference = table.policies["paper"].differences["turnaround_mean_s"]
        shares = [one.turnaround_mean_s / base.turnaround_mean_s - 1 for one, base in pairs]
        expected = interval(shares)
        assert difference.relative is not None and expected is not None
        assert difference.relative.mean == pytest.approx(expected.mean) and difference.relative.low is not None
        assert difference.absolute.mean == pytest.approx(
            sum(a.turnaround_mean_s - b.turnaround_mean_s for a, b in pairs) / 3
        )
        assert table.policies["diana"].differences == {}
        assert table.policies["paper"].differences["unfinished"].relative is None, "nothing has no share"


CENTRAL = """
[[policies]]
name = "sees all"
central = "sufferage"
"""


@pytest.mark.wide
def test_central_policies_stand_beside_the_engines_and_nothing_comes_below_the_bound(tmp_path: Path) -> None:
    scenario, out = tmp_path / "x.toml", io.StringIO()
    scenario.write_text(SMALL.replace("[compare]", CENTRAL + '[compare]\nbaseline = "sees all"'))
    assert run(scenario, as_json=True, out=out, workers=1) == 0
    found = msgspec.convert(json.loads(out.getvalue())["compare"], cp.Comparison)
    rows = {(row.load, row.seed, row.policy): row for row in found.runs}
    for row in found.runs:
        bound = rows[row.load, row.seed, "sees all"].bound
        assert row.figures.makespan_s >= bound["makespan_s"] * (1 - 1e-9) > 0
        assert row.figures.turnaround_mean_s >= bound["turnaround_mean_s"] * (1 - 1e-9) > 0
        assert (row.digest == "") == (row.policy == "sees all") and row.figures.unfinished == 0
    for table in found.loads:
        assert table.bound["makespan_s"].mean <= min(its.figures["makespan_s"].mean for its in table.policies.values())
        assert set(table.policies["diana"].differences) >= {"turnaround_mean_s", "bytes_moved"}
        assert "messages_per_job" not in table.policies["sees all"].figures


@pytest.mark.wide
def test_what_no_machine_can_take_is_unfinished_whatever_the_policy(tmp_path: Path) -> None:
    scenario, out = tmp_path / "x.toml", io.StringIO()
    wide = '[[workload]]\nname = "wide"\nsite = "a"\njobs = 3\nprocessors = 9\n'
    text = SMALL.replace("[[policies]]", f"{wide}[[policies]]", 1)
    scenario.write_text(text.replace("[compare]", f"{CENTRAL}[compare]"))
    run(scenario, seeds=1, as_json=True, out=out, workers=1, shrink_s=0.0)
    found = msgspec.convert(json.loads(out.getvalue())["compare"], cp.Comparison)
    assert {(row.policy, row.figures.unfinished) for row in found.runs} == {("diana", 3), ("paper", 3), ("sees all", 3)}


def test_more_work_waits_longer(found: cp.Comparison) -> None:
    light, heavy = (table.policies["diana"].figures for table in found.loads)
    assert light["wait_mean_s"].mean < heavy["wait_mean_s"].mean
    assert light["utilisation"].mean < heavy["utilisation"].mean


@pytest.mark.wide
def test_what_comes_out_does_not_depend_on_the_number_of_processes(small: Path, found: cp.Comparison) -> None:
    out = io.StringIO()
    assert run(small, as_json=True, out=out, workers=2) == 0
    assert msgspec.convert(json.loads(out.getvalue())["compare"], cp.Comparison) == found


@pytest.mark.wide
def test_the_table_for_people_names_policies_loads_and_what_is_significant(small: Path) -> None:
    out, told = io.StringIO(), list[tuple[int, int]]()
    assert run(small, seeds=2, first_seed=5, out=out, workers=1, tell=lambda done, of: told.append((done, of))) == 0
    text = out.getvalue()
    assert "2 seeds, the first and last 5 % of submissions left out" in text
    assert "load 0.5" in text and "load 0.9" in text and "differences from diana, paired by seed" in text
    assert "paper" in text and "±" in text and " % " in text
    assert told == [(k, 8) for k in range(1, 9)]


@pytest.mark.wide
def test_other_keys_stand_beside_and_a_report_without_compare_is_of_the_scenario_as_written(small: Path) -> None:
    out = io.StringIO()
    assert run(small, seeds=1, as_json=True, out=out, workers=1, keys=("groups", "compare", "digest")) == 0
    both = json.loads(out.getvalue())
    assert list(both) == ["groups", "digest", "compare"] and both["digest"] == both["compare"]["runs"][0]["digest"]
    out = io.StringIO()
    assert run(small, as_json=True, out=out, workers=1, keys=("digest",)) == 0
    assert list(json.loads(out.getvalue())) == ["digest"]


def test_a_policys_settings_hold_at_every_site_over_the_sites_own() -> None:
    scenario = sc.parse(SMALL)
    one = under(scenario, scenario.policies[1])
    its = [one.site_settings(site) for site in one.sites]
    assert [settings.cost_model for settings in its] == ["paper", "paper"]
    assert [settings.migration_threshold for settings in its] == [0.3, 0.3] and [s.slots for s in its] == [2, 6]
    assert one.compare is None and one.policies == ()


def test_twice_the_load_halves_the_times_between_and_nothing_else() -> None:
    work = WorkSpec("w", "a", 3, work_s=9.0, submit_s=10.0, every_s=4.0, cancel_s=30.0, moves=(MoveSpec("b", 8.0),))
    one = faster(work, 2.0)
    assert (one.submit_s, one.every_s, one.cancel_s, one.hold_s, one.moves[0].at_s) == (5.0, 2.0, 15.0, -1.0, 4.0)
    assert (one.work_s, one.jobs) == (9.0, 3) and faster(work, 1.0) is work
    logged = replace(work, trace=TraceSpec("x.swf", time_scale=3.0), every_s=0.0)
    assert faster(logged, 2.0).trace == TraceSpec("x.swf", time_scale=1.5)
    loaded = replace(work, trace=TraceSpec("x.swf", load=0.4), every_s=0.0)
    assert faster(loaded, 2.0).trace == TraceSpec("x.swf", load=0.8)
    drawn = replace(work, generate=GenerateSpec(load=0.4, burst_gap_s=6.0), every_s=0.0)
    assert faster(drawn, 2.0).generate == GenerateSpec(load=0.8, burst_gap_s=3.0)


def test_what_happens_for_sure_meets_the_same_work_under_twice_the_load() -> None:
    event = EventSpec(at_s=40.0, kind="kill", sites=("a",), for_s=7.0)
    one = under(replace(sc.parse(SMALL), events=(event,)), PolicySpec("p"), 2.0)
    assert one.events == (replace(event, at_s=20.0),)


@pytest.mark.wide
def test_a_failing_run_names_its_policy_and_the_exit_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(SMALL + "[expect]\nmakespan_s = 1.0\n")
    assert run(path, seeds=1, out=io.StringIO(), workers=1) == 1
    error = capsys.readouterr().err
    assert "policy 'diana', load 0.5:" in error and "expect makespan_s = 1" in error and "4 of 4 runs failed" in error


def test_a_comparison_can_be_written_down_and_read_again() -> None:
    scenario = sc.parse(SMALL)
    assert sc.parse(written(scenario)) == scenario


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "paper"', 'name = "diana"', "policies: 'diana' stands twice"),
        ('cost_model = "paper"', 'cost_modle = "paper"', "policies paper: unknown key 'cost_modle' in settings; did"),
        ('cost_model = "paper"', 'cost_model = "cheap"', "policies paper: "),
        ("seeds = 3", 'baseline = "dinaa"', "compare: baseline: 'dinaa' is not known; did you mean 'diana'?"),
        ("seeds = 3", 'policies = ["diana", "other"]', "compare: policies: 'other' is not known"),
        ("loads = [0.5, 0.9]", "loads = [0.5, 0.5]", "compare: loads = [0.5, 0.5]: want different factors"),
        ("loads = [0.5, 0.9]", "loads = []", "compare: loads = []"),
        ("seeds = 3", "seeds = 0", "compare: seeds = 0"),
        ("warm_up = 0.05", "warm_up = 0.5", "warm_up = 0.5: want 1 to 100000, and 0 to below 0.5"),
        ('name = "paper"', 'name = "paper"\ncentral = "min-min"', "policies paper: central = 'min-min' has no"),
        (
            'name = "paper"\nsettings = { cost_model = "paper", cost_weights = { network = 0.5 } }',
            'name = "paper"\ncentral = "min-min"\n[[workload]]\nname = "x"\nsite = "a"\njobs = 1\n'
            "hold_s = 1.0\nrelease_s = 2.0",
            "policies paper: workload x: hold_s: central policies",
        ),
        ("load = 1.0", 'arrivals = "lublin"', "workload day: generate: lublin as published comes at its own times"),
        ("[compare]\nloads = [0.5, 0.9]\nseeds = 3\nwarm_up = 0.05", "", ""),
    ],
)
def test_a_wrong_comparison_is_one_line(old: str, new: str, said: str) -> None:
    text = SMALL.replace(old, new)
    assert text != SMALL
    if not said:
        text = text.replace("version = 1", 'version = 1\nreport = ["compare"]')
        said = "report: 'compare' wants a [compare] table"
    with pytest.raises(UsageError) as caught:
        sc.parse(text, "x.toml")
    assert str(caught.value).startswith("x.toml: ") and said in str(caught.value) and "\n" not in str(caught.value)


def test_rows_of_several_machines_make_one_table_or_say_what_is_missing(found: cp.Comparison) -> None:
    its = plan(sc.parse(SMALL))
    again = cp.comparison(list(found.runs), its)
    assert again == found
    with pytest.raises(UsageError, match=r"compare: load 0\.5, seed 0: not both of 'diana' and 'paper' have it"):
        cp.comparison(found.runs[1:], its)


def test_a_figure_that_a_policy_has_not_is_left_out(found: cp.Comparison) -> None:
    """Central policies send no messages."""
    its = plan(sc.parse(SMALL))
    bare = [
        replace(r, figures=replace(r.figures, messages_per_job=None)) if r.policy != "diana" else r for r in found.runs
    ]
    table = cp.comparison(bare, its).loads[0].policies
    assert "messages_per_job" in table["diana"].figures and "messages_per_job" not in table["paper"].figures
    assert "messages_per_job" not in table["paper"].differences
    assert isinstance(bare[0].figures, Figures)
