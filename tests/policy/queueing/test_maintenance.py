"""A forecast around times at which nothing runs."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.policy.queueing.maintenance import around

CLOSED = ((100.0, 160.0),)


@pytest.mark.parametrize(
    ("first_s", "end_s", "run_s", "hold_s", "then"),
    [
        (0.0, 100.0, 10.0, 10.0, (0.0, 100.0)),
        (0.0, 100.0, 10.0, 20.0, (0.0, 170.0)),
        (0.0, 101.0, 10.0, 10.0, (0.0, 161.0)),
        (0.0, 150.0, 30.0, 30.0, (0.0, 160.0 + 60.0)),
        (0.0, 120.0, 120.0, 120.0, (160.0, 280.0)),
        (95.0, 105.0, 10.0, 10.0, (160.0, 170.0)),
        (130.0, 140.0, 10.0, 10.0, (190.0, 200.0)),
        (inf, inf, 10.0, 10.0, (inf, inf)),
    ],
)
def test_work_goes_on_when_the_site_opens(
    first_s: float, end_s: float, run_s: float, hold_s: float, then: tuple[float, float]
) -> None:
    assert around(CLOSED, first_s, end_s, run_s, hold_s) == pytest.approx(then)


def test_a_window_that_lasts_now_delays_all_and_each_later_one_what_is_left() -> None:
    assert around(((-5.0, 50.0),), 0.0, 10.0, 10.0, 10.0) == (50.0, 60.0)
    assert around(((-5.0, 50.0), (60.0, 100.0)), 0.0, 20.0, 10.0, 10.0) == (50.0, 110.0)


times = st.floats(0.0, 1e4)


@given(st.lists(st.tuples(times, st.floats(1.0, 1e3)), max_size=5), times, times, st.floats(0.1, 1e3), times)
def test_no_job_starts_in_a_window_or_too_late_before_one_and_nothing_gets_sooner(
    spans: list[tuple[float, float]], first_s: float, more_s: float, run_s: float, slack_s: float
) -> None:
    closed, at = [], 0.0
    for gap_s, length_s in spans:
        closed.append((at + gap_s, at + gap_s + length_s))
        at += gap_s + length_s + 1.0
    end_s, hold_s = first_s + run_s + more_s, run_s + slack_s
    first, end = around(closed, first_s, end_s, run_s, hold_s)
    assert first >= first_s and end >= end_s - 1e-6 and end >= first
    for from_s, to_s in closed:
        assert first >= to_s - 1e-6 or first + hold_s <= from_s + 1e-6
        assert not from_s + 1e-6 < end < to_s - 1e-6
