"""Little's law N = R W, by hand and for every closed history."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.policy.queueing.littles import QueueFlow


def test_three_jobs_worked_by_hand() -> None:
    """Two come at 0, one at 2; one leaves at 4 (wait 4), two at 6 (waits 6 and 4): area 4 + 6 + 4 = 14."""
    flow = QueueFlow(0.0)
    flow.arrive(2, 0.0)
    flow.arrive(1, 2.0)
    flow.leave(1, 4.0, 4.0)
    flow.leave(2, 6.0 + 4.0, 6.0)
    seen = flow.figures(10.0)
    assert (seen.window_s, seen.arrived, seen.left) == (10.0, 3, 3)
    assert seen.mean_queued == pytest.approx(1.4)
    assert seen.arrivals_per_s == pytest.approx(0.3)
    assert seen.mean_wait_s == pytest.approx(14 / 3)
    assert seen.deviation == pytest.approx(0.0)


def test_waits_told_wrongly_show_as_a_deviation() -> None:
    flow = QueueFlow(0.0)
    flow.arrive(2, 0.0)
    flow.leave(2, 2 * 5.0 - 4.0, 5.0)
    assert flow.figures(10.0).deviation == pytest.approx(0.4)


def test_what_still_waits_shows_as_a_deviation_until_it_has_left() -> None:
    flow = QueueFlow(0.0)
    flow.arrive(4, 0.0)
    assert flow.figures(5.0).deviation == pytest.approx(4.0)
    flow.leave(4, 20.0, 5.0)
    assert flow.figures(5.0).deviation == pytest.approx(0.0)


def test_the_window_slides_and_forgets() -> None:
    flow = QueueFlow(0.0, window_s=60.0, buckets=6)
    flow.arrive(5, 1.0)
    flow.leave(5, 0.0, 1.0)
    seen = flow.figures(35.0)
    assert (seen.window_s, seen.arrived) == (35.0, 5)
    seen = flow.figures(100.0)
    assert seen.arrived == 0 and seen.window_s <= 60.0 and seen.mean_queued == 0.0


def test_a_silence_longer_than_the_window_counts_what_waits_through_it() -> None:
    flow = QueueFlow(0.0, window_s=60.0, buckets=6)
    flow.arrive(3, 0.0)
    seen = flow.figures(1e9)
    assert seen.mean_queued == pytest.approx(3.0)
    assert seen.window_s <= 60.0 and seen.arrived == 0


def test_nothing_is_divided_by_no_time() -> None:
    flow = QueueFlow(7.0)
    flow.arrive(2, 7.0)
    seen = flow.figures(7.0)
    assert (seen.mean_queued, seen.arrivals_per_s, seen.mean_wait_s) == (2.0, 0.0, 0.0)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 50), st.floats(0, 30)), max_size=60), st.floats(0.1, 100))
def test_the_law_holds_for_every_closed_history(steps: list[tuple[bool, int, float]], rest_s: float) -> None:
    """Whatever comes and goes, in whatever order, over an interval in which the queue is empty at both ends."""
    now, flow = 0.0, QueueFlow(0.0, window_s=4000.0, buckets=7)
    line: deque[float] = deque()

    def leave(jobs: int) -> None:
        some = [line.popleft() for _ in range(min(jobs, len(line)))]
        flow.leave(len(some), sum(now - since for since in some), now)

    for comes, jobs, pause_s in steps:
        now += pause_s
        if comes:
            line.extend([now] * jobs)
            flow.arrive(jobs, now)
        else:
            leave(jobs)
    now += 1.0
    leave(len(line))
    seen = flow.figures(now + rest_s)
    assert seen.arrived == seen.left and flow.queued == 0
    assert seen.mean_queued == pytest.approx(seen.arrivals_per_s * seen.mean_wait_s, abs=1e-6, rel=1e-6)
