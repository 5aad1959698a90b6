"""The steps of a hand-over one by one: what is durable before what is said (PROMISES section 2)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine import effects as fx
from diana.engine import events as ev
from diana.engine import messages as ms
from diana.engine import records as r
from diana.engine.state import Step
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.spec import Resources, encode_spec
from diana.model.views import GroupView
from tests.engine.bench import Grid, Site
from tests.engine.builders import authorisation, kinds, result, spec, whole

PART = SubgroupId("alpha-1/0")


def offered(jobs: int = 4, **slots: int) -> Grid:
    """A group only beta may run: quotes are in, PREPARE is under way."""
    grid = Grid(**(slots or {"alpha": 1, "beta": 4}))
    grid["alpha"].submit(spec(jobs, work_s=100.0, sites=("beta",)), jobs, settle=False)
    while not isinstance(grid.post_box[0][2], ms.Prepare):
        grid.deliver_one()
    return grid


def committed(jobs: int = 4, **slots: int) -> Grid:
    grid = offered(jobs, **slots)
    grid.settle()
    assert grid["alpha"].group("alpha-1").subgroups[PART].acked
    return grid


def receive(site: Site, sender: str, message: ms.Message) -> list[fx.Effect]:
    return site.handle(ev.Received(SiteId(sender), message))


def step(grid: Grid) -> list[str]:
    """Deliver the next message; what its receiver does."""
    letter = grid.post_box[0]
    site = grid.sites[letter[1]]
    before = len(site.trace)
    grid.deliver_one()
    return kinds(site.trace[before:])


def view(grid: Grid) -> GroupView:
    seen = grid["alpha"].ask("group", "alpha-1")
    assert isinstance(seen, GroupView)
    return seen


def sent(effects: list[fx.Effect], kind: type) -> list[object]:
    return [e.message for e in effects if isinstance(e, fx.Send) and isinstance(e.message, kind)]


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
    assert step(grid) == ["TransferCommitted", "Send"]
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
    """PROMISES: D may drop an old PREPARED by a tombstone; a later COMMIT is answered ABORTED and O takes it back."""
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


# --- what cannot be taken ---------------------------------------------------------------------------------


def change_prepare(grid: Grid, **changes: object) -> list[object]:
    sender, to, message = grid.post_box.popleft()
    assert isinstance(message, ms.Prepare)
    return sent(receive(grid.sites[to], sender, msgspec.structs.replace(message, **changes)), ms.Refused)


def test_an_authorisation_for_another_spec_or_group_is_refused() -> None:
    """PROMISES 5.6."""
    other = encode_spec(spec(4, work_s=5.0))
    grid = offered()
    (refused,) = change_prepare(grid, spec=other)
    assert refused.reason == "the authorisation is for another spec"  # type: ignore[attr-defined]
    grid = offered()
    prepare = grid.post_box[0][2]
    assert isinstance(prepare, ms.Prepare)
    (refused,) = change_prepare(
        grid,
        authorisation=authorisation("alice@vo", prepare.authorisation.group.replace("1", "2"), prepare.spec),  # type: ignore[arg-type]
    )
    assert refused.reason == "the authorisation is for alpha-2"  # type: ignore[attr-defined]


def test_the_custody_belongs_to_whom_the_authorisation_names() -> None:
    grid = committed()
    assert grid["beta"].engine.core.state.custodies[(PART, 1)].owner == "alice@vo"
    (start,) = [e for e in grid["beta"].trace if isinstance(e, fx.Start)]
    assert start.owner == "alice@vo"


def test_an_authorisation_replayed_for_other_indices_counts_from_the_origin_only() -> None:
    """It binds owner, spec and group; which indices go where is the origin's to say, nobody else's."""
    grid = committed(2, alpha=1, beta=4, gamma=4)
    beta = grid["beta"]
    prepare = next(
        e.message for e in grid["alpha"].trace if isinstance(e, fx.Send) and isinstance(e.message, ms.Prepare)
    )
    replay = msgspec.structs.replace(prepare, subgroup=SubgroupId("alpha-1/7"), epoch=9, indices=whole(99))
    assert kinds(receive(beta, "gamma", replay)) == ["Warn"]
    assert "peer gamma may not offer what belongs to alpha" in beta.warnings[-1]
    assert len(beta.engine.core.state.custodies) == 1
    assert sent(receive(beta, "alpha", replay), ms.Prepared)


@pytest.mark.parametrize(
    "resources", [Resources(processors=0), Resources(processors=-4), Resources(work_s=-1.0), Resources(processors=9)]
)
def test_a_spec_that_asks_for_less_than_nothing_or_too_much_is_refused(resources: Resources) -> None:
    grid = offered()
    body = encode_spec(msgspec.structs.replace(spec(4), resources=resources))
    prepare = grid.post_box[0][2]
    assert isinstance(prepare, ms.Prepare)
    assert change_prepare(grid, spec=body, authorisation=authorisation("alice@vo", "alpha-1", body))  # type: ignore[arg-type]
    assert grid["beta"].ask("info")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"argv": 3}', b'{"name": "\xff"}', b"\x00"])
def test_a_spec_that_cannot_be_read_is_refused(body: bytes) -> None:
    grid = offered()
    assert change_prepare(grid, spec=body, authorisation=authorisation("alice@vo", "alpha-1", body))  # type: ignore[arg-type]


def test_a_site_the_group_excludes_does_not_take_it() -> None:
    grid = offered()
    body = encode_spec(spec(4, not_sites=("beta",)))
    (refused,) = change_prepare(grid, spec=body, authorisation=authorisation("alice@vo", "alpha-1", body))  # type: ignore[arg-type]
    assert refused.reason == "the group does not allow this site"  # type: ignore[attr-defined]


def test_other_work_of_a_name_that_stands_here_is_refused() -> None:
    """An origin that lost its journal counts groups from one again."""
    grid = committed(2)
    beta = grid["beta"]
    body = encode_spec(spec(5))
    prepare = next(
        e.message for e in grid["alpha"].trace if isinstance(e, fx.Send) and isinstance(e.message, ms.Prepare)
    )
    other = msgspec.structs.replace(
        prepare, spec=body, authorisation=authorisation("bob@vo", prepare.authorisation.group, body)
    )
    (refused,) = sent(receive(beta, "alpha", other), ms.Refused)
    assert refused.reason == "other work of this name stands here"  # type: ignore[attr-defined]
    assert sent(receive(beta, "alpha", prepare), ms.Prepared)


# --- wrong senders ------------------------------------------------------------------------------------------


FORGED: list[ms.Message] = [
    ms.Prepared(subgroup=PART, epoch=1, db_uuid="db-gamma"),
    ms.Refused(subgroup=PART, epoch=1, reason="no"),
    ms.Committed(subgroup=PART, epoch=1),
    ms.Aborted(subgroup=PART, epoch=1),
    ms.Lost(subgroup=PART, epoch=1, db_uuid="other"),
    ms.Progress(subgroup=PART, epoch=1, counter=10**30, staging=0, queued=0, running=4, held=IndexSet()),
    result("gamma", PART, [0, 1]),
    ms.ControlAck(subgroup=PART, epoch=1, control_seq=1),
    ms.Commit(subgroup=PART, epoch=1, db_uuid="db-beta"),
    ms.Abort(subgroup=PART, epoch=1),
    ms.Control(subgroup=PART, epoch=1, control_seq=5, verb="cancel", indices=whole(4)),
    ms.ResultAck(subgroup=PART, epoch=1, batch=0, outputs_taken=True),
]


@pytest.mark.parametrize("message", FORGED, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("to", ["alpha", "beta"])
def test_a_third_site_changes_nothing_at_either_end(message: ms.Message, to: str) -> None:
    """PROMISES 5.5: before the commit point and after it."""
    for make in (offered, committed):
        grid = make(4, alpha=1, beta=4, gamma=4)
        site = grid[to]
        before = site.engine.snapshot()
        effects = receive(site, "gamma", message)
        assert not [e for e in effects if isinstance(e, fx.Persist | fx.Start | fx.Kill | fx.ForgetRuns)]
        assert site.engine.snapshot() == before
        assert "gamma" in site.warnings[-1]
        # A report to a site that is no origin of it, or about what it never placed, is at most told to end.
        assert all(isinstance(e, fx.Warn) or (isinstance(e, fx.Send) and e.to == "gamma") for e in effects)


def test_a_site_that_speaks_by_this_sites_name_is_not_heard() -> None:
    grid = committed()
    alpha = grid["alpha"]
    before = alpha.engine.snapshot()
    assert kinds(receive(alpha, "alpha", result("alpha", PART, [0]))) == ["Warn"]
    assert alpha.engine.snapshot() == before


# --- results ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        result("beta", PART, [0, 0]),
        result("beta", PART, [7]),
        result("beta", PART, [0], cancelled=[0]),
        result("beta", PART, [], cancelled=[9]),
        result("beta", PART, []),
        result("gamma", PART, [0]),
    ],
    ids=["twice", "not given", "done and cancelled", "not given, cancelled", "nothing", "facts of another site"],
)
def test_a_nonsensical_batch_is_not_accepted_and_not_acknowledged(message: ms.Result) -> None:
    grid = committed()
    alpha = grid["alpha"]
    before = alpha.engine.snapshot()
    assert kinds(receive(alpha, "beta", message)) == ["Warn"]
    assert alpha.engine.snapshot() == before


def test_a_job_has_one_result_whatever_later_batches_say() -> None:
    grid = committed()
    alpha = grid["alpha"]
    receive(alpha, "beta", result("beta", PART, [1]))
    for again in (
        result("beta", PART, [1], batch=1),
        result("beta", PART, [0, 1], batch=1),
        result("beta", PART, [2], batch=1, cancelled=[0, 1]),
    ):
        assert kinds(receive(alpha, "beta", again)) == ["Warn"]
    assert len(alpha.group("alpha-1").done) == 1


def test_results_before_the_commit_point_are_not_believed() -> None:
    grid = offered()
    assert kinds(receive(grid["alpha"], "beta", result("beta", PART, [0]))) == ["Warn"]


def test_late_results_of_a_placement_taken_back_are_counted_once_and_never_mixed_in() -> None:
    """PROMISES 5."""
    grid = offered(4, alpha=1, beta=4, gamma=4)
    alpha = grid["alpha"]
    grid.post_box.clear()
    grid.cut.add("beta")
    grid.pass_time(11.0)
    late = result("beta", PART, [0, 1])
    assert kinds(receive(alpha, "beta", late)) == ["ResultStale", "Send"]
    assert kinds(receive(alpha, "beta", late)) == ["Send"]
    assert kinds(receive(alpha, "gamma", result("gamma", PART, [2]))) == ["Warn"]
    group = alpha.group("alpha-1")
    assert group.stale_results == 2
    assert len(group.done) == 0
    assert alpha.engine.counters["stale_results"] == 1


def test_results_of_a_group_that_expired_are_acknowledged_so_that_their_sender_can_forget_them() -> None:
    grid = Grid(alpha=1, beta=1)
    effects = receive(grid["alpha"], "beta", result("beta", "alpha-77/0", [0]))
    (ack,) = sent(effects, ms.ResultAck)
    assert ack.outputs_taken  # type: ignore[attr-defined]


# --- lost and restored databases ---------------------------------------------------------------------------------


def lose_database(site: Site) -> None:
    site.stored.clear()
    site.facts.clear()
    site.running.clear()
    site.db_uuid += "-new"


def test_a_site_with_a_new_database_makes_what_was_committed_there_unreachable() -> None:
    grid = committed()
    beta = grid["beta"]
    beta.end(1)
    grid.settle()
    lose_database(beta)
    beta.restart()
    grid.pass_time(100.0)
    seen = view(grid)
    assert seen.state == "unreachable"
    assert (seen.done, seen.unreachable, seen.unplaced) == (1, 3, 0)
    assert "beta has another database" in seen.note
    assert len(beta.started) == 4, "nothing was started again"
    assert not seen.final


def test_a_lost_database_found_out_by_a_commit_shows_too() -> None:
    """No new stream told of it: COMMIT is answered LOST."""
    grid = offered()
    for _ in range(2):
        grid.deliver_one()
    beta = grid["beta"]
    lose_database(beta)
    beta.boot()
    grid.settle()
    assert "beta lost its database" in view(grid).note
    assert view(grid).unreachable == 4


def test_an_offer_to_a_site_that_lost_its_database_goes_elsewhere() -> None:
    grid = Grid(alpha=1, beta=4, gamma=4)
    grid["alpha"].submit(spec(4, work_s=100.0, sites=("beta", "gamma")), 4, settle=False)
    while not isinstance(grid.post_box[0][2], ms.Prepared):
        grid.deliver_one()
    lose_database(grid["beta"])
    grid["beta"].restart()
    grid.finish()
    assert set(grid.claims().values()) == {1}


@pytest.mark.parametrize("behind", [1, 0])
def test_an_older_copy_of_a_database_is_noticed_before_its_first_start(behind: int) -> None:
    """A falling generation, or a known generation with another nonce: the copy booted to it once more."""
    grid = Grid(alpha=1, beta=4)
    beta = grid["beta"]
    if behind:
        beta.restart()
    copy = list(beta.stored[: -len(beta.stored)])
    grid["alpha"].submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    grid.cut.add("beta")
    beta.stored = copy
    beta.running.clear()
    beta.boot()
    started = len(beta.started)
    beta.lrm_ready()
    grid.heal("beta")
    grid.pass_time(60.0)
    assert "beta came back with an older database" in view(grid).note
    assert view(grid).unreachable == 4
    assert len(beta.started) == started


def test_a_commit_is_not_repeated_to_a_database_nobody_trusts() -> None:
    grid = offered()
    alpha, beta = grid["alpha"], grid["beta"]
    for _ in range(2):
        grid.deliver_one()
    grid.post_box.clear()
    hello = msgspec.structs.replace(beta.hello(), generation=0)
    alpha.handle(ev.PeerUp(hello))
    grid.post_box.clear()
    receive(alpha, "beta", ms.Prepared(subgroup=PART, epoch=1, db_uuid=beta.db_uuid))
    assert not grid.post_box
    grid.pass_time(60.0)
    assert beta.started == []


def test_an_ordinary_restart_of_a_peer_raises_no_suspicion() -> None:
    grid = committed()
    for _ in range(3):
        grid["beta"].restart()
        grid.settle()
    assert view(grid).unreachable == 0
    grid.finish()
    assert view(grid).done == 4
