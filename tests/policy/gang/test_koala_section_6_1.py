"""Job claiming times, to the digit (Mohamed & Epema, section 6.1; SPEC K5)."""

import math

from hypothesis import given
from hypothesis import strategies as st

from diana.policy.gang.claim_times import LEAST_STEP_S, ClaimSchedule, lowered
from diana.policy.gang.requests import GangPlacement, PlacedComponent, PlacedFile


def test_a_gang_placed_at_1000_with_480_seconds_of_files_claims_at_these_times():
    schedule = ClaimSchedule(placed_s=1000, transfer_s=480, part=0.75)
    assert schedule.start_s == 1480
    assert schedule.times(4) == [1360, 1450, 1472.5, 1478.125]


def test_the_times_follow_the_closed_form():
    schedule = ClaimSchedule(1000, 480, 0.75)
    for n, due in enumerate(schedule.times(4)):
        assert math.isclose(due, 1480 - 0.25 ** (n + 1) * 480)


def test_tries_end_where_less_than_a_second_is_left():
    times = ClaimSchedule(1000, 480, 0.75).times(100)
    # 1479.53 would be within a second of the start, and a second after 1478.125 is not.
    assert times == [1360, 1450, 1472.5, 1478.125, 1479.53125]


def test_a_gang_without_files_claims_at_once_and_once():
    assert ClaimSchedule(1000, 0).times(10) == [1000]


def test_with_l_of_one_the_claim_is_made_at_the_start_and_with_zero_at_the_placement():
    assert ClaimSchedule(1000, 480, 1.0).times(3) == [1480]
    assert ClaimSchedule(1000, 480, 0.0).times(3) == [1000, 1001, 1002]


def test_l_is_lowered_by_a_quarter_down_to_its_bound():
    parts = [0.75]
    for _ in range(4):
        parts.append(lowered(parts[-1]))
    assert parts == [0.75, 0.5, 0.25, 0.0, 0.0]
    assert lowered(0.5, least=0.4) == 0.4


def test_the_transfer_time_of_a_gang_is_that_of_its_slowest_component():
    parts = [
        PlacedComponent(0, 4, "A", (PlacedFile("f", "B", 100.0), PlacedFile("g", "B", 50.0))),
        PlacedComponent(1, 4, "B", (PlacedFile("f", "B", 0.0),)),
    ]
    assert GangPlacement(tuple(parts)).transfer_s == 150.0


@given(st.floats(0, 1e6), st.floats(0, 1e5), st.floats(0, 1))
def test_tries_end_and_each_is_later_than_the_one_before_and_never_after_the_start(placed_s, transfer_s, part):
    schedule = ClaimSchedule(placed_s, transfer_s, part)
    due: float | None = schedule.first_s
    for _ in range(int(transfer_s / LEAST_STEP_S) + 2):
        assert due is not None and placed_s <= due <= schedule.start_s + 1e-6
        later = schedule.after(due)
        if later is None:
            return
        assert later > due
        due = later
    raise AssertionError("tries went on")
