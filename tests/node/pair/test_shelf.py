"""Transactions that a leader keeps at hand for its standby (D8): whole transactions, without a gap, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.engine.journal import codec, records
from diana.model.ids import SubgroupId
from diana.model.indexset import IndexSet
from diana.node.pair.shelf import Shelf, fill, packed, unpacked
from diana.sim.twins.store import MemoryStore
from tests.contract.store_builders import batch, facts, key


def test_a_transaction_arrives_as_it_was_with_its_facts() -> None:
    sent = batch(b"a", b"", at_s=2.5, facts=((key(), facts(1, 2)),), term=7)
    assert unpacked(packed(sent), 7) == sent
    with pytest.raises(ValueError, match="cannot be read"):
        unpacked(b"garbage", 7)


@given(
    sizes=st.lists(st.integers(1, 40), max_size=60),
    most=st.integers(10, 200),
    wanted=st.tuples(st.integers(0, 70), st.integers(0, 70)),
)
def test_what_is_kept_is_the_newest_without_a_gap(sizes: list[int], most: int, wanted: tuple[int, int]) -> None:
    told: list[int] = []
    shelf = Shelf(3, told.append, most)
    for number, size in enumerate(sizes):
        shelf.add(4 + number, 1, bytes(size))
    assert shelf.last == 3 + len(sizes) and (told[-1] if told else 3) == shelf.after
    kept = list(shelf.between(shelf.after, shelf.last))
    assert [(one.after, one.seq) for one in kept] == [(n, n + 1) for n in range(shelf.after, shelf.last)]
    assert sum(len(one.payload) for one in kept) <= max(most, sizes[-1] if sizes else 0)
    after, up_to = min(wanted), max(wanted)
    found = [one.seq for one in shelf.between(after, up_to)]
    assert found == [n for n in range(shelf.after + 1, shelf.last + 1) if after < n <= up_to]


def test_a_journal_that_is_read_again_is_shipped_with_the_facts_its_records_name() -> None:
    store = MemoryStore("u")
    store.commit(batch(b"folded", term=1))
    store.snapshot(b"state", 1)
    ended = codec.encode(records.RunsEnded(subgroup=SubgroupId("alpha-1/0"), epoch=1, batch=0, ended=IndexSet.of([0])))
    sent = batch(ended, at_s=4.0, facts=((key(), facts(0)),), term=2)
    store.commit(sent)
    shelf = Shelf(0, lambda after: None)
    fill(shelf, store)
    (one,) = shelf.between(1, 2)
    assert (shelf.after, one.after, one.seq, one.of_term) == (1, 1, 2, 2)
    assert unpacked(one.payload, 2) == sent
