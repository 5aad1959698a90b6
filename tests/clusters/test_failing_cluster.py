"""A cluster where every job fails at once keeps little of a group from the sites that do well."""

from __future__ import annotations

from tests.clusters.conftest import Clustered
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Starts, outcomes

JOBS = 400


def test_a_cluster_that_fails_every_job_gets_ten_of_a_group(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite
) -> None:
    """2 % of 400 would be 8; ten are for its ramp and for trying it again."""
    alpha, beta = grid.add("alpha", 4), clustered("beta", slurm)
    grid.join()
    grid.start()
    job = starts.job(JOBS, then=["sh", "-c", f'[ "$DIANA_SITE" != {beta.name} ] || exit 1; sleep 0.2'])
    # Of so long a job a failure within ten seconds is one at once, also where this machine is slow to start it.
    job["resources"] = {"work": 100}
    with alpha.client() as client:
        group = client.submit(job).group
        client.wait(group, timeout_s=200.0)
        failed = {index for index, how in outcomes(client, group).items() if how != "done"}
        print(grid.run(alpha, "explain", "--data", str(alpha.data), group).stdout)
    assert 1 <= len(failed) <= 10
    assert {start.site for start in starts.all() if start.index in failed} == {beta.name}
