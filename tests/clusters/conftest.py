"""Real clusters, each one for all tests. `make soak PARTS=clusters` installs what is missing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from diana.adapters.batch.settings import ClusterSettings
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.clusters import condor_site, gridengine_site, slurm_site
from tests.clusters.condor_site import HTCondorSite
from tests.clusters.gridengine_site import GridEngineSite
from tests.clusters.programs import missing
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.conftest import chance, grid, starts
from tests.e2e.grid import Grid, Site

__all__ = ["chance", "grid", "starts"]

Clustered = Callable[..., Site]


def folder(name: str) -> Path:
    """Which daemons of other accounts can enter: pytest closes its own whenever a run begins."""
    made = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    made.chmod(0o755)
    return made


def _up(name: str, cpus: int = 8, **more: Any) -> Iterator[SlurmSite]:
    assert not missing(slurm_site.PROGRAMS), (
        f"install slurm-wlm, slurm-client and munge: no {missing(slurm_site.PROGRAMS)[0]} here"
    )
    made = SlurmSite(folder(f"slurm-{name}"), name, cpus=cpus, **more)
    try:
        made.up()
        yield made
    finally:
        made.down()
        shutil.rmtree(made.root, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmSite]:
    yield from _up("a")


@pytest.fixture(scope="session")
def other_slurm() -> Iterator[SlurmSite]:
    yield from _up("b")


@pytest.fixture(scope="session")
def two_machines() -> Iterator[SlurmSite]:
    """A Slurm of two processors and 1,000 MiB on each of its machines."""
    yield from _up("w", cpus=2, machines=2, memory_mib=1000)


@pytest.fixture(scope="session", params=["cgroup", "gather"])
def slurm_of_memory(request: pytest.FixtureRequest) -> Iterator[SlurmSite]:
    """A Slurm that ends jobs for too much memory, the kernel's way and by looking itself."""
    yield from _up(f"m{request.param[0]}", cpus=4, memory_mib=2000, holds_memory=request.param)


@pytest.fixture(scope="session")
def gridengine() -> Iterator[GridEngineSite]:
    lacks = missing(gridengine_site.PROGRAMS)
    assert not lacks, f"install gridengine-master, gridengine-exec and gridengine-client: no {lacks[0]} here"
    made = GridEngineSite(folder("gridengine"))
    try:
        made.up()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
            yield made
    finally:
        made.down()
        shutil.rmtree(made.root, ignore_errors=True)


@pytest.fixture(scope="session")
def htcondor() -> Iterator[HTCondorSite]:
    lacks = missing(condor_site.PROGRAMS)
    assert not lacks, f"HTCondor is got and started with {lacks[0]}, which is not here"
    made = HTCondorSite(folder("htcondor"))
    try:
        made.up()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{made.bin}:{os.environ['PATH']}")
            yield made
    finally:
        made.down()
        shutil.rmtree(made.root, ignore_errors=True)


@pytest.fixture
def clustered(grid: Grid) -> Clustered:
    """Adds a site without slots of its own, before a cluster."""

    def add(name: str, cluster: SlurmSite | GridEngineSite | HTCondorSite, **more: object) -> Site:
        site = grid.add(name, 0)
        config = load_config(site.paths.config)
        settings = ClusterSettings(
            kind=cluster.kind, config=str(cluster.config), look_s=0.5, ask_s=2.0, begin_s=15.0, settle_s=3.0
        )
        settings = msgspec.structs.replace(settings, **more)
        write_config(
            site.paths.config,
            msgspec.structs.replace(config, clusters={f"{cluster.kind}-{cluster.name}": settings}, root_jobs=True),
        )
        return site

    return add
