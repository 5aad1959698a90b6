"""`diana simulate` from the command line: comparisons, pages, and what is told while it runs."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from diana.cli import main as cli

SCENARIO = """
version = 1
sites = [{ name = "a", slots = 2 }]
[[workload]]
name = "w"
site = "a"
jobs = 4
[[policies]]
name = "diana"
[[policies]]
name = "paper"
settings = { cost_model = "paper" }
[compare]
seeds = 2
"""

ALONE = """
version = 1
sites = [{ name = "a", slots = 2 }]
[[workload]]
name = "w"
site = "a"
jobs = 2
work_s = 60.0
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "x.toml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.wide
def test_a_comparison_is_run_and_its_page_written(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert cli.main(["simulate", str(scenario), "--json", "--workers", "1", "--html", str(page)]) == 0
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)["compare"]["runs"]) == 4 and shown.err == ""
    assert page.read_text().startswith("<!doctype html>")
    assert cli.main(["simulate", str(scenario), "--seeds", "1", "--report", "digest", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["digest"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x.toml", "--html", "/nowhere/at/all.html"], "--html /nowhere/at/all.html: no such folder; make it"),
        (["x.toml", "--html", "."], "--html .: a folder; name a file"),
        (["--trace", "x.swf", "--html", "y.html"], "--html is for a scenario"),
        (["--trace", "x.swf", "--seeds", "1"], "--seeds is for a scenario"),
        (["plain.toml", "--report", "compare"], "report: 'compare' wants a [compare] table"),
    ],
)
def test_what_cannot_be_is_one_line(
    words: list[str], said: str, scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(scenario.parent)
    (scenario.parent / "plain.toml").write_text(SCENARIO.partition("[[policies]]")[0])
    assert cli.main(["simulate", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_terminal_shows_how_far_it_is_and_standard_output_is_the_report_alone(scenario: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "diana.cli", "simulate", str(scenario), "--json"]
        env = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=env, timeout=100, check=True)
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(theirs)
        os.close(ours)
    assert json.loads(done.stdout)["compare"]["baseline"] == "diana"
    assert "4/4" in shown and "runs" in shown


def test_work_that_no_site_can_take_is_said_beside_the_report(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(ALONE.replace("jobs = 2", "jobs = 2\nprocessors = 9"))
    assert cli.main(["simulate", str(scenario), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["groups"]["w"]["state"] == "refused"
    assert shown.err.startswith("diana: workload w: refused: ") and shown.err.count("\n") == 1
    assert "has 2 of the 9 processors" in shown.err


def test_a_run_that_was_cut_off_by_its_limit_says_so_first(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario.write_text("limit_s = 15\n" + ALONE + "\n[expect]\ndone = 2\n")
    assert cli.main(["simulate", str(scenario), "--no-shrink"]) == 1
    _, _, met, limit, *_ = capsys.readouterr().err.splitlines()
    assert met.startswith("expect done = 2") and limit.startswith("limit_s = 15 came first: raise it")


def test_a_folder_is_no_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", str(tmp_path)]) == 2
    assert "is a directory" in capsys.readouterr().err
