"""A machine puts the build of its platform in place before a job begins, or says that there is none: real shells."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.lrm.software import Software, here
from diana.adapters.lrm.spawner.protocol import UNREADY_EXIT
from diana.model.ids import SubgroupId
from diana.model.job.software import lacking, needed
from diana.model.job.spec import GroupSpec, build_path
from diana.model.layout import DataDir

OWN = os.uname().machine


def run(folder: Path, *platforms: str, script: str = 'echo "$0 $1"') -> subprocess.CompletedProcess[str]:
    """Start `./sim 7` in a directory with these builds, as a job of such a package is started."""
    spec = GroupSpec(argv=("./sim", "7"), builds=platforms, program="sim")
    for name in platforms:
        path = folder / build_path(name, "sim")
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n: {name}\n{script}\n")
        path.chmod(0o755)
    before = Software().before(spec, SubgroupId("alpha-1/0"), DataDir(folder))
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(folder), "DIANA_JOB": "alpha-1.0", "DIANA_ATTEMPT": "1"}
    return subprocess.run(
        [*before, *spec.argv], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_build_of_this_machine_runs_under_the_name_of_the_program(tmp_path: Path) -> None:
    done = run(tmp_path, "vax", OWN)
    assert (done.returncode, done.stdout) == (0, "./sim 7\n"), done.stderr
    assert os.readlink(tmp_path / "sim") == f"builds/{OWN}/sim"


def test_a_second_attempt_in_the_same_directory_finds_its_build_too(tmp_path: Path) -> None:
    (tmp_path / "sim").symlink_to("builds/vax/sim")
    assert run(tmp_path, OWN).stdout == "./sim 7\n"


def test_a_machine_without_a_build_says_so_and_starts_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "vax", "pdp11")
    assert done.returncode == UNREADY_EXIT and f"there is no build for {OWN}" in done.stderr


def test_a_machine_offers_its_platform_and_a_cluster_that_of_its_machines() -> None:
    package = needed(GroupSpec(argv=("./sim",), builds=("vax", OWN), program="sim"))
    assert not lacking([here()], package)
    assert not lacking(ClusterSettings().offer(Software(), ()), package)
    assert not lacking(ClusterSettings(platform="vax").offer(Software(), ()), package)
    assert lacking(ClusterSettings(platform="pdp11").offer(Software(), ()), package) == (
        "has no machine of platform " + " or ".join(sorted(("vax", OWN)))
    )
    # A release that knows no platforms offers none.
    assert lacking(["containers", "module *"], package)
