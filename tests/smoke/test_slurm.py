"""The real thing here: a Slurm, to which a site gives its part of an array and whose outcomes and outputs come home."""

from __future__ import annotations

import random
from pathlib import Path

from tests.clusters.conftest import Clustered
from tests.clusters.slurm_site import SlurmSite
from tests.clusters.test_one_array import goes_through
from tests.e2e.gets_and_keeps import WAITS, fetched, given, outcome, submitted
from tests.e2e.grid import Grid, Starts, until

SCRIPT = """#!/bin/sh\r
#SBATCH --output=%x-%a.out --ntasks=2\r
#SBATCH --job-name=fit --array=1-4 --partition=nowhere --constraint=avx512\r
cd $SLURM_SUBMIT_DIR && echo x > made-$SLURM_ARRAY_TASK_ID\r
echo $SLURM_JOB_NAME $SLURM_NTASKS $SLURM_CPUS_PER_TASK\r
[ $DIANA_SITE = alpha ] && echo 2 >&2 || srun echo task | grep -c task >&2\r
"""


def test_an_array_runs_once_over_slurm_and_two_plain_machines(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite, chance: random.Random
) -> None:
    goes_through(grid, starts, clustered("beta", slurm), grid.add("gamma", 2), chance, jobs=200)


def test_a_script_for_slurm_does_over_slurm_what_it_did(
    grid: Grid, clustered: Clustered, slurm: SlurmSite, chance: random.Random
) -> None:
    alpha, beta = grid.add("alpha", 2), clustered("beta", slurm)
    grid.join()
    grid.start()
    script = grid.root / "fit.slurm"
    script.write_bytes(SCRIPT.encode())
    for site in (alpha, beta):
        with alpha.client() as client:
            options = {"sites": site.name, "collect": "made-{array}"}
            done = client.submit(script, options=options)
            client.wait(done.group, timeout_s=120.0)
            assert {each.error for each in client.results(done.group)} == {""}
            to = grid.root / f"from-{site.name}"
            client.fetch(done.group, to)
        found = {str(path.relative_to(to)): path.read_text() for path in to.rglob("*") if path.is_file()}
        made = {f"made-{n}": "x\n" for n in range(1, 5)}
        said = {f"fit-{n}.out": "fit 2 1\n2\n" for n in range(1, 5)}
        assert found == made | said


def test_a_job_on_slurm_that_is_cancelled_has_the_time_to_write_what_it_has_beside_inputs_of_its_own(
    grid: Grid, clustered: Clustered, slurm: SlurmSite, tmp_path: Path
) -> None:
    beta = clustered("beta", slurm)
    grid.start()
    script = f"trap 'sleep 4; cat a.txt > late.csv; exit 0' TERM; echo more >> a.txt; echo $k > up.csv; {WAITS}"
    with beta.client() as client:
        files = given(grid, client)
        more = {"inputs": ["dataset:small/a.txt"], "group": {"environment": {"k": "mine"}}}
        group = submitted(client, script, ["*.csv"], **more)
        until(lambda: list(beta.paths.root.glob(f"jobs/{group}_*/*/0/up.csv")), lambda: f"it runs {beta.story()}")
        grid.run(beta, "cancel", "--data", str(beta.data), group)
        assert outcome(client, group) == ("cancelled", "")
        assert fetched(client, group, tmp_path) == {"0/up.csv": "mine\n", "0/late.csv": "given\nmore\n"}
    assert {path.read_bytes() == content for path, content in files.items()} == {True}
