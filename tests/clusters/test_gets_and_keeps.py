"""A job on a real cluster gets inputs of its own, and what it made is kept, as on plain machines."""

from __future__ import annotations

from pathlib import Path

from tests.clusters.conftest import Clustered
from tests.clusters.gridengine_site import GridEngineSite
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.gets_and_keeps import copies_little, gets_and_keeps
from tests.e2e.grid import Grid


def test_a_job_on_slurm_gets_inputs_of_its_own_and_what_it_made_is_kept(
    grid: Grid, clustered: Clustered, slurm: SlurmSite, tmp_path: Path
) -> None:
    beta = copies_little(clustered("beta", slurm))
    grid.start()
    gets_and_keeps(grid, beta, tmp_path)


def test_a_job_on_grid_engine_gets_inputs_of_its_own_and_what_it_made_is_kept_but_after_a_cancel_nothing_more(
    grid: Grid, clustered: Clustered, gridengine: GridEngineSite, tmp_path: Path
) -> None:
    beta = copies_little(clustered("beta", gridengine))
    grid.start()
    gets_and_keeps(grid, beta, tmp_path, warned=False)
