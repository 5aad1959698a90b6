"""Kills of a Grid Engine and of the node before it while an array goes through: none lost, none twice."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from tests.clusters.conftest import Clustered
from tests.clusters.gridengine_site import GridEngineSite
from tests.e2e.grid import Grid, Starts, outcomes, until

JOBS = 300
KILLS = 3
"""Number of kills of node and master, at random moments."""


def jobs_there(gridengine: GridEngineSite) -> list[str]:
    rows = gridengine.run("qstat", check=False).splitlines()[2:]
    return sorted({row.split()[0] for row in rows if row.split()})


@pytest.mark.wide
def test_an_array_survives_the_death_of_master_and_node_and_holds(
    grid: Grid, starts: Starts, clustered: Clustered, gridengine: GridEngineSite, chance: random.Random
) -> None:
    beta = clustered("beta", gridengine)
    grid.start()
    job = starts.job(JOBS, then=["sh", "-c", "sleep 0.3"], on_crash="rerun")
    with beta.client() as client:
        group = client.submit(job).group
    starts.wait_for(20)
    gridengine.kill_master()
    time.sleep(chance.uniform(1.0, 4.0))
    gridengine.start_master()
    until(lambda: starts.count() >= 60, "60 starts", 120.0, 0.5)
    held = jobs_there(gridengine)
    gridengine.run("qhold", *held, check=False)
    beta.kill()
    time.sleep(chance.uniform(0.0, 2.0))
    beta.start()
    gridengine.run("qrls", *held, check=False)
    for number in range(KILLS):
        until(lambda n=number: starts.count() >= 90 + 60 * n, f"start {90 + 60 * number}", 120.0, 0.5)  # type: ignore[misc]
        time.sleep(chance.uniform(0.2, 3.0))
        beta.kill()
        if chance.random() < 0.7:
            gridengine.kill_master()
            gridengine.start_master()
        beta.start()
    with beta.client() as client:
        client.wait(group, timeout_s=200.0)
        ended = Counter(outcomes(client, group).values())
    attempts = Counter((start.index, start.attempt) for start in starts.all())
    again = sum(attempt > 1 for _, attempt in attempts)
    print(f"{again} jobs were tried again")
    assert ended == {"done": JOBS}
    assert set(attempts.values()) == {1}, f"started twice: {[k for k, n in attempts.items() if n > 1]}"
    assert {index for index, _ in attempts} == set(range(JOBS))
    assert again < JOBS / 10
