"""Lying peers, failing disks and kill -9 against the data side: PROMISES section 5 (staging corpus), J4."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from diana.adapters.staging.limits import StagingLimits
from diana.errors import DianaError
from diana.model.data import DataFile, Fetch
from diana.model.ids import SiteId, SubgroupId
from diana.wire.pb import data_pb2, data_pb2_grpc
from tests.adapters.staging_grid import SUBGROUP, TestSite, fetch, fetches, grid, sha, write
from tests.adapters.test_staging_faults import REPOSITORY, Liar, frame, small_disk
from tests.adapters.test_staging_whole import fill, tree, whole

OTHER = SubgroupId("alpha-2/0")
OUTSIDE = Path(f"/tmp/diana-outside-{os.getpid()}")
SMALL = StagingLimits(cache_bytes=1, reserve_bytes=0, patience_s=0.5, retry_first_s=0.02)

NONSENSE = [
    data_pb2.ReadRequest(file=1, ref="dataset:events/a.bin", sha256="zz"),
    data_pb2.ReadRequest(file=2, ref="dataset:events/a.bin", sha256="0" * (1 << 20)),
    data_pb2.ReadRequest(file=3, ref="dataset:events/" + "a" * (1 << 20)),
    data_pb2.ReadRequest(file=4, ref="dataset:events/a.bin", offset=(1 << 64) - 1),
    data_pb2.ReadRequest(file=5, ref="manifest:../../keys/site.key"),
    data_pb2.ReadRequest(file=6, ref="dataset:../keys"),
    data_pb2.ReadRequest(file=7),
]


async def test_nonsense_on_a_stream_is_answered_in_a_line_each_and_the_next_request_is_served(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        await beta.register("events", [write(tmp_path / "a.bin", b"abc")])
        channel = alpha._channel(beta.site)
        assert channel is not None
        call: Any = data_pb2_grpc.DataStub(channel).Read()  # type: ignore[no-untyped-call]
        for request in NONSENSE:
            await call.write(request)
        await call.write(data_pb2.ReadRequest(file=8, ref="dataset:events/a.bin", length=(1 << 64) - 1))
        await call.done_writing()
        frames = [frame async for frame in call]
        assert [f.file for f in frames] == list(range(1, 9))
        assert all(f.last and f.error and "\n" not in f.error and len(f.error) < 400 for f in frames[:-1])
        assert frames[-1].data == b"abc"


class Streaming(data_pb2_grpc.DataServicer):
    """Answers each request with empty frames for ever."""

    async def Read(self, request_iterator: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for request in request_iterator:
            while True:
                yield frame(request)


@asynccontextmanager
async def peer(site: TestSite, name: str, servicer: data_pb2_grpc.DataServicer) -> AsyncIterator[None]:
    server = grpc.aio.server()
    data_pb2_grpc.add_DataServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    site.ways[SiteId(name)] = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


async def test_a_peer_that_sends_nothing_without_end_is_passed_over(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta), peer(alpha, "liar", Streaming()):
        dataset = await beta.register("events", [write(tmp_path / "a.bin", b"abc")])
        assert (await alpha.stage(*fetches(dataset.files, "liar", "beta"))).error == ""
        alone = await alpha.stage(fetch("dataset:events/b.bin", b"b", "liar"))
        assert "dataset:events/b.bin" in alone.error and "site liar" in alone.error


def line(name: str, data: bytes = b"x") -> str:
    return f"{len(data)} {sha(data)} {name}\n"


LISTS = {
    "up": line("../x"),
    "absolute": line(str(OUTSIDE)),
    "a file of ours": line(".diana-part-x"),
    "twice": line("x") + line("x"),
    "out of order": line("y") + line("x"),
    "a file and a folder": line("x") + line("x/y"),
    "huge": f"{1 << 60} {sha(b'x')} x\n",
    "negative": f"-1 {sha(b'x')} x\n",
    "more digits than a number has": "9" * 3000 + f" {sha(b'x')} x\n",
    "a long line": line("x" * 5000),
    "no hash": "1 abc x\n",
    "no end": line("x").rstrip("\n"),
    "not UTF-8": f"1 {sha(b'x')} \udcff\n",
}


@pytest.mark.parametrize("what", sorted(LISTS))
async def test_a_list_of_files_from_a_hostile_peer_writes_nothing_outside_and_is_one_line(
    tmp_path: Path, what: str
) -> None:
    text = LISTS[what].encode(errors="surrogateescape")

    def answer(request: data_pb2.ReadRequest) -> list[data_pb2.ReadFrame]:
        data = text if request.ref.startswith("manifest:") else b"x"
        return [frame(request, data=data[request.offset :], last=True)]

    async with grid(tmp_path, "alpha") as (alpha,), peer(alpha, "liar", Liar(answer)):
        unit = DataFile("dataset:evil", 2, sha(text))
        done = await alpha.stage(whole(unit, "liar"))
        assert done.error.startswith("staging in") and "\n" not in done.error and len(done.error) < 600, done.error
        assert "internal error" not in done.error
        assert not alpha.staged("dataset", "evil").exists()
        assert (await alpha.look_up(unit.ref)).cached == ()
        inside = {path for path in tmp_path.rglob("*") if path.is_file()}
        below = alpha.data.replica(unit.sha256)
        assert {path.name for path in inside if path.is_relative_to(below)} <= {"x", "y"}
        assert not (tmp_path / "x").exists() and not OUTSIDE.exists()


@asynccontextmanager
async def receiver(root: Path, source: TestSite, wanted: Sequence[Fetch]) -> AsyncIterator[None]:
    """Killed when the block is left."""
    command = [sys.executable, "-m", "tests.adapters.staging_receiver", str(root), "alpha", str(source.port)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE)
    assert process.stdin is not None
    with process.stdin as pipe:
        pipe.write(msgspec.json.encode(list(wanted)))
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def appear(folder: Path, pattern: str, count: int) -> None:
    async with asyncio.timeout(60):
        while len(list(folder.glob(pattern))) < count:
            await asyncio.sleep(0.001)


def hashes_in_cache(site: TestSite) -> set[str]:
    return {path.name for path in (site.data.root / "cache").glob("??/*") if len(path.name) == 64}


async def test_what_had_come_before_a_kill_is_known_afterwards_and_can_be_evicted(tmp_path: Path) -> None:
    async with grid(tmp_path, "beta") as (beta,):
        fill(tmp_path / "in", 400, 20_000)
        files = (await beta.register("many", [tmp_path / "in"])).files
        async with receiver(tmp_path, beta, fetches(files, "beta")):
            await appear(tmp_path / "alpha" / "cache", "??/" + "[0-9a-f]" * 64, 20)
        alpha = TestSite("alpha", tmp_path, SMALL)
        alpha.knows(beta)
        try:
            left = hashes_in_cache(alpha)
            assert len(left) >= 20
            alpha.stager.drop_subgroup(SUBGROUP)
            await alpha.idle()
            other = await beta.register("other", [write(tmp_path / "other", b"other")])
            assert (await alpha.stage(*fetches(other.files, "beta"), subgroup=OTHER)).error == ""
            assert hashes_in_cache(alpha) == {sha(b"other")}, "over the cap, and nobody needs them"
        finally:
            await alpha.close()


async def test_half_a_dataset_left_by_a_kill_is_evicted_when_nobody_comes_back_to_it(tmp_path: Path) -> None:
    async with grid(tmp_path, "beta") as (beta,):
        fill(tmp_path / "in", 400, 20_000)
        dataset = await beta.stager.register("many", [tmp_path / "in"])
        async with receiver(tmp_path, beta, [whole(dataset.unit, "beta")]):
            await appear(tmp_path / "alpha" / "cache", f"sets/*/{dataset.digest}/d?/f*", 20)
        alpha = TestSite("alpha", tmp_path, SMALL)
        alpha.knows(beta)
        try:
            assert alpha.data.replica(dataset.digest).is_dir()
            assert (await alpha.look_up(dataset.unit.ref)).cached == (), "half is not whole"
            alpha.stager.drop_subgroup(SUBGROUP)
            await alpha.idle()
            assert alpha.stager._cache.evict(1 << 40) >= 0
            assert not alpha.data.replica(dataset.digest).exists()
            done = await alpha.stage(whole(dataset.unit, "beta"), subgroup=OTHER)
            assert done.error == "" and len(tree(alpha.staged("dataset", "many", subgroup=OTHER))) == 400
        finally:
            await alpha.close()


async def test_a_deletion_that_a_kill_broke_off_does_not_hinder_the_next_of_the_same_dataset(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        fill(tmp_path / "in", 3)
        unit = (await beta.stager.register("few", [tmp_path / "in"])).unit
        for subgroup in (SUBGROUP, OTHER):
            assert (await alpha.stage(whole(unit, "beta"), subgroup=subgroup)).error == ""
            tree_of = alpha.data.replica(unit.sha256)
            write(tree_of.parent.parent / f"gone-{unit.sha256}" / "left", b"left by a kill")
            alpha.stager.drop_subgroup(subgroup)
            await alpha.idle()
            assert alpha.stager._cache.evict(1) > 0 and not tree_of.exists()


async def test_a_cached_file_that_was_deleted_under_us_is_not_told_for_ever(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha", "beta") as (alpha, beta):
        (file,) = (await beta.register("events", [write(tmp_path / "a.bin", b"abc")])).files
        await alpha.stage(Fetch(file, (beta.site,)))
        alpha.data.cached(file.sha256).unlink()
        alone = await alpha.stage(Fetch(file, (alpha.site,)), subgroup=OTHER)
        assert "dataset:events/a.bin: not at site alpha" in alone.error
        assert (await alpha.look_up(file.ref)).cached == ()
        assert (await alpha.stage(Fetch(file, (beta.site,)), subgroup=OTHER)).error == ""


async def test_a_look_up_is_answered_even_when_the_catalogue_cannot_be_read(tmp_path: Path) -> None:
    async with grid(tmp_path, "alpha") as (alpha,):
        with sqlite3.connect(alpha.data.catalogue) as db:
            db.execute("DROP TABLE datasets")
        looked = await alpha.look_up("dataset:events")
        ((ref, why),) = looked.failed
        assert ref == "dataset:events" and str(alpha.data.catalogue) in why and "see to its disk" in why


@pytest.fixture
def disk() -> Iterator[Path]:
    with small_disk(8) as mounted:
        if mounted is None:
            pytest.fail("this machine mounts no file system for the test")
        yield mounted


async def test_a_full_disk_below_the_catalogue_is_one_line_with_its_mend(tmp_path: Path, disk: Path) -> None:
    fill(tmp_path / "in", 3000, 10)
    site = TestSite("alpha", disk)
    try:
        with open(disk / "ballast", "wb", buffering=0) as ballast, pytest.raises(OSError, match="No space"):
            while True:
                ballast.write(b"x" * 4096)
        with pytest.raises(DianaError, match=r"make room|see to its disk") as told:
            await site.stager.register("many", [tmp_path / "in"])
        assert str(site.data.catalogue) in str(told.value) and "\n" not in str(told.value)
        (disk / "ballast").unlink()
        assert (await site.stager.register("many", [tmp_path / "in"])).files == 3000
    finally:
        await site.close()
        shutil.rmtree(disk / "alpha", ignore_errors=True)


@pytest.mark.wide
async def test_readers_that_are_killed_mid_transfer_leave_no_traceback_in_the_senders_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with grid(tmp_path, "beta") as (beta,):
        fill(tmp_path / "in", 100, 200_000)
        dataset = await beta.stager.register("many", [tmp_path / "in"])
        for _ in range(4):
            shutil.rmtree(tmp_path / "alpha", ignore_errors=True)
            async with receiver(tmp_path, beta, [whole(dataset.unit, "beta")]):
                await appear(tmp_path / "alpha" / "cache", f"sets/*/{dataset.digest}/d?/f*", 5)
        await asyncio.sleep(0.2)
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
