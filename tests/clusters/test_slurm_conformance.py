"""A cluster over Slurm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from diana.adapters.batch.settings import ClusterSettings
from tests.batch.cluster_builders import ClusterSite
from tests.batch.conforming import *  # noqa: F403
from tests.clusters.slurm_site import SlurmSite
from tests.contract.test_lrm_conformance import Site


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


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch system takes seconds where a spawner takes none."""
    monkeypatch.setattr(ClusterSite.until, "__defaults__", (60.0,))
    monkeypatch.setattr(ClusterSite.ended, "__defaults__", (60.0,))
