"""A cluster over Grid Engine."""

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
from tests.clusters.gridengine_site import GridEngineSite
from tests.contract.lrm_builders import Site, shell


@pytest_asyncio.fixture
async def site(gridengine: GridEngineSite, tmp_path: Path) -> AsyncIterator[Site]:
    made: list[ClusterSite] = []

    async def make(slots: int = 2) -> ClusterSite:
        settings = ClusterSettings(
            kind="gridengine",
            config=str(gridengine.config),
            slots=slots,
            look_s=0.2,
            ask_s=0.5,
            settle_s=2.0,
            gpu_resource="gpu",
        )
        made.append(ClusterSite(tmp_path / str(len(made)), settings))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


async def test_a_job_of_several_processors_has_them_on_one_machine(site: Site) -> None:
    at = await site(slots=8)
    at.start(shell('echo "$NSLOTS"', resources=Resources(processors=3)), 0)
    (end,) = await at.ended(1)
    assert (end.outcome, at.log(end).strip()) == (Outcome.DONE, "3")


async def test_jobs_that_want_gpus_have_them_to_themselves(site: Site, tmp_path: Path) -> None:
    at, marks = await site(slots=8), tmp_path / "marks"
    assert (at.ready().gpus, at.ready().all_gpus) == (2, 2)
    script = f'echo "+$DIANA_INDEX" >> {marks}; sleep 1; echo "-$DIANA_INDEX" >> {marks}'
    at.start(shell(script, resources=Resources(gpus=1)), 0, 1, 2, 3)
    at.start(shell(script, resources=Resources(gpus=2, processors=3)), 4)
    assert {end.outcome for end in await at.ended(5)} == {Outcome.DONE}
    used = most = 0
    for line in marks.read_text().split():
        used += (2 if line[1:] == "4" else 1) * (1 if line[0] == "+" else -1)
        most = max(most, used)
    assert (used, most) == (0, 2)
    at.start(shell("true", resources=Resources(gpus=3)), 9)
    await at.until(lambda: 9 in at.by_index())
    assert at.by_index()[9].outcome is Outcome.NOT_STARTED
    assert "has 2 GPUs for one job, a job needs 3" in at.by_index()[9].error


async def test_a_job_that_asks_for_memory_runs(site: Site) -> None:
    at = await site()
    at.start(shell("true", resources=Resources(memory_bytes=100 << 20)), 0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.DONE


async def test_exit_codes_that_are_orders_to_it_are_those_of_the_job_and_leave_nothing_behind(
    site: Site, gridengine: GridEngineSite
) -> None:
    at = await site()
    at.start(shell("exit $((98 + DIANA_INDEX))"), 1, 2)
    ends = await at.ended(2)
    assert {end.run.index: (end.outcome, end.exit_code) for end in ends} == {
        1: (Outcome.FAILED, 99),
        2: (Outcome.FAILED, 100),
    }
    await at.until(lambda: not gridengine.run("qstat").strip())
