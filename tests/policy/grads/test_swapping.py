"""Slow processes exchanged for spares, and data divided anew by measured speeds (SPEC G6)."""

from __future__ import annotations

from math import inf, nan

import pytest

from diana.policy.grads.swapping import EXCHANGE_S, Exchange, Probed, Timed, exchange, rebalanced, swap

ACTIVE = (Probed("a", 0.01, 100), Probed("b", 0.04, 100), Probed("c", 0.012, 100))


def test_the_slowest_is_exchanged_for_the_best_spare_where_that_gains() -> None:
    found = swap(ACTIVE, [Probed("x", 0.02), Probed("y", 0.011)], 50, 3.0, 0.0)
    assert found is not None and (found.slow, found.spare) == ("b", "y")
    assert found.gain_s == pytest.approx(50 * (4.0 - 1.2) - 3.0), "the others are the slowest then"


@pytest.mark.parametrize(
    ("spares", "steps", "cost_s", "least_s"),
    [
        ([], 50, 0.0, 0.0),
        ([Probed("x", 0.05)], 50, 0.0, 0.0),
        ([Probed("x", 0.02)], 1, 3.0, 0.0),
        ([Probed("x", 0.02)], 50, 0.0, 101.0),
    ],
    ids=["no spare", "a slower spare", "it is nearly over", "too small a gain"],
)
def test_nothing_is_exchanged_where_it_does_not_gain(
    spares: list[Probed], steps: float, cost_s: float, least_s: float
) -> None:
    assert swap(ACTIVE, spares, steps, cost_s, least_s) is None


def test_the_one_with_the_longest_step_is_slow_and_not_the_one_with_the_slowest_item() -> None:
    found = swap([Probed("a", 0.01, 900), Probed("b", 0.04, 10)], [Probed("x", 0.001)], 10, 0.0, 0.0)
    assert found is not None and found.slow == "a"


def test_data_are_divided_anew_by_measured_speeds() -> None:
    found = rebalanced([Probed("a", 0.01, 100), Probed("b", 0.04, 100), Probed("c", 0.02, 80)])
    assert found == (160, 40, 80)
    assert rebalanced([Probed("a", nan, 7), Probed("b", 0.1, 3)]) == (7, 3)
    assert rebalanced([Probed("a", inf, 7), Probed("b", 0.1, 3)]) == (7, 3)
    assert rebalanced([Probed("a", 0.0, 7), Probed("b", 0.1, 3)]) == (7, 3)


def timed(*seconds: float, first: int = 0, last: dict[int, float] | None = None) -> list[Timed]:
    last = last or {}
    return [Timed(first + at, f"site{first + at}", last.get(first + at, one), one) for at, one in enumerate(seconds)]


def test_a_slow_process_is_exchanged_where_the_gain_beats_the_cost_and_the_error() -> None:
    found, why = exchange(timed(0.1, 0.5, 0.1), timed(0.2, 0.12, first=3), 100)
    assert found == Exchange(1, 4)
    assert why == (
        "rank 1 at site1 takes 0.5 s for its part of a step, the spare rank 4 at site4 0.12 s, over 100 steps:"
        f" {100 * 0.38 - EXCHANGE_S:.0f} s sooner, more than the error of 0 s"
    )


@pytest.mark.parametrize(
    ("last", "steps", "why"),
    [
        ({}, 4, "no exchange would pay"),
        ({1: 0.06}, 100, "no exchange would pay"),
        ({0: 2.0}, 100, "the latest steps do not say so"),
        ({1: 1.4}, 100, "43 s sooner, and that may be wrong by 45 s"),
        ({3: 0.6}, 100, "no exchange would pay"),
    ],
    ids=["it is nearly over", "the load is over", "another is slow now", "the pace changes", "so is the spare"],
)
def test_a_process_stays_where_that_is_not_sure(last: dict[int, float], steps: float, why: str) -> None:
    found, told = exchange(timed(0.05, 0.5, 0.05, last=last), timed(0.05, first=3, last=last), steps)
    assert found is None and told.endswith(why)


def test_of_equal_ones_the_ranks_decide_and_a_gang_of_many_is_in_their_order() -> None:
    found, _ = exchange(timed(*[0.5, 0.1] + [0.1] * 10), timed(0.1, 0.1, first=12), 100)
    assert found == Exchange(0, 12)
