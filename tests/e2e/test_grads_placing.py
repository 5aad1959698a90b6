"""A job with a model and a mapper over three real nodes: planned, run, and its parts put together (SPEC G2-G4)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from diana.model.ids import GroupId
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, until

pytestmark = pytest.mark.e2e

ITEMS = 6000
PROGRAM = """
import os
items = [int(one) for one in os.environ["DIANA_GANG_ITEMS"].split(",")]
rank = int(os.environ["DIANA_GANG_RANK"])
assert items[rank] == int(os.environ["DIANA_ITEMS"])
first = sum(items[:rank])
print(items[rank], sum(n * n for n in range(first, first + items[rank])), os.environ["DIANA_SITE"])
"""
JOB = """
components = "2x2"
[group]
command = ["PYTHON", "part.py"]
stdout = "part-{component}.txt"
[[inputs]]
url = "part.py"
[outputs]
collect = "part-{component}.txt"
[package.model]
compute_s = "600 * component.share / (component.speed * component.processors)"
time_s = "compute_s + link.rtt_s + 1"
[package.mapper]
kind = "time-balance"
items = ITEMS
"""


def test_a_job_goes_to_the_machines_of_the_first_end_and_divides_its_data_by_their_speed(
    grid: Grid, tmp_path: Path
) -> None:
    for name, speed in (("alpha", 1.0), ("beta", 3.0), ("gamma", 2.0)):
        site = grid.add(name, 2)
        config = load_config(site.paths.config)
        settings = msgspec.structs.replace(config.settings, speed=speed)
        write_config(site.paths.config, msgspec.structs.replace(config, settings=settings))
    grid.join()
    grid.start()
    alpha = grid.sites["alpha"]
    job = tmp_path / "job.toml"
    job.write_text(JOB.replace("PYTHON", sys.executable).replace("ITEMS", str(ITEMS)))
    (tmp_path / "part.py").write_text(PROGRAM)

    def planned() -> Any:
        """None: a site is not known, or a link not measured, yet, or measured while the machine was busy: it looks
        slower then than it is, and the next measure mends that."""
        tried = grid.run(alpha, "plan", "--data", str(alpha.data), "--json", str(job))
        if tried.returncode != 0:
            return None
        gang = json.loads(tried.stdout)["decision"]["gang"]
        placed = {one["site"]: one["items"] for one in gang["components"]}
        return gang if gang["mostModels"] == 3 * 3 * 2**3 and placed == {"beta": 3600, "gamma": 2400} else None

    gang = until(planned, "the links of three sites are measured, and the two fast ones have it", every_s=1.0)
    assert gang is not None
    assert gang["runS"] == pytest.approx(600 * 0.6 / 6 + 1, abs=0.5)
    assert 0 < gang["models"] <= gang["mostModels"]
    done = grid.run(alpha, "submit", "--data", str(alpha.data), "--wait", str(job))
    assert done.returncode == 0, done.stderr
    folder = alpha.paths.gathered(GroupId("alpha-1"))
    parts = [path.read_text().split() for path in folder.rglob("part-*.txt")]
    # The links are measured anew meanwhile, which may move an item or two.
    assert {site: int(items) for items, _, site in parts} == {
        "beta": pytest.approx(3600, rel=0.01),
        "gamma": pytest.approx(2400, rel=0.01),
    }
    assert sum(int(total) for _, total, _ in parts) == sum(n * n for n in range(ITEMS)), "as one process has it"
    told = grid.run(alpha, "explain", "--data", str(alpha.data), "alpha-1").stdout
    assert "runs by the group's model, their data divided by time-balance:" in told, told
    assert "placements tried over 3 kinds of machines at 3 sites; at most 72" in told, told
    assert "second best: " in told and "by grads: " in told
