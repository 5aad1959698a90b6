"""A run that takes long says why, once, where its sites' own talk is all there is."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from diana.sim.experiments import patience
from diana.sim.experiments.patience import Patience
from diana.sim.main import run
from diana.sim.scenario import scenario as sc
from diana.sim.world.runner import simulate

QUIET = """version = 1
sites = [{ name = "a", slots = 2 }, { name = "b", slots = 2 }]
users = [{ name = "ann@vo" }]
[[workload]]
name = "first"
site = "a"
jobs = 1
work_s = 1000.0
"""


def said(text: str, tick_s: float) -> list[str]:
    lines: list[str] = []
    clock = count(0.0, tick_s)
    assert simulate(sc.parse(text), 0, watch=Patience(lines.append, lambda: next(clock)).look).good()
    return lines


def test_a_long_run_of_idle_sites_names_the_setting_that_shortens_it() -> None:
    (line,) = said(QUIET, 0.05)
    assert line == (
        "after 20 s 0.0 days are simulated; most of it is that 2 sites speak every 1 s. "
        "For jobs of hours put into the scenario: settings = { summary_every_s = 60, suspect_after_s = 360 }"
    )


def test_what_it_names_is_a_setting_that_works_and_is_not_named_again() -> None:
    assert said("settings = { summary_every_s = 60, suspect_after_s = 360 }\n" + QUIET, 0.05) == []


@pytest.mark.wide
def test_a_quick_run_and_one_that_is_full_of_work_say_nothing() -> None:
    assert said(QUIET, 0.0) == []
    busy = QUIET.replace("1000.0", "1.0\nrepeat = 50\nevery_s = 2.0")
    assert said(busy, 1.0) == []


def test_of_a_comparison_the_first_run_says_it_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.0)
    monkeypatch.setattr(patience, "TURNS_PER_GROUP", 0.0)
    path = tmp_path / "x.toml"
    path.write_text(QUIET.replace("1000.0", "2.0") + "[[policies]]\nname = 'diana'\n[compare]\nseeds = 3\n")
    assert run(path, workers=1) == 0
    assert capsys.readouterr().err.count("sites speak every 1 s") == 1


@pytest.mark.wide
def test_who_looks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "TURNS_PER_GROUP", 0.0)
    text = QUIET.replace("jobs = 1\n", "jobs = 1\nrepeat = 20\ngenerate = { arrivals = 'poisson', load = 0.1 }\n")
    scenario, lines, clock = sc.parse(text.replace("1000.0", "30.0")), list[str](), count(0.0, 0.5)
    watched = simulate(scenario, 0, watch=Patience(lines.append, lambda: next(clock)).look)
    assert lines and watched.digest == simulate(scenario, 0).digest and watched.groups["first"].done == 20
