"""A gang of which a component would not end before the maintenance of a site begins: it is placed elsewhere, or waits
for the end without standing in anybody's way (SPEC D8, K5)."""

from __future__ import annotations

import msgspec

from diana.engine.handover.gangs import attempts
from diana.engine.messages import messages as ms
from diana.model.ids import GroupId
from tests.engine.bench import Grid, Post
from tests.engine.builders import spec
from tests.engine.dispatch.test_maintenance import announce
from tests.engine.handover.test_gangs import begun, gang, held, submit

SETTINGS = {"claim_wait_s": 200.0, "migration": "off"}
LONG_S = 150.0


def closes_soon(**slots: int) -> Grid:
    """A grid whose beta closes in 100 s, for 900."""
    grid = Grid(SETTINGS, **slots)
    announce(grid["beta"], (100.0, 1000.0))
    return grid


def test_a_gang_that_would_not_end_in_time_is_placed_elsewhere_at_once() -> None:
    grid = closes_soon(alpha=0, beta=2, gamma=1, delta=1)
    submit(grid, "2x1", work_s=LONG_S)
    assert begun(grid) == [("delta", 1), ("gamma", 0)] or begun(grid) == [("delta", 0), ("gamma", 1)]


def test_a_gang_that_would_end_in_time_begins_there() -> None:
    grid = closes_soon(alpha=0, beta=2, gamma=1)
    submit(grid, "1x1@beta+1x1@gamma", work_s=90.0)
    assert begun(grid) == [("beta", 0), ("gamma", 1)]


def test_one_that_names_the_site_holds_nothing_meanwhile_and_begins_after_the_maintenance() -> None:
    grid = closes_soon(alpha=0, beta=1, gamma=1)
    name = submit(grid, "1x1@beta+1x1@gamma", work_s=LONG_S)
    grid.pass_time(99.0)
    assert not begun(grid) and not held(grid)
    assert "beta, which announces maintenance from" in grid["alpha"].engine.core.waiting_notes[name]
    for _ in range(120):
        grid.pass_time(10.0)
    assert begun(grid) == [("beta", 0), ("gamma", 1)]


def test_a_shorter_gang_of_the_same_origin_begins_before_one_that_waits_for_the_end_of_the_maintenance() -> None:
    grid = closes_soon(alpha=0, beta=1, gamma=1)
    submit(grid, "1x1@beta+1x1@gamma", work_s=LONG_S)
    grid.pass_time(5.0)
    submit(grid, "1x1@beta+1x1@gamma", work_s=20.0)
    grid.pass_time(1.0)
    assert begun(grid) == [("beta", 0), ("gamma", 1)]
    assert {run.subgroup.partition("/")[0] for run in grid["beta"].gone} == {"alpha-2"}


def test_a_claim_that_would_not_end_in_time_lets_lesser_ones_begin_before_it() -> None:
    grid = closes_soon(alpha=0, beta=1, gamma=1)

    def knows_no_window(grid: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if isinstance(message, ms.Quote) and sender == "beta" and not message.free_slots:
            grid.post(sender, to, msgspec.structs.replace(message, free_slots=1, coming=()))
            return "lose"
        return "deliver"

    grid.fate = knows_no_window
    submit(grid, "1x1@beta+1x1@gamma", work_s=LONG_S)
    grid.pass_time(5.0)
    assert not begun(grid)
    assert grid["gamma"].submit(gang("1x1@beta", work_s=20.0), 1, 2) is not None
    grid.pass_time(5.0)
    assert begun(grid) == [("beta", 0)]


def test_a_gang_that_waits_for_a_job_keeps_its_place_in_its_origin_s_plans_though_a_maintenance_is_far() -> None:
    grid = Grid(SETTINGS, alpha=0, beta=1, gamma=1)
    announce(grid["beta"], (30 * 86_400.0, 31 * 86_400.0))
    grid["beta"].submit(spec(1, sites=("beta",), work_s=60.0), 1, 40)
    grid.pass_time(1.0)
    name = submit(grid, "1x1@beta+1x1@gamma", work_s=20.0)
    core = grid["alpha"].engine.core
    assert attempts.outstanding(core)["beta"] == {"processors": 1}
    assert "maintenance" not in core.waiting_notes.get(GroupId(name), "")
