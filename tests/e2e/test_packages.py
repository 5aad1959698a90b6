"""A package with a build for this machine, from the command line to its output; its site lets whom it names run it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from diana.model.ids import GroupId
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid
from tests.entry_points import install

pytestmark = pytest.mark.e2e

JOB = """
[group]
command = "./greet {n}"
[sweep]
n = [1, 2, 3]
[outputs]
collect = ["said-{n}.txt", "*"]
[package.builds]
OWN = "own.sh"
vax = "other.sh"
"""


def test_each_job_runs_the_build_of_its_machine(grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alpha = grid.add("alpha", 2)
    model = "def slow(values):\n    return {'time_s': str(values['job.work_s'] * 30)}\n"
    install(tmp_path, "lab_models", model, "diana.models", ["slow"])
    given = alpha.environment()
    given["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    monkeypatch.setattr(alpha, "environment", lambda: given)
    grid.start()
    for name in ("own", "other"):
        path = tmp_path / f"{name}.sh"
        path.write_text(f'#!/bin/sh\necho "{name} $1" > said-$1.txt\n')
        path.chmod(0o755)
    job = tmp_path / "job.toml"
    job.write_text(JOB.replace("OWN", os.uname().machine))
    done = grid.run(alpha, "submit", "--data", str(alpha.data), "--wait", str(job))
    assert done.returncode == 0, done.stderr
    assert "passed over" not in done.stdout + done.stderr, "the link to the build is no output"
    folder = alpha.paths.gathered(GroupId("alpha-1"))
    assert sorted(path.read_text() for path in folder.rglob("said-*.txt")) == ["own 1\n", "own 2\n", "own 3\n"]
    modelled = tmp_path / "modelled.toml"
    modelled.write_text("[group]\ncommand = 'true'\n[resources]\nwork = 4\n[package.model]\nplugin = 'slow'\n")
    done = grid.run(alpha, "plan", "--data", str(alpha.data), "--json", str(modelled))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["decision"]["candidates"]
    assert (row["modelS"], row["runFrom"]) == (120.0, "model"), done.stderr
    config = load_config(alpha.paths.config)
    settings = msgspec.structs.replace(config.settings, package_users=("nobody@else",))
    write_config(alpha.paths.config, msgspec.structs.replace(config, settings=settings))
    alpha.terminate()
    alpha.start()
    done = grid.run(alpha, "plan", "--data", str(alpha.data), str(job))
    assert done.returncode == 3 and done.stderr.count("\n") == 1
    assert "alpha: runs no packages of this user (package_users in its site.toml)" in done.stderr
