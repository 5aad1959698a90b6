"""A cluster over Slurm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from diana.adapters.batch.settings import ClusterSettings
from diana.model.facts import Outcome
from diana.model.job.spec import Resources
from tests.batch.cluster_builders import ClusterSite
from tests.batch.conforming import *  # noqa: F403
from tests.batch.holding import *  # noqa: F403
from tests.clusters.slurm_site import SlurmSite
from tests.contract.lrm_builders import Site, shell


@pytest_asyncio.fixture
async def site(slurm: SlurmSite, tmp_path: Path) -> AsyncIterator[Site]:
    made: list[ClusterSite] = []

    async def make(slots: int = 2) -> ClusterSite:
        settings = ClusterSettings(
            kind="slurm", config=str(slurm.config), slots=slots, look_s=0.2, ask_s=0.5, settle_s=2.0
        )
        made.append(ClusterSite(tmp_path / str(len(made)), settings))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


async def test_jobs_that_want_gpus_have_them_to_themselves(site: Site) -> None:
    at = await site(slots=8)
    assert (at.ready().gpus, at.ready().all_gpus) == (2, 2)
    at.start(shell('echo "$SLURM_GPUS_ON_NODE"; sleep 1', resources=Resources(gpus=1)), 0, 1, 2, 3, 4)
    ends = await at.ended(5)
    assert all(end.outcome is Outcome.DONE for end in ends)
    together = max(sum(b.started_s <= a.started_s < b.ended_s for b in ends) for a in ends)
    assert together == 2
    at.start(shell("true", resources=Resources(gpus=3)), 9)
    (end,) = [end for end in await at.ended(6) if end.run.index == 9]
    assert end.error.endswith("cluster cluster has 2 GPUs for one job, a job needs 3")


async def test_variables_that_slurm_sets_are_its_own(site: Site) -> None:
    at = await site()
    given = (("SLURM_JOB_ID", "{group}.{index}"), ("SLURM_NNODES", "7"), ("SLURM_ARRAY_TASK_ID", "{index}"))
    at.start(shell("echo $SLURM_JOB_ID $SLURM_NNODES $SLURM_ARRAY_TASK_ID", environment=given), 0, 5)
    await at.ended(2)
    for index, end in at.by_index().items():
        job, nodes, task = at.log(end).split()
        assert (job.isdecimal(), nodes, task) == (True, "1", str(index))
