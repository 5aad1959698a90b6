"""A pair has only a witness that answers, and is never kept from leading or from a better one (D8; PROMISES section 2,
Standby)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from diana.adapters.grpc.server import make_server
from diana.adapters.replica_link.saved import DurableFile
from diana.adapters.replica_link.witness import WitnessService
from diana.adapters.sqlite_store.store import SqliteStore
from diana.adapters.trust.certificates import issue_site, make_vo
from diana.adapters.trust.keyring import FileKeyring
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.trust.register import Copy, Register, changed
from diana.node.config.site_file import SiteConfig
from diana.node.loop.store_thread import StoreThread
from diana.node.pair.choosing_witness import ChoosingWitness, witness_among
from diana.node.pair.follower import pair_file
from diana.node.pair.pair import Pair
from diana.node.pair.pairing import Pairing
from diana.node.pair.replication import Replication
from diana.replica.messages import Saved
from diana.wire.pb import replica_pb2

CERN = SiteId("cern")
ALPHA = Copy("main", "alphas-disk")


class Witness:
    """The witness cern, of the site alpha."""

    def __init__(self, root: Path) -> None:
        make_vo("vo", root / "vo")
        issue_site(root / "vo", CERN, root / "cern")
        self.alpha = DataDir(root / "alpha")
        issue_site(root / "vo", "alpha", self.alpha.keys)
        self.keys = root / "cern"
        self.register: Register | None = None

    async def asked(self, site: SiteId, expect_term: int, wish: Register | None) -> Register | None:
        if wish is not None:
            self.register = changed(self.register, expect_term, wish)
        return self.register

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server, port = make_server("127.0.0.1:0", self.keys, FileKeyring(self.keys).distrust)
        WitnessService("vo", self.asked).attach(server)
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Witness:
    return Witness(tmp_path_factory.mktemp("vo"))


@pytest.fixture
def cern(made: Witness) -> Witness:
    made.register = None
    pair_file(made.alpha).unlink(missing_ok=True)
    return made


async def soon(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


def config(witness: str = "") -> SiteConfig:
    return SiteConfig(site=SiteId("alpha"), vo="vo", witness=witness)


async def paired(cern: Witness, peers: dict[SiteId, str], named: str = "") -> tuple[Pair, str]:
    """The founder's witness, and which witness the standby was told of."""
    done = asyncio.Event()
    pairing = Pairing(config(named), cern.alpha, "127.0.0.1:1", lambda: peers, done.set)
    told = pairing.hello().witness
    for _ in range(2):
        pairing.other_up(replica_pb2.ReplicaHello(machine="spare", address="127.0.0.1:2"))
    await asyncio.wait_for(done.wait(), 60)
    kept = DurableFile(pair_file(cern.alpha), Pair).read()
    assert kept is not None and kept.saved == Saved(founder=True) and kept.other == "spare"
    return kept, told


def test_a_witness_is_linked_or_named_and_can_be_dialled() -> None:
    peers = {SiteId("bern"): "", CERN: "c:1", SiteId("delft"): "d:1"}
    assert witness_among(config(), peers) == ("cern", ["c:1"])
    assert witness_among(config("delft"), peers) == ("delft", ["d:1"])
    assert witness_among(config("bern"), peers) == ("bern", [])
    told = msgspec.structs.replace(config("bern"), peers=("b:1", "delft@d:1"))
    assert witness_among(told, peers) == ("bern", ["b:1", "d:1"])


@pytest.mark.parametrize("peers", [{}, {CERN: ""}, {CERN: "127.0.0.1:1"}])
async def test_a_pair_is_made_without_a_witness_that_does_not_answer(cern: Witness, peers: dict[SiteId, str]) -> None:
    kept, told = await paired(cern, peers, "cern")
    assert kept.witness == told == ""


async def test_a_pair_is_made_with_a_witness_only_where_that_one_kept_nothing_of_the_site(cern: Witness) -> None:
    async with cern.serving() as address:
        kept, told = await paired(cern, {CERN: address})
        assert (kept.witness, told) == (f"cern@{address}", "")
        cern.register = Register(7, "main", (Copy("main", "another-disk"),))
        kept, _ = await paired(cern, {CERN: address})
        assert kept.witness == ""


class Leader:
    """A leader whose standby takes up each witness it is told of, and keeps it."""

    def __init__(self, told: str = "") -> None:
        self.pair = SimpleNamespace(witness="", other="spare")
        self.in_step = True
        self.offered = ""
        self.other_witness = told
        self.replica = SimpleNamespace(term=3, register=None, me=ALPHA)

    def offer_witness(self, witness: str) -> None:
        self.offered = self.other_witness = witness

    def begin_anew_with(self, witness: str, register: Register) -> None:
        self.pair.witness, self.register = witness, register


@pytest.mark.parametrize("told", ["", "cern@", "cern@127.0.0.1:1"])
async def test_a_witness_is_offered_once_it_answers_and_found_where_it_is_linked_now(cern: Witness, told: str) -> None:
    leader, peers = Leader(told), {CERN: "127.0.0.1:1"}
    choosing = ChoosingWitness(config("cern"), cern.alpha, cast("Replication", leader), lambda: peers, 0.02)
    running = asyncio.create_task(choosing.run())
    try:
        await asyncio.sleep(0.2)
        assert leader.offered == "" and not running.done()
        async with cern.serving() as address:
            peers[CERN] = address
            await asyncio.wait_for(running, 60)
            assert leader.pair.witness == f"cern@{address}"
            assert cern.register == leader.register == Register(4, "main", (ALPHA,))
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@asynccontextmanager
async def machine(cern: Witness, folder: Path, pair: Pair) -> AsyncIterator[tuple[Replication, list[str]]]:
    thread = StoreThread(SqliteStore(folder / "journal.db"))
    file: DurableFile[Pair] = DurableFile(folder / "replica.json", Pair)
    one = Replication(
        site="alpha",
        vo="vo",
        machine="main",
        address="127.0.0.1:1",
        paths=cern.alpha,
        thread=thread,
        file=file,
        pair=pair,
        reopen=lambda: SqliteStore(folder / "journal.db"),
        witness_addresses=list,
    )
    anew: list[str] = []
    one.deposed = cast("Any", anew.append)
    running = asyncio.create_task(one.run())
    try:
        yield one, anew
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        thread.close()
        thread.store.close()


async def test_a_founder_whose_witness_died_meanwhile_goes_without_one(cern: Witness, tmp_path: Path) -> None:
    pair = Pair(other="spare", saved=Saved(founder=True), witness="cern@127.0.0.1:1")
    async with machine(cern, tmp_path, pair) as (one, anew):
        await soon(lambda: anew)
        assert one.pair.witness == ""
    kept = DurableFile(tmp_path / "replica.json", Pair).read()
    assert kept is not None
    async with machine(cern, tmp_path, kept) as (one, anew):
        await soon(one.leading.done)


async def test_who_asked_for_a_term_waits_for_its_witness(cern: Witness, tmp_path: Path) -> None:
    asked = Saved(founder=True, term=1)
    async with machine(cern, tmp_path, Pair(other="spare", saved=asked, witness="cern@127.0.0.1:1")) as (one, anew):
        await asyncio.sleep(0.3)
        assert not anew and one.pair.witness and not one.leading.done()


async def test_a_standby_learns_where_its_witness_is_now(cern: Witness, tmp_path: Path) -> None:
    followed = Saved(term=3, register=Register(3, "spare", (Copy("spare", "its-disk"),)))
    async with cern.serving() as address:
        pair = Pair(other="spare", saved=followed, witness="cern@")
        async with machine(cern, tmp_path, pair) as (one, anew):
            for witness in ("delft@127.0.0.1:1", "cern@", f"cern@{address}"):
                one.other_up(replica_pb2.ReplicaHello(machine="spare", witness=witness))
            assert one.pair.witness == f"cern@{address}" and not anew
            assert await one.witness.touch(0, None) is None
