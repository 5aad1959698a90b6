"""The commands that a site's launcher of MPI jobs is put before, and the word where it is not there: real shells."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.lrm.software import Software, here
from diana.adapters.lrm.spawner.protocol import UNREADY_EXIT, UNREADY_FILE
from diana.model.ids import SubgroupId
from diana.model.job.spec import GroupSpec, Resources
from diana.model.layout import DataDir

PART = SubgroupId("alpha-1/0")


def spec(container: str = "", *modules: str, gpus: int = 0) -> GroupSpec:
    wants = Resources(processors=3, gpus=gpus)
    return GroupSpec(argv=("true",), mpi=True, container=container, modules=modules, resources=wants)


def run(software: Software, asked: GroupSpec, cwd: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(cwd), "DIANA_JOB": "alpha-1.0", "DIANA_ATTEMPT": "1"}
    before = software.before(asked, PART, DataDir(cwd / "data"))
    return subprocess.run(
        [*before, *argv],
        cwd=cwd,
        env={**environment, "DIANA_SITE": "alpha"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_launcher_becomes_the_job_and_is_told_how_many_processes_it_has(tmp_path: Path) -> None:
    launcher = tmp_path / "launch"
    launcher.write_text('#!/bin/sh\necho "$1|$2|$3|$4"\n')
    launcher.chmod(0o755)
    done = run(Software(mpi=f"{launcher} -n {{n}} 'a  b'"), spec(), tmp_path, "solve")
    assert (done.returncode, done.stdout) == (0, "-n|3|a  b|solve\n"), done.stderr
    # A module may bring it.
    line = f"PATH={tmp_path}:$PATH"
    done = run(Software(modules={"mpich": line}, mpi="launch {n}"), spec("", "mpich"), tmp_path, "solve")
    assert (done.returncode, done.stdout) == (0, "3|solve||\n"), done.stderr


def test_a_launcher_that_is_not_there_is_told_with_its_site_and_the_job_did_not_begin(tmp_path: Path) -> None:
    done = run(Software(mpi="no-such-mpirun -n {n}"), spec(), tmp_path, "touch", "began")
    assert done.returncode == UNREADY_EXIT
    assert done.stderr == (
        "diana: no-such-mpirun, which starts MPI jobs, is not on this machine of site alpha; "
        "have its operator install it there, or name another in its site.toml (mpi)\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == [f"{UNREADY_FILE}.alpha-1.0.1"]


def test_each_process_is_in_the_image_where_the_program_for_containers_becomes_what_it_runs(tmp_path: Path) -> None:
    for name, text in (("launch", 'for i in 1 2 3; do "$@"; done'), ("apptainer", 'echo "$1 of ${DIANA_JOB}"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    software = Software(container="apptainer", modules={"here": f"PATH={tmp_path}:$PATH"}, mpi="launch")
    done = run(software, spec("docker://image", "here"), tmp_path, "solve")
    assert (done.returncode, done.stdout) == (0, "exec of alpha-1.0\n" * 3), done.stderr
    with pytest.raises(ValueError, match="whose processes no launcher can start in podman"):
        Software(container="podman", mpi="launch").before(spec("image"), PART, DataDir(tmp_path))
    with pytest.raises(ValueError, match="its operator has named no launcher"):
        Software().before(spec(), PART, DataDir(tmp_path))


def test_a_site_offers_it_where_it_has_a_launcher_and_a_cluster_by_its_own_alone() -> None:
    site = Software(container="podman", modules={"root": "true"}, mpi="mpirun -n {n}")
    assert site.offered() == ("containers", "module root", "mpi")
    assert Software(container="singularity", mpi="mpirun {n}").offered() == ("containers", "mpi", "mpi in containers")
    assert ClusterSettings().offer(Software(modules={"root": "true"}), ()) == ("module root", here(), "licences")
    assert ClusterSettings().offer(site, [("matlab", 2)])[3:] == ("licence matlab 2", "licences")
    assert ClusterSettings(mpi="srun").offer(Software(), ()) == ("mpi", here(), "licences")
    assert ClusterSettings(mpi="srun", software=Software(container="apptainer")).offer(site, ()) == (
        "containers",
        "mpi",
        "mpi in containers",
        here(),
        "licences",
    )
