"""How long a gang waits and holds, try after try (SPEC K5)."""

from __future__ import annotations

import pytest

from diana.policy.gang import holding
from diana.policy.gang.claim_times import ClaimSchedule


def test_each_try_may_hold_for_twice_as_long_as_the_one_before_up_to_a_day() -> None:
    assert [holding.hold_s(120.0, tries) for tries in range(4)] == [120.0, 240.0, 480.0, 960.0]
    assert holding.hold_s(120.0, 1000) == holding.MOST_S


def test_processors_are_left_alone_for_as_long_as_they_were_held_and_for_a_while_where_none_were() -> None:
    assert [holding.pause_s(tries, 0.0) for tries in range(6)] == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    assert holding.pause_s(0, 300.0) == 300.0


def test_a_try_waits_for_what_was_expected_and_as_much_again() -> None:
    assert holding.patience_s(120.0, 1, 1000.0) == 2240.0


@pytest.mark.parametrize(("tries", "at_s"), [(0, 1360.0), (1, 1240.0), (2, 1120.0), (3, 1000.0), (9, 1000.0)])
def test_a_claim_is_asked_for_by_the_papers_formula_with_l_lowered_after_each_try(tries: int, at_s: float) -> None:
    # Section 6.1: JPT = 1000 and 480 s to the start give 1360 with L = 0.75.
    assert holding.asked_at_s(1000.0, 480.0, tries) == at_s
    assert ClaimSchedule(1000.0, 480.0).first_s == 1360.0
