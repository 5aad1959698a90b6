"""Jobs that wait in a real Slurm may still go elsewhere."""

from __future__ import annotations

from collections import Counter

from tests.clusters.conftest import Clustered
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Starts, until

JOBS, CPUS = 20, 8


def test_jobs_queued_in_a_busy_cluster_move_to_another_site_and_every_job_runs_once(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite
) -> None:
    beta, alpha = clustered("beta", slurm), grid.add("alpha", 4)
    grid.join()
    grid.start()
    grid.meet()
    data, go = ("--data", str(alpha.data)), grid.root / "go"
    grid.run(alpha, "site", "drain", *data)

    def queued() -> int:
        return slurm.run("squeue", "-h", "-r", "-t", "PD", "-o", "%j").count("diana.")

    with beta.client() as client:
        until(
            lambda: any(row.site == beta.name and row.slots == CPUS for row in client.sites()), "Slurm is there", 30.0
        )
        until(lambda: all(bool(row.note) == (row.site == alpha.name) for row in client.sites()), "alpha drains", 30.0)
        waits = ["sh", "-c", 'while ! test -e "$0"; do sleep 0.2; done', str(go)]
        group = client.submit(starts.job(JOBS, then=waits, bind="early")).group
        starts.wait_for(CPUS)
        until(lambda: queued() >= CPUS, "as many wait in Slurm as run", 30.0)
        grid.run(alpha, "site", "undrain", *data)
        until(lambda: not any(row.note for row in client.sites()), "alpha takes work", 30.0)
        assert starts.count() == CPUS
        print(grid.run(beta, "move", "--data", str(beta.data), group, "--to", alpha.name).stdout)
        until(lambda: not queued(), "nothing of it waits in Slurm any more", 20.0)
        go.touch()
        client.wait(group, timeout_s=120.0)
    assert not starts.doubled()
    assert Counter(start.site for start in starts.all()) == {beta.name: CPUS, alpha.name: JOBS - CPUS}
    assert {start.index for start in starts.all()} == set(range(JOBS))
