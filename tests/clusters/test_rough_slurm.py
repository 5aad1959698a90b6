"""Kills of a Slurm cluster and the node before it, while a thousand jobs go through: none lost, none twice."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from tests.clusters.conftest import Clustered
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Starts, outcomes, until

JOBS = 1000
KILLS = 4
"""Number of kills of the node, at random moments, besides the faults below."""


def running(slurm: SlurmSite) -> list[str]:
    return slurm.run("squeue", "-h", "-t", "R", "-r", "-o", "%F_%K").split()


def wait_for(starts: Starts, slurm: SlurmSite, count: int) -> None:
    """With an operator who looks after the cluster."""

    def enough() -> bool:
        slurm.mend()
        return starts.count() >= count

    until(enough, f"{count} starts", 300.0, 1.0)


@pytest.mark.wide
def test_a_thousand_jobs_survive_the_death_of_controller_and_node_holds_and_requeues(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite, chance: random.Random
) -> None:
    """Slurm keeps no accounts here, so that `sacct` fails all the time."""
    beta = clustered("beta", slurm)
    grid.start()
    job = starts.job(JOBS, then=["sh", "-c", "sleep 0.3"], on_crash="rerun")
    with beta.client() as client:
        group = client.submit(job).group
    starts.wait_for(50)
    slurm.kill_controller()
    time.sleep(chance.uniform(1.0, 4.0))
    slurm.start_controller()
    wait_for(starts, slurm, 200)
    waiting = slurm.run("squeue", "-h", "-t", "PD", "-o", "%F").split()
    for array in sorted(set(waiting)):
        slurm.run("scontrol", "hold", array, check=False)
    beta.kill()
    time.sleep(chance.uniform(0.0, 2.0))
    beta.start()
    for array in sorted(set(waiting)):
        slurm.run("scontrol", "release", array, check=False)
    wait_for(starts, slurm, 350)
    until(lambda: bool(running(slurm)), "some run", 30.0)
    requeued = running(slurm)[:3]
    for task in requeued:
        slurm.run("scontrol", "update", f"jobid={task}", "requeue=1", check=False)
        slurm.run("scontrol", "requeue", task, check=False)
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.2, 5.0))
        beta.kill()
        if chance.random() < 0.5:
            slurm.kill_controller()
            slurm.start_controller()
        beta.start()
    wait_for(starts, slurm, JOBS)
    with beta.client() as client:
        client.wait(group, timeout_s=100.0)
        ended = Counter(outcomes(client, group).values())
    attempts = Counter((start.index, start.attempt) for start in starts.all())
    assert ended == {"done": JOBS}
    assert set(attempts.values()) == {1}, f"started twice: {[k for k, n in attempts.items() if n > 1]}"
    assert {index for index, _ in attempts} == set(range(JOBS))
    again = sum(attempt > 1 for _, attempt in attempts)
    print(f"requeued {requeued}; {again} jobs were tried again")
    # A controller that comes back with an old state kills what it does not remember.
    assert again < JOBS / 10
