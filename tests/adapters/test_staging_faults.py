"""Sources die, stop, lie; disks fill. What has a name is whole, what can go on goes on."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from diana.adapters.staging.limits import StagingLimits
from diana.engine.journal.effects import StageIn
from diana.model.data import DataFile, Fetch
from diana.model.ids import SiteId
from diana.wire.pb import data_pb2, data_pb2_grpc
from tests.adapters.staging_grid import (
    SUBGROUP,
    Held,
    TestSite,
    collect,
    facts_key,
    fetch,
    fetches,
    grid,
    leftovers,
    noise,
    sha,
    write,
)

REPOSITORY = Path(__file__).parents[2]
BIG_BYTES = 64 << 20
PATIENT = StagingLimits(stall_s=1.0, patience_s=15.0, retry_first_s=0.02, retry_most_s=0.2, reserve_bytes=0)


class Server:
    """A serving site in a process of its own."""

    def __init__(self, root: Path, site: str) -> None:
        self.root, self.site, self.port = root, site, 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.adapters.staging_server", str(self.root), self.site, str(self.port)]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)
        assert process.stdout is not None
        self.port = int(process.stdout.readline())
        return process

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def restart(self) -> None:
        self.end()
        self.process = self._start()


@contextmanager
def serving(root: Path, *sites: str) -> Iterator[list[Server]]:
    servers = [Server(root, site) for site in sites]
    try:
        yield servers
    finally:
        for server in servers:
            server.end()


async def registered(root: Path, content: bytes, *names: str) -> Held:
    """The same dataset at each of these sites, which do not run yet."""
    path = write(root / "in" / "a.bin", content)
    for name in names:
        site = TestSite(name, root)
        dataset = await site.register("events", [path])
        await site.close()
    return dataset


async def halfway(site: TestSite, content: bytes) -> None:
    part = site.data.cached(sha(content)).parent / f".diana-part-{sha(content)}"
    while not part.exists() or part.stat().st_size < len(content) // 10:
        await asyncio.sleep(0.001)
    assert not site.data.cached(sha(content)).exists()


async def test_a_transfer_goes_on_where_it_was_after_the_source_is_killed_and_comes_back(tmp_path: Path) -> None:
    content = noise(BIG_BYTES)
    dataset = await registered(tmp_path, content, "beta")
    async with grid(tmp_path, "alpha", limits=PATIENT) as (alpha,):
        with serving(tmp_path, "beta") as (beta,):
            alpha.ways[SiteId("beta")] = f"127.0.0.1:{beta.port}"
            order = StageIn(ticket=1, subgroup=SUBGROUP, files=tuple(fetches(dataset.files, "beta")))
            alpha.stager.stage_in(order)
            await halfway(alpha, content)
            beta.end()
            assert not alpha.data.cached(sha(content)).exists()
            await asyncio.to_thread(beta.restart)
            done = await alpha.done()
    assert done.error == ""
    assert len(content) <= done.bytes_moved < len(content) + (16 << 20)
    assert sha(alpha.data.cached(sha(content)).read_bytes()) == sha(content)


@pytest.mark.wide
async def test_a_source_that_stops_mid_transfer_is_replaced_by_the_next(tmp_path: Path) -> None:
    content = noise(BIG_BYTES)
    dataset = await registered(tmp_path, content, "beta", "gamma")
    async with grid(tmp_path, "alpha", limits=PATIENT) as (alpha,):
        with serving(tmp_path, "beta", "gamma") as servers:
            for server in servers:
                alpha.ways[SiteId(server.site)] = f"127.0.0.1:{server.port}"
            order = StageIn(ticket=1, subgroup=SUBGROUP, files=tuple(fetches(dataset.files, "beta", "gamma")))
            alpha.stager.stage_in(order)
            await halfway(alpha, content)
            servers[0].process.send_signal(signal.SIGSTOP)
            done = await alpha.done()
    assert done.error == ""
    assert {site for site, _, _ in alpha.samples} == {"beta", "gamma"}
    assert sha(alpha.data.cached(sha(content)).read_bytes()) == sha(content)


async def test_a_channel_closed_under_a_transfer_is_a_broken_stream_not_a_cancelled_order(tmp_path: Path) -> None:
    content = noise(BIG_BYTES)
    async with grid(tmp_path, "alpha", "beta", limits=PATIENT) as (alpha, beta):
        dataset = await beta.register("events", [write(tmp_path / "in" / "a.bin", content)])
        alpha.stager.stage_in(StageIn(ticket=1, subgroup=SUBGROUP, files=tuple(fetches(dataset.files, "beta"))))
        await halfway(alpha, content)
        await alpha.channels.pop(beta.site).close()
        assert (await alpha.done()).error == ""
        assert len(alpha.samples) == 2


async def test_a_channel_closed_before_a_transfer_begins_is_a_reason_to_ask_again(tmp_path: Path) -> None:
    content = noise(1 << 20)
    async with grid(tmp_path, "alpha", "beta", limits=PATIENT) as (alpha, beta):
        dataset = await beta.register("events", [write(tmp_path / "in" / "a.bin", content)])
        fresh = alpha._channel(beta.site)
        assert fresh is not None
        await fresh.close()
        alpha.stager.stage_in(StageIn(ticket=1, subgroup=SUBGROUP, files=tuple(fetches(dataset.files, "beta"))))
        await asyncio.sleep(0.1)
        alpha.channels.pop(beta.site)
        assert (await alpha.done()).error == ""


async def test_a_site_that_never_comes_back_is_given_up_after_the_patience_asked(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        dataset = await beta.register("events", [write(tmp_path / "a.bin", b"abc")])
        await beta.stop_serving()
        done = await alpha.stage(*fetches(dataset.files, "beta", "gamma"))
        assert done.error.startswith("staging in: dataset:events/a.bin: site ")


Answer = Callable[[data_pb2.ReadRequest], list[data_pb2.ReadFrame]]


class Liar(data_pb2_grpc.DataServicer):
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def Read(self, request_iterator: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for request in request_iterator:
            for frame in self._answer(request):
                yield frame


def frame(request: data_pb2.ReadRequest, **fields: Any) -> data_pb2.ReadFrame:
    return data_pb2.ReadFrame(**{"file": request.file, "offset": request.offset, **fields})


LIES: dict[str, Answer] = {
    "another file": lambda r: [frame(r, file=r.file + 7, data=b"abc", last=True)],
    "another offset": lambda r: [frame(r, offset=r.offset + 1, data=b"abc", last=True)],
    "more than promised": lambda r: [frame(r, data=b"x" * 5000), frame(r, offset=5000, data=b"x" * 5000, last=True)],
    "less than promised": lambda r: [frame(r, data=b"a", last=True)],
    "other content": lambda r: [frame(r, data=b"abd", last=True, sha256=sha(b"abc"))],
    "the end twice": lambda r: [frame(r, data=b"abd", last=True), frame(r, data=b"abc", last=True)],
    "nothing": lambda r: [],
    "an essay": lambda r: [frame(r, last=True, error="line\n" * 1000)],
}


@pytest.mark.parametrize("lie", sorted(LIES))
async def test_a_lying_source_gets_nothing_a_name_and_the_next_one_serves(tmp_path: Path, lie: str) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        server = grpc.aio.server()
        data_pb2_grpc.add_DataServicer_to_server(Liar(LIES[lie]), server)  # type: ignore[no-untyped-call]
        alpha.ways[SiteId("liar")] = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        try:
            alone = await alpha.stage(fetch("dataset:events/a.bin", b"abc", "liar"))
            assert alone.error and "\n" not in alone.error and len(alone.error) < 1000
            assert not alpha.data.cached(sha(b"abc")).exists()
            dataset = await beta.register("events", [write(tmp_path / "a.bin", b"abc")])
            done = await alpha.stage(*fetches(dataset.files, "liar", "beta"))
            assert done.error == ""
            assert alpha.staged("dataset", "events", "a.bin").read_bytes() == b"abc"
        finally:
            await server.stop(None)


@contextmanager
def small_disk(size_mib: int) -> Iterator[Path | None]:
    """A file system of its own, where we may mount one; else None, and a limit on the size of files stands in."""
    folder = Path(tempfile.mkdtemp(prefix="diana-disk-"))
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder)],
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
    )
    try:
        if mounted:
            yield folder
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_mib << 20, hard))
        try:
            yield None
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, handler)
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


async def test_a_disk_that_fills_up_while_outputs_arrive_leaves_nothing_unfinished(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        told = collect(beta, {"big": noise(6 << 20)})
        with small_disk(8) as disk:
            folder = (disk or tmp_path) / "out"
            gathering = alpha.gather(beta.site, facts_key(), told, folder)
            if disk:
                filler = asyncio.create_task(_fill_when_begun(disk, folder))
                done = await gathering
                filler.cancel()
            else:
                resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, resource.RLIM_INFINITY))
                done = await gathering
            assert not (folder / "big").exists() and leftovers(folder) == []
        assert done.error.startswith("gathering outputs at site alpha: ")
        # Full already when it was to begin, or while it was at it.
        assert "free some space" in done.error or "make room" in done.error
        assert not done.final, "room may come"


async def _fill_when_begun(disk: Path, folder: Path) -> None:
    with open(disk / "filler", "wb", buffering=0) as file:
        while not folder.exists():
            await asyncio.sleep(0)
        for _ in range(4):
            file.write(b"x" * (1 << 20))


async def test_an_order_for_more_than_the_disk_holds_is_refused_at_once(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        bomb = Fetch(DataFile("dataset:bomb/zeros", 1 << 50, sha(b"x")), (beta.site,))
        done = await alpha.stage(bomb)
        assert "free some space" in done.error and alpha.parts_left() == []
