"""Jobs that wait at a site that has no slots any more run elsewhere, also the first in its line."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.guard.test_guard import LONG, live, ran_at, view


def resize(grid: Grid, name: str, slots: int) -> None:
    site = grid[name]
    site.settings = msgspec.structs.replace(site.settings, slots=slots)
    site.handle(ev.SettingsLoaded(site.settings))
    grid.settle()


@pytest.mark.parametrize("migration", ["off", "default"])
@pytest.mark.parametrize("where", ["alpha", "beta"])
def test_what_waits_leaves_a_site_without_slots_after_a_minute_and_runs_once(where: str, migration: str) -> None:
    grid = Grid({"migration": migration}, alpha=2, beta=2, gamma=2)
    grid["alpha"].submit(spec(30, work_s=LONG), 30)
    resize(grid, where, 0)
    ran = len(grid[where].running)
    grid.pass_time(50.0)
    before = sum(s.open_jobs() for s in grid["alpha"].group("alpha-1").subgroups.values() if s.site == where)
    grid.pass_time(30.0)
    left = sum(s.open_jobs() for s in grid["alpha"].group("alpha-1").subgroups.values() if s.site == where)
    assert 0 < ran == left < before
    told = [decision.reason for decision in grid["alpha"].group("alpha-1").decisions]
    assert any(reason.startswith(f"moved ({where} has no slots); ") for reason in told), told
    live(grid)
    assert view(grid).done == 30 and ran_at(grid, where) == ran
    assert grid.claims() == {("alpha-1", i): 1 for i in range(30)}


def test_a_site_that_has_slots_again_within_a_minute_keeps_its_work() -> None:
    grid = Grid({"migration": "off"}, alpha=2, beta=2)
    grid["alpha"].submit(spec(30, work_s=LONG), 30)
    parts = len(grid["alpha"].group("alpha-1").subgroups)
    for slots in (0, 2, 0, 2):
        resize(grid, "beta", slots)
        grid.pass_time(40.0)
    assert len(grid["alpha"].group("alpha-1").subgroups) == parts


def test_the_last_word_of_a_site_out_of_reach_moves_nothing() -> None:
    grid = Grid({"migration": "off"}, alpha=2, beta=2, gamma=2)
    grid["alpha"].submit(spec(30, work_s=LONG), 30)
    resize(grid, "beta", 0)
    grid.pass_time(10.0)
    grid.part("beta")
    grid.pass_time(120.0)
    assert not grid["alpha"].records(r.JobsMoved)


def test_jobs_that_may_run_nowhere_else_stay_and_run_when_it_has_slots_again() -> None:
    grid = Grid(alpha=2, beta=2)
    grid["alpha"].submit(spec(20, sites=("beta",), work_s=LONG), 20)
    resize(grid, "beta", 0)
    grid.pass_time(80.0)
    grid.pass_time(80.0)
    assert (view(grid).unplaced, len(grid["alpha"].group("alpha-1").decisions)) == (0, 1)
    resize(grid, "beta", 2)
    live(grid)
    assert grid.claims() == {("alpha-1", i): 1 for i in range(20)}
