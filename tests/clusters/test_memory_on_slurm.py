"""Jobs that run out of memory in a real Slurm: told, tried again with more, and their peaks kept, if anybody knows."""

from __future__ import annotations

import sys

from tests.clusters.conftest import Clustered
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Site

PROGRAM = "import time; b = b'x' * (int('{mib}') << 20); print(len(b), flush=True); time.sleep(4)"


def job(*mib: int, **group: object) -> dict[str, object]:
    return {
        "group": {"command": [sys.executable, "-S", "-c", PROGRAM], **group},
        "sweep": {"mib": list(mib)},
        "resources": {"memory": "100M"},
    }


def started(grid: Grid, clustered: Clustered, slurm: SlurmSite) -> Site:
    site = clustered("beta", slurm)
    site.start()
    return site


def test_a_job_that_runs_out_of_memory_says_so_and_is_tried_again_with_more(
    grid: Grid, clustered: Clustered, slurm_of_memory: SlurmSite
) -> None:
    by_kernel = slurm_of_memory.name == "mc"
    beta = started(grid, clustered, slurm_of_memory)
    with beta.client() as client:
        group = client.submit(job(10, 250)).group
        assert client.wait(group, timeout_s=90).state == "failed", grid.story()
        small, big = sorted(client.results(group), key=lambda row: row.job)
        assert small.outcome == "done"
        assert (big.outcome, big.exit_code) == ("out_of_memory", 137), big
        cluster = f"slurm-{slurm_of_memory.name}"
        assert big.error.startswith(f"{group}.1 at site beta, cluster {cluster}: out of memory: it used "), big.error
        assert "with its children, memory is 100 MiB; diana retry --memory 2x" in big.error, big.error
        if by_kernel:
            # As much as it may have, with the files that it read.
            assert 95 << 20 < big.max_rss_bytes <= 101 << 20 and 10 << 20 < small.max_rss_bytes < 95 << 20
        else:
            assert 250 << 20 < big.max_rss_bytes < 400 << 20
        done = grid.run(beta, "retry", "--data", str(beta.data), "--memory", "4x", group)
        assert done.returncode == 0, done
        assert client.wait(group, timeout_s=90).state == "done"


def test_a_group_that_says_so_has_more_by_itself(grid: Grid, clustered: Clustered, slurm_of_memory: SlurmSite) -> None:
    beta = started(grid, clustered, slurm_of_memory)
    with beta.client() as client:
        group = client.submit(job(10, 250, retries={"out_of_memory": 2, "factor": 2})).group
        assert client.wait(group, timeout_s=120).state == "done", grid.story()
        rows = {row.job: row.attempt for row in client.results(group)}
    assert rows == {f"{group}.0": 1, f"{group}.1": 3}


def test_a_job_that_goes_on_without_the_process_that_was_ended_is_done(
    grid: Grid, clustered: Clustered, slurm_of_memory: SlurmSite
) -> None:
    if slurm_of_memory.name != "mc":
        return
    beta = started(grid, clustered, slurm_of_memory)
    script = f"{sys.executable} -S -c \"b = b'x' * (250 << 20)\"; echo it ended with $?"
    with beta.client() as client:
        given = {"group": {"command": ["sh", "-c", script]}, "resources": {"memory": "100M"}}
        group = client.submit(given).group
        assert client.wait(group, timeout_s=60).state == "done"
        text = b"".join(chunk.data for chunk in client.logs(f"{group}.0")).decode()
        assert "it ended with 137\n" in text
