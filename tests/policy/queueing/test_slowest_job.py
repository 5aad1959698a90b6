"""The end of a group is that of its slowest job (SPEC G2), against list schedules drawn at random and against sums done
by hand."""

from __future__ import annotations

import heapq
from random import Random
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.policy.queueing.slowest_job import (
    LEAST_RUNS,
    MOST_STARTS,
    GroupEnd,
    GroupShare,
    RunSpread,
    alike,
    first_come,
    mean_run_s,
)

UNIFORM = [0.4 + 0.012 * n for n in range(101)]
HEAVY = [0.1 * 1.05**n for n in range(101)]


def spread(runs: list[float]) -> RunSpread:
    return RunSpread(runs, [1.0] * len(runs))


def drawn(rng: Random, sites: list[tuple[int, int, float]], runs: list[float]) -> float:
    """The end of one list schedule of (jobs, lanes, mean run) at each site, all lanes free at first."""
    mean, last = sum(runs) / len(runs), 0.0
    for jobs, lanes, run_s in sites:
        free = [0.0] * lanes
        for _ in range(jobs):
            ends_s = heapq.heappop(free) + run_s * rng.choice(runs) / mean
            heapq.heappush(free, ends_s)
            last = max(last, ends_s)
    return last


def foreseen(sites: list[tuple[int, int, float]], runs: list[float]) -> GroupEnd:
    return GroupEnd([GroupShare(jobs, lanes, run_s, free=lanes) for jobs, lanes, run_s in sites], spread(runs))


@pytest.mark.wide
@pytest.mark.parametrize("runs", [UNIFORM, HEAVY], ids=["uniform", "heavy tail"])
@pytest.mark.parametrize(
    "sites",
    [
        [(1, 1, 10.0)],
        [(20, 20, 100.0)],
        [(20, 8, 100.0)],
        [(200, 7, 100.0)],
        [(3, 3, 240.0), (12, 12, 80.0), (4, 4, 48.0)],
        [(9, 3, 60.0), (30, 20, 240.0)],
    ],
    ids=["one job", "one wave", "some waves", "many waves", "unlike sites", "unlike sites in waves"],
)
def test_the_median_end_is_that_of_random_list_schedules(
    sites: list[tuple[int, int, float]], runs: list[float]
) -> None:
    rng = Random(7)
    ends = sorted(drawn(rng, sites, runs) for _ in range(400))
    end = foreseen(sites, runs)
    assert end.quantile(0.5) == pytest.approx(median(ends), rel=0.1)
    if all(jobs <= 3 * lanes for jobs, lanes, _ in sites):
        # Of many waves it is the sum of their runs that varies, which the starts leave out: outcomes correct for it.
        held = sum(end.quantile(0.1) <= one <= end.quantile(0.9) for one in ends) / len(ends)
        assert held >= 0.5, "the range is of the right size"


def test_jobs_that_are_alike_end_in_whole_waves() -> None:
    """7 jobs of 10 s on 3 lanes, which are free after 5 s: three waves."""
    seven = GroupEnd([GroupShare(7, 3, 10.0, free=3, wait_s=5.0)], alike())
    assert seven.quantile(0.5) == pytest.approx(35.0, rel=0.01)


def test_a_group_ends_after_its_last_site() -> None:
    shares = [GroupShare(2, 2, 10.0, free=2), GroupShare(1, 1, 80.0, free=1, after_s=7.0)]
    assert GroupEnd(shares, alike()).quantile(0.5) == pytest.approx(87.0, rel=0.01)


def test_jobs_ahead_take_the_lanes_first() -> None:
    """On 4 busy lanes one comes free every 10 / 4 s: the second job, behind 6 others, has the 8th."""
    share = GroupShare(2, 4, 10.0, ahead=6)
    assert GroupEnd([share], alike()).quantile(0.5) == pytest.approx(8 * 2.5 + 10.0, rel=0.01)


def test_a_site_that_is_closed_is_waited_for() -> None:
    open_s = GroupEnd([GroupShare(4, 4, 10.0, free=4)], alike()).quantile(0.5)
    closed_s = GroupEnd([GroupShare(4, 4, 10.0, free=4, wait_s=500.0)], alike()).quantile(0.5)
    assert closed_s == pytest.approx(open_s + 500.0, rel=0.01)


def test_nothing_starts_before_its_input_is_there() -> None:
    assert GroupEnd([GroupShare(4, 4, 10.0, free=4, stage_in_s=30.0)], alike()).quantile(0.5) == pytest.approx(
        40.0, rel=0.01
    )


def test_jobs_that_go_where_a_lane_is_free_first_are_shared_out_by_speed() -> None:
    """The fast site's lanes run three jobs in the time of one at the slow site."""
    shares = first_come([GroupShare(40, 10, 30.0, free=10), GroupShare(40, 10, 90.0, free=10)], 40)
    assert sum(share.jobs for share in shares) == 40 and 24 <= shares[0].jobs <= 26


def test_where_more_lanes_are_free_than_jobs_come_the_fastest_take_them() -> None:
    shares = first_come([GroupShare(12, 10, 90.0, free=10), GroupShare(12, 10, 30.0, free=10)], 12)
    assert [(share.run_s, share.jobs) for share in shares] == [(30.0, 10), (90.0, 2)]


def test_the_longest_run_seen_is_no_bound() -> None:
    few = RunSpread([9.0, 10.0, 11.0], [2.0, 2.0, 2.0])
    assert few.known() and not RunSpread([10.0], [LEAST_RUNS - 1.0]).known()
    assert GroupEnd([GroupShare(100, 100, 10.0, free=100)], few).quantile(0.9) > 11.0


def test_jobs_that_are_said_to_take_no_time_are_given_out_too() -> None:
    shares = first_come([GroupShare(40, 2, 0.0, ahead=1000), GroupShare(40, 2, 30.0, ahead=1000)], 40)
    assert sum(share.jobs for share in shares) == 40


def test_of_runs_of_which_the_longest_take_the_same_each_time_has_its_chance() -> None:
    some = spread([1.0, 3.0, 3.0])
    for time in (0.9 / some.mean_s, 1.0 / some.mean_s, 2.0 / some.mean_s, 3.0 / some.mean_s, 3.1 / some.mean_s):
        assert some.below_one(time) == pytest.approx(float(some.below(np.array([time]))[0]))


def test_few_runs_at_a_site_count_little_beside_those_of_all_sites() -> None:
    assert mean_run_s(10.0, 0, 40.0) == 40.0
    assert 38.0 < mean_run_s(10.0, 1, 40.0) < 40.0
    assert mean_run_s(10.0, 10_000, 40.0) == pytest.approx(10.0, rel=0.01)


SHARES = st.lists(
    st.builds(
        GroupShare,
        jobs=st.integers(1, 100_000),
        lanes=st.integers(1, 5000),
        run_s=st.floats(0.001, 1e6),
        free=st.just(0),
        ahead=st.integers(0, 1000),
        wait_s=st.floats(0.0, 1e6),
        delay=st.floats(0.0, 100.0),
        stage_in_s=st.floats(0.0, 1e6),
        after_s=st.floats(0.0, 1e3),
    ),
    min_size=1,
    max_size=5,
)
RUNS = st.lists(st.floats(0.01, 1e4), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(SHARES, RUNS)
def test_ends_rise_with_their_chance_and_no_job_ends_before_it_started(
    shares: list[GroupShare], runs: list[float]
) -> None:
    end = GroupEnd(shares, spread(runs))
    low, middle, high = (end.quantile(part) for part in (0.1, 0.5, 0.9))
    assert 0 < low <= middle <= high < float("inf")
    assert low >= max(share.stage_in_s + share.after_s for share in shares) * 0.99


@pytest.mark.wide
@settings(max_examples=60, deadline=None)
@given(SHARES, RUNS, st.integers(0, 4))
def test_more_jobs_end_no_earlier(shares: list[GroupShare], runs: list[float], at: int) -> None:
    at %= len(shares)
    more = [share._replace(jobs=2 * share.jobs) if n == at else share for n, share in enumerate(shares)]
    before, after = (GroupEnd(some, spread(runs)).quantile(0.5) for some in (shares, more))
    # Beyond `MOST_STARTS` jobs share starts, which moves the end a little.
    assert after >= before * (0.999 if max(share.jobs for share in more) <= MOST_STARTS else 0.9)


@pytest.mark.parametrize("runs", [UNIFORM, HEAVY, [3.0] * 9], ids=["uniform", "heavy tail", "alike"])
@pytest.mark.parametrize("share", [GroupShare(1, 4, 10.0, free=4), GroupShare(1, 4, 10.0, 1, 6, 40.0, 1.5, 3.0, 2.0)])
def test_a_group_of_one_job_ends_as_beside_a_job_that_takes_no_time(runs: list[float], share: GroupShare) -> None:
    """The one is computed job by job, the two as arrays."""
    nothing = GroupShare(1, 1, 1e-9, free=1)
    for part in (0.1, 0.5, 0.9):
        beside = GroupEnd([share, nothing], spread(runs * 1000)).quantile(part)
        assert GroupEnd([share], spread(runs * 1000)).quantile(part) == pytest.approx(beside, rel=1e-4)
