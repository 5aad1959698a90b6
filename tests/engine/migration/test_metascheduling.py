"""An origin between its own groups (SPEC G7): who makes way for whom, and which sites get no more work since contracts
are broken there."""

from __future__ import annotations

from typing import Any

import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal.records import JobsMoved
from diana.engine.migration import metascheduling
from diana.model.ids import MAIN_MACHINE
from diana.model.job.software import BARRIER, CHECKPOINT
from diana.model.job.spec import CheckpointSpec, ComponentSpec, ContractSpec, GroupSpec
from diana.model.views.decision import SiteCost
from tests.engine.bench import Grid
from tests.engine.builders import spec

SAVED = CheckpointSpec(paths=("state",))


def held_to(work_s: float, site: str, *, yields: bool = True, **more: object) -> GroupSpec:
    return spec(1, work_s=work_s, sites=(site,), contract=ContractSpec(yields=yields), checkpoint=SAVED, **more)


def report(grid: Grid, name: str, step_s: float, done: int, total: int = 100) -> None:
    """Let each job that runs at the site report twice, a step of so many seconds apart."""
    site = grid[name]
    for run in list(site.running):
        for late_s, steps in ((step_s, done - 1), (0.0, done)):
            told = ((run.index, run.attempt, grid.now - late_s, float(steps), float(total)),)
            event = ev.StepsReported(worker=MAIN_MACHINE, subgroup=run.subgroup, epoch=run.epoch, steps=told)
            site.handle(event)
    grid.settle()


def rows(grid: Grid, wanted: GroupSpec) -> dict[str, SiteCost]:
    alpha = grid["alpha"]
    alpha.replies.pop(90, None)
    alpha.submit(wanted, 1, 90, plan_only=True)
    grid.pass_time(3.0)
    found = alpha.replies[90]
    assert isinstance(found, fx.DecisionMade), found
    return {row.site: row for row in found.decision.candidates}


def slow_grid() -> Grid:
    """A job of 100 steps in 100 s runs at beta, and takes three seconds for one."""
    grid = Grid(alpha=2, beta=2)
    grid["alpha"].submit(spec(1, work_s=100.0, sites=("beta",), contract=ContractSpec()), 1, 1)
    grid.pass_time(10.0)
    report(grid, "beta", 3.0, 5)
    grid.pass_time(4.0)
    report(grid, "beta", 3.0, 6)
    return grid


def test_a_site_where_contracts_are_broken_gets_no_more_work_while_others_take_it() -> None:
    grid = slow_grid()
    grid.pass_time(4.0)
    found = rows(grid, spec(1))
    assert found["beta"].rejected.startswith("a job of this origin there broke the contract, "), found["beta"]
    assert not found["alpha"].rejected
    assert not rows(grid, spec(1, sites=("beta",)))["beta"].rejected, "nobody else takes it"


def test_a_site_gets_work_again_once_its_contracts_are_kept() -> None:
    grid = slow_grid()
    grid.pass_time(4.0)
    assert rows(grid, spec(1))["beta"].rejected
    for step in range(20, 28):
        report(grid, "beta", 1.0, step)
        grid.pass_time(1.0)
    grid.pass_time(4.0)
    assert not rows(grid, spec(1))["beta"].rejected


def gang_grid(*, yields: bool = True, work_s: float = 20.0) -> Grid:
    """Two long jobs hold beta and gamma; a gang of three components of 20 s waits for them."""
    grid = Grid(alpha=1, beta=1, gamma=1)
    for site in grid.sites.values():
        site.session += 1
        site.handle(ev.LrmReady(session=site.session, slots=1, known=(), software=(BARRIER, CHECKPOINT)))
    grid.settle()
    alpha = grid["alpha"]
    for number, site in enumerate(("beta", "gamma"), 1):
        alpha.submit(held_to(1000.0, site, yields=yields), 1, number)
    grid.pass_time(10.0)
    for site in ("beta", "gamma"):
        report(grid, site, 10.0, 2)
    three = spec(1, work_s=work_s, components=(ComponentSpec(count=3),))
    alpha.submit(three, 3, 3)
    grid.pass_time(20.0)
    return grid


def test_jobs_that_yield_make_way_for_a_gang_that_waits_and_their_groups_stay_back() -> None:
    grid = gang_grid()
    alpha = grid["alpha"]
    moved = alpha.records(JobsMoved)
    assert {record.group for record in moved} == {"alpha-1", "alpha-2"}
    assert all(not record.to and "to make way for alpha-3: it would end " in record.why for record in moved), moved
    told: Any = alpha.ask("groups")
    (note,) = [group.note for group in told.groups if group.group == "alpha-3"]
    assert "alpha-1.0 at beta, alpha-2.0 at gamma up to " in note, note
    core = alpha.engine.core
    assert metascheduling.stays_back(core, alpha.group("alpha-1"))
    assert core.waiting_notes["alpha-1"] == "it made way for alpha-3, and goes on once that has begun"
    grid.pass_time(metascheduling.BACK_S)
    assert not metascheduling.stays_back(core, alpha.group("alpha-1")), "it does not wait for ever"


@pytest.mark.parametrize(("yields", "work_s"), [(False, 20.0), (True, 5000.0)], ids=["does not yield", "is shorter"])
def test_a_job_that_does_not_yield_or_is_shorter_runs_on(yields: bool, work_s: float) -> None:
    assert not gang_grid(yields=yields, work_s=work_s)["alpha"].records(JobsMoved)
