"""Contracts and rescheduling as rules (SPEC G5, G6)."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.ids import SiteId
from diana.policy.grads.contract import StepPace, Steps, judge
from diana.policy.grads.rescheduling import RESTART_S, SAVE_S, Here, There, decide

A, B, C = SiteId("a"), SiteId("b"), SiteId("c")
TOLERANCE = (0.7, 1.3)


def reported(*rows: tuple[float, float], window: int = 3, total: float = 100.0) -> Steps:
    steps = Steps(window)
    for at_s, done in rows:
        steps.take(at_s, done, total)
    return steps


def test_the_pace_is_that_of_the_last_step_and_the_mean_of_the_window() -> None:
    steps = reported((0, 0), (1, 1), (2, 2), (3, 3), (5, 4))
    assert steps.pace(5.0) == StepPace(last_s=2.0, mean_s=(5 - 1) / 3)


def test_a_spike_is_no_violation_and_a_lasting_load_is_within_the_window_and_a_step() -> None:
    rows = [(float(at), float(at)) for at in range(10)]
    spike = reported(*rows, (13.0, 10.0))
    pace = spike.pace(13.0)
    assert pace is not None and judge(pace, 10, 100, 300.0, TOLERANCE).state == "kept"
    steps, at_s = reported(*rows), 9.0
    for number in range(1, 5):
        at_s += 2.0
        steps.take(at_s, 9.0 + number, 100.0)
        pace = steps.pace(at_s)
        assert pace is not None
        if judge(pace, 9 + number, 100, 100.0, TOLERANCE).state == "slow":
            break
    assert number <= 3 + 1


def test_a_step_that_does_not_end_is_slow_while_it_lasts() -> None:
    steps = reported((0, 0), (1, 1), (2, 2), (3, 3))
    stopped = steps.pace(63.0)
    assert stopped is not None and stopped.last_s == 60.0
    assert judge(stopped, 3, 100, 100.0, TOLERANCE).state == "slow"
    over = reported((0, 98), (1, 99), (2, 100)).pace(900.0)
    assert over == StepPace(1.0, 1.0), "a job that did all its steps is not waited for"


@pytest.mark.parametrize("late_s", [0.0, 0.9, 3.0])
def test_a_job_whose_steps_are_shorter_than_the_time_between_two_looks_keeps_its_pace(late_s: float) -> None:
    """Ten steps a second, looked at once a second by a busy machine: what nobody has looked at yet is no slow step."""
    steps = Steps(3)
    for second in range(1, 30):
        look_s = second + late_s
        for now_s in (look_s - 0.01, look_s):
            pace = steps.pace(now_s)
            if pace is not None:
                assert judge(pace, steps.done, 1000, 100.0, TOLERANCE).state == "kept", (second, pace)
                assert pace.mean_s == pytest.approx(0.1) and pace.last_s == pytest.approx(0.1)
        steps.take(float(second), second * 10.0, 1000.0, look_s)
    # One that stopped is seen all the same.
    stopped = steps.pace(29 + late_s + 10.0)
    assert stopped is not None and judge(stopped, steps.done, 1000, 100.0, TOLERANCE).state == "slow"


@pytest.mark.parametrize(
    ("done", "total"), [(-1, 100), (5, 0), (101, 100), (nan, 100), (5, nan), (5, inf), (inf, inf), (5, -5)]
)
def test_nonsense_is_no_report(done: float, total: float) -> None:
    steps = reported((0, 0), (1, 1))
    before = steps.pace(1.0)
    assert not steps.take(2.0, done, total)
    assert steps.pace(1.0) == before


def test_reports_out_of_order_change_nothing_and_progress_that_runs_backwards_begins_anew() -> None:
    steps = reported((0, 0), (1, 1), (2, 2))
    assert not steps.take(1.5, 50, 100) and not steps.take(2.0, 50, 100)
    assert steps.take(3.0, 1, 100)
    assert steps.pace(3.0) is None and steps.done == 1
    assert steps.take(4.0, 2, 100)
    assert steps.pace(4.0) == StepPace(1.0, 1.0)


@given(st.lists(st.tuples(st.floats(allow_nan=True), st.floats(allow_nan=True), st.floats(allow_nan=True))))
def test_whatever_is_reported_the_pace_is_a_number_or_none(rows: list[tuple[float, float, float]]) -> None:
    steps = Steps(3)
    for row in rows:
        steps.take(*row)
    pace = steps.pace(0.0)
    assert pace is None or (pace.last_s > 0 and pace.mean_s >= 0)


def test_nothing_foretold_is_nothing_broken() -> None:
    kept = judge(StepPace(5.0, 5.0), 10, 100, 0.0, TOLERANCE)
    assert (kept.state, kept.mean, kept.remaining_s) == ("", 0.0, 450.0)


def test_too_fast_is_said_too() -> None:
    assert judge(StepPace(0.5, 0.6), 10, 100, 100.0, TOLERANCE).state == "fast"


def there(site: SiteId, run_s: float, *, before_s: float = 0.0, error_s: float = 0.0) -> There:
    return There(site, before_s, run_s, 0.0, error_s)


def test_under_load_at_a_quarter_of_the_run_it_moves_and_at_nine_tenths_it_stays() -> None:
    early, late = Here(225.0, 0.0, 0.75), Here(30.0, 0.0, 0.1)
    other = [there(B, 100.0)]
    assert decide(early, other, 10.0).to == B
    assert decide(early, other, 10.0).gain_s == 225.0 - 75.0 - SAVE_S - RESTART_S
    assert decide(late, other, 10.0).to is None


def test_a_gain_within_the_error_of_the_predictions_moves_nothing() -> None:
    here = Here(200.0, 40.0, 0.5)
    assert decide(here, [there(B, 200.0)], 10.0).to == B
    refused = decide(here, [there(B, 200.0, error_s=60.0)], 10.0)
    assert refused.to is None and "must gain more than 100 s" in refused.reason


def test_the_site_where_it_ends_first_is_taken_and_among_equals_the_first_by_name() -> None:
    here = Here(500.0, 0.0, 0.5)
    assert decide(here, [there(C, 90.0), there(B, 100.0)], 10.0).to == C
    assert decide(here, [there(C, 90.0), there(B, 90.0)], 10.0).to == B
    assert decide(here, [there(B, 90.0, before_s=400.0), there(C, 100.0)], 10.0).to == C


def test_nobody_else_is_a_reason() -> None:
    verdict = decide(Here(500.0, 0.0, 0.5), [], 10.0)
    assert (verdict.to, verdict.reason) == (None, "no other site takes it")
