"""Licences of real batch systems, and of plain machines: never are more held at once than there are."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from diana.adapters.batch.settings import ClusterSettings
from diana.model.facts import Outcome
from diana.model.job.spec import GroupSpec, Resources
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.batch.cluster_builders import ClusterSite
from tests.clusters.conftest import Clustered
from tests.clusters.gridengine_site import GridEngineSite
from tests.clusters.slurm_site import SlurmSite
from tests.contract.lrm_builders import shell
from tests.e2e.grid import Grid, Site

Cluster = Callable[..., Awaitable[ClusterSite]]


def most_at_once(marks: Path) -> int:
    used = most = 0
    for line in marks.read_text().split():
        used += 1 if line[0] == "+" else -1
        most = max(most, used)
    assert used == 0
    return most


def holding(marks: Path, seconds: float = 0.5) -> str:
    return f'echo "+$DIANA_INDEX" >> {marks}; sleep {seconds}; echo "-$DIANA_INDEX" >> {marks}'


def shares(site: Site, **licences: int) -> Site:
    config = load_config(site.paths.config)
    settings = msgspec.structs.replace(config.settings, licences=licences)
    write_config(site.paths.config, msgspec.structs.replace(config, settings=settings))
    return site


def job(script: str, jobs: int, licences: dict[str, int], **group: object) -> dict[str, object]:
    return {
        "group": {"command": ["sh", "-c", script], **group},
        "sweep": {"array": f"0-{jobs - 1}"},
        "resources": {"licences": licences, "work": 1.0},
    }


def test_a_group_is_spread_over_the_licences_of_machines_slurm_and_grid_engine(
    grid: Grid, clustered: Clustered, slurm: SlurmSite, gridengine: GridEngineSite, tmp_path: Path
) -> None:
    alpha = shares(grid.add("alpha", 6), matlab=1)
    clustered("beta", slurm)
    clustered("gamma", gridengine, licences={"matlab": "matlab"})
    grid.join()
    grid.start()
    for site, there in (("alpha", 1), ("beta", 2), ("gamma", 2)):
        marks = tmp_path / f"marks-{site}"
        with alpha.client() as client:
            group = client.submit(job(holding(marks), 6, {"matlab": 1}, sites=[site])).group
            status = client.wait(group, timeout_s=120)
            told = [(result.index, result.outcome, result.error) for result in client.results(group)]
        assert (status.state, status.done) == ("done", 6), told
        assert most_at_once(marks) == there
    with alpha.client() as client:
        plan = client.plan(job("true", 1, {"matlab": 2}))
    told_of = {row.site: row.rejected for row in plan.candidates}
    assert told_of == {"alpha": "has 1 of the 2 licences of matlab a job needs", "beta": "", "gamma": ""}


@pytest_asyncio.fixture
async def cluster(slurm: SlurmSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    # A batch system takes seconds where a spawner takes none.
    monkeypatch.setattr(ClusterSite.until, "__defaults__", (60.0,))
    monkeypatch.setattr(ClusterSite.ended, "__defaults__", (60.0,))
    made: list[ClusterSite] = []

    async def make(**more: object) -> ClusterSite:
        settings = ClusterSettings(config=str(slurm.config), slots=8, look_s=0.2, ask_s=0.5, settle_s=2.0)
        made.append(ClusterSite(tmp_path / str(len(made)), msgspec.structs.replace(settings, **more)))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()


def wanting(script: str, **licences: int) -> GroupSpec:
    return shell(script, resources=Resources(licences=tuple(sorted(licences.items()))))


async def test_slurm_is_told_which_licences_a_job_holds_and_tells_how_many_there_are(
    cluster: Cluster, slurm: SlurmSite, tmp_path: Path
) -> None:
    at, marks = await cluster(licences={"toolbox": "mdcs@flex"}), tmp_path / "marks"
    assert {"licence matlab 2", "licence toolbox 3", "licences"} <= set(at.ready().software or ())
    others = subprocess.Popen(
        ["srun", "--licenses=matlab:1", "-n1", "sleep", "4"], env={**slurm.environment}, stderr=subprocess.DEVNULL
    )
    at.start(wanting(holding(marks, 1.0), matlab=1, toolbox=2), 0, 1)
    await at.until(lambda: "mdcs@flex:2" in slurm.run("squeue", "-h", "-o", "%W"))
    ends = await at.ended(2)
    # One of ours at a time, for what others hold of one and for how many there are of the other.
    assert {end.outcome for end in ends} == {Outcome.DONE} and most_at_once(marks) == 1
    assert others.wait(timeout=60) == 0
    at.start(wanting("true", matlab=3), 9)
    await at.until(lambda: 9 in at.by_index())
    assert "has 2 of the 3 licences of matlab a job needs" in at.by_index()[9].error
