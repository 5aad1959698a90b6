"""A cluster as the conformance suite sees it: `ClusterLrm` over a batch system that really runs."""

from __future__ import annotations

import time
from pathlib import Path

from diana.adapters.batch.cluster import ClusterLrm
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.kinds import make
from diana.engine.journal.events import Event
from diana.model.layout import DataDir
from tests.contract.lrm_builders import ALPHA, RealSite


class ClusterSite(RealSite):
    """Its slots are limited to what a test asks for."""

    worker = "cluster"
    brief_s = 3.0

    def __init__(self, root: Path, settings: ClusterSettings) -> None:
        self.data = DataDir(root)
        for folder in (self.data.logs_root, root / "jobs"):
            folder.mkdir(parents=True, exist_ok=True)
        self.settings = settings
        self.slots = settings.slots
        self.events: list[Event] = []
        self.lrm: ClusterLrm = self._cluster()  # type: ignore[assignment]

    def _cluster(self) -> ClusterLrm:
        system = make(self.settings, "site.toml:clusters.cluster")
        return ClusterLrm(self.data, ALPHA, "cluster", self.settings, system, self.events.append, time.monotonic)

    async def up(self) -> None:
        await self.lrm.connect()
        await self.until(lambda: self.readies() > 0)

    async def node_up(self) -> None:
        before = self.readies()
        self.lrm = self._cluster()  # type: ignore[assignment]
        await self.lrm.connect()
        await self.until(lambda: self.readies() > before)

    async def down(self) -> None:
        self.kill(*range(2000))
        await self.lrm.close()
