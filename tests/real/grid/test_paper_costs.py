"""The paper's cost model on three real nodes, by the command line: bulk groups are split, data draw their jobs."""

from __future__ import annotations

import json

import pytest

from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e

DATA_BYTES = 3_000_000_000


def three(grid: Grid, **settings: object) -> Site:
    for name in ("alpha", "beta", "gamma"):
        grid.add(name, 4)
    grid.join()
    grid.settings(cost_model="paper", **settings)
    grid.start()
    return grid.sites["alpha"]


def planned(grid: Grid, site: Site, job: dict[str, object]) -> dict[str, int]:
    """Jobs by site, as `diana plan FILE --json` says; then the table is printed for whoever reads a failure."""
    file = grid.root / "job.json"
    file.write_text(json.dumps(job))
    said = grid.run(site, "plan", str(file), "--data", str(site.data), "--json")
    assert said.returncode == 0, said.stderr
    print(grid.run(site, "plan", str(file), "--data", str(site.data)).stdout)
    return {part["site"]: part["jobs"] for part in json.loads(said.stdout)["decision"]["parts"]}


def test_plan_splits_ten_thousand_one_hour_jobs_over_three_idle_sites(grid: Grid) -> None:
    """SPEC D6: without a size or a factor in VO or job file."""
    alpha = three(grid)
    job = {"group": {"command": ["true"]}, "sweep": {"array": "0-9999"}, "resources": {"work": "1h"}}
    jobs = planned(grid, alpha, job)
    assert sum(jobs.values()) == 10_000
    assert set(jobs) == {"alpha", "beta", "gamma"}
    assert max(jobs.values()) - min(jobs.values()) <= 100


def test_plan_sends_a_group_of_data_to_the_site_that_has_them_over_links_that_lost_nothing(grid: Grid) -> None:
    """SPEC D1: 3 GB at beta, loopback links; the bare formula (`cost_raw`) sees nothing to move and stays at home."""
    alpha, beta = three(grid), grid.sites["beta"]
    file = grid.root / "events"
    with file.open("wb") as sparse:
        sparse.truncate(DATA_BYTES)
    with beta.client() as client:
        client.add_dataset("events", [file])
    with alpha.client() as client:
        until(lambda: any("events" in s.datasets for s in client.sites() if s.site == "beta"), "alpha heard", 20.0)
    job: dict[str, object] = {
        "group": {"command": ["true"], "class": "data"},
        "inputs": [{"url": "dataset:events/events", "path": "events"}],
    }
    assert planned(grid, alpha, job) == {"beta": 1}
