"""SPEC D7 (section X of the paper): when queues are congested, and which level is offered then."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.policy.migration.congestion import (
    BUCKETS,
    ArrivalWindow,
    CongestionSettings,
    Rates,
    congested,
    judge,
    offered,
)
from diana.policy.queueing.priority import Level

rates = st.floats(0, 1e6)
shares = st.floats(0, 1)


@pytest.mark.parametrize(
    ("arrivals", "starts", "threshold", "expected"),
    [
        (10.0, 5.0, 0.4, True),
        (10.0, 5.0, 0.5, False),
        (10.0, 10.0, 0.0, False),
        (10.0, 9.9, 0.0, True),
        (5.0, 10.0, 0.0, False),
        (10.0, 0.0, 1.0, False),
        (0.0, 0.0, 0.0, False),
        (0.0, 3.0, 0.0, False),
    ],
)
def test_the_formula_of_section_x(arrivals: float, starts: float, threshold: float, expected: bool) -> None:
    assert congested(arrivals, starts, threshold) is expected


@given(rates, rates, shares, shares)
def test_a_higher_threshold_never_makes_for_more_migration(a: float, s: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert congested(a, s, low) or not congested(a, s, high)


@given(rates, shares)
def test_a_site_that_starts_as_many_as_come_is_never_congested(a: float, threshold: float) -> None:
    assert not congested(a, a, threshold) and not congested(0.0, a, threshold) and not congested(a, 0.0, 1.0)


def test_the_verdict_tells_both_rates() -> None:
    settings = CongestionSettings()
    assert judge(Rates(300.0, 60, 40), settings) == (
        True,
        "0.2 jobs/s come and 0.133 start, over 5m00s: more than 20% of what comes stays",
    )
    assert judge(Rates(300.0, 0, 40), settings) == (False, "0 jobs/s come and 0.133 start, over 5m00s")


def test_the_paper_offers_q4_only_and_we_the_lowest_level_that_has_work() -> None:
    queued = {Level.Q1: 3, Level.Q2: 7, Level.Q3: 0}
    assert offered(queued, "paper") is None
    assert offered(queued, "default") is Level.Q2
    assert offered({**queued, Level.Q4: 1}, "paper") is offered({**queued, Level.Q4: 1}, "default") is Level.Q4
    assert offered({}, "default") is None


def test_rates_are_those_of_the_window() -> None:
    window = ArrivalWindow(1000.0, 60.0)
    window.arrived(120, 1000.0)
    window.started(30, 1030.0)
    assert window.rates(1000.0) == (0.0, 120, 30)
    at = window.rates(1040.0)
    assert (at.arrivals_per_s, at.starts_per_s) == (3.0, 0.75)
    assert window.rates(1061.0)[1:] == (0, 30)
    assert window.rates(1e9) == (pytest.approx(60.0, abs=1.0), 0, 0)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 40), st.integers(0, 9), st.booleans()), max_size=40))
def test_a_window_counts_what_a_list_of_all_events_would(events: list[tuple[float, int, bool]]) -> None:
    window, seen, now = ArrivalWindow(0.0, 120.0), deque[tuple[float, int, bool]](), 0.0
    for pause_s, jobs, came in events:
        now += pause_s
        (window.arrived if came else window.started)(jobs, now)
        seen.append((now, jobs, came))
        width_s = 120.0 / BUCKETS
        first = now // width_s - BUCKETS + 1
        inside = [(jobs, came) for at, jobs, came in seen if at // width_s >= first]
        got = window.rates(now)
        assert got.arrived == sum(jobs for jobs, came in inside if came)
        assert got.started == sum(jobs for jobs, came in inside if not came)
        assert got.window_s <= 120.0


@pytest.mark.parametrize(
    ("key", "value"), [("threshold", 1.1), ("threshold", float("nan")), ("window_s", 0.0), ("mode", "both")]
)
def test_settings_out_of_range_are_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{key} = "):
        CongestionSettings(**{key: value})  # type: ignore[arg-type]
