"""What waits in a real Slurm may still go elsewhere, and no more runs there than the operator said."""

from __future__ import annotations

import time

from tests.clusters.conftest import Clustered
from tests.clusters.slurm_site import SlurmSite
from tests.clusters.test_busy_cluster import HOUR, full
from tests.e2e.grid import Grid, Starts, until

JOBS = 12


def test_the_queued_jobs_of_a_busy_cluster_move_to_another_site_and_each_runs_once(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite
) -> None:
    beta, alpha = clustered("beta", slurm, ask_s=0.5), grid.add("alpha", 2)
    grid.join()
    grid.start()
    by_hand = slurm.run("sbatch", "--parsable", "-n7", f"--time={HOUR}", "-o", "/dev/null", "--wrap=sleep 600").strip()
    try:
        until(lambda: "R" in slurm.run("squeue", "-h", "-j", by_hand, "-o", "%t"), "the other's job runs", 30.0)
        with beta.client() as client:
            until(lambda: any(row.site == beta.name and row.slots for row in client.sites()), "beta has slots", 30.0)
            job = {**starts.job(JOBS, then=["sleep", "4"]), "placement": {"sites": [beta.name, alpha.name]}}
            alpha.stop()
            group = client.submit(job).group
            until(lambda: starts.count() >= 1, "one runs on the processor that is left", 60.0)
            queued = lambda: slurm.run("squeue", "-h", "-r", "-t", "PD", "-o", "%j").count("diana.")  # noqa: E731
            until(lambda: queued() > 0, "others wait in Slurm behind the other's job", 30.0)
            alpha.start()
            until(lambda: len(client.sites()) == 2, "alpha is back", 30.0)
            assert not full(client, alpha.name)
            began_s = time.monotonic()
            told = grid.run(beta, "move", "--data", str(beta.data), group, "--to", alpha.name).stdout
            until(lambda: not queued(), "Slurm has none of ours waiting", 30.0)
            client.wait(group, timeout_s=120.0)
            print(told, f"all done {time.monotonic() - began_s:.1f} s after the move")
    finally:
        slurm.run("scancel", by_hand)
    assert sorted(starts.indices()) == list(range(JOBS))
    at = starts.sites_of()
    assert at[beta.name] <= 3 and at[alpha.name] >= JOBS - 3, at
