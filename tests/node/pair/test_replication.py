"""A follower's copy counts only with the uploads its groups read (D8; PROMISES section 2, Standby)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from diana.adapters.replica_link.saved import DurableFile
from diana.adapters.replica_link.seeds import _in_time
from diana.adapters.sqlite_store.store import SqliteStore
from diana.errors import Unreachable
from diana.model.layout import DataDir
from diana.model.trust.register import Copy, Register
from diana.node.loop.store_thread import StoreThread
from diana.node.pair import follower_journal
from diana.node.pair.pair import Pair, Said, log_of, now_s
from diana.node.pair.replication import Replication
from diana.node.pair.shelf import packed
from diana.ports import Batch
from diana.replica import messages as ms
from diana.wire.pb import replica_pb2

BLOB = "b" * 64
LEADER = Copy("main", "leaders-disk")


class Stream:
    def __init__(self) -> None:
        self.up = True
        self.said: list[ms.Message] = []

    def say(self, payload: bytes) -> None:
        if self.up:
            self.said.append(msgspec.msgpack.decode(payload, type=Said))

    def drop(self) -> None:
        self.up = False

    def acknowledged(self) -> int:
        return max((one.fsynced for one in self.said if isinstance(one, ms.Ack)), default=0)


class Uploads:
    """At the other machine."""

    def __init__(self) -> None:
        self.answers = False
        self.hangs = False

    async def blobs(self, address: str, wanted: Iterable[str]) -> None:
        if self.hangs:
            await asyncio.sleep(3600.0)
        if not self.answers:
            raise Unreachable(f"the machine at {address}: no answer")


@asynccontextmanager
async def following(folder: Path, uploads: Uploads) -> AsyncIterator[Replication]:
    file: DurableFile[Pair] = DurableFile(folder / "replica.json", Pair)
    thread = StoreThread(SqliteStore(folder / "journal.db"))
    one = Replication(
        site="alpha",
        vo="vo",
        machine="spare",
        address="127.0.0.1:1",
        paths=DataDir(folder),
        thread=thread,
        file=file,
        pair=file.read() or Pair(other="main", saved=ms.Saved(), witness="beta@127.0.0.1:9"),
        reopen=lambda: SqliteStore(folder / "journal.db"),
        witness_addresses=list,
    )
    one.journal._fetcher = uploads  # type: ignore[assignment]
    running = asyncio.create_task(one.run())
    try:
        yield one
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        thread.close()
        thread.store.close()


def link_up(one: Replication) -> Stream:
    stream = Stream()
    one.use(stream)  # type: ignore[arg-type]
    one.other_up(replica_pb2.ReplicaHello(machine="main", address="127.0.0.1:2", witness="beta@127.0.0.1:9"))
    return stream


def hear(one: Replication, message: Any) -> None:
    one.other_said(msgspec.msgpack.encode(message))


async def soon(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


async def test_an_entry_whose_uploads_were_cut_off_counts_only_once_they_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_journal, "blobs_of", lambda batch: [BLOB])
    uploads = Uploads()
    async with following(tmp_path, uploads) as one:
        me, log = one.replica.me.replica_uuid, log_of(one.thread.store)
        stream = link_up(one)
        hear(one, ms.Beat(1, me, 0.0, log, Register(1, "main", (LEADER,))))
        hear(one, ms.Append(1, me, 0, 0, 1, 1, packed(Batch(at_s=1.0, records=(b"x",), term=1))))
        await asyncio.sleep(0.3)
        stream.drop()
        # A takeover need not wait for them.
        await soon(lambda: one.replica.fsynced == 1)
        one.other_gone()
        assert stream.acknowledged() == 0
    async with following(tmp_path, uploads) as one:
        stream = link_up(one)
        hear(one, ms.Beat(1, me, 0.0, one.replica.log, Register(1, "main", (LEADER,))))
        await asyncio.sleep(0.3)
        assert one.replica.fsynced == 1 and stream.acknowledged() == 0
        uploads.answers = True
        await soon(lambda: stream.said)
        hear(one, ms.Beat(1, me, 0.0, one.replica.log, Register(1, "main", (LEADER,))))
        await soon(lambda: stream.acknowledged() == 1)
        assert one.pair.lacks == ()


@pytest.mark.parametrize("gone", ["the stream ends", "the leader is silent"])
async def test_uploads_that_hang_do_not_hold_up_a_takeover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    monkeypatch.setattr(follower_journal, "blobs_of", lambda batch: [BLOB])
    uploads = Uploads()
    uploads.hangs = True
    async with following(tmp_path, uploads) as one:
        stream = await appended(one, b"x")
        await asyncio.sleep(0.3)
        assert one.replica.fsynced == 0
        if gone == "the stream ends":
            stream.drop()
        else:
            one.replica.grant_until_s = now_s()
        await soon(lambda: one.replica.fsynced == 1)
        assert one.pair.lacks == (BLOB,) and not stream.up and stream.acknowledged() == 0


async def test_a_follower_whose_disk_does_not_keep_up_drops_what_waits_and_can_be_given_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_journal, "blobs_of", lambda batch: [BLOB])
    uploads = Uploads()
    uploads.hangs = True
    async with following(tmp_path, uploads) as one:
        one.journal._most_bytes = 1000
        stream = await appended(one, *(bytes(300) for _ in range(10)))
        await soon(lambda: [m for m in stream.said if isinstance(m, ms.Ack) and m.log.last == 1])
        assert one.replica.log.last == 1 and not one.replica.may_seed(1)
        last = [message for message in stream.said if isinstance(message, ms.Ack)][-1]
        assert (last.fsynced, last.log.last) == (0, 1), "the leader hears how far it is"
        one.replica.grant_until_s = now_s()
        await soon(lambda: one.replica.fsynced >= 1)
        assert one.replica.log.last == 1 and one.replica.may_seed(1)


async def test_a_fetch_without_an_answer_ends() -> None:
    async def silent() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(3600.0)

    came: list[int] = []
    with pytest.raises(TimeoutError):
        async for chunk in _in_time(silent(), 0.05):
            came.append(chunk)
    assert came == [1]


async def appended(one: Replication, *stored: bytes) -> Stream:
    """A leader that ships transactions of one record each."""
    me, log = one.replica.me.replica_uuid, log_of(one.thread.store)
    stream = link_up(one)
    hear(one, ms.Beat(1, me, 0.0, log, Register(1, "main", (LEADER,))))
    for seq, record in enumerate(stored, 1):
        after_term = 1 if seq > 1 else 0
        batch = Batch(at_s=1.0, records=(record,), term=1)
        hear(one, ms.Append(1, me, seq - 1, after_term, seq, 1, packed(batch)))
        await asyncio.sleep(0.02)
    return stream
