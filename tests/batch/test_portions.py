"""Submitted jobs never hold more processors than the operator said (`[clusters.X] slots`)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from diana.adapters.batch.portions import NO_LIMIT, NOTHING, Limit, Portion, portion


@given(
    limit=st.builds(Limit, st.integers(1, 50), st.booleans()),
    waiting=st.integers(1, 300),
    width=st.integers(1, 8),
    taken=st.integers(0, 60),
    more=st.integers(0, 300),
)
def test_what_is_submitted_fits_into_what_is_left(
    limit: Limit, waiting: int, width: int, taken: int, more: int
) -> None:
    tasks, at_once = portion(limit, waiting, width, taken, waiting * width + more)
    lanes = at_once or tasks
    assert lanes <= tasks <= waiting
    assert lanes * width <= max(0, limit.processors - taken)
    # Whatever fits is used.
    assert lanes == min(waiting, max(0, limit.processors - taken) // width)
    assert limit.throttles or tasks == lanes


def test_without_a_limit_all_of_it_leaves() -> None:
    assert portion(NO_LIMIT, 70, 3, 900, 900) == Portion(70, 0)


def test_each_lane_is_given_as_much_as_the_others_have() -> None:
    assert portion(Limit(4, True), 100, 1, taken=0, held=100) == Portion(100, 4)
    assert portion(Limit(4, True), 80, 1, taken=3, held=100) == Portion(25, 1)


def test_near_the_end_no_lane_keeps_work_while_others_idle() -> None:
    assert portion(Limit(4, True), 2, 1, taken=2, held=4) == Portion(2, 0)
    assert portion(Limit(4, True), 2, 1, taken=3, held=5) == Portion(1, 0)


def test_where_all_is_taken_nothing_leaves() -> None:
    assert portion(Limit(4, True), 9, 1, taken=4, held=13) == NOTHING
    assert portion(Limit(4), 9, 3, taken=2, held=29) == NOTHING
