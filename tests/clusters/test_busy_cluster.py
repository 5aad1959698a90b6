"""A cluster that others fill: what waits there is known before anything is sent."""

from __future__ import annotations

from diana.client import Client
from tests.clusters.conftest import Clustered
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Starts, until

HOUR = "60"


def full(client: Client, site: str) -> bool:
    return any(row.site == site and row.slots and not row.free_slots for row in client.sites())


def test_a_group_goes_where_others_leave_room_and_the_cluster_says_when_it_would_start(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite
) -> None:
    beta, alpha = clustered("beta", slurm, ask_s=0.5), grid.add("alpha", 2)
    by_hand = slurm.run("sbatch", "--parsable", "-n8", f"--time={HOUR}", "-o", "/dev/null", "--wrap=sleep 600").strip()
    try:
        until(lambda: "R" in slurm.run("squeue", "-h", "-j", by_hand, "-o", "%t"), "the other's job runs", 30.0)
        grid.join()
        grid.start()
        with beta.client() as client:
            until(lambda: full(client, beta.name), "beta knows that it is full", 20.0)
            group = client.submit({**starts.job(6, then=["sleep", "1"]), "resources": {"work": 1.0}}).group
            client.wait(group, timeout_s=60.0)
            told = grid.run(beta, "explain", "--data", str(beta.data), group).stdout
    finally:
        slurm.run("scancel", by_hand)
    assert starts.sites() == {alpha.name}
    # Slurm's estimate is the end of the other's job by its time limit.
    row = next(line for line in told.splitlines() if line.startswith(beta.name) and "m" in line)
    print(told)
    assert "59m" in row or "1h" in row, told
