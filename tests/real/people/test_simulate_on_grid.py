"""A comparison whose seeds are jobs of a real grid gives the same tables as one that was run here."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.e2e.grid import REPO, Grid

pytestmark = pytest.mark.e2e

SCENARIO = """
version = 1
name = "{curly} names"
sites_from = { file = "sites.csv", name = "host", slots = "cpus" }
[[workload]]
name = "w"
site = "a"
jobs = 6
work_s = 5.0
spread = 0.5
repeat = 4
every_s = 3.0
[[workload]]
name = "log"
trace = { file = "x.swf", home = "site" }
site = "b"
[[policies]]
name = "diana"
[[policies]]
name = "random"
settings = { placement = "random" }
[[policies]]
name = "min-min"
central = "min-min"
[compare]
loads = [0.5, 1.0]
seeds = 3
warm_up = 0.0
"""
LOG = "; MaxProcs: 4\n" + "".join(f"{k} {k} 0 {5 + k} 1 -1 -1 1 {9 + k} -1 1 1 1 -1 1 -1 -1 -1\n" for k in range(1, 6))
PROGRAM = f"env PYTHONPATH={REPO} {sys.executable} -m diana.cli"


def test_seeds_that_ran_on_a_grid_give_the_tables_of_a_run_here(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    scenario = tmp_path / "x.toml"
    scenario.write_text(SCENARIO)
    (tmp_path / "sites.csv").write_text("host,cpus\na,2\nb,3\n")
    (tmp_path / "x.swf").write_text(LOG)
    here = grid.run(alpha, "simulate", str(scenario), "--json", "--report", "compare", within_s=100)
    assert here.returncode == 0, here.stderr
    page = tmp_path / "page.html"
    words = ("--on", "grid", "--program", PROGRAM, "--data", str(alpha.data), "--json", "--html", str(page))
    there = grid.run(alpha, "simulate", str(scenario), *words, within_s=100)
    assert there.returncode == 0, there.stderr
    assert json.loads(there.stdout) == json.loads(here.stdout)
    assert "3 seeds accepted" in there.stderr and "Differences from diana" in page.read_text()
    with alpha.client() as client:
        (status,) = client.status()
    assert (status.jobs, status.done) == (3, 3)


def test_a_seed_without_a_result_is_said_with_its_group(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    scenario = tmp_path / "x.toml"
    (tmp_path / "sites.csv").write_text("host,cpus\na,2\nb,3\n")
    (tmp_path / "x.swf").write_text(LOG)
    scenario.write_text(SCENARIO)
    words = ("--on", "grid", "--program", "no-such-diana", "--data", str(alpha.data), "--seeds", "2")
    failed = grid.run(alpha, "simulate", str(scenario), *words, within_s=100)
    assert failed.returncode not in (0, 70) and "0 of 2 seeds have a result; see diana logs --failed" in failed.stderr
    scenario.write_text(SCENARIO.partition("[[policies]]")[0])
    plain = grid.run(alpha, "simulate", str(scenario), *words, within_s=100)
    assert plain.returncode == 2 and "--on grid is for comparisons; add a [compare] table" in plain.stderr
