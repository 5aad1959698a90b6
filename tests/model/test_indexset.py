"""Index sets behave like sets of integers and cost what their ranges cost (SPEC J1)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.indexset import CHUNK, LARGEST, FinishedSet, IndexSet

ints = st.sets(st.integers(0, 60))
wide = st.sets(st.integers(0, 4 * CHUNK), max_size=40)
ranges = st.lists(st.tuples(st.integers(0, 3 * CHUNK), st.integers(0, 2 * CHUNK)), max_size=8)


def as_set(spans: Iterable[tuple[int, int]]) -> IndexSet:
    return IndexSet.union(IndexSet.span(start, start + size) for start, size in spans)


def is_normal(s: IndexSet) -> bool:
    return len(s.bounds) % 2 == 0 and all(a < b for a, b in pairwise(s.bounds))


@given(ints, ints)
def test_the_algebra_is_that_of_python_sets(a: set[int], b: set[int]) -> None:
    x, y = IndexSet.of(a), IndexSet.of(b)
    assert set(x | y) == a | b
    assert set(x & y) == a & b
    assert set(x - y) == a - b
    assert x.isdisjoint(y) == a.isdisjoint(b)
    assert x.issubset(y) == a.issubset(b)
    assert IndexSet.union([x, y, x]) == x | y
    assert all(is_normal(s) for s in (x, y, x | y, x & y, x - y))


@given(ints)
def test_length_order_membership_and_truth(a: set[int]) -> None:
    x = IndexSet.of(a)
    assert list(x) == sorted(a)
    assert len(x) == len(a)
    assert bool(x) == bool(a)
    assert all((i in x) == (i in a) for i in range(-1, 62))
    assert "1" not in x


@given(ints, ints)
def test_equal_sets_are_equal_values_however_they_were_made(a: set[int], b: set[int]) -> None:
    one = IndexSet.of(a) | IndexSet.of(b)
    other = IndexSet.union(IndexSet.span(i, i + 1) for i in sorted(a | b, reverse=True))
    assert one == other
    assert hash(one) == hash(other)


@given(ints, st.integers(0, 70))
def test_take_cuts_off_the_lowest(a: set[int], count: int) -> None:
    head, rest = IndexSet.of(a).take(count)
    assert list(head) == sorted(a)[:count]
    assert list(rest) == sorted(a)[count:]
    assert is_normal(head)
    assert is_normal(rest)


@given(ints.filter(bool))
def test_text_reads_back_as_the_same_set(a: set[int]) -> None:
    x = IndexSet.of(a)
    assert IndexSet.parse(str(x)) == x


@pytest.mark.parametrize(
    "text", ["", "a", "3-", "-3", "5-4", "1,,2", "1;2", "1.5", "٣-", "0-99999999999999999999", "9" * 5000]
)
def test_text_that_is_no_index_set_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="index set"):
        IndexSet.parse(text)


def test_text_of_many_ranges_is_read_in_one_go() -> None:
    # Each range in its turn would be a hundred thousand copies of what was read so far.
    assert len(IndexSet.parse(",".join(map(str, range(0, 200_000, 2))))) == 100_000


@pytest.mark.parametrize("bounds", [(1,), (2, 2), (3, 1), (-1, 4), (0, 2, 2, 4), (0, LARGEST + 1), (1 << 63, 1 << 64)])
def test_bounds_from_outside_are_checked(bounds: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="index set bounds"):
        IndexSet.checked(bounds)


def test_the_largest_set_from_outside_can_be_counted() -> None:
    assert len(IndexSet.checked((0, LARGEST))) == LARGEST


def test_splitting_queueing_and_cancelling_a_million_jobs_handle_ranges_not_jobs() -> None:
    """The bounds are all an operation touches: they stay as few as the cuts made."""
    everything = IndexSet.span(0, 1_000_000)
    parts, rest = [], everything
    while rest:
        head, rest = rest.take(10_000)
        parts.append(head)
    assert len(parts) == 100
    assert all(len(p.bounds) == 2 for p in parts)
    assert IndexSet.union(parts).bounds == (0, 1_000_000)
    assert len((everything - parts[50]).bounds) == 4
    assert len((everything & IndexSet.span(5, 999_000)).bounds) == 2
    # Sizes no loop over members would survive.
    huge = IndexSet.span(0, LARGEST)
    assert len((huge - IndexSet.span(7, 8)) | IndexSet.span(LARGEST, LARGEST + 1)) == LARGEST
    assert huge.take(LARGEST // 2)[1].bounds == (LARGEST // 2, LARGEST)


# --- finished work ---------------------------------------------------------------------------------------


@given(wide, ranges)
def test_a_finished_set_is_the_set_of_what_was_added(singles: set[int], spans: list[tuple[int, int]]) -> None:
    expected = set(singles) | set(as_set(spans))
    finished = FinishedSet()
    order = sorted(singles)
    random.Random(0).shuffle(order)
    assert all(finished.add(i) for i in order)
    for start, size in spans:
        finished.add_set(IndexSet.span(start, start + size))
    assert len(finished) == len(expected)
    assert list(finished) == sorted(expected)
    assert not any(finished.add(i) for i in order)


@given(wide, ranges)
def test_overlap_and_intersection_agree_with_membership(members: set[int], spans: list[tuple[int, int]]) -> None:
    finished = FinishedSet()
    finished.add_set(IndexSet.of(members))
    asked = as_set(spans)
    common = {i for i in members if i in asked}
    assert finished.overlaps(asked) == bool(common)
    if len(asked) < 1000:
        assert set(finished.within(asked)) == common


@given(wide)
def test_a_finished_set_comes_back_from_its_dump(members: set[int]) -> None:
    finished = FinishedSet()
    finished.add_set(IndexSet.of(members))
    back = FinishedSet.load(finished.dump())
    assert list(back) == sorted(members)
    assert len(back) == len(members)
    assert all(back.add(i) is False for i in members)


def test_a_finished_million_in_random_order_takes_one_bit_each() -> None:
    order = list(range(0, 1_000_000, 7))
    random.Random(1).shuffle(order)
    finished = FinishedSet()
    for i in order:
        finished.add(i)
    dump = finished.dump()
    assert sum(map(len, dump.values())) <= 1_000_000 // 8 + CHUNK // 8
    assert FinishedSet().dump() == {}


@given(
    st.sets(st.one_of(st.integers(0, 60), st.integers(65_500, 65_600), st.integers(131_000, 131_100))),
    st.sets(st.one_of(st.integers(0, 60), st.integers(65_500, 65_600), st.integers(131_000, 131_100))),
)
def test_what_is_taken_out_of_a_finished_set_is_gone_and_the_rest_counts(here: set[int], out: set[int]) -> None:
    finished = FinishedSet()
    finished.add_set(IndexSet.of(here))
    assert set(finished.within(IndexSet.of(out))) == here & out
    assert finished.within(IndexSet.span(0, 200_000)) == IndexSet.of(here)
    finished.discard_set(IndexSet.of(out))
    assert list(finished) == sorted(here - out)
    assert len(finished) == len(here - out)
    assert FinishedSet.load(finished.dump()).dump() == finished.dump()


def test_a_million_members_are_found_and_taken_out_as_ranges() -> None:
    finished = FinishedSet()
    finished.add_set(IndexSet.span(0, 1_000_000))
    finished.discard_set(IndexSet.span(500_000, 500_001))
    assert finished.within(IndexSet.span(0, 1_000_000)).bounds == (0, 500_000, 500_001, 1_000_000)
