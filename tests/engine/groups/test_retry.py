"""Retry of what did not succeed, and of nothing else (SPEC J6; PROMISES 1.3): new epoch, rising attempts."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.fold import FULL_CONDITIONS, FULL_DECISIONS
from diana.engine.messages import messages as ms
from diana.engine.placement.outcomes import outcomes
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import Outputs
from diana.model.views.views import GroupView, Ok
from tests.engine.bench import Grid
from tests.engine.builders import facts_of, result, spec, whole
from tests.engine.handover.test_handover_faults import FAULTS, one_fault


def view(grid: Grid) -> GroupView:
    seen = grid["alpha"].ask("group", "alpha-1")
    assert isinstance(seen, GroupView)
    return seen


def halves(**more: object) -> Grid:
    """Twelve long jobs over two sites, of which each site failed one; all others are done."""
    grid = Grid(alpha=2, beta=4)
    grid["alpha"].submit(spec(12, work_s=100.0, **more), 12)  # type: ignore[arg-type]
    for site in grid.sites.values():
        site.end(1, Outcome.FAILED)
    grid.finish(count=3)
    assert (view(grid).state, view(grid).failed, view(grid).done) == ("failed", 2, 10)
    return grid


def failed(grid: Grid) -> set[int]:
    return set(grid["alpha"].group("alpha-1").failed)


def test_only_the_failed_jobs_of_two_sites_run_again_and_their_attempts_rise() -> None:
    grid = halves()
    again = failed(grid)
    assert grid["alpha"].retry("alpha-1") == Ok(2)
    assert not view(grid).final and view(grid).failed == 0
    grid.finish()
    assert (view(grid).state, view(grid).done, view(grid).note) == ("done", 12, "")
    claims = grid.claims()
    assert {i: claims["alpha-1", i] for i in range(12)} == {i: 2 if i in again else 1 for i in range(12)}
    attempts = {i: [x.attempt for s in grid.sites.values() for x in s.started if x.index == i] for i in again}
    assert all(sorted(seen) == [1, 2] for seen in attempts.values())
    assert sum(share.jobs for share in view(grid).shares) == 12
    assert sum(share.failed for share in view(grid).shares) == 0


def test_a_third_attempt_is_a_third_attempt() -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(spec(1), 1)
    for attempt in (1, 2, 3):
        assert [run.attempt for run in grid["beta"].running] == [attempt]
        grid["beta"].end(1, Outcome.FAILED)
        grid.settle()
        assert view(grid).state == "failed"
        grid["alpha"].retry("alpha-1")
        grid.pass_time(1.0)
    grid.finish()
    assert view(grid).state == "done"


def test_jobs_that_fail_again_can_be_retried_while_others_still_run() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(4, work_s=100.0), 4)
    alpha.end(2, Outcome.FAILED)
    grid.pass_time(1.0)
    assert alpha.retry("alpha-1") == Ok(2)
    assert len(alpha.running) == 4
    grid.finish()
    assert (view(grid).state, view(grid).done) == ("done", 4)


def test_only_what_is_named_is_retried() -> None:
    grid = halves()
    first, second = sorted(failed(grid))
    assert grid["alpha"].retry("alpha-1", IndexSet.span(0, first + 1)) == Ok(1)
    grid.finish()
    assert failed(grid) == {second}
    assert view(grid).state == "failed"


def test_held_and_cancelled_jobs_are_retried_only_when_asked_for() -> None:
    grid = Grid(alpha=8)
    alpha = grid["alpha"]
    alpha.submit(spec(4, work_s=100.0), 4)
    alpha.end(1, Outcome.UNKNOWN)
    alpha.end(1, Outcome.INTERRUPTED)
    alpha.cancel("alpha-1", IndexSet.span(2, 3))
    alpha.obey_kills()
    grid.finish()
    assert (view(grid).held, view(grid).cancelled, view(grid).done) == (2, 1, 1)
    told = alpha.retry("alpha-1")
    assert isinstance(told, fx.Refusal) and told.text == (
        "alpha-1 has no failed jobs to retry: 1 done, 1 cancelled, 2 held; "
        "--held takes held ones too; --cancelled takes cancelled ones too"
    )
    assert alpha.retry("alpha-1", held=True) == Ok(2)
    assert alpha.retry("alpha-1", cancelled=True) == Ok(1)
    grid.finish()
    assert (view(grid).state, view(grid).done) == ("done", 4)
    assert grid.claims()["alpha-1", 3] == 1


def test_nothing_to_retry_is_refused_and_changes_nothing() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(3), 3)
    before = alpha.engine.snapshot()
    assert isinstance(alpha.retry("alpha-1", held=True, cancelled=True), fx.Refusal)
    assert alpha.engine.snapshot() == before
    grid.finish()
    told = alpha.retry("alpha-1", held=True, cancelled=True)
    assert told == fx.Refusal(code="usage", text="alpha-1 has no failed or held or cancelled jobs to retry: 3 done")
    assert view(grid).final


def test_the_merge_follows_once_the_retried_jobs_are_done() -> None:
    grid = halves(merge=("sum",))
    assert view(grid).note == "the merge command was not run: not every job is done"
    grid["alpha"].retry("alpha-1")
    grid.finish()
    assert (view(grid).state, view(grid).done, view(grid).note) == ("done", 12, "")
    assert len(grid["alpha"].records(r.MergeStarted)) == 1


@pytest.mark.parametrize(
    ("outcome", "also", "note"),
    [
        (Outcome.FAILED, {}, "the merge command failed: exit code 1; what it wrote: diana logs --merge alpha-1"),
        (Outcome.UNKNOWN, {"held": True}, "the merge command ended without a trace"),
    ],
)
def test_a_merge_that_did_not_succeed_is_run_again_alone(outcome: Outcome, also: dict[str, bool], note: str) -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.submit(spec(2, merge=("sum",)), 2)
    alpha.end()
    grid.settle()
    alpha.end(1, outcome)
    assert view(grid).note == note
    assert alpha.retry("alpha-1", **also) == Ok(1)
    assert view(grid).state == "merging"
    assert [run.attempt for run in alpha.running] == [2]
    grid.finish()
    assert (view(grid).state, view(grid).done) == ("done", 2)
    assert len(view(grid).shares) == 1
    assert all(n == 1 for (_, i), n in grid.claims().items() if i < 2)


def test_a_late_second_report_of_the_old_attempt_is_not_the_result_of_the_new_one() -> None:
    grid = Grid(alpha=0, beta=2)
    alpha = grid["alpha"]
    alpha.submit(spec(2, work_s=100.0), 2)
    part = SubgroupId("alpha-1/0")
    grid["beta"].end(1, Outcome.FAILED)
    grid.pass_time(1.0)
    alpha.retry("alpha-1", settle=False)
    alpha.handle(ev.Received(SiteId("beta"), result("beta", part, [0], batch=77)))
    assert "jobs it was not given" in alpha.warnings[-1]
    grid.finish()
    assert view(grid).done == 2


def test_outputs_of_the_old_attempt_that_still_move_are_left_behind() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.gather_at_once = False
    alpha.submit(spec(2, work_s=100.0, collect=("out",)), 2)
    runs = list(alpha.running)
    for run in runs:
        del alpha.running[run]
    told = facts_of(SiteId("alpha"), runs, Outcome.DONE, grid.now, ("out",))
    told.outcomes[0] = int(Outcome.FAILED)
    alpha.handle(ev.JobsEnded(subgroup=runs[0].subgroup, epoch=runs[0].epoch, facts=told))
    (old,) = alpha.gathers
    assert not old.skip
    alpha.gathers.clear()
    before = len(alpha.trace)
    assert alpha.retry("alpha-1") == Ok(1)
    assert fx.CancelStage(old.ticket) in alpha.trace[before:]
    (new,) = alpha.gathers
    assert (new.key, new.skip) == (old.key, IndexSet.span(0, 1))
    alpha.gather_at_once = True
    alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=1))
    grid.finish()
    assert view(grid).state == "done"


@pytest.mark.parametrize("kept", [True, False])
def test_a_retry_that_leaves_nothing_takes_away_what_the_attempt_before_left(kept: bool) -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.gather_at_once = False
    wanted = spec(2, work_s=100.0)
    alpha.submit(msgspec.structs.replace(wanted, outputs=Outputs(collect=("*",), kept=kept)), 2)

    def end(leaves: tuple[str, ...]) -> None:
        runs = list(alpha.running)
        for run in runs:
            del alpha.running[run]
        told = facts_of(SiteId("alpha"), runs, Outcome.FAILED, grid.now, leaves)
        alpha.handle(ev.JobsEnded(subgroup=runs[0].subgroup, epoch=runs[0].epoch, facts=told))

    end(("a",))
    first = alpha.gathers.pop()
    assert first.replaces == ()
    alpha.handle(ev.StageDone(ticket=first.ticket, bytes_moved=1))
    assert alpha.retry("alpha-1") == Ok(2)
    end(())
    if not kept:
        assert not alpha.gathers
        return
    (order,) = alpha.gathers
    assert order.replaces == ((first.key.subgroup, IndexSet.span(0, 2)),)
    alpha.handle(ev.StageDone(ticket=order.ticket, bytes_moved=0))
    assert view(grid).state == "failed"


def test_outputs_that_were_given_up_are_asked_for_again() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    alpha.outputs = ("out",)
    alpha.gather_at_once = False
    alpha.submit(spec(1, collect=("out",)), 1)
    alpha.end()
    while alpha.gathers:
        alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=0, error="no room"))
        grid.pass_time(20.0)
    assert (view(grid).state, view(grid).done) == ("failed", 1)
    assert alpha.retry("alpha-1") == Ok(0)
    assert len(alpha.gathers) == 1
    alpha.handle(ev.StageDone(ticket=alpha.gathers.pop().ticket, bytes_moved=1))
    assert view(grid).state == "done"


def test_results_that_count_no_more_are_named_for_those_who_read_the_store() -> None:
    grid = halves()
    again = failed(grid)
    assert view(grid).superseded == ()
    grid["alpha"].retry("alpha-1")
    grid.finish()
    assert IndexSet.union(indices for _, indices in view(grid).superseded) == IndexSet.of(again)


def test_a_retried_job_can_be_held_released_and_cancelled() -> None:
    grid = halves()
    alpha = grid["alpha"]
    grid.part("beta")
    alpha.engine.core.view.peers.clear()
    one, other = sorted(failed(grid))
    alpha.retry("alpha-1", settle=False)
    alpha.cancel("alpha-1", IndexSet.span(one, one + 1))
    alpha.obey_kills()
    grid.heal("beta")
    grid.finish()
    assert (view(grid).state, view(grid).cancelled, view(grid).done) == ("cancelled", 1, 11)
    assert alpha.retry("alpha-1", cancelled=True) == Ok(1)
    grid.finish()
    assert (view(grid).state, view(grid).done) == ("done", 12)
    assert other


KINDS = (ms.Prepare, ms.Prepared, ms.Commit, ms.Committed, ms.Result, ms.ResultAck)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_the_new_placement_meets_a_fault(kind: type, fault: str) -> None:
    grid = Grid(alpha=0, beta=4)
    alpha = grid["alpha"]
    alpha.submit(spec(6), 6)
    grid["beta"].end(3, Outcome.FAILED)
    grid.finish()
    grid.fate = one_fault(kind, fault, 1)
    assert alpha.retry("alpha-1") == Ok(3)
    grid.finish()
    claims = grid.claims()
    assert [claims["alpha-1", i] for i in range(6)] == [2, 2, 2, 1, 1, 1]
    assert (view(grid).state, view(grid).done) == ("done", 6)


def test_a_crash_right_after_the_answer_loses_no_retry() -> None:
    grid = halves()
    alpha = grid["alpha"]
    alpha.retry("alpha-1", settle=False)
    grid.post_box.clear()
    alpha.restart()
    grid.finish()
    assert view(grid).done == 12
    assert set(grid.claims().values()) == {1, 2}


def test_a_group_that_was_retried_is_kept_from_its_new_end_on() -> None:
    grid = halves()
    alpha = grid["alpha"]
    closed_s = alpha.group("alpha-1").closed_s
    grid.pass_time(1000.0)
    alpha.retry("alpha-1")
    assert alpha.group("alpha-1").closed_s == -1.0
    grid.finish()
    assert alpha.group("alpha-1").closed_s >= closed_s + 1000.0
    assert whole(12).issubset(IndexSet.of(alpha.group("alpha-1").done))


def test_what_a_first_decision_gave_is_still_told_in_full_when_its_jobs_were_tried_again() -> None:
    grid = halves()
    given = sorted((row.site, row.jobs) for row in outcomes(grid["alpha"].group("alpha-1")))
    grid["alpha"].retry("alpha-1")
    grid.finish()
    rows = outcomes(grid["alpha"].group("alpha-1"))
    assert sorted((row.site, row.jobs) for row in rows if row.decision == 0) == given
    assert sum(row.jobs for row in rows if row.decision == 1) == 2


def test_a_group_retried_without_end_keeps_the_tables_of_its_latest_decisions_only() -> None:
    grid = Grid(alpha=2)
    grid["alpha"].submit(spec(1, requirements=("site.slots >= 1",)), 1)
    for _ in range(FULL_DECISIONS + 5):
        grid["alpha"].end(1, Outcome.FAILED)
        grid["alpha"].retry("alpha-1")
    decisions = grid["alpha"].group("alpha-1").decisions
    assert [bool(one.candidates) for one in decisions] == [False] * 6 + [True] * FULL_DECISIONS
    told = [one.requirements is not None for one in decisions]
    assert told == [False] * (len(told) - FULL_CONDITIONS) + [True] * FULL_CONDITIONS
    assert all(one.parts and one.reason for one in decisions)


def test_jobs_that_failed_are_tried_again_by_themselves_as_often_as_was_said() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(4, work_s=100.0, retries=2), 4)
    alpha.end(2, Outcome.FAILED)
    grid.pass_time(1.0)
    assert (view(grid).failed, len(alpha.running)) == (2, 2), "not before the others have ended"
    alpha.end(2)
    for again in (1, 2):
        grid.pass_time(1.0)
        assert (view(grid).final, view(grid).failed, alpha.group("alpha-1").own_retries) == (False, 0, again)
        alpha.end(2, Outcome.FAILED)
    grid.pass_time(1.0)
    assert (view(grid).state, view(grid).done, view(grid).failed) == ("failed", 2, 2)
    assert sorted(grid.claims().values()) == [1, 1, 3, 3]
    assert alpha.retry("alpha-1") == Ok(2), "its user may go on"
    grid.finish()
    assert (view(grid).state, view(grid).done) == ("done", 4)


def test_what_was_cancelled_or_is_held_is_not_tried_again_by_itself() -> None:
    grid = Grid(alpha=3)
    alpha = grid["alpha"]
    alpha.submit(spec(3, work_s=100.0, retries=5), 3)
    alpha.end(1, Outcome.UNKNOWN)
    alpha.end(1, Outcome.CANCELLED)
    alpha.end(1)
    grid.pass_time(1.0)
    assert (view(grid).state, view(grid).done) == ("held", 1)
    assert len(grid.claims()) == 3


@pytest.mark.parametrize("crash", [False, True])
def test_a_group_that_its_user_cancelled_does_not_go_on_by_itself(crash: bool) -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(4, work_s=100.0, retries=5), 4)
    alpha.end(1, Outcome.FAILED)
    grid.pass_time(1.0)
    alpha.cancel("alpha-1")
    if crash:
        alpha.restart()
    alpha.obey_kills()
    grid.pass_time(1.0)
    assert (view(grid).state, view(grid).failed, view(grid).cancelled, alpha.running) == ("failed", 1, 3, {})
    assert alpha.retry("alpha-1") == Ok(1), "its user's word is another thing"
    alpha.end(1, Outcome.FAILED)
    grid.pass_time(1.0)
    assert len(alpha.running) == 1, "and from there it goes on by itself"


def test_jobs_that_their_user_cancelled_keep_no_others_from_being_tried_again() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(4, work_s=100.0, retries=1), 4)
    alpha.end(1, Outcome.FAILED)
    (failed,) = alpha.group("alpha-1").failed.within(IndexSet.span(0, 4))
    other = IndexSet.of([(failed + 1) % 4])
    alpha.cancel("alpha-1", other)
    alpha.obey_kills()
    grid.settle()
    alpha.end(2)
    grid.pass_time(1.0)
    assert [run.index for run in alpha.running] == [failed]


def test_retries_are_counted_over_a_crash() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(1, work_s=100.0, retries=1), 1)
    alpha.end(1, Outcome.FAILED)
    grid.pass_time(1.0)
    assert alpha.group("alpha-1").own_retries == 1
    alpha.restart()
    grid.pass_time(1.0)
    assert not view(grid).final and len(alpha.running) == 1
    alpha.end(1, Outcome.FAILED)
    grid.pass_time(1.0)
    assert view(grid).state == "failed"
