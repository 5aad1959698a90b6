"""A wide job that has its place keeps it until it starts, and gets it at the site where processors come free first."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch import turns
from diana.engine.dispatch.wide_places import WidePlaces
from diana.model.ids import GroupId
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, spec

LONG_S = 100.0
WIDE, NEXT = "alpha-3", "alpha-4"


def draining() -> Grid:
    """Four slots, two of them free for the wide job of Alice that wants all four; the other two are free in 60 s."""
    made = Grid({"binding": "early"}, alpha=4)
    made["alpha"].submit(spec(2, work_s=LONG_S), 2, who=ALICE)
    made.pass_time(60.0)
    made["alpha"].submit(spec(2, work_s=LONG_S), 2, who=ALICE)
    made["alpha"].submit(spec(1, work_s=LONG_S, processors=4), 1, who=ALICE)
    made.pass_time(40.0)
    made["alpha"].end(2)
    made.settle()
    assert began(made["alpha"], WIDE) == 0 and len(made["alpha"].running) == 2
    return made


def began(site: Site, group: str) -> int:
    return sum(run.subgroup.startswith(f"{group}/") for run in site.started)


def test_jobs_of_a_better_priority_that_come_later_do_not_take_what_comes_free_for_it() -> None:
    made = draining()
    made["alpha"].submit(spec(2, work_s=LONG_S), 2, who=BOB)
    made.settle()
    assert began(made["alpha"], NEXT) == 0
    made["alpha"].end()
    made.settle()
    assert began(made["alpha"], WIDE) == 1
    made["alpha"].end()
    made.settle()
    assert began(made["alpha"], NEXT) == 2 and not made["alpha"].engine.core.book(WidePlaces).kept


def test_jobs_that_end_before_it_could_start_pass_it() -> None:
    made = draining()
    quick = msgspec.structs.replace(spec(2, work_s=30.0), argv=("date",))
    made["alpha"].submit(quick, 2, who=BOB)
    made.settle()
    assert began(made["alpha"], NEXT) == 2


@pytest.mark.parametrize("order", ["hold", "cancel"])
def test_a_job_that_may_not_start_keeps_nothing(order: str) -> None:
    made = draining()
    getattr(made["alpha"], order)(GroupId(WIDE))
    made["alpha"].submit(spec(2, work_s=LONG_S), 2, who=BOB)
    made.settle()
    assert began(made["alpha"], NEXT) == 2


def late(**slots: int) -> Grid:
    return Grid({"binding": "late"}, **slots)


def test_a_wide_job_is_bound_where_its_processors_come_free_first() -> None:
    """Beta comes free 60 s after gamma, and is told of the job no later."""
    made = late(alpha=0, beta=4, gamma=4)
    made["alpha"].submit(spec(4, work_s=LONG_S, sites=("gamma",)), 4)
    made.pass_time(60.0)
    made["alpha"].submit(spec(4, work_s=LONG_S, sites=("beta",)), 4)
    made.settle()
    made["alpha"].submit(spec(1, work_s=LONG_S, processors=4), 1, who=BOB)
    made.settle()
    assert made["alpha"].group(GroupId("alpha-3")).unplaced, "no processors are kept for one that has not waited"
    made.pass_time(39.0)
    assert [part.site for part in made["alpha"].group(GroupId("alpha-3")).subgroups.values()] == ["gamma"]


def test_a_site_with_a_place_calls_for_no_job_that_would_wait_behind_it() -> None:
    made = late(alpha=0, beta=4)
    made["alpha"].submit(spec(4, work_s=LONG_S), 4)
    made["alpha"].submit(spec(1, work_s=LONG_S, processors=4), 1)
    made.pass_time(90.0)
    assert not made["alpha"].group(GroupId("alpha-2")).unplaced
    made["beta"].end(2)
    made.settle()
    made["alpha"].submit(spec(2, work_s=LONG_S), 2, who=BOB)
    made.settle()
    assert len(made["alpha"].group(GroupId("alpha-3")).unplaced) == 2


def test_narrow_jobs_are_called_while_wide_ones_wait_for_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MISSES", 1)
    made = late(alpha=0, beta=4)
    made["alpha"].submit(spec(2, work_s=LONG_S), 2, who=BOB)
    made.pass_time(60.0)
    made["alpha"].submit(spec(2, work_s=LONG_S), 2, who=BOB)
    made["alpha"].submit(spec(1, work_s=LONG_S, processors=4), 1, who=ALICE)
    made["alpha"].submit(spec(4, work_s=LONG_S), 4, who=BOB)
    made.pass_time(40.0)
    made["beta"].end(2)
    made.settle()
    assert began(made["beta"], "alpha-4") == 2 and made["alpha"].group(GroupId("alpha-3")).unplaced


@pytest.mark.parametrize(("work_s", "called"), [(5.0, 2), (LONG_S, 0)])
def test_jobs_that_would_end_before_a_job_with_a_place_starts_are_called_into_its_room(
    work_s: float, called: int
) -> None:
    made = late(alpha=0, beta=4)
    made["alpha"].submit(spec(2, work_s=LONG_S), 2)
    made["alpha"].submit(msgspec.structs.replace(spec(2, work_s=1.5 * LONG_S), argv=("sleep",)), 2)
    made["alpha"].submit(spec(1, work_s=LONG_S, processors=4), 1)
    made.pass_time(LONG_S)
    made["beta"].end(2)
    made.settle()
    made.pass_time(30.0)
    assert not made["alpha"].group(GroupId("alpha-3")).unplaced, "it has its place, and the others end in 20 s"
    quick = msgspec.structs.replace(spec(3, work_s=work_s), argv=("date",))
    made["alpha"].submit(quick, 3, who=BOB)
    made.settle()
    made.pass_time(1.0)
    assert began(made["beta"], "alpha-4") == called
    assert len(made["alpha"].group(GroupId("alpha-4")).unplaced) == 3 - called


def test_a_group_priced_while_a_wide_job_waits_for_room_is_not_bound_into_it() -> None:
    made = late(alpha=0, beta=4)
    made["alpha"].submit(spec(2, work_s=LONG_S), 2, who=BOB)
    made["alpha"].submit(spec(1, work_s=LONG_S, processors=4, sites=("beta",)), 1)
    made.settle()
    made.pass_time(1.0)
    assert began(made["beta"], "alpha-2") == 0, "two of four processors are free"
    made["alpha"].submit(spec(20, work_s=LONG_S), 20, who=BOB)
    made.settle()
    assert len(made["alpha"].group(GroupId("alpha-3")).unplaced) == 20
