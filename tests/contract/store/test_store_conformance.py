"""One suite for every `ports.Store`: the real one over SQLite and its simulated twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diana.adapters.sqlite_store.store import SqliteStore
from diana.model.ids import GroupId
from diana.ports import Batch, JournalTerm, Store
from diana.sim.twins.store import MemoryStore
from tests.contract.store_builders import batch, facts, key

Open = Callable[[], Store]


class Sqlite:
    """Each `open` is a start of the node on the same data directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now: SqliteStore | None = None

    def open(self) -> Store:
        if self.now is not None:
            self.now.close()
        self.now = SqliteStore(self.folder / "journal.db")
        return self.now


class Memory:
    def __init__(self) -> None:
        self.store = MemoryStore("uuid-of-the-test")

    def open(self) -> Store:
        self.store.crash()
        return self.store


@pytest.fixture(params=["sqlite", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return Sqlite(tmp_path).open if request.param == "sqlite" else Memory().open


def test_a_new_store_is_empty(reopen: Open) -> None:
    found = reopen().load()
    assert (found.snapshot, found.seq, found.records) == (None, 0, [])


def test_records_come_back_in_order_with_seq_and_time(reopen: Open) -> None:
    store = reopen()
    assert store.commit(batch(b"a", b"b", at_s=1.5)) == 2
    assert store.commit(batch(b"c", at_s=2.5)) == 3
    found = reopen().load()
    assert (found.records, found.seq, found.at_s) == ([b"a", b"b", b"c"], 3, 2.5)


def test_a_batch_without_records_keeps_its_facts_and_the_site_time(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(b"a"))
    assert store.commit(batch(at_s=9.0, facts=((key(), facts(0)),))) == 1
    found = reopen().load()
    assert (found.records, found.seq, found.at_s) == ([b"a"], 1, 9.0)
    assert reopen().facts_chunk(key()) == facts(0)


def test_seq_and_time_go_on_after_everything_was_truncated(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(b"a", b"b", at_s=4.0))
    store.snapshot(b"state", 2)
    found = reopen().load()
    assert (found.snapshot, found.seq, found.at_s, found.records) == (b"state", 2, 4.0, [])
    assert reopen().commit(batch(b"c", at_s=5.0)) == 3
    assert reopen().load().records == [b"c"]


def test_a_snapshot_drops_only_the_records_it_covers(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(b"a", b"b", b"c"))
    store.commit(batch(b"d"))
    store.snapshot(b"first", 2)
    assert reopen().load().records == [b"c", b"d"]
    store = reopen()
    store.snapshot(b"second", 3)
    found = reopen().load()
    assert (found.snapshot, found.seq, found.records) == (b"second", 4, [b"d"])


@pytest.mark.parametrize("seq", [0, 3])
def test_a_snapshot_outside_the_journal_is_a_mistake_and_changes_nothing(reopen: Open, seq: int) -> None:
    store = reopen()
    store.commit(batch(b"a", b"b"))
    store.snapshot(b"state", 1)
    with pytest.raises(ValueError, match=f"snapshot at seq {seq}: the journal holds 1 to 2"):
        store.snapshot(b"other", seq)
    found = reopen().load()
    assert (found.snapshot, found.records) == (b"state", [b"b"])


def test_the_same_facts_key_again_changes_nothing(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(b"a", facts=((key(), facts(0, 1)),)))
    store.commit(batch(b"b", facts=((key(), facts(5, exit_code=3)), (key(batch=1), facts(2)))))
    assert list(reopen().facts(GroupId("alpha-1"))) == [(key(), facts(0, 1)), (key(batch=1), facts(2))]


def test_facts_come_in_order_of_arrival_and_only_those_of_the_group(reopen: Open) -> None:
    store = reopen()
    arrivals = [key(number=2), key("alpha-10", 0), key(number=0, epoch=3), key(number=0, epoch=1, batch=7)]
    for number, arrived in enumerate(arrivals):
        store.commit(batch(facts=((arrived, facts(number)),)))
    assert list(reopen().facts(GroupId("alpha-1"))) == [
        (arrivals[0], facts(0)),
        (arrivals[2], facts(2)),
        (arrivals[3], facts(3)),
    ]


def test_chunks_are_numbered_as_they_arrive_and_the_numbers_outlive_a_restart(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(facts=((key(), facts(0, 4)), (key("alpha-10"), facts(1)), (key(batch=1), facts(2)))))
    first, second = store.jobs_of_chunks(GroupId("alpha-1"))
    assert (first[1], second[1]) == ([0, 4], [2]) and 0 < first[0] < second[0]
    store = reopen()
    assert list(store.jobs_of_chunks(GroupId("alpha-1"), first[0])) == [second]
    assert store.numbered_chunk(GroupId("alpha-1"), second[0]) == (key(batch=1), facts(2))
    assert store.numbered_chunk(GroupId("alpha-99"), second[0]) is None
    store.drop_group(GroupId("alpha-1"))
    assert store.numbered_chunk(GroupId("alpha-1"), second[0]) is None
    assert list(store.jobs_of_chunks(GroupId("alpha-1"))) == []


def test_an_unknown_chunk_is_none_and_an_unknown_group_has_no_chunks(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(facts=((key(), facts(0)),)))
    assert store.facts_chunk(key(epoch=2)) is None
    assert list(store.facts(GroupId("alpha-99"))) == []


def test_dropping_a_group_leaves_the_others(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(facts=((key(), facts(0)), (key("alpha-2"), facts(1)))))
    store.drop_group(GroupId("alpha-1"))
    store = reopen()
    assert list(store.facts(GroupId("alpha-1"))) == []
    assert store.facts_chunk(key("alpha-2")) == facts(1)


def test_dropping_a_group_while_its_facts_are_read_ends_the_reading_without_an_error(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(facts=tuple((key(batch=n), facts(n)) for n in range(3))))
    reading = store.facts(GroupId("alpha-1"))
    assert next(reading)[0] == key()
    store.drop_group(GroupId("alpha-1"))
    assert len(list(reading)) <= 2


def test_meta_is_durable_and_empty_when_never_set(reopen: Open) -> None:
    store = reopen()
    assert store.meta("restored_from") == ""
    store.set_meta("restored_from", "other")
    assert reopen().meta("restored_from") == "other"
    reopen().set_meta("restored_from", "")
    assert reopen().meta("restored_from") == ""


def test_the_db_uuid_is_minted_once(reopen: Open) -> None:
    minted = reopen().meta("db_uuid")
    assert minted
    assert reopen().meta("db_uuid") == minted


def test_large_payloads_come_back_whole(reopen: Open) -> None:
    store = reopen()
    record = bytes(range(256)) * 40_000
    many = facts(*range(20_000))
    store.commit(batch(record, b"", record[:-1], facts=((key(), many),)))
    store.snapshot(record * 2, 1)
    found = reopen().load()
    assert found.snapshot == record * 2
    assert found.records == [b"", record[:-1]]
    assert reopen().facts_chunk(key()) == many


def test_terms_begin_where_their_first_record_stands_and_are_remembered(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(b"a"))
    store.commit(batch(b"b", b"c", term=3))
    store.commit(batch(b"d", term=3))
    store.commit(batch(b"e", term=5))
    store.snapshot(b"state", 4)
    end = reopen().log_end()
    assert (end.seq, end.term, end.starts) == (5, 5, (JournalTerm(2, 3), JournalTerm(5, 5)))
    assert [end.term_at(seq) for seq in range(1, 6)] == [0, 3, 3, 3, 5]


def test_entries_are_whole_transactions_behind_a_given_one(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(b"a", b"b", at_s=1.0))
    store.commit(batch(b"c", at_s=2.0, term=4))
    store.commit(batch(b"d" * 100, b"e", at_s=3.0, term=4))
    store = reopen()
    every = store.entries(0, 1 << 20)
    assert every is not None
    assert [(entry.seq, entry.batch.at_s, entry.batch.records, entry.batch.term) for entry in every] == [
        (2, 1.0, (b"a", b"b"), 0),
        (3, 2.0, (b"c",), 4),
        (5, 3.0, (b"d" * 100, b"e"), 4),
    ]
    assert [entry.seq for entry in store.entries(0, 1) or ()] == [2]
    assert [entry.seq for entry in store.entries(2, 50) or ()] == [3]
    assert store.entries(5, 1) == []
    assert store.entries(1, 1 << 20) is None
    assert store.entries(6, 1 << 20) is None
    store.snapshot(b"state", 3)
    assert store.entries(0, 1 << 20) is None
    assert [entry.seq for entry in store.entries(3, 1 << 20) or ()] == [5]


def test_entries_committed_elsewhere_make_the_same_journal(reopen: Open, tmp_path: Path) -> None:
    store = reopen()
    for n in range(5):
        store.commit(batch(b"%d" % n, b"x", at_s=float(n), term=n // 2))
    copy = MemoryStore("copy")
    for entry in store.entries(0, 1 << 20) or ():
        assert copy.commit(entry.batch) == entry.seq
    assert copy.log_end() == store.log_end()
    assert copy.load().records == store.load().records


def test_a_record_of_a_lower_term_is_refused(reopen: Open) -> None:
    store = reopen()
    store.commit(batch(b"a", term=2))
    with pytest.raises(ValueError, match="term 1 after one of term 2"):
        store.commit(batch(b"b", term=1))
    assert store.log_end().seq == 1


def test_the_disk_has_an_identity_of_its_own(reopen: Open) -> None:
    store = reopen()
    minted = store.meta("replica_uuid")
    assert minted and minted != store.meta("db_uuid")
    assert reopen().meta("replica_uuid") == minted


def test_free_bytes_are_told(reopen: Open) -> None:
    assert reopen().free_bytes() > 0


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.lists(st.binary(max_size=12), max_size=5).map(tuple),
            st.floats(0, 1).map(float),
            st.just("restart"),
        ),
        max_size=12,
    )
)
def test_whatever_the_order_of_commits_snapshots_and_restarts_nothing_is_lost(
    steps: list[tuple[bytes, ...] | float | str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for reopen in (Sqlite(tmp_path_factory.mktemp("store")).open, Memory().open):
        store = reopen()
        told: list[bytes] = []
        kept_seq = 0
        for step in steps:
            if isinstance(step, tuple):
                told.extend(step)
                assert store.commit(Batch(at_s=float(len(told)), records=step)) == len(told)
            elif isinstance(step, float):
                kept_seq = max(kept_seq, round(step * len(told)))
                store.snapshot(b"at %d" % kept_seq, kept_seq)
            else:
                store = reopen()
        found = reopen().load()
        assert (found.seq, found.records) == (len(told), told[kept_seq:])
        store.close()
