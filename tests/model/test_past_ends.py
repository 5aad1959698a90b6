"""Scores of forecasts, and the range that they give the next one."""

from __future__ import annotations

from math import exp
from random import Random

import pytest

from diana.model.past_ends import (
    LEAST_OF_CLASS,
    LEAST_OF_SITE,
    LEAST_SCORES,
    MOST_CLASSES,
    MOST_OF_CLASS,
    MOST_SCORES,
    UNCORRECTED,
    PastEnds,
    corrected,
)


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


def test_a_users_program_has_a_range_of_its_own_once_enough_of_its_groups_were_scored() -> None:
    past = PastEnds()
    for n in range(LEAST_OF_CLASS):
        past.add("runs", 100.0, 100.0, 200.0 + n, owner="ann@lab", program="p")
        past.add("runs", 100.0, 100.0, 50.0 - n, owner="bob@lab", program="p")
    assert past.correction("runs", "ann@lab", "p").low >= 2.0 and past.correction("runs", "bob@lab", "p").high <= 0.5
    assert past.correction("runs", "ann@lab", "new").low >= 2.0, "the user's other programs are of the next class"
    wide = past.correction("runs", "cy@lab", "p")
    assert wide.low < 1.0 < wide.high and wide == past.correction("runs"), "of a new user nothing is known but of all"
    assert past.correction("declared", "ann@lab", "p") == UNCORRECTED


def test_classes_are_bounded_and_those_scored_last_stay() -> None:
    past = PastEnds()
    for n in range(MOST_CLASSES):
        for _ in range(MOST_OF_CLASS + 5):
            past.add("runs", 100.0, 100.0, 150.0, owner=f"u{n}@lab", program="p")
    assert len(past.classes) == MOST_CLASSES and f"runs u{MOST_CLASSES - 1}@lab p" in past.classes
    assert max(map(len, past.classes.values())) == MOST_OF_CLASS


@pytest.mark.parametrize("drift", [0.0, 0.01, 0.03])
def test_eight_of_ten_ranges_hold_also_while_groups_take_longer_and_longer(drift: float) -> None:
    """A range with a fixed tail would hold none at the end of the fastest drift."""
    rng, past, held = Random(7), PastEnds(), list[bool]()
    for n in range(600):
        found = past.correction("runs")
        achieved_s = 100.0 * exp(rng.gauss(drift * n, 0.4))
        bounds_s = (100.0 * found.low, 100.0 * found.high) if found.groups else (-1.0, -1.0)
        past.add("runs", 100.0, 100.0, achieved_s, bounds_s=bounds_s)
        if n >= 100:
            held.append(bounds_s[0] <= achieved_s <= bounds_s[1])
    assert 0.75 <= sum(held) / len(held) <= 0.85
    assert past.error().ranges == MOST_SCORES and 0.6 <= past.error().held <= 0.95


def test_a_site_has_a_range_of_its_own_once_enough_of_a_users_program_was_planned_for_it() -> None:
    past = PastEnds()
    for n in range(LEAST_OF_SITE):
        past.add("runs", 100.0, 100.0, 200.0 + n, owner="ann@lab", program="p", site="slow")
        past.add("runs", 100.0, 100.0, 50.0 - 0.1 * n, owner="ann@lab", program="p", site="fast")
    past.add("runs", 100.0, 100.0, 900.0, owner="ann@lab", program="p", site="new")
    slow, fast = (past.correction("runs", "ann@lab", "p", site) for site in ("slow", "fast"))
    assert slow.low >= 2.0 and fast.high <= 0.5
    wide = past.correction("runs", "ann@lab", "p")
    assert wide.low < 1.0 < wide.high
    assert past.correction("runs", "ann@lab", "p", "new") == wide, "too few there: the program's at all sites"
    assert past.correction("runs", "ann@lab", "q", "slow") == past.correction("runs", "ann@lab")
