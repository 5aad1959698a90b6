"""Hold and release meet a group in every state (SPEC J6; PROMISES section 2, control): what is held does not start."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.engine.placement.draft import Drafts
from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.views.views import GroupView, Ok
from tests.engine.bench import Fate, Grid
from tests.engine.builders import BOB, OPERATOR, dataset, spec, whole
from tests.engine.handover.test_gangs import gang
from tests.engine.handover.test_handover_faults import FAULTS, one_fault, some_faults

LONG = 100.0


def until(grid: Grid, kind: type) -> None:
    while not isinstance(grid.post_box[0][2], kind):
        grid.deliver_one()


def view(grid: Grid) -> GroupView:
    seen = grid["alpha"].ask("group", "alpha-1")
    assert isinstance(seen, GroupView)
    parts = seen.unplaced + seen.staging + seen.queued + seen.running + seen.unreachable
    assert parts + seen.done + seen.failed + seen.cancelled + seen.held == seen.jobs, seen
    return seen


def stranded(jobs: int, slots: int = 8) -> Grid:
    """A group accepted while beta answered, and no site can be asked now."""
    grid = Grid(alpha=0, beta=slots)
    grid["alpha"].submit(spec(jobs), jobs, settle=False)
    grid.post_box.clear()
    grid.part("beta")
    grid.pass_time(3.0)
    return grid


def span(start: int, stop: int) -> IndexSet:
    return IndexSet.span(start, stop)


# --- hold --------------------------------------------------------------------------------------------------


def test_jobs_that_wait_at_home_do_not_start_until_they_are_released() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(20, work_s=LONG), 20)
    ran = len(alpha.running)
    assert alpha.hold("alpha-1") == Ok(20 - ran, started=ran)
    grid.now += 1.0
    alpha.end()
    assert (view(grid).done, view(grid).held, view(grid).state) == (ran, 20 - ran, "held")
    assert not view(grid).final
    assert alpha.release_jobs("alpha-1") == Ok(20 - ran)
    grid.finish()
    assert grid.claims() == {("alpha-1", i): 1 for i in range(20)}
    assert view(grid).state == "done"


def test_a_held_job_lets_the_others_pass() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(20, work_s=LONG), 20)
    ran = len(alpha.running)
    alpha.hold("alpha-1", span(ran, ran + 5))
    for _ in range(40):
        alpha.end(1)
        grid.pass_time(1.0)
    assert {run.index for run in alpha.started} == {*range(ran), *range(ran + 5, 20)}
    (share,) = view(grid).shares
    assert (share.held, share.queued, share.running) == (5, 0, 0)
    assert view(grid).state == "held"


def test_jobs_no_site_has_are_not_placed_until_they_are_released() -> None:
    grid = stranded(5)
    alpha = grid["alpha"]
    assert alpha.hold("alpha-1", span(0, 2)) == Ok(2)
    grid.heal("beta")
    grid.pass_time(10.0)
    assert {run.index for run in grid["beta"].started} == {2, 3, 4}
    assert (view(grid).held, view(grid).unplaced) == (2, 0)
    grid["beta"].end()
    grid.settle()
    assert view(grid).state == "held"
    assert alpha.release_jobs("alpha-1", span(0, 2)) == Ok(2)
    grid.finish()
    assert (view(grid).done, view(grid).state) == (5, "done")


def test_quotes_under_way_do_not_place_what_is_held_meanwhile() -> None:
    grid = Grid(alpha=0, beta=8)
    alpha = grid["alpha"]
    alpha.submit(spec(5), 5, settle=False)
    until(grid, ms.Quote)
    alpha.hold("alpha-1", span(3, 5))
    (part,) = alpha.group("alpha-1").subgroups.values()
    assert part.indices == span(0, 3)


def test_what_is_released_while_quotes_for_the_rest_are_under_way_is_placed_too() -> None:
    grid = stranded(5)
    alpha = grid["alpha"]
    alpha.hold("alpha-1", span(3, 5))
    grid.cut.clear()
    grid.meet(alpha, grid["beta"])
    assert grid["alpha"].engine.core.book(Drafts).open
    alpha.release_jobs("alpha-1", settle=False)
    grid.pass_time(10.0)
    grid.finish()
    assert view(grid).done == 5


def test_an_offered_part_is_withdrawn_and_what_is_not_held_is_placed_again() -> None:
    grid = Grid(alpha=0, beta=8)
    alpha = grid["alpha"]
    alpha.submit(spec(5), 5, settle=False)
    until(grid, ms.Prepared)
    assert alpha.hold("alpha-1", span(0, 2)) == Ok(2)
    grid.pass_time(5.0)
    assert {run.index for run in grid["beta"].started} == {2, 3, 4}
    assert view(grid).held == 2


@pytest.mark.parametrize("kind", [ms.Prepare, ms.Prepared, ms.Commit, ms.Committed])
def test_a_hold_between_any_two_messages_of_the_hand_over_loses_nothing_and_starts_nothing_twice(kind: type) -> None:
    grid = Grid(alpha=0, beta=2)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(50, work_s=LONG), 50, settle=False)
    until(grid, kind)
    assert isinstance(alpha.hold("alpha-1"), Ok)
    grid.pass_time(30.0)
    ran = len(beta.running)
    beta.end()
    grid.pass_time(30.0)
    assert not beta.running
    assert (view(grid).state, view(grid).held) == ("held", 50 - ran)
    alpha.release_jobs("alpha-1")
    grid.finish()
    assert grid.claims() == {("alpha-1", i): 1 for i in range(50)}


def test_a_hold_that_overtakes_the_commit_is_obeyed_from_the_first_job_on() -> None:
    grid = Grid(alpha=0, beta=4)
    alpha = grid["alpha"]
    alpha.submit(spec(5), 5, settle=False)
    until(grid, ms.Commit)
    alpha.hold("alpha-1", settle=False)
    grid.post_box.reverse()
    grid.settle()
    grid.pass_time(2.0)
    assert not grid["beta"].started
    assert view(grid).held == 5


def test_jobs_whose_inputs_are_on_their_way_can_be_held() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.stage_at_once = False
    alpha.handle(ev.AddDataset(request=5, principal=OPERATOR, dataset=dataset("d", "f")))
    alpha.submit(spec(2), 2, refs=(("dataset:d/f", whole(2)),))
    assert view(grid).staging == 2
    alpha.hold("alpha-1", span(0, 1))
    assert (view(grid).staging, view(grid).held) == (1, 1)
    alpha.handle(ev.StageDone(ticket=alpha.staging.pop().ticket, bytes_moved=1))
    assert [run.index for run in alpha.started] == [1]
    alpha.release_jobs("alpha-1")
    assert [run.index for run in alpha.started] == [1, 0]


def test_another_site_says_what_it_holds_and_until_then_the_share_shows_holding() -> None:
    grid = Grid(alpha=0, beta=2)
    alpha = grid["alpha"]
    alpha.submit(spec(50, work_s=LONG), 50)
    grid.pass_time(2.0)
    ran = len(grid["beta"].running)
    grid.part("beta")
    assert alpha.hold("alpha-1") == Ok(50 - ran, started=ran)
    assert (view(grid).shares[0].state, view(grid).held) == ("holding", 0)
    grid.heal("beta")
    grid.pass_time(1.0)
    assert (view(grid).shares[0].state, view(grid).shares[0].held, view(grid).held) == ("committed", 50 - ran, 50 - ran)
    grid.part("beta")
    alpha.release_jobs("alpha-1")
    assert view(grid).shares[0].state == "releasing"
    grid.heal("beta")
    grid.finish()


def test_a_started_run_that_was_never_claimed_is_held_when_it_waits_again() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(2, work_s=LONG), 2)
    assert alpha.hold("alpha-1") == Ok(0, started=2)
    alpha.running.clear()
    alpha.started.clear()
    alpha.restart()
    assert not alpha.started
    assert view(grid).held == 2
    assert alpha.release_jobs("alpha-1") == Ok(2)
    assert len(alpha.started) == 2


def test_holding_again_changes_nothing_more() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(9, work_s=LONG), 9)
    alpha.hold("alpha-1")
    before = alpha.engine.snapshot()
    assert alpha.hold("alpha-1") == Ok(0)
    assert alpha.engine.snapshot() == before


def test_cancelling_what_is_held_ends_it() -> None:
    grid = Grid(alpha=0, beta=1)
    alpha = grid["alpha"]
    alpha.submit(spec(50, work_s=LONG), 50)
    alpha.hold("alpha-1")
    alpha.cancel("alpha-1")
    grid.finish()
    assert (view(grid).state, view(grid).held) == ("cancelled", 0)


def test_a_part_its_site_dropped_comes_back_held() -> None:
    """COMMIT meets a tombstone: the order goes with the jobs."""
    grid = Grid(alpha=0, beta=4)
    alpha = grid["alpha"]
    alpha.submit(spec(5), 5, settle=False)
    until(grid, ms.Commit)
    part = next(iter(alpha.group("alpha-1").subgroups))
    grid.post_box.clear()
    grid["beta"].handle(ev.Received(SiteId("alpha"), ms.Abort(subgroup=part, epoch=1)))
    grid.post_box.clear()
    alpha.hold("alpha-1")
    grid.pass_time(60.0)
    assert not grid["beta"].started
    assert (view(grid).held, view(grid).shares) == (5, ())
    alpha.release_jobs("alpha-1")
    grid.finish()


# --- release -----------------------------------------------------------------------------------------------


def test_releasing_what_is_not_held_is_refused_and_changes_nothing() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(20, work_s=LONG), 20)
    before = alpha.engine.snapshot()
    assert alpha.release_jobs("alpha-1") == fx.Refusal(code="usage", text="alpha-1 is not held: no job of the group is")
    assert alpha.engine.snapshot() == before
    alpha.hold("alpha-1", span(10, 15))
    before = alpha.engine.snapshot()
    told = alpha.release_jobs("alpha-1", span(12, 18))
    assert told == fx.Refusal(code="usage", text="alpha-1.[15-17] is not held; held are 10-14")
    assert alpha.engine.snapshot() == before
    assert alpha.release_jobs("alpha-1", span(12, 15)) == Ok(3)
    assert view(grid).held == 2


def test_what_its_site_says_is_running_is_not_held_there() -> None:
    grid = Grid(alpha=0, beta=2)
    alpha = grid["alpha"]
    alpha.submit(spec(2, work_s=LONG), 2)
    grid.pass_time(2.0)
    assert alpha.hold("alpha-1") == Ok(0, started=2)
    none = fx.Refusal(code="usage", text="alpha-1 is not held: no job of the group is")
    assert alpha.release_jobs("alpha-1", settle=False) == none
    grid.pass_time(2.0)
    assert alpha.release_jobs("alpha-1") == none, "by what it told since it has the order, too"


def test_of_jobs_at_another_site_those_that_it_holds_are_released() -> None:
    grid = Grid(alpha=0, beta=1)
    alpha = grid["alpha"]
    alpha.submit(spec(3, work_s=LONG), 3)
    grid.pass_time(2.0)
    assert alpha.hold("alpha-1") == Ok(2, started=1)
    grid.pass_time(2.0)
    assert alpha.release_jobs("alpha-1") == Ok(2)
    grid.finish()


def test_components_that_were_let_go_are_not_held() -> None:
    grid = Grid(alpha=0, beta=2, gamma=1)
    alpha = grid["alpha"]
    alpha.submit(gang("2x1@beta+1x1@gamma"), 3)
    assert alpha.hold("alpha-1", span(0, 1)) == Ok(0, started=3)
    assert alpha.release_jobs("alpha-1") == fx.Refusal(code="usage", text="alpha-1 is not held: no job of the group is")


def test_an_unknown_outcome_is_for_retry_not_for_release() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(1), 1)
    alpha.end(1, Outcome.UNKNOWN)
    told = alpha.release_jobs("alpha-1")
    assert isinstance(told, fx.Refusal)
    assert "diana retry --held alpha-1" in told.text


def test_holding_what_is_over_is_refused_with_what_became_of_it() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(3), 3)
    grid.finish()
    assert alpha.hold("alpha-1") == fx.Refusal(code="usage", text="alpha-1 has nothing to hold there: 3 done")


def test_others_may_neither_hold_nor_release_nor_learn_that_the_group_is_there() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(9, work_s=LONG), 9)
    for act in (alpha.hold, alpha.release_jobs, alpha.retry):
        mine, none = act("alpha-1", who=BOB), act("alpha-9", who=BOB)
        assert isinstance(mine, fx.Refusal) and isinstance(none, fx.Refusal)
        assert mine.text.replace("alpha-1", "alpha-9") == none.text
        beyond = act("alpha-1", span(5, 12))
        assert beyond == fx.Refusal(code="usage", text="alpha-1 has jobs 0 to 8, not 9-11")
    assert isinstance(alpha.hold("alpha-1", who=OPERATOR), Ok)
    assert isinstance(alpha.release_jobs("alpha-1", who=OPERATOR), Ok)


# --- faults ------------------------------------------------------------------------------------------------


def held_life(fate: Fate | None) -> Grid:
    """Hold, hold more, release some, cancel some, release the rest; messages meet their fates."""
    grid = Grid(alpha=0, beta=1)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(12, work_s=LONG, sites=("beta",)), 12)
    grid.pass_time(2.0)
    grid.fate = fate
    ran = len(beta.running)
    alpha.hold("alpha-1", span(0, 8), settle=False)
    alpha.hold("alpha-1", span(8, 12), settle=False)
    grid.settle()
    grid.pass_time(30.0)
    (custody,) = beta.engine.core.state.custodies.values()
    assert len(custody.held & custody.pending) == 12 - ran
    beta.end()
    grid.pass_time(30.0)
    assert len(beta.started) == ran, "nothing held starts"
    alpha.release_jobs("alpha-1", span(8, 12), settle=False)
    alpha.cancel("alpha-1", span(11, 12), settle=False)
    grid.settle()
    grid.pass_time(30.0)
    alpha.release_jobs("alpha-1")
    grid.finish()
    assert view(grid).cancelled == 1
    assert grid.claims() == {("alpha-1", i): 1 for i in range(11)}
    return grid


def test_without_faults_every_order_is_taken_and_acknowledged() -> None:
    grid = held_life(None)
    assert [t.control_seq for t in grid["beta"].records(r.ControlTaken)] == [1, 2, 3, 4, 5]  # type: ignore[union-attr]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", [ms.Control, ms.ControlAck, ms.Progress], ids=lambda k: k.__name__)
def test_an_order_meets_a_fault(kind: type, fault: str) -> None:
    for which in (1, 2, 3, 4):
        held_life(one_fault(kind, fault, which))


@settings(max_examples=40)
@given(st.data())
def test_orders_meet_any_mixture_of_faults(data: st.DataObject) -> None:
    held_life(some_faults(data))
