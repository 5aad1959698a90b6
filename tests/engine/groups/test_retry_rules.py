"""Jobs are tried again by how they failed (SPEC J6): so often, after a pause, and with more memory where that was too
little; and at their user's word."""

from __future__ import annotations

import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal.state import decode_state, encode_state
from diana.model.facts import Outcome, out_of_memory
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec, Resources, RetryRules
from diana.model.views.views import GroupView, Ok
from tests.engine.bench import Grid
from tests.engine.builders import spec

GIB = 1 << 30
TOO_MUCH = out_of_memory("alpha-1.0", 2 * GIB, GIB)


def sized(jobs: int, retry: RetryRules | None = None) -> GroupSpec:
    made = spec(jobs, retry=retry)
    return GroupSpec(argv=made.argv, sweep=made.sweep, retry=retry, resources=Resources(work_s=100.0, memory_bytes=GIB))


def view(grid: Grid) -> GroupView:
    seen = grid["alpha"].ask("group", "alpha-1")
    assert isinstance(seen, GroupView)
    return seen


def given(grid: Grid, site: str) -> list[int]:
    """Memory of the jobs that run at the site, in GiB."""
    custodies = grid[site].engine.core.state.custodies
    return sorted(custodies[run.subgroup, run.epoch].spec.resources.memory_bytes // GIB for run in grid[site].running)


def test_those_that_ran_out_of_memory_get_more_each_time_and_others_are_not_tried_again() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.submit(sized(4, RetryRules(out_of_memory=2, factor=3.0)), 4)
    alpha.end(1, Outcome.FAILED)
    alpha.end(1)
    alpha.end(2, Outcome.FAILED, TOO_MUCH)
    grid.pass_time(1.0)
    assert (view(grid).final, view(grid).failed, given(grid, "alpha")) == (False, 1, [3, 3])
    alpha.end(1)
    alpha.end(1, Outcome.FAILED, TOO_MUCH)
    grid.pass_time(1.0)
    assert given(grid, "alpha") == [9]
    alpha.end(1, Outcome.FAILED, TOO_MUCH)
    grid.pass_time(1.0)
    assert (view(grid).state, view(grid).done, view(grid).failed) == ("failed", 2, 2)


def test_no_job_is_given_more_memory_than_a_site_has_and_one_that_had_that_has_failed() -> None:
    grid = Grid({"memory_bytes": 4 * GIB}, alpha=1)
    alpha = grid["alpha"]
    alpha.submit(sized(1, RetryRules(out_of_memory=5, factor=3.0)), 1)
    for had in (1, 3, 4):
        assert given(grid, "alpha") == [had]
        alpha.end(1, Outcome.FAILED, TOO_MUCH)
        grid.pass_time(1.0)
    assert (view(grid).state, view(grid).final, view(grid).failed) == ("failed", True, 1)
    told = alpha.retry("alpha-1", memory_factor=2.0)
    assert isinstance(told, fx.Refusal)
    assert told.text == "no site that is known has 8.0 GiB for a job; the most is 4.0 GiB, at alpha"


def test_where_a_site_does_not_say_how_much_memory_it_has_more_is_asked_for() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(sized(1, RetryRules(out_of_memory=1, factor=1000.0)), 1)
    alpha.end(1, Outcome.FAILED, TOO_MUCH)
    grid.pass_time(1.0)
    assert given(grid, "alpha") == [1000]


def test_more_memory_travels_to_another_site_and_is_kept_over_crashes_of_both() -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(sized(2, RetryRules(out_of_memory=1)), 2)
    grid.pass_time(1.0)
    assert given(grid, "beta") == [1, 1]
    grid["beta"].end(2, Outcome.FAILED, TOO_MUCH)
    grid.pass_time(1.0)
    assert given(grid, "beta") == [2, 2]
    grid["beta"].restart()
    grid["alpha"].restart()
    grid.pass_time(1.0)
    assert given(grid, "beta") == [2, 2]
    state = decode_state(encode_state(grid["alpha"].engine.core.state))
    (group,) = state.groups.values()
    assert (group.spec.resources.memory_bytes, group.own_retries_of) == (2 * GIB, {"out_of_memory": 1})
    grid["beta"].end(2, Outcome.FAILED, TOO_MUCH)
    grid.pass_time(1.0)
    assert view(grid).state == "failed"


def test_a_pause_comes_before_each_time_twice_as_long_and_over_a_crash() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(sized(1, RetryRules(failed=2, pause_s=100.0)), 1)
    for pause_s in (100.0, 200.0):
        alpha.end(1, Outcome.FAILED)
        grid.pass_time(pause_s / 2)
        assert not view(grid).final and not alpha.running
        alpha.restart()
        grid.pass_time(pause_s / 2 - 5.0)
        assert not alpha.running
        grid.pass_time(10.0)
        assert len(alpha.running) == 1
    alpha.end(1, Outcome.FAILED)
    grid.pass_time(1.0)
    assert view(grid).state == "failed"


def test_what_pauses_is_cancelled_at_once() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(sized(1, RetryRules(failed=1, pause_s=100.0)), 1)
    alpha.end(1, Outcome.FAILED)
    grid.pass_time(1.0)
    assert "wait 1m40s before they are tried again" in view(grid).note
    alpha.cancel("alpha-1")
    grid.pass_time(1.0)
    assert view(grid).state == "cancelled"
    grid.pass_time(300.0)
    assert not alpha.running


def test_those_that_took_too_long_have_their_own_count() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(sized(2, RetryRules(timed_out=1)), 2)
    alpha.end(1, Outcome.TIMED_OUT)
    alpha.end(1, Outcome.FAILED)
    grid.pass_time(1.0)
    assert len(alpha.running) == 1 and given(grid, "alpha") == [1]
    alpha.end(1)
    grid.pass_time(1.0)
    assert (view(grid).state, view(grid).done, view(grid).failed) == ("failed", 1, 1)


def test_at_their_users_word_those_alone_get_more() -> None:
    grid = Grid(alpha=3)
    alpha = grid["alpha"]
    alpha.submit(sized(3), 3)
    alpha.end(1, Outcome.FAILED)
    alpha.end(2, Outcome.FAILED, TOO_MUCH)
    grid.pass_time(1.0)
    assert alpha.retry("alpha-1", memory_factor=2.0) == Ok(2)
    grid.pass_time(1.0)
    # The guard has one of a group that failed begin alone.
    assert given(grid, "alpha") == [2]
    alpha.end(1)
    grid.pass_time(1.0)
    assert given(grid, "alpha") == [2]
    alpha.end(1, Outcome.FAILED, TOO_MUCH)
    grid.pass_time(1.0)
    assert (view(grid).done, view(grid).failed) == (1, 2)
    assert alpha.retry("alpha-1", memory_bytes=5 * GIB) == Ok(1)
    grid.pass_time(1.0)
    assert given(grid, "alpha") == [5]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"memory_factor": 2.0, "indices": IndexSet.span(0, 1)}, "no jobs among those named that ran out of memory"),
        ({"memory_bytes": GIB}, "had 1024 MiB for each job already; write more than that, or --memory 2x"),
    ],
)
def test_more_memory_that_mends_nothing_is_refused(more: dict[str, object], said: str) -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(sized(2), 2)
    alpha.end(1, Outcome.FAILED)
    alpha.end(1, Outcome.FAILED, TOO_MUCH)
    grid.pass_time(1.0)
    told = alpha.retry("alpha-1", **more)  # type: ignore[arg-type]
    assert isinstance(told, fx.Refusal) and said in told.text


def test_where_none_was_said_a_factor_is_refused_and_a_size_taken() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(1), 1)
    alpha.end(1, Outcome.FAILED, TOO_MUCH)
    grid.pass_time(1.0)
    told = alpha.retry("alpha-1", memory_factor=2.0)
    assert isinstance(told, fx.Refusal) and "write how much, such as --memory 8G" in told.text
    assert alpha.retry("alpha-1", memory_bytes=GIB) == Ok(1)
    grid.pass_time(1.0)
    assert given(grid, "alpha") == [1]
