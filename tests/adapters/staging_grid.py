"""Builders for staging tests: sites with real stagers, real gRPC servers on loopback, real files."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import NamedTuple

import grpc

from diana.adapters.staging.catalogue.catalogue import Catalogue
from diana.adapters.staging.catalogue.holdings import DataReader
from diana.adapters.staging.limits import StagingLimits
from diana.adapters.staging.stager import FileStager
from diana.engine.journal.effects import Gather, LookUp, StageIn
from diana.engine.journal.events import Event, LookedUp, OutputsInCatalogue, StageDone
from diana.model.data import DataFile, Fetch, RegisteredDataset
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of
from diana.model.layout import DataDir
from diana.wire.pb import data_pb2_grpc

QUICK = StagingLimits(stall_s=5.0, patience_s=0.4, retry_first_s=0.02, retry_most_s=0.1, reserve_bytes=0)
SUBGROUP = SubgroupId("alpha-1/0")


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def noise(size_bytes: int, seed: int = 1) -> bytes:
    """The same bytes for the same seed, never compressible."""
    block = hashlib.shake_256(str(seed).encode()).digest(min(size_bytes, 1 << 16) or 1)
    return (block * (size_bytes // len(block) + 1))[:size_bytes]


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


class Held(NamedTuple):
    dataset: RegisteredDataset
    files: tuple[DataFile, ...]


class TestSite:
    """A stager with what it emitted, and its serving side on loopback when started."""

    __test__ = False

    def __init__(self, name: str, root: Path, limits: StagingLimits = QUICK) -> None:
        self.site = SiteId(name)
        self.data = DataDir(root / name)
        self.data.root.mkdir(parents=True, mode=0o700, exist_ok=True)
        self.events: asyncio.Queue[StageDone] = asyncio.Queue()
        self.looked: asyncio.Queue[LookedUp] = asyncio.Queue()
        self.catalogued: asyncio.Queue[OutputsInCatalogue] = asyncio.Queue()
        self.samples: list[tuple[SiteId, int, float]] = []
        self.ways: dict[SiteId, str] = {}
        self.channels: dict[SiteId, grpc.aio.Channel] = {}
        self.server: grpc.aio.Server | None = None
        self.port = 0
        self.reader: Callable[[], DataReader] = lambda: DataReader("site", "alpha")
        self.stager = FileStager(self.data, self.site, self._emit, self._channel, self._observe, limits)
        self._ticket = 0

    def _emit(self, event: Event) -> None:
        if isinstance(event, LookedUp):
            self.looked.put_nowait(event)
            return
        if isinstance(event, OutputsInCatalogue):
            self.catalogued.put_nowait(event)
            return
        assert isinstance(event, StageDone)
        self.events.put_nowait(event)

    def _observe(self, site: SiteId, size_bytes: int, took_s: float) -> None:
        self.samples.append((site, size_bytes, took_s))

    def _channel(self, site: SiteId) -> grpc.aio.Channel | None:
        if site not in self.ways:
            return None
        if site not in self.channels:
            options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 100)]
            self.channels[site] = grpc.aio.insecure_channel(self.ways[site], options=options)
        return self.channels[site]

    async def register(self, name: str, paths: list[Path], *, new_version: bool = False) -> Held:
        return self.held(await self.stager.register(name, paths, new_version=new_version))

    def held(self, dataset: RegisteredDataset) -> Held:
        """The dataset with its files, each as a unit of its own."""
        with closing(Catalogue(self.data.catalogue)) as catalogue:
            found = catalogue.by_digest(dataset.digest)
            assert found is not None
            rows = [file for page in catalogue.pages(found.number) for file in page]
        return Held(dataset, tuple(DataFile(f"dataset:{dataset.name}/{f.name}", f.size_bytes, f.sha256) for f in rows))

    async def look_up(self, *refs: str, owner: str = "") -> LookedUp:
        self.stager.look_up(LookUp(ticket=self.ticket(), refs=refs, owner=owner))
        return await asyncio.wait_for(self.looked.get(), 60)

    async def serve(self, port: int = 0) -> int:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        service = self.stager.service(lambda _: self.reader())
        data_pb2_grpc.add_DataServicer_to_server(service, server)  # type: ignore[no-untyped-call]
        self.port = server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        self.server = server
        return self.port

    async def stop_serving(self) -> None:
        if self.server is not None:
            await self.server.stop(None)
            self.server = None

    async def close(self) -> None:
        for channel in self.channels.values():
            await channel.close()
        await self.stop_serving()
        await self.stager.close()

    async def idle(self) -> None:
        """Until no order and no deletion is under way."""
        stager = self.stager
        while tasks := [task for task, _ in stager._tickets.values()] + [*stager._closing, *stager._drops]:
            await asyncio.wait(tasks)

    def knows(self, other: TestSite) -> None:
        self.ways[other.site] = f"127.0.0.1:{other.port}"

    def ticket(self) -> int:
        self._ticket += 1
        return self._ticket

    async def done(self, within_s: float = 60.0) -> StageDone:
        return await asyncio.wait_for(self.events.get(), within_s)

    async def stage(self, *files: Fetch, subgroup: SubgroupId = SUBGROUP, owner: str = "") -> StageDone:
        self.stager.stage_in(StageIn(ticket=self.ticket(), subgroup=subgroup, files=files, owner=owner))
        return await self.done()

    async def gather(
        self, source: SiteId, key: FactsKey, facts: Facts, to: Path | str = "", replaced: Sequence[OutputFile] = ()
    ) -> StageDone:
        self.stager.gather(Gather(ticket=self.ticket(), source=source, key=key, to=str(to)), facts, replaced)
        return await self.done()

    def staged(self, *parts: str, subgroup: SubgroupId = SUBGROUP) -> Path:
        return self.data.staged(subgroup).joinpath(*parts)

    def parts_left(self) -> list[Path]:
        """Unfinished files anywhere below the data directory."""
        return leftovers(self.data.root)


def leftovers(root: Path) -> list[Path]:
    return [Path(at, name) for at, _, names in os.walk(root) for name in names if name.startswith(".diana-part-")]


@asynccontextmanager
async def grid(root: Path, *names: str, limits: StagingLimits = QUICK) -> AsyncIterator[list[TestSite]]:
    """Sites that serve and all know each other."""
    sites = [TestSite(name, root, limits) for name in names]
    try:
        for site in sites:
            await site.serve()
        for site in sites:
            for other in sites:
                if other is not site:
                    site.knows(other)
        yield sites
    finally:
        for site in sites:
            await site.close()


def fetch(ref: str, content: bytes, *sources: str, size_bytes: int | None = None) -> Fetch:
    size = len(content) if size_bytes is None else size_bytes
    return Fetch(DataFile(ref, size, sha(content)), tuple(SiteId(s) for s in sources))


def fetches(files: tuple[DataFile, ...], *sources: str) -> list[Fetch]:
    return [Fetch(file, tuple(SiteId(s) for s in sources)) for file in files]


def facts_key(subgroup: SubgroupId = SUBGROUP, epoch: int = 1, batch: int = 0) -> FactsKey:
    return FactsKey(group_of(subgroup), subgroup, epoch, batch)


def facts(site: str, outputs: dict[str, bytes]) -> Facts:
    """One finished job with these outputs."""
    return Facts(
        site=SiteId(site),
        indices=[0],
        attempts=[1],
        outcomes=[1],
        exit_codes=[0],
        started_s=[0.0],
        ended_s=[1.0],
        cpu_s=[0.0],
        max_rss_bytes=[0],
        log_segments=[""],
        log_offsets=[0],
        log_lengths=[0],
        log_truncated=[False],
        outputs=[OutputFile(0, name, len(data), sha(data)) for name, data in outputs.items()],
    )


def collect(site: TestSite, outputs: dict[str, bytes], key: FactsKey | None = None) -> Facts:
    """Put outputs where the LRM collects them; gives the facts that tell of them."""
    key = key or facts_key()
    for name, data in outputs.items():
        write(site.data.collected(key.subgroup, key.epoch) / name, data)
    return facts(site.site, outputs)


GROUP = GroupId("alpha-1")
