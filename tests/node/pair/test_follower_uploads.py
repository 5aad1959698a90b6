"""A follower keeps the uploads its journal's groups read, and none for longer (D8; PROMISES section 2, Standby)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.adapters.sqlite_store.store import SqliteStore
from diana.engine.journal import codec, records
from diana.model.ids import GroupId
from diana.model.job.spec import InputFile
from diana.model.layout import DataDir
from diana.node.loop.store_thread import StoreThread
from diana.node.pair.follower_uploads import UNUSED_S, FollowerUploads
from diana.ports import Batch
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.node.pair.test_replication import soon

ONE, TWO, NEW = "1" * 64, "2" * 64, "3" * 64


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[StoreThread]:
    thread = StoreThread(SqliteStore(tmp_path / "journal.db"))
    yield thread
    thread.close()
    thread.store.close()


def submitted(*blobs: str) -> dict[GroupId, bytes]:
    """By group, one for each: its record."""
    alpha = Grid(alpha=2)["alpha"]
    for number, blob in enumerate(blobs):
        wanted = spec(1, inputs=(InputFile(source=f"blob:{blob}", path="in"),))
        alpha.submit(wanted, 1, refs=(), key=f"k{number}")
    found = [record for record in alpha.records() if isinstance(record, records.GroupSubmitted)]
    assert len(found) == len(blobs)
    return {record.group: codec.encode(record) for record in found}


def upload(paths: DataDir, name: str, age_s: float = 2 * UNUSED_S) -> Path:
    path = paths.blob(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"uploaded")
    os.utime(path, (path.stat().st_mtime - age_s,) * 2)
    return path


def batch(*stored: bytes) -> Batch:
    return Batch(at_s=1.0, records=stored)


def expired(group: GroupId) -> bytes:
    return codec.encode(records.GroupExpired(group=group))


async def test_an_upload_goes_with_the_last_group_that_reads_it(thread: StoreThread, tmp_path: Path) -> None:
    groups = submitted(ONE, ONE, TWO)
    a, b, c = groups
    paths = DataDir(tmp_path)
    one, two = upload(paths, ONE), upload(paths, TWO)
    orphan, young = upload(paths, "4" * 64), upload(paths, "5" * 64, age_s=0.0)
    await thread.call(thread.store.commit, batch(groups[a], groups[c]))
    uploads = FollowerUploads(paths, thread)
    uploads.start()
    await soon(lambda: not orphan.exists())
    assert one.exists() and two.exists() and young.exists()
    uploads.heard(batch(groups[b]))
    uploads.heard(batch(expired(a)))
    uploads.heard(batch(expired(c)))
    await soon(lambda: not two.exists())
    assert one.exists(), "the second group reads it too"
    uploads.heard(batch(expired(b)))
    await soon(lambda: not one.exists())
    await uploads.stop()


async def test_what_is_about_to_be_read_stays_and_the_rest_goes_when_the_machine_leads(
    thread: StoreThread, tmp_path: Path
) -> None:
    paths = DataDir(tmp_path)
    uploads = FollowerUploads(paths, thread)
    uploads.start()
    await soon(lambda: uploads._since is None)
    await asyncio.sleep(0.05)
    needed, left = upload(paths, NEW), upload(paths, ONE)
    uploads.needed([NEW, TWO])
    await uploads.stop()
    await soon(lambda: not left.exists())
    assert needed.exists()
