"""A mark beside a store says whether it lacks something (PROMISES section 4: an old copy of the database restored).
The real one over SQLite and its simulated twin."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Protocol

import pytest

from diana.adapters.sqlite_store.store import SqliteStore
from diana.ports import Store, call_restored
from diana.sim.twins.store import MemoryStore
from tests.contract.store_builders import batch


class Kept(Protocol):
    def open(self) -> Store: ...

    def keep_copy(self) -> None: ...

    def put_back(self) -> None: ...

    def lose_mark(self) -> None: ...


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal.db"
        self.now: SqliteStore | None = None

    def open(self) -> Store:
        self._close()
        self.now = SqliteStore(self.journal)
        return self.now

    def _close(self) -> None:
        if self.now is not None:
            self.now.close()

    def keep_copy(self) -> None:
        assert self.now is not None
        self.now.copy_to(self.journal.with_name("copy"))

    def put_back(self) -> None:
        self._close()
        shutil.copy(self.journal.with_name("copy"), self.journal)

    def lose_mark(self) -> None:
        self.journal.with_suffix(".mark").unlink()


class Memory:
    def __init__(self) -> None:
        self.store = MemoryStore("uuid-of-the-test")

    def open(self) -> Store:
        self.store.crash()
        return self.store

    def keep_copy(self) -> None:
        self.store.keep_copy()

    def put_back(self) -> None:
        assert self.store.put_back()

    def lose_mark(self) -> None:
        self.store.keep_copy()
        assert self.store.put_back(marked=False)


@pytest.fixture(params=["sqlite", "memory"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    return Sqlite(tmp_path) if request.param == "sqlite" else Memory()


def test_a_new_store_and_one_that_was_only_reopened_have_all_they_ever_had(kept: Kept) -> None:
    assert kept.open().standing() == "newest"
    kept.open().commit(batch(b"a", b"b"))
    store = kept.open()
    assert store.standing() == "newest"
    store.snapshot(b"state", 2)
    assert kept.open().standing() == "newest"


def test_a_copy_that_lacks_one_transaction_is_known_for_an_older_one(kept: Kept) -> None:
    store = kept.open()
    store.commit(batch(b"a"))
    kept.keep_copy()
    store.commit(batch(b"b"))
    kept.put_back()
    store = kept.open()
    assert store.load().records == [b"a"]
    assert store.standing() == "older"


def test_a_copy_that_lacks_nothing_may_be_put_back(kept: Kept) -> None:
    kept.open().commit(batch(b"a"))
    kept.keep_copy()
    kept.put_back()
    assert kept.open().standing() == "newest"


def test_an_older_copy_under_a_new_name_is_the_newest_of_that_name(kept: Kept) -> None:
    store = kept.open()
    store.commit(batch(b"a"))
    kept.keep_copy()
    store.commit(batch(b"b"))
    kept.put_back()
    store = kept.open()
    call_restored(store, "another name")
    store = kept.open()
    assert store.standing() == "newest"
    assert (store.meta("db_uuid"), store.meta("restored_from") != "") == ("another name", True)


def test_without_its_mark_nobody_can_tell(kept: Kept) -> None:
    kept.open().commit(batch(b"a"))
    kept.lose_mark()
    store = kept.open()
    assert store.standing() == "unsure"
    store.commit(batch(b"b"))
    store = kept.open()
    assert store.standing() == "unsure", "a restart is no answer"
    store.trust()
    store.commit(batch(b"c"))
    assert kept.open().standing() == "newest"


def test_doubt_ends_with_the_name_it_was_about(kept: Kept) -> None:
    kept.open().commit(batch(b"a"))
    kept.lose_mark()
    store = kept.open()
    assert store.standing() == "unsure"
    call_restored(store, "another name")
    assert kept.open().standing() == "newest"


def test_a_mark_of_an_earlier_boot_of_the_machine_shows_what_lacks_and_that_nothing_does_if_it_was_closed(
    tmp_path: Path,
) -> None:
    """A power cut may have taken the newest marks with it."""
    kept, mark = Sqlite(tmp_path), tmp_path / "journal.mark"
    kept.open().commit(batch(b"a"))
    said = json.loads(mark.read_bytes())
    for seq, closed, found in (
        (0, False, "unsure"),
        (1, False, "unsure"),
        (2, False, "older"),
        (0, True, "unsure"),
        (1, True, "newest"),
    ):
        kept._close()
        mark.write_text(json.dumps({**said, "boot": "an earlier one", "seq": seq, "closed": closed}).ljust(255) + "\n")
        assert kept.open().standing() == found


def test_a_mark_that_came_along_with_a_copy_of_the_whole_directory_shows_nothing(tmp_path: Path) -> None:
    site, copy = tmp_path / "site", tmp_path / "copy"
    site.mkdir()
    kept = Sqlite(site)
    kept.open().commit(batch(b"a"))
    kept._close()
    shutil.copytree(site, copy)
    kept.open().commit(batch(b"b"))
    kept._close()
    shutil.rmtree(site)
    copy.rename(site)
    assert kept.open().standing() == "unsure"


def test_a_node_that_stopped_in_good_order_says_so(tmp_path: Path) -> None:
    kept = Sqlite(tmp_path)
    kept.open().commit(batch(b"a"))
    assert not json.loads((tmp_path / "journal.mark").read_bytes())["closed"]
    kept._close()
    assert json.loads((tmp_path / "journal.mark").read_bytes())["closed"]


@pytest.mark.parametrize("content", [b"", b"\0" * 256, b"[1]", b'{"seq": "1"}'])
def test_a_torn_mark_is_none(tmp_path: Path, content: bytes) -> None:
    kept = Sqlite(tmp_path)
    kept.open().commit(batch(b"a"))
    kept._close()
    (tmp_path / "journal.mark").write_bytes(content)
    assert kept.open().standing() == "unsure"


def test_a_mark_is_for_its_owner_alone(tmp_path: Path) -> None:
    Sqlite(tmp_path).open().close()
    assert (tmp_path / "journal.mark").stat().st_mode & 0o777 == 0o600


def test_a_journal_taken_away_with_its_mark_is_known_by_the_mark_in_the_second_place(tmp_path: Path) -> None:
    journal, second = tmp_path / "journal.db", tmp_path / "spawner.mark"
    store = SqliteStore(journal, second)
    store.commit(batch(b"a"))
    store.close()
    journal.unlink()
    journal.with_suffix(".mark").unlink()
    store = SqliteStore(journal, second)
    assert store.standing() == "older"
    store.close()
