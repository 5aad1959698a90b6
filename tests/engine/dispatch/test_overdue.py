"""Jobs that outlived what was expected of them, in the eyes of those that would come after them."""

from __future__ import annotations

from diana.engine.dispatch import capacity
from tests.engine.bench import Grid
from tests.engine.builders import ALICE, BOB, spec

CALM: dict[str, object] = {"guard_jobs": 0, "claim_ahead": 1}


def waits_s(grid: Grid) -> float:
    slots, ahead_s = capacity.slots_of(grid["alpha"].engine.core)
    return slots.starts_s(1, ahead_s)


def test_a_site_full_of_overdue_jobs_is_not_as_good_as_free() -> None:
    grid = Grid(CALM, alpha=2)
    grid["alpha"].submit(spec(2, work_s=100.0), 2)
    found = []
    for _ in range(4):
        found.append(round(waits_s(grid)))
        grid.pass_time(75.0)
    assert found == [100, 25, 50, 125]


def test_what_waited_for_its_slot_is_not_late_for_that() -> None:
    """The second was given ahead, 100 s before its slot came free; as long as the first took is expected of it."""
    grid = Grid(CALM, alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(2, work_s=10.0), 2)
    grid.pass_time(100.0)
    alpha.end(1)
    assert (capacity.running_jobs(alpha.engine.core), round(waits_s(grid))) == (1, 100)


def test_a_job_too_wide_waits_for_what_is_overdue_while_others_pass_it() -> None:
    """An overdue job holds two of four slots: who wants all four waits for it, and who is over sooner need not."""
    grid = Grid(CALM | {"priority_mode": "paper"}, alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(1, work_s=10.0, processors=2), 1, who=ALICE)
    grid.pass_time(60.0)
    alpha.submit(spec(1, work_s=10.0, processors=4), 1, request=2, who=BOB)
    alpha.submit(spec(30, work_s=40.0), 30, request=3, who=ALICE)
    alpha.submit(spec(30, work_s=80.0), 30, request=4, who=ALICE)
    assert sorted(run.subgroup for run in alpha.running) == ["alpha-1/0", "alpha-3/0", "alpha-3/0"]
