"""The guard's bound rests on counts where nobody tells when jobs begin and ends are told late, as by a batch system:
what was given proves nothing by getting old, and what was seen to run for long enough does (SPEC U10)."""

from __future__ import annotations

import pytest

from diana.engine.guard.guard import Guard
from diana.engine.journal import events as ev
from diana.model.facts import Outcome
from diana.model.ids import MAIN_MACHINE, GroupId, SubgroupId
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.guard.test_guard import LONG, STILL, live, ran_at, view

JOBS = 400
BOUND = 10
FAST_S = 10.0


def looking(looks: bool = True) -> Grid:
    """beta's jobs run in a batch system, and it has begun to take some of a group of alpha's."""
    grid = Grid(STILL, alpha=4, beta=40)
    beta = grid["beta"]
    beta.session += 1
    beta.handle(ev.LrmReady(session=beta.session, slots=40, known=(), looks=looks))
    grid["alpha"].submit(spec(JOBS, work_s=LONG), JOBS)
    grid.settle()
    return grid


def see(grid: Grid, age_s: float, jobs: int) -> None:
    run = grid["beta"].started[0]
    seen = ev.RunsSeen(worker=MAIN_MACHINE, subgroup=run.subgroup, epoch=run.epoch, ages=((age_s, jobs),))
    grid["beta"].handle(seen)
    grid.settle()


@pytest.mark.parametrize("looks", [True, False])
def test_jobs_whose_ends_are_told_late_do_not_open_the_ramp(looks: bool) -> None:
    grid = looking(looks)
    for _ in range(60):
        grid.pass_time(1.0)
    # Where starts and ends are told at once, jobs that ran for so long are proven.
    assert ran_at(grid, "beta") == BOUND if looks else ran_at(grid, "beta") > BOUND
    if looks:
        # They failed as soon as they began.
        grid["beta"].began.update(dict.fromkeys(grid["beta"].running, grid.now))
        live(grid, "beta")
        assert view(grid).failed == ran_at(grid, "beta") == BOUND


def test_jobs_that_were_seen_to_run_for_long_enough_open_it() -> None:
    grid = looking()
    see(grid, FAST_S, BOUND)
    assert ran_at(grid, "beta") == BOUND, "they may fail fast still"
    see(grid, FAST_S + 5.0, BOUND)
    # Ten are proven, and twice as many may be tried beside them.
    assert ran_at(grid, "beta") == 3 * BOUND


def test_ends_take_back_what_a_look_proved() -> None:
    grid = looking()
    see(grid, FAST_S + 5.0, BOUND)
    beta = grid["beta"]
    beta.end(BOUND, outcome=Outcome.INTERRUPTED)
    grid.settle()
    breaker = beta.engine.core.book(Guard).here[GroupId("alpha-1")]
    assert breaker.seen == 0 and ran_at(grid, "beta") == 3 * BOUND, "the others are not proven"


def test_a_look_at_what_is_not_here_any_more_changes_nothing() -> None:
    grid = looking()
    for subgroup in ("alpha-1/77", "alpha-9/0"):
        seen = ev.RunsSeen(worker=MAIN_MACHINE, subgroup=SubgroupId(subgroup), epoch=1, ages=((60.0, 40),))
        grid["beta"].handle(seen)
    grid.settle()
    assert ran_at(grid, "beta") == BOUND
