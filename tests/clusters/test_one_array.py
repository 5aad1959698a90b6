"""One array over unlike clusters and a plain machine: one id, one status, one retry set."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.clusters.condor_site import HTCondorSite
from tests.clusters.conftest import Clustered
from tests.clusters.gridengine_site import GridEngineSite
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Site, Starts, outcomes, until

FAILING = 100
"""Every so manieth job fails the first time."""


def test_a_thousand_jobs_run_once_over_two_slurm_clusters_and_a_plain_machine(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite, other_slurm: SlurmSite, chance: random.Random
) -> None:
    goes_through(grid, starts, clustered("beta", slurm), clustered("gamma", other_slurm), chance, jobs=1000)


def test_an_array_runs_once_over_grid_engine_slurm_and_a_plain_machine(
    grid: Grid,
    starts: Starts,
    clustered: Clustered,
    gridengine: GridEngineSite,
    slurm: SlurmSite,
    chance: random.Random,
) -> None:
    goes_through(grid, starts, clustered("beta", gridengine), clustered("gamma", slurm), chance, jobs=400)


@pytest.mark.wide
def test_an_array_runs_once_over_htcondor_slurm_and_a_plain_machine(
    grid: Grid,
    starts: Starts,
    clustered: Clustered,
    htcondor: HTCondorSite,
    slurm: SlurmSite,
    chance: random.Random,
) -> None:
    goes_through(grid, starts, clustered("beta", htcondor), clustered("gamma", slurm), chance, jobs=400)


def goes_through(grid: Grid, starts: Starts, beta: Site, gamma: Site, chance: random.Random, *, jobs: int) -> None:
    """With a dataset at `beta`, and a plain machine beside the two."""
    alpha = grid.add("alpha", 2)
    grid.join()
    grid.start()
    words = grid.root / "words.txt"
    words.write_bytes(chance.randbytes(1_000_000).hex().encode())
    with beta.client() as client:
        client.add_dataset("words", [words])
    fails = f'[ $((DIANA_INDEX % {FAILING})) -ne 7 ] || [ "$DIANA_ATTEMPT" -gt 1 ] || exit 3'
    job = starts.job(jobs, then=["sh", "-c", f"{fails}; sleep 0.3; wc -c < words.txt > out-$DIANA_INDEX.txt"])
    job["inputs"] = [{"url": "dataset:words/words.txt", "path": "words.txt"}]
    job["outputs"] = {"collect": ["out-{index}.txt"], "to": str(grid.root / "out")}
    job["resources"] = {"work": 0.3}
    with alpha.client() as client:
        until(lambda: {d.name for d in client.datasets()} >= {"words"}, "alpha knows the dataset", 20.0)
        group = client.submit(job).group
        client.wait(group, timeout_s=400.0)
        failed = {index for index, how in outcomes(client, group).items() if how != "done"}
        assert failed == set(range(7, jobs, FAILING))
        assert client.retry(group) == len(failed)
        client.wait(group, timeout_s=100.0)
        ended = Counter(outcomes(client, group).values())
        print(grid.run(alpha, "status", "--data", str(alpha.data), group).stdout)
    assert ended == {"done": jobs}
    again = {index: tries for index, tries in starts.doubled().items()}
    assert set(again) == failed
    assert all([start.attempt for start in tries] == [1, 2] for tries in again.values())
    assert starts.sites() == {alpha.name, beta.name, gamma.name}
    found = {path.name: path.read_text().strip() for path in (grid.root / "out").iterdir()}
    assert found == {f"out-{index}.txt": "2000000" for index in range(jobs)}
