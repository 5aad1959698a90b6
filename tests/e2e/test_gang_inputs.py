"""Components that read files and ask for memory of their own, over real nodes (SPEC K1, K3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diana.model.ids import GroupId
from tests.e2e.grid import Grid

pytestmark = pytest.mark.e2e

JOB = """
[group]
command = ["sh", "-c", 'saw=$(echo *); echo $saw > saw-{component}.txt; cat all.csv >> saw-{component}.txt']
[outputs]
collect = "saw-{component}.txt"
[[inputs]]
url = "all.csv"
split = "lines"
[[components]]
name = "sim"
site = "alpha"
memory = "300M"
inputs = ["mesh.dat"]
[[components]]
name = "view"
inputs = ["dataset:ocean/deep.nc"]
command = ["sh", "-c", 'saw=$(echo *); echo $saw > saw-{component}.txt; cat all.csv deep.nc >> saw-{component}.txt']
"""


def test_each_component_finds_its_chunk_and_its_own_files_and_the_plan_says_where_they_come_from(
    grid: Grid, tmp_path: Path
) -> None:
    for name in ("alpha", "beta"):
        grid.add(name, 2)
    grid.join()
    grid.start()
    alpha, beta = grid.sites["alpha"], grid.sites["beta"]
    (tmp_path / "deep.nc").write_text("deep\n")
    done = grid.run(beta, "datasets", "add", "--data", str(beta.data), "ocean", str(tmp_path / "deep.nc"))
    assert done.returncode == 0, done.stderr
    (tmp_path / "all.csv").write_text("one\ntwo\nthree\n")
    (tmp_path / "mesh.dat").write_text("mesh\n")
    job = tmp_path / "job.toml"
    job.write_text(JOB)

    planned = grid.run(alpha, "plan", "--data", str(alpha.data), str(job), "--json")
    assert planned.returncode == 0, planned.stderr
    sim, view = json.loads(planned.stdout)["decision"]["gang"]["components"]
    assert (sim["site"], sim["name"]) == ("alpha", "sim")
    # Its chunk lies where it was uploaded, and is longer than the file that lies at beta.
    assert (view["site"], view["sources"], view["bytesIn"]) == ("alpha", ["beta"], len("deep\n")), view

    done = grid.run(alpha, "submit", "--data", str(alpha.data), str(job), "--wait")
    assert done.returncode == 0, done.stderr
    folder = alpha.paths.gathered(GroupId("alpha-1"))
    saw = {path.name: path.read_text().split() for path in folder.rglob("saw-*.txt")}
    assert saw == {
        "saw-0.txt": ["all.csv", "mesh.dat", "one"],
        "saw-1.txt": ["all.csv", "deep.nc", "two", "three", "deep"],
    }

    (tmp_path / "all.csv").write_text("one\n")
    refused = grid.run(alpha, "submit", "--data", str(alpha.data), str(job))
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert "inputs[0].split: all.csv: has 1 line for 2 components; leave split out" in refused.stderr
