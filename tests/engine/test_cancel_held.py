"""Cancelling only what is held: what can no longer start is over, what runs goes on (a client's `future.cancel()`)."""

from __future__ import annotations

from diana.engine import events as ev
from diana.engine import messages as ms
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.views import GroupView, Ok
from tests.engine.bench import Grid
from tests.engine.builders import ALICE, spec

LONG = 100.0


def cancel_held(grid: Grid, indices: IndexSet | None = None, settle: bool = True) -> Ok:
    alpha = grid["alpha"]
    alpha.handle(ev.CancelJobs(request=7, principal=ALICE, group=GroupId("alpha-1"), indices=indices, held=True))
    if settle:
        grid.settle()
    answer = alpha.replies.pop(7)
    assert isinstance(answer, Ok)
    return answer


def view(grid: Grid) -> GroupView:
    seen = grid["alpha"].ask("group", "alpha-1")
    assert isinstance(seen, GroupView)
    return seen


def test_at_home_exactly_those_that_wait_are_cancelled() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(20, work_s=LONG), 20)
    ran = {run.index for run in alpha.running}
    assert ran and cancel_held(grid) == Ok(0), "nothing is held yet"
    alpha.hold("alpha-1")
    answer = cancel_held(grid)
    assert (set(answer.jobs), answer.unsure) == (set(range(20)) - ran, 0)
    assert cancel_held(grid).jobs == IndexSet(), "once"
    grid.finish()
    assert (view(grid).done, view(grid).cancelled) == (len(ran), 20 - len(ran))
    assert {index for _, index in grid.claims()} == ran


def test_elsewhere_it_is_unsure_until_the_site_has_said_what_it_holds() -> None:
    grid = Grid(alpha=0, beta=2)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(20, work_s=LONG), 20)
    ran = {run.index for run in beta.running}
    assert ran
    alpha.hold("alpha-1", settle=False)
    first = cancel_held(grid, settle=False)
    assert (first.jobs, first.unsure) == (IndexSet(), 20)
    grid.settle()
    grid.pass_time(1.0)
    wanted = IndexSet.of({*list(ran)[:1], 17, 18})
    answer = cancel_held(grid, wanted)
    assert (set(answer.jobs), answer.unsure) == ({17, 18}, 0)
    grid.pass_time(1.0)
    assert set(cancel_held(grid).jobs) == set(range(20)) - ran - {17, 18}
    grid.finish()
    assert (view(grid).done, view(grid).cancelled) == (len(ran), 20 - len(ran))
    assert {index for _, index in grid.claims()} == ran


def test_jobs_that_have_no_place_yet_are_cancelled_when_they_are_held() -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(spec(5), 5, settle=False)
    grid.post_box.clear()
    grid.part("beta")
    grid.pass_time(3.0)
    grid["alpha"].hold("alpha-1", IndexSet.span(1, 3))
    assert cancel_held(grid).jobs == IndexSet.span(1, 3)
    grid.heal("beta")
    grid.finish()
    assert (view(grid).done, view(grid).cancelled) == (3, 2)


def test_a_result_that_comes_first_wins() -> None:
    grid = Grid(alpha=0, beta=1)
    grid["alpha"].submit(spec(2, work_s=LONG), 2)
    grid["alpha"].hold("alpha-1")
    grid.pass_time(1.0)
    held = cancel_held(grid).jobs
    grid.finish()
    assert view(grid).cancelled == len(held) and view(grid).done == 2 - len(held)
    assert not any(isinstance(message, ms.Abort) for _, _, message in grid.post_box)
