"""The simulated store alone can fail when told to."""

from __future__ import annotations

import pytest

from diana.errors import StoreFailed
from diana.sim.twins.store import MemoryStore
from tests.contract.store_builders import batch, facts, key


@pytest.mark.parametrize("kept", [False, True])
def test_a_failed_commit_stops_the_store_until_the_crash_and_is_wholly_there_or_wholly_gone(kept: bool) -> None:
    store = MemoryStore("u")
    store.commit(batch(b"a"))
    store.fail_next_commit(kept=kept)
    with pytest.raises(StoreFailed, match="disk I/O error"):
        store.commit(batch(b"b", b"c", facts=((key(), facts(0)),)))
    with pytest.raises(StoreFailed):
        store.commit(batch(b"d"))
    with pytest.raises(StoreFailed):
        store.load()
    store.crash()
    assert store.load().records == ([b"a", b"b", b"c"] if kept else [b"a"])
    assert (store.facts_chunk(key()) is not None) is kept
    assert store.commit(batch(b"e")) == (4 if kept else 2)


def test_a_flipped_bit_is_noticed_at_load_unless_a_snapshot_covers_it() -> None:
    store = MemoryStore("u")
    store.commit(batch(b"a", b"b"))
    store.flip_bit(2)
    with pytest.raises(StoreFailed, match="record 2"):
        store.load()
    store.crash()
    store.snapshot(b"s", 2)
    assert store.load().records == []


def test_what_was_read_before_does_not_change_with_the_store() -> None:
    store = MemoryStore("u")
    store.commit(batch(b"a"))
    before = store.load()
    store.commit(batch(b"b"))
    assert before.records == [b"a"]
