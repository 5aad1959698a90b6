"""One MPI world over two sites on hosts of their own, by a real MPICH (SPEC K6): the solver of `examples/koala`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from diana.errors import Unplaceable
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.clusters.conftest import Clustered
from tests.clusters.gridengine_site import GridEngineSite
from tests.clusters.programs import missing
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, outcomes, until
from tests.real.grid.test_poisson import answer, lan, said
from tests.real.hosts import site_on
from tests.real.machines.test_three_machines import Lan, Machine

__all__ = ["lan"]

SOURCE = Path(__file__).parents[2] / "examples" / "koala" / "poisson_mpi.c"
PROGRAMS = ("mpiexec.hydra", "hydra_pmi_proxy", "mpicc.mpich")
POINTS = "32"


@pytest.fixture
def solver(tmp_path: Path) -> Path:
    lacks = missing(PROGRAMS)
    assert not lacks, f"install mpich and libmpich-dev: no {lacks[0]} here"
    program = tmp_path / "poisson"
    subprocess.run(["mpicc.mpich", "-O2", "-o", program, SOURCE, "-lm"], check=True)
    return program


def two_sites(grid: Grid, lan: Lan, *launchers: str) -> tuple[Machine, Machine]:
    alpha = site_on(grid, lan, 1, "alpha", slots=2)
    beta = site_on(grid, lan, 2, "beta", alpha, slots=2)
    for site, launcher in zip((alpha, beta), launchers, strict=True):
        config = load_config(site.paths.config)
        software = msgspec.structs.replace(config.software, mpi_over_sites=launcher)
        write_config(site.paths.config, msgspec.structs.replace(config, software=software))
        site.launch()
    for site in (alpha, beta):
        site.ready()
    grid.meet(45)
    return alpha, beta


def job(*command: str) -> dict[str, object]:
    places = [{"site": "alpha", "cpus": 2}, {"site": "beta", "cpus": 1}]
    return {"group": {"command": list(command)}, "components": places, "gang": {"runner": "mpi"}}


def test_processes_at_two_sites_are_one_world_and_their_answer_is_that_of_one_site(
    lan: Lan, grid: Grid, solver: Path
) -> None:
    launcher = shutil.which("mpiexec.hydra") or ""
    alpha, _ = two_sites(grid, lan, launcher, launcher)
    alone = subprocess.run([launcher, "-n", "1", solver, POINTS], capture_output=True, text=True, check=True).stdout
    with alpha.client() as client:
        group = client.submit(job(str(solver), POINTS)).group
        assert client.wait(group, timeout_s=90).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"done"}
        first, second = said(client, group, 2)
        ranks = sorted(line.partition(":")[0] for line in first.splitlines() if line.startswith("process "))
        assert ranks == [f"process {rank} of 3" for rank in range(3)], first
        whole, networks = answer(first).split(" from ")
        assert (answer(alone), networks) == (f"{whole} from 1 networks", "2 networks")
        assert not second
        # Each process has the folder and the environment of its own component.
        group = client.submit(job("sh", "-c", 'echo "$DIANA_SITE $PMI_RANK"; exit $PMI_RANK')).group
        assert client.wait(group, timeout_s=60).state == "failed"
        first, _ = said(client, group, 2)
        assert {*first.split("\n")} >= {"alpha 0", "alpha 1", "beta 2"}, first


def test_a_site_without_the_launcher_is_not_chosen_and_says_so(lan: Lan, grid: Grid) -> None:
    alpha, _ = two_sites(grid, lan, "mpiexec.hydra", "")
    with (
        alpha.client() as client,
        pytest.raises(Unplaceable, match="component at beta: has no launcher of MPI jobs over several sites"),
    ):
        client.submit(job("true"))


@pytest.mark.parametrize("first", ["alpha", "beta"])
@pytest.mark.parametrize("kind", ["slurm", "gridengine"])
def test_a_component_within_a_batch_system_is_of_the_same_world_wherever_the_first_is(
    grid: Grid, clustered: Clustered, request: pytest.FixtureRequest, kind: str, first: str
) -> None:
    launcher = shutil.which("mpiexec.hydra") or ""
    cluster: SlurmSite | GridEngineSite = request.getfixturevalue(kind)
    for site in (grid.add("alpha", 2), clustered("beta", cluster, address="echo 127.0.0.1")):
        config = load_config(site.paths.config)
        software = msgspec.structs.replace(config.software, mpi_over_sites=launcher)
        write_config(site.paths.config, msgspec.structs.replace(config, software=software))
    grid.join()
    grid.start()
    with grid.sites["alpha"].client() as client:
        until(lambda: sum(row.slots > 0 for row in client.sites()) == 2, "both have slots", 60.0)
        within = "${{SLURM_JOB_ID:+within slurm}}${{SGE_CELL:+within gridengine}}"
        say = f'echo "$PMI_RANK of $PMI_SIZE at $DIANA_SITE {within}"'
        places = sorted(job("x")["components"], key=lambda place: place["site"] != first)  # type: ignore[call-overload]
        group = client.submit({**job("sh", "-c", say), "components": places}).group
        ended = client.wait(group, timeout_s=90)
        assert ended.state == "done", said(client, group, 2)
        told, _ = said(client, group, 2)
    at = {"alpha": "at alpha ", "beta": f"at beta within {kind}"}
    ranks = [place["site"] for place in places for _ in range(place["cpus"])]
    assert sorted(told.splitlines()) == [f"{rank} of 3 {at[site]}" for rank, site in enumerate(ranks)], told
