"""SPEC D4's table from `diana simulate scenarios/diana-figure-6.toml --json`, to six digits."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from diana.sim.main import run
from diana.sim.scenario.scenario import load, parse
from diana.sim.world.runner import simulate

FIGURE_6 = Path(__file__).parents[3] / "scenarios" / "diana-figure-6.toml"
TABLE = [
    [("A", 1, 1.0, 0.0, "Q2")],
    [("A", 1, 6.0, 0.666667, "Q1"), ("A", 5, 1.2, -0.4, "Q3")],
    [
        ("A", 1, 3.694444, 0.458647, "Q2"),
        ("A", 5, 0.738889, -0.630556, "Q4"),
        ("B", 1, 3.305556, 0.697479, "Q1"),
    ],
]


def test_the_simulator_prints_figure_6() -> None:
    out = io.StringIO()
    assert run(FIGURE_6, as_json=True, out=out) == 0
    printed = json.loads(out.getvalue())
    assert list(printed) == ["arrivals"] and [a["arrival"] for a in printed["arrivals"]] == [1, 2, 3]
    rows = [
        [(q["user"], q["processors"], round(q["N"], 6), round(q["priority"], 6), q["level"]) for q in a["queued"]]
        for a in printed["arrivals"]
    ]
    assert rows == TABLE
    assert set(printed["arrivals"][0]) == {"arrival", "queued"}


def test_every_job_of_figure_6_runs_in_the_end_highest_priority_first() -> None:
    report = simulate(load(FIGURE_6), 0)
    assert report.good(), report.unmet
    waits = {name: group.wait_mean_s for name, group in report.groups.items()}
    assert waits["first of B"] < waits["first of A"] < waits["second of A"]


def test_people_get_a_line_per_arrival_and_queued_group() -> None:
    out = io.StringIO()
    run(FIGURE_6, out=out)
    assert "  arrival=1\n    user=A  processors=1  N=1  priority=0  level=Q2\n  arrival=2\n" in out.getvalue()


@pytest.mark.parametrize("mode", ["paper", "default"])
def test_with_several_sites_an_arrival_names_its_site(mode: str) -> None:
    text = FIGURE_6.read_text().replace('"paper"\n', f'"{mode}"\n') + '\n[[sites]]\nname = "beta"\nslots = 0\n'
    report = simulate(parse(text), 0)
    assert {a.site for a in report.arrivals} == {"alpha"}
