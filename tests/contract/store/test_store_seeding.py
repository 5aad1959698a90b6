"""A standby's store is seeded with a copy of the leader's, taken while that goes on (D8; PROMISES section 2)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from diana.adapters.sqlite_store.seeding import install, prepare
from diana.adapters.sqlite_store.store import SqliteStore
from diana.errors import StoreFailed
from tests.contract.store_builders import batch, facts, key


def test_a_copy_taken_under_load_is_a_prefix_of_the_journal(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    store = SqliteStore(tmp_path / "a" / "journal.db")
    for n in range(200):
        store.commit(batch(b"%d" % n, term=1, facts=((key(batch=n), facts(n)),)))
    over = threading.Event()

    def write() -> None:
        n = 200
        while not over.is_set():
            store.commit(batch(b"%d" % n, term=1))
            n += 1

    writer = threading.Thread(target=write)
    writer.start()
    store.copy_to(tmp_path / "seed")
    over.set()
    writer.join()
    (tmp_path / "b").mkdir()
    target = tmp_path / "b" / "journal.db"
    prepare(tmp_path / "seed", {"replica_uuid": "new"})
    install(target, tmp_path / "seed", 7)
    copy = SqliteStore(target)
    found = copy.load()
    assert found.seq >= 200 and found.records == [b"%d" % n for n in range(found.seq)]
    assert copy.facts_chunk(key(batch=199)) == facts(199)
    assert copy.meta("db_uuid") == store.meta("db_uuid") and copy.meta("replica_uuid") == "new"
    assert copy.log_end().term == 1
    behind = store.entries(found.seq, 1 << 20) or []
    for entry in behind:
        copy.commit(entry.batch)
    assert copy.log_end() == store.log_end()
    copy.close()
    store.close()


def test_the_old_file_stays_beside_the_new_one_and_only_the_newest(tmp_path: Path) -> None:
    target = tmp_path / "journal.db"
    for term in (3, 4):
        other = tmp_path / f"other{term}"
        other.mkdir()
        leader = SqliteStore(other / "journal.db")
        leader.commit(batch(b"of term %d" % term, term=term))
        leader.copy_to(tmp_path / "seed")
        leader.close()
        prepare(tmp_path / "seed", {})
        install(target, tmp_path / "seed", term)
    assert sorted(path.name for path in tmp_path.glob("journal.db*")) == ["journal.db", "journal.db.before-4"]
    kept = SqliteStore(tmp_path / "journal.db.before-4")
    assert kept.load().records == [b"of term 3"]
    kept.close()


def test_a_damaged_seed_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "journal.db"
    store = SqliteStore(target)
    store.commit(batch(b"mine"))
    store.close()
    (tmp_path / "seed").write_bytes(b"not a database at all" * 500)
    with pytest.raises(StoreFailed):
        prepare(tmp_path / "seed", {})
    store = SqliteStore(target)
    assert store.load().records == [b"mine"]
    store.close()
