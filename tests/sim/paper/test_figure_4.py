"""SPEC D6's Figure 4 from `diana simulate scenarios/diana-figure-4.toml --json`: foretold and simulated hours."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from diana.errors import UsageError
from diana.sim.main import run
from diana.sim.scenario.scenario import parse
from diana.sim.world.runner import simulate

pytestmark = pytest.mark.wide

FIGURE_4 = Path(__file__).parents[3] / "scenarios" / "diana-figure-4.toml"
TABLE = [
    ("whole", 10_000, 16.6667, 16.666667, 17.0),
    ("two-site", 6_000, 10.0, 10.0, 10.0),
    ("four-way", 4_000, 10.0, 8.541667, 10.0),
    ("groups of 1000", 1_000, 10.0, None, 10.0),
    ("groups of 500", 500, 8.3333, None, 9.0),
    ("groups of 250", 250, 7.9167, None, 8.0),
    ("groups of 200", 200, 8.0, None, 8.0),
    ("groups of 100", 100, 7.8333, None, 8.0),
    ("groups of 50", 50, 7.75, None, 8.0),
]
SLOTS = {"site1": 100, "site2": 200, "site3": 400, "site4": 600}

SMALL = """version = 1
report = ["plans", "groups"]

[default_link]
bytes_per_s = 1e6

[[sites]]
name = "alpha"
slots = 2

[[sites]]
name = "beta"
slots = 2

[[datasets]]
name = "runs"
site = "alpha"
files = 6
file_bytes = 1_000_000

[[workload]]
name = "forced"
site = "alpha"
jobs = 6
work_s = 10.0
spread = 0.5
inputs = ["runs"]
file_per_job = true
submit_s = 5.0
forced = { alpha = 2, beta = 4 }
"""


@pytest.fixture(scope="module")
def plans() -> list[dict[str, Any]]:
    out = io.StringIO()
    assert run(FIGURE_4, as_json=True, out=out) == 0
    printed = json.loads(out.getvalue())
    assert list(printed) == ["plans"]
    return printed["plans"]  # type: ignore[no-any-return]


def test_the_simulator_prints_figure_4(plans: list[dict[str, Any]]) -> None:
    keys = ("name", "group_size", "makespan_h", "simulated_makespan_h")
    assert [tuple(row[k] for k in keys) for row in plans] == [(n, s, m, sim) for n, s, m, _, sim in TABLE]
    for row, (_, _, _, mean_site_h, _) in zip(plans, TABLE, strict=True):
        assert mean_site_h is None or row["mean_site_h"] == mean_site_h


def test_every_row_of_figure_4_is_jobs_over_processors(plans: list[dict[str, Any]]) -> None:
    for row in plans:
        hours = [jobs / SLOTS[site] for site, jobs in row["parts"].items()]
        assert sum(row["parts"].values()) == 10_000
        assert row["makespan_h"] == pytest.approx(max(hours), abs=1e-4)
        assert row["mean_site_h"] == pytest.approx(sum(hours) / len(hours), abs=1e-5)
        assert row["makespan_h"] >= 10_000 / 1_300


def test_a_forced_plan_is_one_row_and_each_job_keeps_its_own_file_and_run_time() -> None:
    forced = simulate(parse(SMALL), 3)
    free = simulate(parse(SMALL.replace("forced = {", "# ")), 3)
    assert forced.good() and free.good()
    row, group = forced.plans[0], forced.groups["forced"]
    assert (row.plan, row.parts, group.sites) == ("forced", {"alpha": 2, "beta": 4}, {"alpha": 2, "beta": 4})
    assert list(forced.groups) == ["forced"] and group.done == 6
    assert group.bytes_moved == 4_000_000
    assert group.run_mean_s == pytest.approx(free.groups["forced"].run_mean_s)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("forced = { alpha = 2, beta = 3 }", "forced = 2 + 3 jobs: want shares of 1 and more that make up its 6 jobs"),
        ("forced = { alpha = 6, beta = 0 }", "forced = 6 + 0 jobs"),
        ("forced = { alpha = 2, gamma = 4 }", "'gamma' is not known"),
        ("forced = { alpha = 6 }\nsites = ['beta']", "cannot have sites"),
    ],
)
def test_a_forced_plan_that_makes_no_sense_is_refused_in_one_line(change: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(SMALL.replace("forced = { alpha = 2, beta = 4 }", change))
    assert said in str(caught.value) and "\n" not in str(caught.value)
