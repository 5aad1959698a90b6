"""Scores of forecasts, and the range that they give the next one."""

from __future__ import annotations

from math import exp
from random import Random

import pytest

from diana.model.past_ends import LEAST_SCORES, MOST_SCORES, UNCORRECTED, PastEnds, corrected


def test_too_few_scores_correct_nothing_and_give_no_range() -> None:
    past = PastEnds()
    for _ in range(LEAST_SCORES - 1):
        past.add("runs", 100.0, 100.0, 150.0)
    assert past.correction("runs") == UNCORRECTED
    assert past.error().groups == 0


def test_scores_are_bounded_and_kept_by_what_forecasts_rest_on() -> None:
    past = PastEnds()
    for _ in range(MOST_SCORES + 10):
        past.add("runs", 100.0, 120.0, 150.0)
        past.add("declared", 100.0, 100.0, 300.0)
        past.add("guess", 100.0, 100.0, 1e6)
    assert past.correction("runs") == pytest.approx((1.5, 1.5, 1.5, MOST_SCORES))
    assert past.correction("declared") == pytest.approx((3.0, 3.0, 3.0, MOST_SCORES))
    assert past.correction("guess") == UNCORRECTED
    assert past.error().groups == MOST_SCORES


def test_the_range_is_that_between_conformal_ranks() -> None:
    """The 2nd and the 18th of 19 scores: a 20th lies between them in 16 of its 20 possible places."""
    scores = [0.1 * n for n in range(1, 20)]
    found = corrected(scores[::-1])
    assert (found.low, found.high) == pytest.approx((exp(0.2), exp(1.8)))
    assert found.low <= found.middle <= found.high


def test_noise_around_a_right_forecast_does_not_move_it() -> None:
    assert corrected([0.01, -0.2, 0.3, 0.05, -0.25, 0.1, -0.1, 0.2, -0.3, 0.0]).middle == pytest.approx(1.0)
    assert corrected([0.5 + 0.01 * n for n in range(20)]).middle == pytest.approx(exp(0.595), rel=0.03)


@pytest.mark.parametrize("count", [5, 6, 7, 8, 9, 10, 19, 30, MOST_SCORES])
def test_the_range_holds_eight_of_ten_whatever_the_number_of_scores(count: int) -> None:
    rng = Random(count)
    held = 0
    for _ in range(2000):
        *scores, next_one = (rng.gauss(0.2, 0.4) for _ in range(count + 1))
        found = corrected(scores)
        held += found.low <= exp(next_one) <= found.high
    assert 0.77 <= held / 2000 <= 0.88
