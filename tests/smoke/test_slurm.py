"""The real thing here: a Slurm, to which a site gives its part of an array and whose outcomes and outputs come home."""

from __future__ import annotations

import random

from tests.clusters.conftest import Clustered
from tests.clusters.slurm_site import SlurmSite
from tests.clusters.test_one_array import goes_through
from tests.e2e.grid import Grid, Starts


def test_an_array_runs_once_over_slurm_and_two_plain_machines(
    grid: Grid, starts: Starts, clustered: Clustered, slurm: SlurmSite, chance: random.Random
) -> None:
    goes_through(grid, starts, clustered("beta", slurm), grid.add("gamma", 2), chance, jobs=200)
