"""SPEC D10, links: concurrent transfers over one link are one sample of its throughput."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.policy.links.sharing import LEAST_PAUSE_S, MOST_PAUSE_S, Sharing

LEAST = 1000


def told(*streams: tuple[float, float, int]) -> list[float]:
    """(began, ended, bytes) of streams, told in order of their end, judged as soon as each is due."""
    sharing, rates = Sharing(), []
    for began_s, ended_s, moved in sorted(streams, key=lambda s: s[1]):
        while (due_s := sharing.due_s()) is not None and due_s < ended_s:
            rates += sharing.take(due_s, LEAST)
        sharing.ended(moved, ended_s - began_s, ended_s)
    while (due_s := sharing.due_s()) is not None:
        rates += sharing.take(due_s, LEAST)
    return rates


def test_a_stream_alone_is_what_it_moved_over_its_time() -> None:
    assert told((0.0, 2.0, 10_000)) == [5000.0]


@given(st.integers(1, 40), st.floats(0.01, 4.0))
def test_streams_that_share_a_link_evenly_are_one_sample_of_the_whole_link(count: int, length_s: float) -> None:
    assert told(*[(0.0, length_s, 100_000)] * count) == [pytest.approx(100_000 * count / length_s)]


def test_streams_that_end_a_little_apart_are_one_sample() -> None:
    (rate,) = told((0.0, 1.0, 10_000), (0.0, 1.01, 10_100), (0.01, 1.02, 10_100))
    assert rate == pytest.approx(30_000, rel=0.02)


def test_streams_one_after_another_are_a_sample_each() -> None:
    assert told((0.0, 1.0, 5000), (1.0, 2.0, 7000), (5.0, 6.0, 9000)) == [5000.0, 7000.0, 9000.0]


def test_staggered_streams_each_see_the_whole_link() -> None:
    """Three at any time, each at a third of 30 kB/s; only the edges of the series lack neighbours."""
    rates = told(*[(0.1 * n, 0.1 * n + 0.3, 3000) for n in range(30)])
    assert rates[1:-1] == pytest.approx([30_000] * len(rates[1:-1]), rel=0.01)


def test_what_runs_on_for_long_is_told_with_all_that_ran_beside_it() -> None:
    """The short ones cannot know of it and see their share; it, at its end, sees all."""
    rates = told((0.0, 60.0, 600_000), *[(float(n), n + 1.0, 10_000) for n in range(60)])
    assert rates[-1] == pytest.approx(20_000)


def test_little_streams_measure_latency_and_are_left_out() -> None:
    assert told((0.0, 0.1, LEAST - 1), (10.0, 10.1, 3)) == []


def test_a_sample_waits_for_its_neighbours_but_not_for_ever() -> None:
    sharing = Sharing()
    sharing.ended(10_000, 1e-3, 100.0)
    assert sharing.due_s() == 100.0 + LEAST_PAUSE_S
    assert sharing.take(100.0, LEAST) == []
    sharing.ended(10_000, 1000.0, 200.0)
    assert len(sharing.take(150.0, LEAST)) == 1
    assert sharing.due_s() == 200.0 + MOST_PAUSE_S


def test_memory_is_bounded_whatever_comes() -> None:
    sharing = Sharing()
    for n in range(10_000):
        sharing.ended(10_000, 0.5, float(n) * 1e-6)
    assert len(sharing.take(1e9, LEAST)) <= 256
