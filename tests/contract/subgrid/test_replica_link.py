"""The real stream between a site's two machines, its seeds and its witness, over TLS on loopback (D8; PROMISES 5.3)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from diana.adapters.grpc.server import make_server
from diana.adapters.replica_link.link import PART_BYTES, VERSION, ReplicaLink
from diana.adapters.replica_link.saved import DurableFile
from diana.adapters.replica_link.seeds import SeedFetcher, SeedService
from diana.adapters.replica_link.witness import WitnessClient, WitnessService
from diana.adapters.trust.certificates import issue_site, make_vo
from diana.adapters.trust.keyring import FileKeyring
from diana.errors import StoreFailed, Unreachable
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.trust.register import Copy, Register, changed
from diana.replica.messages import Saved
from diana.wire.pb import replica_pb2

VO = "vo"


class Ears:
    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.hellos: list[Any] = []
        self.up = False

    def other_up(self, hello: Any) -> None:
        self.hellos.append(hello)
        self.up = True

    def other_said(self, payload: bytes) -> None:
        self.heard.append(payload)

    def other_gone(self) -> None:
        self.up = False


def link(keys: Path, machine: str, ears: Ears, *, version: int = VERSION, other: str = "") -> ReplicaLink:
    def hello() -> Any:
        return replica_pb2.ReplicaHello(version=version, machine=machine, release="test", address="127.0.0.1:1")

    return ReplicaLink(
        site="alpha", vo=VO, keys=keys, hello=hello, ears=ears, rng=random.Random(1), other=lambda: other
    )


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("keys")
    make_vo(VO, root / "vo")

    def of(site: str) -> Path:
        if not (root / site).exists():
            issue_site(root / "vo", site.partition("-")[0], root / site)
        return root / site

    return of


@asynccontextmanager
async def serving(keys: Path, *services: Any) -> AsyncIterator[str]:
    server, port = make_server("127.0.0.1:0", keys, FileKeyring(keys).distrust)
    for service in services:
        service.attach(server)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def soon(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def dialling(one: ReplicaLink, address: str) -> AsyncIterator[None]:
    task = asyncio.create_task(one.dial(lambda: [address]))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_messages_arrive_whole_and_in_order_both_ways(keys: Callable[[str], Path]) -> None:
    here, there = Ears(), Ears()
    main, spare = link(keys("alpha"), "main", here), link(keys("alpha-spare"), "spare", there)
    sent = [b"", b"small", bytes(3 * PART_BYTES + 7), b"x" * PART_BYTES, b"last"]
    async with serving(keys("alpha"), main) as address, dialling(spare, address):
        await soon(lambda: main.up and spare.up)
        for payload in sent:
            main.say(payload)
            spare.say(payload[:10])
        await soon(lambda: len(there.heard) == len(here.heard) == len(sent))
        assert there.heard == sent and here.heard == [payload[:10] for payload in sent]
        assert (here.hellos[0].machine, there.hellos[0].machine) == ("spare", "main")


async def test_a_stream_that_falls_is_made_again_and_both_sides_hear_of_it(keys: Callable[[str], Path]) -> None:
    here, there = Ears(), Ears()
    main, spare = link(keys("alpha"), "main", here), link(keys("alpha-spare"), "spare", there)
    async with serving(keys("alpha"), main) as address, dialling(spare, address):
        await soon(lambda: main.up and spare.up)
        main.drop()
        await soon(lambda: len(here.hellos) == 2 and len(there.hellos) == 2)
        spare.say(b"again")
        await soon(lambda: here.heard == [b"again"])


@pytest.mark.parametrize(("machine", "version"), [("main", VERSION), ("spare", VERSION + 1)])
async def test_a_machine_of_the_same_name_or_another_version_is_refused(
    keys: Callable[[str], Path], machine: str, version: int
) -> None:
    here, there = Ears(), Ears()
    main, other = link(keys("alpha"), "main", here), link(keys("alpha-spare"), machine, there, version=version)
    async with serving(keys("alpha"), main) as address, dialling(other, address):
        await asyncio.sleep(0.5)
        assert not here.hellos and not there.hellos


async def test_a_third_machine_gets_no_stream_and_the_one_that_stands_goes_on(keys: Callable[[str], Path]) -> None:
    here, there, third = Ears(), Ears(), Ears()
    main = link(keys("alpha"), "main", here, other="spare")
    spare, more = link(keys("alpha-spare"), "spare", there), link(keys("alpha-more"), "more", third)
    async with serving(keys("alpha"), main) as address, dialling(spare, address):
        await soon(lambda: main.up and spare.up)
        async with dialling(more, address):
            await asyncio.sleep(0.5)
        assert len(here.hellos) == 1 and here.up and not third.up


async def test_another_site_gets_neither_stream_nor_journal_nor_blobs(
    keys: Callable[[str], Path], tmp_path: Path
) -> None:
    here, there = Ears(), Ears()
    data, stranger = DataDir(tmp_path / "main"), DataDir(tmp_path / "beta")
    for one in (data, stranger):
        one.root.mkdir()
    stranger.keys.symlink_to(keys("beta"))
    seeds = SeedService("alpha", VO, data, lambda path: path.write_bytes(b"secret") and None)
    fetcher = SeedFetcher("alpha", VO, stranger)
    async with (
        serving(keys("alpha"), link(keys("alpha"), "main", here), seeds) as address,
        dialling(link(keys("beta"), "spare", there), address),
    ):
        with pytest.raises(Unreachable, match="site beta: only machines of alpha itself may call this"):
            await fetcher.seed(address, tmp_path / "stolen")
        with pytest.raises(Unreachable, match="only machines of alpha"):
            await fetcher.names(address)
        await asyncio.sleep(0.3)
        assert not here.hellos


async def test_a_journal_and_blobs_are_fetched_whole(keys: Callable[[str], Path], tmp_path: Path) -> None:
    data, other = DataDir(tmp_path / "main"), DataDir(tmp_path / "spare")
    for one in (data, other):
        one.root.mkdir()
    other.keys.symlink_to(keys("alpha-spare"))
    content = random.Random(2).randbytes(3 * PART_BYTES + 11)
    name = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    data.blob(name).parent.mkdir(parents=True)
    data.blob(name).write_bytes(b"\0")
    seeds = SeedService("alpha", VO, data, lambda path: path.write_bytes(content) and None)
    fetcher = SeedFetcher("alpha", VO, other)
    async with serving(keys("alpha"), seeds) as address:
        await fetcher.seed(address, tmp_path / "seed")
        assert (tmp_path / "seed").read_bytes() == content
        assert not (data.root / "seed.out").exists()
        assert await fetcher.names(address) == [name]
        await fetcher.blobs(address, [name, "0" * 64])
        assert other.blob(name).read_bytes() == b"\0" and not other.blob("0" * 64).exists()
        assert [path.name for path in other.blob(name).parent.iterdir()] == [name]
    with pytest.raises(Unreachable):
        await fetcher.seed(address, tmp_path / "seed")


async def test_an_upload_that_is_damaged_on_the_leaders_disk_is_left_out_and_holds_up_nothing(
    keys: Callable[[str], Path], tmp_path: Path
) -> None:
    data, other = DataDir(tmp_path / "main"), DataDir(tmp_path / "spare")
    for one in (data, other):
        one.root.mkdir()
    other.keys.symlink_to(keys("alpha-spare"))
    damaged, good = "0" * 64, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    for name in (damaged, good):
        data.blob(name).parent.mkdir(parents=True, exist_ok=True)
        data.blob(name).write_bytes(b"\0")
    async with serving(keys("alpha"), SeedService("alpha", VO, data, lambda path: None)) as address:
        await SeedFetcher("alpha", VO, other).blobs(address, [damaged, good])
    assert other.blob(good).exists() and not other.blob(damaged).exists()


async def test_the_witness_is_asked_for_the_register_of_the_site_whose_certificate_is_shown(
    keys: Callable[[str], Path],
) -> None:
    kept: dict[SiteId, Register] = {}

    async def asked(site: SiteId, expect: int, wish: Register | None) -> Register | None:
        after = kept.get(site) if wish is None else changed(kept.get(site), expect, wish)
        if after is not None:
            kept[site] = after
        return after

    first = Register(1, "main", (Copy("main", "d1"),))
    second = Register(2, "spare", (Copy("main", "d1"), Copy("spare", "d2")), forced=True)
    async with serving(keys("beta"), WitnessService(VO, asked)) as address:
        main = WitnessClient("beta", VO, keys("alpha"), lambda: ["127.0.0.1:1", address])
        other = WitnessClient("beta", VO, keys("gamma"), lambda: [address])
        assert await main.touch(0, None) is None
        assert await main.touch(0, first) == first
        assert await main.touch(1, second) == second
        assert await main.touch(1, first) == second
        assert await other.touch(0, None) is None
        await main.close()
        await other.close()
    assert kept == {SiteId("alpha"): second}


async def test_a_witness_that_is_away_or_another_site_does_not_answer(keys: Callable[[str], Path]) -> None:
    async def asked(site: SiteId, expect: int, wish: Register | None) -> Register | None:
        return None

    async with serving(keys("gamma"), WitnessService(VO, asked)) as address:
        client = WitnessClient("beta", VO, keys("alpha"), lambda: [address])
        with pytest.raises(Unreachable, match="witness beta does not answer"):
            await client.touch(0, None)
        await client.close()


def test_what_must_not_be_forgotten_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = DurableFile(tmp_path / "replica.json", Saved)
    assert file.read() is None
    saved = Saved(term=7, led=6, register=Register(6, "main", (Copy("main", "d1"),)))
    file.write(Saved(term=3))
    file.write(saved)
    assert DurableFile(tmp_path / "replica.json", Saved).read() == saved
    assert (tmp_path / "replica.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "replica.json").write_text("{")
    with pytest.raises(StoreFailed, match=r"replica.json: .*; delete it to begin anew"):
        file.read()
