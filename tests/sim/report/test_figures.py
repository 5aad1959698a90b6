"""The figures of a run, worked by hand, and what holds of them whatever the jobs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.errors import UsageError
from diana.sim.report.figures import GridCapacity, jain, measured, quantile, window
from diana.sim.report.outcome import JobTimes
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.outcome import outcome_of
from diana.sim.world.runner import run
from diana.sim.world.world import World

Job = tuple[int, int, int, int, float, float, float]
"""User, home, site, processors, submitted, started, ended; run time at speed 1 is end - start."""


def outcome(*jobs: Job, users: int = 2, sites: int = 2, moved: float = 0.0) -> JobTimes:
    columns = [np.array(column) for column in zip(*jobs, strict=True)] or [np.array([])] * 7
    whole, times = [c.astype(np.int32) for c in columns[:4]], [c.astype(np.float64) for c in columns[4:]]
    return JobTimes(
        user=whole[0],
        home=whole[1],
        site=whole[2],
        processors=whole[3],
        submit_s=times[0],
        start_s=times[1],
        end_s=times[2],
        run_s=times[2] - times[1],
        users=tuple(f"u{k}@vo" for k in range(users)),
        sites=tuple(f"s{k}" for k in range(sites)),
        bytes_moved=moved,
    )


TWO = GridCapacity((1, 1), 1.0)


def test_two_jobs_worked_by_hand() -> None:
    """One runs at once for 20 s, one waits 20 s for it and takes 5 s, which counts as 10."""
    jobs = outcome((0, 0, 0, 1, 0.0, 0.0, 20.0), (1, 0, 0, 1, 0.0, 20.0, 25.0), moved=7.0)
    found = measured(jobs, GridCapacity((1,), 1.0), 0.1, 3, 12)
    assert (found.jobs, found.unfinished, found.bytes_moved, found.messages_per_job) == (2, 1, 7.0, 4.0)
    assert (found.wait_mean_s, found.wait_median_s, found.wait_p95_s) == (10.0, 0.0, 20.0)
    assert (found.turnaround_mean_s, found.turnaround_median_s, found.turnaround_p95_s) == (22.5, 20.0, 25.0)
    assert (found.slowdown_mean, found.slowdown_p95) == (1.75, 2.5)
    assert (found.makespan_s, found.utilisation, found.throughput_per_h) == (25.0, 1.0, 3600 * 2 / 25)
    assert found.jain_slowdown == pytest.approx((1.0 + 2.5) ** 2 / (2 * (1.0 + 6.25)))
    # At 12.5 s, half way, the first user has 12.5 of its 20 s and the second nothing of its 5.
    assert found.jain_share == pytest.approx(0.5)
    assert found.response_mean_s == 22.5, "two users, two submissions"
    assert found.group_turnaround_mean_s == 22.5


def test_the_first_jobs_end_answers_a_whole_submission() -> None:
    jobs = outcome((0, 0, 0, 1, 0.0, 5.0, 9.0), (0, 0, 1, 1, 0.0, 1.0, 4.0), (0, 1, 1, 1, 0.0, 4.0, 8.0))
    assert measured(jobs, TWO, 0.0, 3).response_mean_s == (4.0 + 8.0) / 2


def test_a_slowdown_is_held_against_the_fastest_machine() -> None:
    """A policy that sends a job to a slow site may not call that its run time."""
    jobs = outcome((0, 0, 0, 1, 0.0, 0.0, 40.0))._replace(run_s=np.array([40.0]))
    assert measured(jobs, GridCapacity((1, 1), 2.0), 0.0, 1).slowdown_mean == 2.0


def test_warming_up_is_left_out_at_both_ends_but_not_of_what_is_of_all() -> None:
    jobs = outcome(*((0, 0, 0, 1, float(k), float(k), k + 1.0) for k in range(11)))
    assert window(jobs, 0.2) == (2.0, 8.0, False)
    found = measured(jobs, GridCapacity((1,), 1.0), 0.2, 11)
    assert (found.jobs, found.makespan_s, found.utilisation) == (7, 11.0, 1.0)
    assert found.throughput_per_h == 3600.0


def test_trimming_that_leaves_nothing_says_so() -> None:
    jobs = outcome((0, 0, 0, 1, 0.0, 0.0, 1.0), (0, 0, 0, 1, 10.0, 10.0, 11.0))
    with pytest.raises(UsageError, match=r"warm_up = 0\.3 leaves out every job"):
        measured(jobs, GridCapacity((1,), 1.0), 0.3, 2)


def test_a_run_without_any_job_done_has_figures_of_nothing() -> None:
    found = measured(outcome(), TWO, 0.1, 5)
    assert (found.jobs, found.unfinished, found.turnaround_mean_s) == (0, 5, 0.0)


Times = st.tuples(
    st.integers(0, 1), st.integers(0, 1), st.integers(0, 1), st.integers(1, 4),
    st.floats(0, 1e4), st.floats(0, 1e4), st.floats(1e-3, 1e4),
)  # fmt: skip


@given(st.lists(Times, min_size=1, max_size=40))
def test_figures_keep_their_bounds(rows: list[Job]) -> None:
    jobs = outcome(*((u, h, s, p, at, at + wait, at + wait + took) for u, h, s, p, at, wait, took in rows))
    found = measured(jobs, GridCapacity((10**4, 10**4), 1.0), 0.0, len(rows))
    assert found.jobs == len(rows) and found.unfinished == 0
    assert found.slowdown_mean >= 1.0 and found.wait_median_s <= found.wait_p95_s
    assert found.turnaround_mean_s >= found.wait_mean_s and found.response_mean_s <= found.makespan_s + 1e-6
    users = len({row[0] for row in rows})
    assert 1 / users - 1e-9 <= found.jain_slowdown <= 1 + 1e-9 and found.jain_share <= 1 + 1e-9
    assert 0 <= found.utilisation <= 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_quantile_is_the_smallest_value_its_share_does_not_exceed(values: list[float], share: float) -> None:
    found = quantile(np.array(values), share)
    assert found == sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def test_jains_index_of_one_who_has_all_is_one_over_their_number() -> None:
    assert jain(np.array([5.0, 0.0, 0.0, 0.0])) == 0.25 and jain(np.array([2.0, 2.0])) == 1.0
    assert jain(np.array([0.0, 0.0])) == 1.0


MIXED = """
version = 1
users = [{ name = "ann@vo" }, { name = "bob@vo" }]
sites = [{ name = "a", slots = 2 }, { name = "b", slots = 4, speed = 2.0 }]
datasets = [{ name = "d", site = "b", files = 4, file_bytes = 1000000 }]
[[workload]]
name = "one"
site = "a"
user = "bob@vo"
jobs = 12
work_s = 20.0
spread = 0.5
processors = 2
inputs = ["d"]
output_bytes = 1000
[[workload]]
name = "fails"
site = "b"
jobs = 30
fail_fraction = 0.3
submit_s = 3.0
on_crash = "rerun"
[[workload]]
name = "merged"
site = "a"
jobs = 5
output_bytes = 1000
merge = true
"""


def test_a_worlds_outcome_is_what_its_report_says() -> None:
    world = World(sc.parse(MIXED), 3, Boot())
    report = run(world)
    found = outcome_of(world)
    one, fails = report.groups["one"], report.groups["fails"]
    assert report.good() and (one.done, fails.done + fails.failed) == (12, 30) and fails.failed > 0
    assert len(found.user) == one.done + fails.done + 5, "only what was done has a row; merging is no job"
    assert found.users == ("ann@vo", "bob@vo") and found.sites == ("a", "b")
    mine = found.user == 1
    assert np.count_nonzero(mine) == 12 and set(found.home[mine].tolist()) == {0} and set(found.processors[mine]) == {2}
    assert float((found.end_s - found.submit_s)[mine].mean()) == pytest.approx(one.turnaround_mean_s)
    assert float((found.start_s - found.submit_s)[mine].max()) == pytest.approx(one.wait_max_s)
    speeds = np.array([1.0, 2.0])[found.site]
    assert np.allclose(found.end_s - found.start_s, found.run_s / speeds)
    sites = np.bincount(found.site[mine], minlength=2)
    assert {"a": int(sites[0]), "b": int(sites[1])} == {"a": 0, "b": 0} | one.sites
    assert found.bytes_moved == sum(site.bytes_in for site in report.sites.values()) > 0
