"""Cancelling only what is held: what can no longer start is over, what runs goes on (a client's `future.cancel()`)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.views.views import GroupView, Ok
from tests.engine.bench import Grid, Post
from tests.engine.builders import ALICE, spec, whole
from tests.engine.handover.test_handover_faults import some_faults

LONG = 100.0


def cancel_held(grid: Grid, indices: IndexSet | None = None, settle: bool = True, release: bool = False) -> Ok:
    alpha, group = grid["alpha"], GroupId("alpha-1")
    order = ev.CancelJobs(request=7, principal=ALICE, group=group, indices=indices, held=True, release=release)
    alpha.handle(order)
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


@pytest.mark.parametrize("ends", ["before", "after"])
def test_a_result_that_crosses_the_cancelling_of_others_counts_once(ends: str) -> None:
    """A running job ends while the cancelling is on its way: its result travels against the order, or after it."""
    grid = Grid(alpha=0, beta=1)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(5, work_s=LONG), 5)
    ran = {run.index for run in beta.running}
    alpha.hold("alpha-1")
    grid.pass_time(1.0)
    if ends == "before":
        beta.end()
        assert any(isinstance(message, ms.Result) for _, _, message in grid.post_box)
    held = cancel_held(grid, settle=False).jobs
    assert any(isinstance(message, ms.Control) for _, _, message in grid.post_box), "and the cancelling"
    if ends == "after":
        beta.end()
    grid.finish()
    assert set(held) == set(range(5)) - ran and ran
    assert (view(grid).cancelled, view(grid).done) == (len(held), len(ran))
    assert {index for _, index in grid.claims()} == ran


def test_a_job_that_was_let_go_and_runs_is_not_cancelled_by_an_older_word_that_it_was_held() -> None:
    """The acknowledgement of an order says that a site has it, not that the last word of what it holds is younger."""
    grid = Grid(alpha=0, beta=1)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(3, work_s=LONG), 3)
    alpha.hold("alpha-1")
    grid.pass_time(1.0)
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], ms.Progress | ms.Result) else "deliver"
    alpha.release_jobs("alpha-1")
    beta.end()
    grid.settle()
    ran = set(grid.claims())
    alpha.hold("alpha-1")
    (part,) = alpha.group("alpha-1").subgroups.values()
    assert part.control_acked == part.control_seq, "it has the order, and what it holds was lost"
    answer = cancel_held(grid)
    assert answer.jobs == IndexSet() and answer.unsure
    grid.fate = None
    alpha.release_jobs("alpha-1")
    grid.finish()
    assert view(grid).done == 3 and ran


def test_a_site_whose_release_does_not_tell_which_order_it_counted_by_stays_unsure() -> None:
    grid = Grid(alpha=0, beta=1)
    alpha = grid["alpha"]
    alpha.submit(spec(5, work_s=LONG), 5)

    def as_told_before(grid: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if isinstance(message, ms.Progress) and message.control_seq:
            grid.post(sender, to, msgspec.structs.replace(message, control_seq=0))
            return "lose"
        return "deliver"

    grid.fate = as_told_before
    alpha.hold("alpha-1")
    grid.pass_time(30.0)
    answer = cancel_held(grid)
    assert (answer.jobs, answer.unsure) == (IndexSet(), 5)


def test_what_is_not_cancelled_is_let_go_with_it_also_where_it_runs_or_is_over() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(4, work_s=LONG), 4)
    (first,) = (run.index for run in alpha.running)
    alpha.hold("alpha-1", whole(3))
    answer = cancel_held(grid, IndexSet.of({first, 2}), release=True)
    assert set(answer.jobs) == {2}
    (part,) = alpha.group("alpha-1").subgroups.values()
    assert set(part.holding) == {0, 1, 2} - {first, 2}, "of others nothing was said"
    alpha.end()
    assert cancel_held(grid, IndexSet.of({first}), release=True) == Ok(0)
    alpha.release_jobs("alpha-1")
    grid.finish()
    assert (view(grid).done, view(grid).cancelled) == (3, 1)


@pytest.mark.wide
@settings(max_examples=60)
@given(st.data())
def test_whatever_is_lost_doubled_or_reordered_what_was_answered_as_cancelled_never_ran(data: st.DataObject) -> None:
    grid = Grid(alpha=0, beta=2)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(8, work_s=LONG), 8)
    grid.fate = some_faults(data, 12)
    cancelled: set[int] = set()
    for _ in range(4):
        alpha.hold("alpha-1", settle=False)
        grid.settle()
        cancelled |= set(cancel_held(grid, IndexSet.span(0, data.draw(st.integers(1, 8)))).jobs)
        if data.draw(st.booleans()):
            cancelled |= set(cancel_held(grid, IndexSet.span(4, 6), release=True).jobs)
        else:
            alpha.release_jobs("alpha-1", settle=False)
        grid.settle()
        beta.end(1)
        grid.pass_time(data.draw(st.sampled_from((0.0, 0.3, 3.0))))
        if view(grid).final:
            break
    grid.fate = None
    if not view(grid).final:
        alpha.hold("alpha-1")
        alpha.release_jobs("alpha-1")
    grid.finish()
    assert not cancelled & {index for _, index in grid.claims()}
    assert (view(grid).cancelled, view(grid).done) == (len(cancelled), 8 - len(cancelled))
