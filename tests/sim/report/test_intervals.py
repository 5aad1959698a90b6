"""Intervals hold what they promise: Student's t against printed tables, coverage against drawn values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.sim.report.intervals import Interval, interval, students_t

TABLE = {
    1: 12.706,
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    9: 2.262,
    10: 2.228,
    29: 2.045,
    30: 2.042,
    60: 2.000,
    120: 1.980,
}
"""Two-sided 95 %, as every textbook prints it."""


@pytest.mark.parametrize("freedom", TABLE)
def test_the_quantile_is_that_of_the_printed_table(freedom: int) -> None:
    assert students_t(0.975, freedom) == pytest.approx(TABLE[freedom], abs=6e-4)


def test_two_degrees_of_freedom_have_a_closed_form() -> None:
    """t = a * sqrt(2 / (1 - a^2)) with a = 2p - 1."""
    for share in (0.6, 0.9, 0.975, 0.9995):
        a = 2 * share - 1
        assert students_t(share, 2) == pytest.approx(a * math.sqrt(2 / (1 - a * a)), rel=1e-9)
    assert students_t(0.75, 1) == pytest.approx(1.0, rel=1e-12), "one degree: the tangent"


def test_many_degrees_of_freedom_end_at_the_normal_distribution() -> None:
    assert students_t(0.975, 20_000) == pytest.approx(1.959964, abs=2e-4)


@given(st.integers(1, 200), st.floats(0.51, 0.999))
def test_more_seeds_never_widen_the_quantile(freedom: int, share: float) -> None:
    assert students_t(share, freedom) >= students_t(share, freedom + 1)


def test_a_hand_worked_interval() -> None:
    """Mean 4, variance 10/3, t(3) = 3.182446: half = 3.182446 * sqrt(10/12)."""
    found = interval([2.0, 3.0, 5.0, 6.0])
    assert found is not None and found.low is not None and found.high is not None
    assert found.mean == 4.0 and found.high - found.mean == pytest.approx(3.182446 * math.sqrt(10 / 12), rel=1e-6)
    assert not found.zero_lies_outside() or found.low > 0


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    assert interval([7.0]) == Interval(7.0, None, None) and interval([]) is None
    assert not Interval(7.0, None, None).zero_lies_outside()


def test_of_many_samples_95_per_cent_hold_the_true_mean() -> None:
    rng = np.random.Generator(np.random.PCG64(7))
    held = 0
    for _ in range(2000):
        found = interval(rng.normal(3.0, 2.0, 5).tolist())
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= 3.0 <= found.high
    assert 0.94 <= held / 2000 <= 0.96


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_the_mean_lies_within_and_scaling_scales_all(values: list[float]) -> None:
    found = interval(values)
    assert found is not None and found.low is not None and found.high is not None
    assert found.low <= found.mean <= found.high
    twice = found.times(2.0)
    assert (twice.mean, twice.low, twice.high) == (2 * found.mean, 2 * found.low, 2 * found.high)
