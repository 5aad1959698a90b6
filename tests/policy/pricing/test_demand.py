"""Jobs that are alike in their data are one block, however many they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.indexset import IndexSet
from diana.policy.pricing import demand as module
from diana.policy.pricing.demand import Demand, blocks
from tests.policy.grids import demand, need

readers = st.lists(st.sets(st.integers(0, 30)).map(IndexSet.of), max_size=5)


@given(st.sets(st.integers(0, 30), min_size=1).map(IndexSet.of), readers)
def test_blocks_partition_the_jobs_by_the_needs_they_share(jobs: IndexSet, reading: list[IndexSet]) -> None:
    asked = demand(jobs, needs=[need(f"d{n}", 1, r, "home") for n, r in enumerate(reading)])
    found = blocks(asked)
    assert sorted(i for b in found for i in b.indices) == sorted(jobs)
    for block in found:
        for i in block.indices:
            assert block.needs == tuple(n for n, r in enumerate(reading) if i in r)
    lowest = [b.indices.bounds[0] for b in found]
    assert lowest == sorted(lowest)


def test_a_million_jobs_without_data_are_one_block() -> None:
    (block,) = blocks(demand(1_000_000))
    assert block.indices.bounds == (0, 1_000_000)
    assert block.needs == ()


def test_a_file_per_job_gives_a_block_per_job() -> None:
    some = [need(f"d{i}", 1, IndexSet.span(i, i + 1), "home") for i in range(50)]
    assert len(blocks(demand(50, needs=some))) == 50


@pytest.mark.wide
def test_too_many_blocks_are_taken_together_by_where_their_data_lie() -> None:
    count = module.MAX_BLOCKS + 10
    some = [need(f"d{i}", 8, IndexSet.span(10 * i, 10 * i + 10), "a" if i % 2 else "b") for i in range(count)]
    found = blocks(demand(10 * count, needs=some))
    assert len(found) == 2
    assert all(b.divisible for b in found)
    assert sum(len(b.indices) for b in found) == 10 * count
    assert {len(b.needs) for b in found} == {count // 2}


def test_needs_of_other_jobs_do_not_matter() -> None:
    asked: Demand = demand(IndexSet.span(10, 20), needs=[need("d", 1, IndexSet.span(0, 15), "home")])
    assert [(b.indices.bounds, b.needs) for b in blocks(asked)] == [((10, 15), (0,)), ((15, 20), ())]
