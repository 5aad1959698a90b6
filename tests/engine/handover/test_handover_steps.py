"""The steps of a hand-over one by one: what is durable before what is said (PROMISES section 2)."""

from __future__ import annotations

from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.state import Step
from diana.engine.messages import messages as ms
from tests.engine.bench import Grid
from tests.engine.builders import kinds, spec
from tests.engine.handing import PART, committed, offered, receive, sent, step

# --- the straight way ----------------------------------------------------------------------------------


def test_every_step_is_durable_before_it_is_said() -> None:
    grid = offered(2)
    alpha, beta = grid["alpha"], grid["beta"]
    beta.stage_at_once = False
    # 1: OFFERED stands in the journal before PREPARE leaves.
    assert kinds(alpha.trace[-3:]) == ["GroupPlaced", "Send", "Notify"]
    assert alpha.group("alpha-1").subgroups[PART].step is Step.OFFERED
    # 2: PREPARED is inert.
    assert step(grid) == ["CustodyTaken", "Send"]
    assert not beta.engine.core.state.custodies[(PART, 1)].runnable
    assert not beta.started
    # 3: the commit point.
    assert step(grid) == ["TransferCommitted", "PeerSeen", "Send"]
    # 4 and 5: RUNNABLE before the answer, STARTING before the start.
    assert step(grid) == ["CustodyRunnable", "Send", "RunsStarted", "Start"]
    assert step(grid) == ["CommitAcked", "Notify"]
    # 7: the end is durable before it is told, and before the LRM may forget it.
    before = len(beta.trace)
    beta.end()
    assert kinds(beta.trace[before:]) == ["KeepFacts", "RunsEnded", "SendResult", "ForgetRuns"]
    # 8: accepted before acknowledged.
    assert step(grid) == ["KeepFacts", "ResultAccepted", "Notify", "Send", "GroupClosed", "Notify"]
    # 9: the tombstone.
    assert step(grid) == ["BatchAcked", "CustodyClosed", "DropSubgroup"]
    assert beta.engine.core.state.tombstones[(PART, 1)].done
    assert not grid.post_box


def test_the_epoch_rises_with_every_offer() -> None:
    grid = offered()
    grid.post_box.clear()
    grid.cut.add("beta")
    grid.pass_time(20.0)
    grid.cut.clear()
    grid.pass_time(60.0)
    placed = grid["alpha"].records(r.GroupPlaced)
    epochs = [part.epoch for record in placed for part in record.parts]  # type: ignore[union-attr]
    assert len(epochs) > 1
    assert epochs == sorted(set(epochs))
    grid.finish()
    assert set(grid.claims().values()) == {1}


# --- abort, refusal, silence -------------------------------------------------------------------------------


def test_an_offer_that_is_not_answered_is_taken_back_and_its_late_answer_aborted() -> None:
    grid = offered(4)
    grid.deliver_one()
    late = grid.post_box.popleft()
    grid.cut.add("beta")
    grid.pass_time(11.0)
    assert len(grid["alpha"].group("alpha-1").unplaced) == 4
    grid.cut.clear()
    assert isinstance(late[2], ms.Prepared)
    grid.post_box.append(late)
    assert step(grid) == ["Send"]
    assert step(grid) == ["CustodyDropped", "Send"]
    assert not grid["beta"].engine.core.state.tombstones[(PART, 1)].done
    assert grid["beta"].started == []


def test_a_tombstone_answers_for_ever_and_the_epoch_never_runs() -> None:
    grid = offered(4)
    beta = grid["beta"]
    prepare = grid.post_box[0][2]
    grid.deliver_one()
    grid.post_box.clear()
    receive(beta, "alpha", ms.Abort(subgroup=PART, epoch=1))
    commit = ms.Commit(subgroup=PART, epoch=1, db_uuid=beta.db_uuid)
    for message in (prepare, commit, ms.Abort(subgroup=PART, epoch=1)):
        effects = receive(beta, "alpha", message)
        assert kinds(effects) == ["Send"]
        assert sent(effects, ms.Aborted)
    beta.restart()
    assert sent(receive(beta, "alpha", commit), ms.Aborted)
    assert beta.started == []


def test_a_commit_answered_by_a_tombstone_brings_the_work_back() -> None:
    """PROMISES section 2, abort: D may drop an old PREPARED by a tombstone; a later COMMIT is answered ABORTED and O
    takes it back."""
    grid = offered(4, alpha=4, beta=4)
    grid.deliver_one()
    receive(grid["beta"], "alpha", ms.Abort(subgroup=PART, epoch=1))
    grid.pass_time(120.0)
    grid.finish()
    assert grid.claims() == {("alpha-1", i): 1 for i in range(4)}


def test_a_site_that_took_the_work_cannot_give_it_back_by_a_word() -> None:
    grid = committed()
    alpha = grid["alpha"]
    effects = receive(alpha, "beta", ms.Aborted(subgroup=PART, epoch=1))
    assert kinds(effects) == ["Warn"]
    assert PART in alpha.group("alpha-1").subgroups


def test_an_abort_of_what_was_committed_changes_nothing() -> None:
    """An origin's late or mistaken ABORT must not unmake its COMMIT: the jobs run."""
    grid = committed()
    beta = grid["beta"]
    assert kinds(receive(beta, "alpha", ms.Abort(subgroup=PART, epoch=1))) == ["Warn"]
    grid.finish()
    assert grid.claims() == {("alpha-1", i): 1 for i in range(4)}


def test_a_refused_offer_goes_elsewhere_and_the_refuser_rests() -> None:
    grid = Grid(alpha=1, beta=4, gamma=3)
    beta = grid["beta"]
    grid["alpha"].submit(spec(4, work_s=100.0, sites=("beta", "gamma")), 4, settle=False)
    while not isinstance(grid.post_box[0][2], ms.Prepare):
        grid.deliver_one()
    beta.handle(ev.RoomChecked(low="disk is full"))
    grid.finish()
    assert {run.subgroup for run in beta.started} == set()
    assert len(grid["gamma"].started) == 4
    taken = grid["alpha"].records(r.TakenBack)
    assert taken[0].reason == "beta refused: disk is full"  # type: ignore[union-attr]


def test_a_refusal_keeps_nothing() -> None:
    grid = offered()
    beta = grid["beta"]
    beta.handle(ev.RoomChecked(low="disk is full"))
    assert step(grid) == ["Send"]
    assert not beta.engine.core.state.custodies
    assert not beta.engine.core.state.tombstones


def test_a_prepared_part_nobody_commits_is_asked_about_again() -> None:
    grid = offered()
    grid.deliver_one()
    grid.post_box.clear()
    grid.now += 31.0
    effects = grid["beta"].handle(ev.Tick())
    assert sent(effects, ms.Prepared)
