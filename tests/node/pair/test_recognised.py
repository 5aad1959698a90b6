"""A disk is the one the register counts on only if journal and `replica.json` both say so (D8; PROMISES section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.adapters.replica_link.saved import DurableFile
from diana.adapters.sqlite_store.store import SqliteStore
from diana.model.trust.register import Copy, Register
from diana.node.loop.store_thread import StoreThread
from diana.node.old_copies import LOST, last_lost
from diana.node.pair.pair import Pair, make_consistent
from diana.ports import Batch
from diana.replica.messages import Saved

FOLLOWED = Saved(term=3, register=Register(3, "main", (Copy("main", "m"),)))


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[StoreThread]:
    thread = StoreThread(SqliteStore(tmp_path / "journal.db"))
    yield thread
    thread.close()
    thread.store.close()


def uuid_after(thread: StoreThread, folder: Path, saved: Saved) -> str:
    make_consistent(Pair(other="main", saved=saved), DurableFile(folder / "replica.json", Pair), thread)
    return thread.store.meta("replica_uuid")


def test_a_disk_keeps_its_name_from_start_to_start(thread: StoreThread, tmp_path: Path) -> None:
    first = uuid_after(thread, tmp_path, Saved(founder=True))
    assert uuid_after(thread, tmp_path, Saved(founder=True)) == first
    assert uuid_after(thread, tmp_path, FOLLOWED) == first


def test_a_journal_beside_a_promise_that_was_lost_is_another_disk(thread: StoreThread, tmp_path: Path) -> None:
    counted = uuid_after(thread, tmp_path, Saved(founder=True))
    assert uuid_after(thread, tmp_path, Saved()) != counted


def test_a_new_journal_beside_an_old_promise_is_another_disk(thread: StoreThread, tmp_path: Path) -> None:
    before = thread.store.meta("replica_uuid")
    assert uuid_after(thread, tmp_path, FOLLOWED) != before


def cut(tmp_path: Path) -> StoreThread:
    """On a journal that was replicated and lost its end."""
    path = tmp_path / "journal.db"
    store = SqliteStore(path)
    store.set_meta("replicated", "1")
    store.close()
    short = path.read_bytes()
    store = SqliteStore(path)
    store.commit(Batch(at_s=1.0, records=(b"one",), term=1))
    store.close()
    path.write_bytes(short)
    return StoreThread(SqliteStore(path))


def test_a_journal_that_lost_its_end_is_another_disk(tmp_path: Path) -> None:
    thread = cut(tmp_path)
    before = thread.store.meta("replica_uuid")
    assert uuid_after(thread, tmp_path, FOLLOWED) != before
    lost = last_lost(thread.store.meta(LOST))
    assert lost is not None and "lost its end" in lost.text
    assert not thread.store.meta("restored_from")
    thread.close()
    thread.store.close()


def test_a_journal_that_lost_its_end_before_any_other_machine_had_it_holds_what_is_left(tmp_path: Path) -> None:
    thread = cut(tmp_path)
    name, disk = thread.store.meta("db_uuid"), thread.store.meta("replica_uuid")
    assert uuid_after(thread, tmp_path, Saved(founder=True)) == disk
    assert thread.store.meta("restored_from") == name != thread.store.meta("db_uuid")
    assert last_lost(thread.store.meta(LOST)) is not None
    thread.close()
    thread.store.close()
