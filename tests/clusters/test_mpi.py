"""MPI jobs of MPICH, started by what each site has for that: mpirun on a machine and in Grid Engine, srun in Slurm."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.lrm.software import Software
from diana.model.facts import Outcome
from diana.model.job.spec import GroupSpec, Resources
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.batch.cluster_builders import ClusterSite
from tests.clusters.conftest import Clustered
from tests.clusters.gridengine_site import GridEngineSite
from tests.clusters.programs import missing
from tests.clusters.slurm_site import SlurmSite
from tests.contract.lrm_builders import Site as Cluster
from tests.contract.lrm_builders import shell
from tests.e2e.grid import Grid, Site, outcomes, until

LIBRARY = "libmpich.so.12"
MPIRUN = "mpirun.mpich -n {n}"
SRUN = "srun --mpi=pmi2"
RANKS = 4

PROGRAM = f"""\
import ctypes, os, sys

WORLD, INT, SUM = 0x44000000, 0x4C000405, 0x58000003  # as MPICH's mpi.h has them
mpi = ctypes.CDLL("{LIBRARY}")
mpi.MPI_Init(None, None)
rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(WORLD, ctypes.byref(rank))
mpi.MPI_Comm_size(WORLD, ctypes.byref(size))
mpi.MPI_Allreduce(ctypes.byref(ctypes.c_int(rank.value + 1)), ctypes.byref(total), 1, INT, SUM, WORLD)
where = os.environ.get("SLURMD_NODENAME", "here")
text = f"{{rank.value}} of {{size.value}} at {{where}}: {{total.value}} at {{os.environ['DIANA_SITE']}}\\n"
with open(f"rank-{{rank.value}}", "w") as file:
    file.write(text)
mpi.MPI_Barrier(WORLD)
if rank.value == 0:
    with open(f"out-{{os.environ['DIANA_INDEX']}}", "w") as file:
        file.writelines(open(f"rank-{{number}}").read() for number in range(size.value))
mpi.MPI_Finalize()
"""


@pytest.fixture(autouse=True)
def installed() -> None:
    assert not missing(["mpirun.mpich"]), "install mpich: no mpirun.mpich here"


def launches(site: Site, words: str) -> Site:
    config = load_config(site.paths.config)
    write_config(site.paths.config, msgspec.structs.replace(config, software=Software(mpi=words)))
    return site


def job(program: Path, *command: str, jobs: int = 1, **group: object) -> dict[str, object]:
    asked: dict[str, object] = {
        "group": {"command": command or ["/usr/bin/python3", program.name], "mpi": True, **group},
        "sweep": {"array": f"0-{jobs - 1}"},
        "resources": {"processors": RANKS, "work": 1.0},
    }
    if not command:
        asked |= {"inputs": [str(program)], "outputs": {"collect": ["out-{array}"]}}
    return asked


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "ranks.py"
    path.write_text(PROGRAM)
    return path


def test_the_launcher_of_each_site_starts_all_ranks_of_a_job_as_one_run_and_sites_without_one_get_none(
    grid: Grid,
    clustered: Clustered,
    two_machines: SlurmSite,
    gridengine: GridEngineSite,
    program: Path,
    tmp_path: Path,
) -> None:
    alpha = grid.add("alpha", 8)
    launches(grid.add("beta", RANKS), MPIRUN)
    clustered("gamma", two_machines, mpi=SRUN)
    clustered("delta", gridengine, mpi=MPIRUN, mpi_environment="mpi")
    grid.join()
    grid.start()
    for site, machines in (("beta", {"here"}), ("gamma", {"w-n1", "w-n2"}), ("delta", {"here"}), ("", set())):
        results = tmp_path / f"results-{site}"
        asked = job(program, jobs=2, sites=[site] if site else [])
        asked["outputs"] = {"collect": ["out-{array}"], "to": str(results)}
        with alpha.client() as client:
            group = client.submit(asked).group
            status = client.wait(group, timeout_s=120)
            told = [(result.index, result.outcome, result.error) for result in client.results(group)]
        assert (status.state, status.done) == ("done", 2), told
        for index in range(2):
            lines = (results / f"out-{index}").read_text().splitlines()
            ran = lines[0].rpartition(" ")[2]
            assert ran in ([site] if site else ("beta", "gamma", "delta"))
            said = [line.split(" at ") for line in lines]
            # Each knows the sum of all: they were one job.
            assert [(head, tail) for head, _, tail in said] == [(f"{rank} of {RANKS}", ran) for rank in range(RANKS)]
            assert all(middle.endswith(": 10") for _, middle, _ in said)
            assert not machines or {middle.partition(":")[0] for _, middle, _ in said} == machines
    with alpha.client() as client:
        plan = client.plan(job(program))
    told_of = {row.site: row.rejected for row in plan.candidates}
    assert told_of["alpha"] == "has no launcher of MPI jobs"


def test_a_launcher_that_is_not_there_is_told_with_its_name_its_site_and_the_mend(grid: Grid, program: Path) -> None:
    alpha = launches(grid.add("alpha", RANKS), "/opt/mpi/bin/mpirun -n {n}")
    grid.start()
    with alpha.client() as client:
        group = client.submit(job(program)).group
        client.wait(group, timeout_s=60)
        assert outcomes(client, group) == {0: "not_started"}
    said = grid.run(alpha, "logs", "--data", str(alpha.data), f"{group}.0").stdout
    assert "/opt/mpi/bin/mpirun, which starts MPI jobs, is not on this machine of site alpha; have its operator" in said


def test_what_a_launcher_says_stands_in_the_log_of_the_job(grid: Grid, program: Path) -> None:
    alpha = launches(grid.add("alpha", RANKS), MPIRUN)
    grid.start()
    with alpha.client() as client:
        group = client.submit(job(program, "/no/such/{array}")).group
        client.wait(group, timeout_s=60)
        assert outcomes(client, group) == {0: "failed"}
    said = grid.run(alpha, "logs", "--data", str(alpha.data), f"{group}.0").stdout
    assert "execvp error on file /no/such/0" in said


def sleeping(mark: str) -> int:
    found = subprocess.run(["pgrep", "-f", "-c", f"^sleep {mark}"], capture_output=True, text=True, check=False)
    return int(found.stdout)


def test_a_cancelled_job_leaves_no_rank_behind(grid: Grid, program: Path) -> None:
    alpha = launches(grid.add("alpha", RANKS), MPIRUN)
    grid.start()
    mark = "31415.1"
    with alpha.client() as client:
        group = client.submit(job(program, "sh", "-c", f"trap '' TERM; sleep {mark}; true")).group
        until(lambda: sleeping(mark) == RANKS, "all ranks run", 30.0)
        client.cancel(group)
        client.wait(group, timeout_s=60)
        assert outcomes(client, group) == {0: "cancelled"}
    until(lambda: not sleeping(mark), "all ranks are gone", 10.0)


# --- on the cluster itself -----------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def cluster(two_machines: SlurmSite, tmp_path: Path) -> AsyncIterator[Cluster]:
    made: list[ClusterSite] = []

    async def make(slots: int = 4) -> ClusterSite:
        settings = ClusterSettings(
            config=str(two_machines.config), slots=slots, look_s=0.2, ask_s=0.5, settle_s=2.0, mpi=SRUN
        )
        made.append(ClusterSite(tmp_path / str(len(made)), settings))
        await made[-1].up()
        return made[-1]

    yield make
    for each in made:
        await each.down()
        shutil.rmtree(each.data.root, ignore_errors=True)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch system takes seconds where a spawner takes none."""
    monkeypatch.setattr(ClusterSite.until, "__defaults__", (60.0,))
    monkeypatch.setattr(ClusterSite.ended, "__defaults__", (60.0,))


def parallel(script: str, processors: int = RANKS, **resources: float) -> GroupSpec:
    wants = Resources(processors=processors, **resources)  # type: ignore[arg-type]
    return msgspec.structs.replace(shell(script, resources=wants), mpi=True)


@pytest.mark.usefixtures("patient")
async def test_a_killed_or_late_job_ends_on_all_its_machines(cluster: Cluster) -> None:
    at = await cluster()
    assert at.ready().widest == 2 and "mpi" in (at.ready().software or ())
    at.start(parallel("trap '' TERM; sleep 27182.8; true"), 0)
    await at.until(lambda: sleeping("27182.8") == RANKS)
    at.kill(0)
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.CANCELLED
    await at.until(lambda: not sleeping("27182.8"))
    at.start(parallel("sleep 27182.9", time_limit_s=3.0), 1)
    (end,) = [each for each in await at.ended(2) if each.run.index == 1]
    assert end.outcome is Outcome.TIMED_OUT
    await at.until(lambda: not sleeping("27182.9"))


@pytest.mark.usefixtures("patient")
async def test_the_exit_code_of_a_rank_is_that_of_the_run_and_one_too_wide_for_all_machines_is_refused(
    cluster: Cluster,
) -> None:
    at = await cluster()
    at.start(parallel('echo "rank $SLURM_PROCID"; [ $SLURM_PROCID != 3 ] || exit 7'), 0)
    at.start(parallel("true", processors=5), 1)
    ends = {end.run.index: end for end in await at.ended(2)}
    assert (ends[0].outcome, ends[0].exit_code) == (Outcome.FAILED, 7)
    assert {f"rank {rank}" for rank in range(RANKS)} <= set(at.log(ends[0]).splitlines())
    assert (ends[1].outcome, "has 4 of the 5 processors a job needs" in ends[1].error) == (Outcome.NOT_STARTED, True)


@pytest.mark.usefixtures("patient")
async def test_memory_of_a_job_over_several_machines_is_that_of_all_and_one_of_gpus_stays_on_one(
    cluster: Cluster, two_machines: SlurmSite
) -> None:
    at = await cluster()
    at.start(parallel("sleep 4", memory_bytes=1600 << 20), 0)

    def asked() -> str:
        jobs = two_machines.run("squeue", "-h", "-o", "%A").split()
        return two_machines.run("scontrol", "show", "job", jobs[0]) if jobs else ""

    await at.until(lambda: "MinMemoryCPU=400M" in asked())
    (end,) = await at.ended(1)
    assert end.outcome is Outcome.DONE
    at.start(parallel('echo "$SLURM_PROCID $SLURM_NNODES"', processors=2, gpus=2), 1)
    (end,) = [each for each in await at.ended(2) if each.run.index == 1]
    assert end.outcome is Outcome.DONE and set(at.log(end).splitlines()) == {"0 1", "1 1"}
