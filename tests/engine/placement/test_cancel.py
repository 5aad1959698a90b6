"""Cancelling meets a group in every state (SPEC J6; PROMISES section 2, control)."""

from __future__ import annotations

import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.views import GroupView, Ok
from tests.engine.bench import Grid
from tests.engine.builders import BOB, OPERATOR, kinds, spec

PART = SubgroupId("alpha-1/0")


def until(grid: Grid, kind: type) -> None:
    """Deliver until the next message is of this kind."""
    while not isinstance(grid.post_box[0][2], kind):
        grid.deliver_one()


def view(grid: Grid) -> GroupView:
    seen = grid["alpha"].ask("group", "alpha-1")
    assert isinstance(seen, GroupView)
    return seen


def test_jobs_no_site_has_are_cancelled_at_once() -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(spec(5), 5, settle=False)
    grid.post_box.clear()
    grid.part("beta")
    grid.pass_time(3.0)
    assert grid["alpha"].cancel("alpha-1") == Ok(5)
    assert (view(grid).state, view(grid).cancelled) == ("cancelled", 5)


def test_some_jobs_no_site_has_are_cancelled_and_the_rest_goes_on() -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(spec(5), 5, settle=False)
    grid.post_box.clear()
    grid.part("beta")
    grid.pass_time(3.0)
    assert grid["alpha"].cancel("alpha-1", IndexSet.span(1, 3)) == Ok(2)
    grid.heal("beta")
    grid.finish()
    assert (view(grid).cancelled, view(grid).done) == (2, 3)
    assert set(grid.claims()) == {("alpha-1", i) for i in (0, 3, 4)}


def test_an_offered_part_is_aborted_and_what_was_not_cancelled_is_placed_again() -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(spec(5), 5, settle=False)
    until(grid, ms.Prepared)
    grid["alpha"].cancel("alpha-1", IndexSet.span(0, 2))
    grid.finish()
    assert grid["beta"].engine.core.state.tombstones[(PART, 1)].done is False
    assert (view(grid).cancelled, view(grid).done) == (2, 3)
    assert grid.claims() == {("alpha-1", i): 1 for i in (2, 3, 4)}


@pytest.mark.parametrize("kind", [ms.Prepare, ms.Prepared, ms.Commit, ms.Committed])
def test_a_cancel_between_any_two_messages_of_the_hand_over_ends_everything(kind: type) -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(spec(50, work_s=10.0), 50, settle=False)
    until(grid, kind)
    assert isinstance(grid["alpha"].cancel("alpha-1"), Ok)
    grid.finish()
    seen = view(grid)
    assert seen.state == "cancelled"
    assert seen.cancelled == 50
    assert not grid["beta"].running
    assert set(grid.claims().values()) <= {1}


def test_committed_jobs_show_cancelling_until_their_site_acknowledged() -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(spec(50, work_s=10.0), 50)
    grid.part("beta")
    assert grid["alpha"].cancel("alpha-1") == Ok(50)
    (share,) = view(grid).shares
    assert share.state == "cancelling"
    grid.pass_time(60.0)
    assert view(grid).shares[0].age_s >= 60.0
    grid.heal("beta")
    grid.finish()
    assert view(grid).state == "cancelled"


def test_running_jobs_are_killed_and_pending_ones_end_without_a_start() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(50, work_s=10.0), 50)
    ran = len(alpha.running)
    before = len(alpha.trace)
    alpha.cancel("alpha-1")
    after = alpha.trace[before:]
    (kill,) = [e for e in after if isinstance(e, fx.KillRuns)]
    assert len(kill.indices) == ran
    assert not any(isinstance(e, fx.Start) for e in after)
    assert kinds(after).index("ControlTaken") < kinds(after).index("KillRuns")
    assert view(grid).cancelled == 50 - ran
    alpha.obey_kills()
    assert (view(grid).state, view(grid).cancelled) == ("cancelled", 50)
    assert len(alpha.started) == ran


def test_a_result_that_arrives_first_wins() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(3, work_s=10.0), 3)
    alpha.cancel("alpha-1", IndexSet.span(0, 1))
    alpha.kills.clear()
    grid.finish()
    assert (view(grid).done, view(grid).cancelled) == (3, 0)


def test_an_order_to_kill_that_a_crash_swallowed_is_given_again() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(3, work_s=10.0), 3)
    running = len(alpha.running)
    alpha.cancel("alpha-1")
    alpha.kills.clear()
    alpha.restart()
    assert sum(len(k.indices) for k in alpha.kills) == running
    alpha.obey_kills()
    assert view(grid).state == "cancelled"


def test_a_cancelled_run_that_was_never_claimed_is_over_without_a_start() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(3, work_s=10.0), 3)
    alpha.cancel("alpha-1")
    alpha.running.clear()
    alpha.started.clear()
    alpha.restart()
    assert view(grid).state == "cancelled"
    assert alpha.started == []


def test_cancelling_again_and_cancelling_what_is_over_does_nothing() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(3), 3)
    grid.finish()
    before = alpha.engine.snapshot()
    assert alpha.cancel("alpha-1") == Ok(0)
    assert alpha.engine.snapshot() == before
    assert view(grid).state == "done"


def test_two_orders_reach_a_site_once_each_and_the_highest_wins() -> None:
    grid = Grid(alpha=0, beta=2)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(50, work_s=10.0), 50)
    alpha.cancel("alpha-1", IndexSet.span(40, 45), settle=False)
    first = grid.post_box.pop()
    alpha.cancel("alpha-1", IndexSet.span(45, 50), settle=False)
    grid.settle()
    beta.handle(ev.Received(SiteId("alpha"), first[2]))
    grid.settle()
    taken = beta.records(r.ControlTaken)
    assert [t.control_seq for t in taken] == [2]  # type: ignore[union-attr]
    assert view(grid).cancelled == 10
    grid.finish()
    assert (view(grid).done, view(grid).cancelled) == (40, 10)


def test_the_merge_can_be_cancelled_and_the_group_says_so() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(2, merge=("sum",)), 2)
    alpha.end()
    assert view(grid).state == "merging"
    alpha.cancel("alpha-1")
    alpha.obey_kills()
    assert view(grid).state == "cancelled"
    assert view(grid).note == "the merge command was cancelled"
    assert view(grid).done == 2


def test_jobs_that_are_not_there_and_groups_of_others_are_not_cancelled() -> None:
    """PROMISES 5.4: whose group it is, and whether it exists, is nobody else's business."""
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(3, work_s=10.0), 3)
    beyond = alpha.cancel("alpha-1", IndexSet.span(2, 5))
    assert beyond == fx.Refusal(code="usage", text="alpha-1 has jobs 0 to 2, not 3-4")
    others, nothing = alpha.cancel("alpha-1", who=BOB), alpha.cancel("alpha-9", who=BOB)
    assert isinstance(others, fx.Refusal)
    assert isinstance(nothing, fx.Refusal)
    assert others.text.replace("alpha-1", "alpha-9") == nothing.text
    assert view(grid).cancelled == 0
    assert isinstance(alpha.cancel("alpha-1", who=OPERATOR), Ok)


def test_what_a_restored_origin_found_at_its_peer_can_be_cancelled_there() -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(spec(50, work_s=10.0), 50)
    grid["alpha"].restart(restored=True)
    grid.settle()
    assert (view(grid).state, view(grid).unreachable) == ("held", 0)
    grid["alpha"].cancel("alpha-1")
    grid.finish()
    assert (view(grid).state, view(grid).cancelled) == ("cancelled", 50)


def test_a_timed_out_and_a_failed_job_are_no_cancelled_ones() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(4), 4)
    alpha.end(1, Outcome.TIMED_OUT)
    alpha.end(1, Outcome.FAILED)
    alpha.end(1, Outcome.NOT_STARTED)
    alpha.end()
    grid.pass_time(1.0)
    assert (view(grid).state, view(grid).failed, view(grid).done) == ("failed", 3, 1)


def test_reads_of_other_users_groups_are_denied_like_groups_that_do_not_exist() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(4), 4)
    for what in ("group", "explain"):
        mine, none = alpha.ask(what, "alpha-1", who=BOB), alpha.ask(what, "alpha-2", who=BOB)
        assert isinstance(mine, fx.Refusal)
        assert isinstance(none, fx.Refusal)
        assert mine.text.replace("alpha-1", "alpha-2") == none.text
