"""Calm runs: what the scenarios of the repository promise, and what `diana simulate` prints of them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from diana.sim.main import run
from diana.sim.scenario import scenario as sc
from diana.sim.world.runner import simulate

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def printed(name: str, seeds: int = 1) -> dict[str, object]:
    out = io.StringIO()
    assert run(SCENARIOS / name, seeds, 0, True, out) == 0
    return json.loads(out.getvalue())  # type: ignore[no-any-return]


@pytest.mark.wide
def test_the_papers_testbed_does_200_jobs_on_all_its_sites() -> None:
    """DIANA section XI: 4+5+5+5+5 nodes."""
    report = simulate(sc.load(SCENARIOS / "five-sites.toml"), 0)
    assert report.good(), report.violations
    group = report.groups["mass"]
    assert (group.jobs, group.done, group.state) == (200, 200, "done")
    assert len(group.sites) >= 3 and sum(group.sites.values()) == 200
    ideal_s = 200 * 60 / 24
    assert ideal_s <= group.makespan_s < 1.2 * ideal_s
    assert group.predicted_s == pytest.approx(group.makespan_s, rel=0.15)


@pytest.mark.wide
def test_a_report_carries_the_keys_its_scenario_names() -> None:
    assert list(printed("five-sites.toml"))[:4] == ["groups", "sites", "plans", "network"]
    chaos = printed("chaos.toml", 3)
    assert list(chaos) == ["seeds", "faults", "lost", "doubled", "violations", "stuck", "digest"]
    assert (chaos["seeds"], chaos["lost"], chaos["doubled"], chaos["violations"], chaos["stuck"]) == (3, 0, 0, 0, 0)
    assert int(str(chaos["faults"])) >= 50


def test_the_table_for_people_names_every_group_and_site(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SCENARIOS / "two-sites.toml") == 0
    text = capsys.readouterr().out
    assert "sweep" in text and "alpha" in text and "beta" in text and "digest" in text


def test_an_expectation_that_is_not_met_fails_the_run_and_says_which(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (SCENARIOS / "two-sites.toml").read_text().replace("done = 20", "done = 21")
    path = tmp_path / "x.toml"
    path.write_text(text)
    assert run(path, 1, 3) == 1
    error = capsys.readouterr().err
    assert "seed 3 fails" in error and "expect done = 21: got 20" in error


def test_a_refused_group_is_reported_not_dropped() -> None:
    text = (SCENARIOS / "two-sites.toml").read_text().replace("slots = 4", "slots = 4", 1)
    text = text.replace("jobs = 20", "jobs = 20\nprocessors = 64").replace("[expect]\ndone = 20\nsites_used = 1", "")
    group = simulate(sc.parse(text), 0).groups["sweep"]
    assert group.state == "refused" and group.note
