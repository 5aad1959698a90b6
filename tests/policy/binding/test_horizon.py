"""The horizon of late binding: how long before its start a job is bound, and how many are (policy/binding)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.policy.binding import horizon
from diana.policy.binding.horizon import Ahead
from diana.policy.queueing.forecast import Slots

NOBODY = Ahead(0.0, 0.0)
ends = st.lists(st.tuples(st.floats(0, 500), st.integers(1, 8)), max_size=6)


def test_a_free_processor_takes_one_long_job_and_no_second() -> None:
    assert horizon.fitting(Slots(3, []), 1, 120.0, NOBODY, 2.0) == 3


def test_short_jobs_come_several_to_a_processor() -> None:
    assert horizon.fitting(Slots(2, []), 1, 1.0, NOBODY, 2.5) == 6


def test_what_waits_before_them_takes_the_processors() -> None:
    busy = Slots(2, [(60.0, 4)])
    assert horizon.fitting(busy, 1, 100.0, Ahead(1.0, 100.0), 5.0) == 1
    assert horizon.fitting(busy, 1, 100.0, Ahead(2.0, 200.0), 5.0) == 0


def test_a_processor_that_comes_free_within_the_horizon_counts_and_no_later_one() -> None:
    busy = Slots(0, [(3.0, 1), (9.0, 1)])
    assert horizon.fitting(busy, 1, 100.0, NOBODY, 4.0) == 1
    assert horizon.fitting(busy, 1, 100.0, NOBODY, 1.0) == 0


def test_a_wide_job_needs_all_its_processors_at_once() -> None:
    busy = Slots(1, [(50.0, 3)])
    assert horizon.fitting(busy, 4, 10.0, NOBODY, 5.0) == 0
    assert horizon.fitting(Slots(9, []), 4, 10.0, NOBODY, 5.0) == 2


@pytest.mark.parametrize("stage_s", [0.0, 30.0])
def test_the_horizon_covers_stage_in_and_the_hand_over(stage_s: float) -> None:
    assert horizon.seconds(stage_s, 0.1) == pytest.approx(stage_s + horizon.HAND_OVER_S + 0.3)


def test_jobs_of_seconds_are_called_in_batches_and_jobs_of_minutes_are_not() -> None:
    assert horizon.MOST_BATCH_S >= horizon.batch_s(1.0) > horizon.batch_s(600.0) == 0.0


@given(free=st.integers(0, 20), ends=ends, run_s=st.floats(0.1, 500), more=st.floats(0, 20), until_s=st.floats(0, 60))
def test_more_work_ahead_never_lets_more_jobs_in(
    free: int, ends: list[tuple[float, int]], run_s: float, more: float, until_s: float
) -> None:
    slots = Slots(free, ends)
    few = horizon.fitting(slots, 1, run_s, Ahead(more, more * run_s), until_s)
    assert 0 <= few <= horizon.fitting(slots, 1, run_s, NOBODY, until_s)


def test_a_million_jobs_are_called_in_hundreds_of_pieces() -> None:
    left, calls = 1_000_000, 0
    while left:
        left -= min(left, max(20, horizon.chunk(left * 1000 // 4, 1000)))
        calls += 1
    assert calls < 1000


@given(waited_s=st.floats(0, 1e6), drains_s=st.floats(0, 1e6), sooner_s=st.floats(0, 1e6))
def test_a_place_is_given_first_where_processors_come_free_first_and_in_the_end_anywhere(
    waited_s: float, drains_s: float, sooner_s: float
) -> None:
    if horizon.is_worth_a_place(drains_s, waited_s):
        assert horizon.is_worth_a_place(min(drains_s, sooner_s), waited_s)
    assert horizon.is_worth_a_place(drains_s, 5.1 * drains_s)
    assert not horizon.is_worth_a_place(drains_s + 1, 4 * drains_s)


def test_jobs_pass_one_with_a_place_if_they_are_over_before_it_could_start() -> None:
    busy = Slots(6, [(60.0, 10)])
    assert horizon.passing(busy, 1, 50.0, 16, 0.0, 2.0) == 6
    assert horizon.passing(busy, 4, 50.0, 16, 0.0, 2.0) == 1
    assert horizon.passing(busy, 1, 59.0, 16, 0.0, 2.0) == 0, "they begin within two seconds"
    assert horizon.passing(busy, 1, 50.0, 16, 4.0, 2.0) == 2


def test_longer_jobs_pass_one_with_a_place_on_what_it_leaves_over() -> None:
    busy = Slots(6, [(60.0, 13)])
    assert horizon.passing(busy, 1, 500.0, 16, 0.0, 2.0) == 3
    assert horizon.passing(busy, 1, 500.0, 20, 0.0, 2.0) == 0, "it fits nowhere"


@given(free=st.integers(0, 20), ends=ends, run_s=st.floats(0.1, 500), kept=st.integers(1, 30), until_s=st.floats(0, 60))
def test_jobs_that_pass_never_delay_one_with_a_place(
    free: int, ends: list[tuple[float, int]], run_s: float, kept: int, until_s: float
) -> None:
    slots = Slots(free, ends)
    jobs = horizon.passing(slots, 1, run_s, kept, 0.0, until_s)
    begin_s = slots.starts_s(jobs, 0.0) if jobs else 0.0
    ends_now = [(end_s, width) for end_s, width in ends] + [(max(begin_s, until_s) + run_s, jobs)] if jobs else ends
    assert begin_s <= until_s
    if jobs:
        start_s = slots.starts_s(kept, 0.0)
        assert Slots(free, ends_now).free(start_s) - jobs >= kept
