"""Trust in a hand-over: forged words, offers and results that make no sense (PROMISES 5.5, 5.6)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import GroupId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import Resources, encode_spec
from tests.engine.bench import Grid
from tests.engine.builders import OPERATOR, authorisation, kinds, result, spec, whole
from tests.engine.handing import PART, committed, offered, receive, sent

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
    "resources",
    [
        Resources(processors=0),
        Resources(processors=-4),
        Resources(work_s=-1.0),
        Resources(processors=9),
        Resources(gpus=-1),
        Resources(memory_bytes=-1),
        Resources(licences=(("matlab", 0),)),
        Resources(licences=(("matlab", 2**62),)),
    ],
)
def test_a_spec_that_asks_for_less_than_nothing_or_too_much_is_refused(resources: Resources) -> None:
    grid = offered()
    body = encode_spec(msgspec.structs.replace(spec(4), resources=resources))
    prepare = grid.post_box[0][2]
    assert isinstance(prepare, ms.Prepare)
    assert change_prepare(grid, spec=body, authorisation=authorisation("alice@vo", "alpha-1", body))  # type: ignore[arg-type]
    assert grid["beta"].ask("info")


DEEP = b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"argv": 3}', b'{"name": "\xff"}', b"\x00", DEEP])
def test_a_spec_that_cannot_be_read_is_refused(body: bytes) -> None:
    grid = offered()
    assert change_prepare(grid, spec=body, authorisation=authorisation("alice@vo", "alpha-1", body))  # type: ignore[arg-type]


def test_more_memory_than_any_machine_has_is_refused_also_beside_the_spec() -> None:
    grid = offered()
    beta = grid["beta"]
    beta.handle(ev.SettingsLoaded(msgspec.structs.replace(beta.engine.core.state.settings, memory_bytes=1 << 30)))
    (refused,) = change_prepare(grid, memory_bytes=1 << 50)
    assert "of memory, a job needs" in refused.reason  # type: ignore[attr-defined]


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
    ms.Prepared(subgroup=PART, epoch=1, db_uuid="db-gamma", seq=9),
    ms.Refused(subgroup=PART, epoch=1, reason="no"),
    ms.Committed(subgroup=PART, epoch=1),
    ms.Aborted(subgroup=PART, epoch=1),
    ms.Lost(subgroup=PART, epoch=1, db_uuid="other"),
    ms.Progress(subgroup=PART, epoch=1, counter=10**30, staging=0, queued=0, running=4, held=IndexSet()),
    result("gamma", PART, [0, 1]),
    ms.ControlAck(subgroup=PART, epoch=1, control_seq=1),
    ms.Commit(subgroup=PART, epoch=1, db_uuid="db-beta"),
    ms.Abort(subgroup=PART, epoch=1),
    ms.Control(subgroup=PART, epoch=1, control_seq=5, cancel=whole(4), hold=IndexSet()),
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
        assert not [e for e in effects if isinstance(e, fx.Persist | fx.Start | fx.KillRuns | fx.ForgetRuns)]
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


def _timed(**columns: list[float]) -> ms.Result:
    told = result("beta", PART, [0])
    return msgspec.structs.replace(told, facts=msgspec.structs.replace(told.facts, **columns))


@pytest.mark.parametrize(
    "message",
    [
        result("beta", PART, [0, 0]),
        result("beta", PART, [7]),
        result("beta", PART, [0], cancelled=[0]),
        result("beta", PART, [], cancelled=[9]),
        result("beta", PART, []),
        result("gamma", PART, [0]),
        _timed(started_s=[-1e308], ended_s=[1e308]),
        _timed(ended_s=[1e300]),
        _timed(cpu_s=[float("nan")]),
    ],
    ids=[
        "twice",
        "not given",
        "done and cancelled",
        "not given, cancelled",
        "nothing",
        "facts of another site",
        "longer than a number can say",
        "of a time that no clock shows",
        "of no time",
    ],
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
    """PROMISES 1.5."""
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


def test_a_number_that_was_never_issued_is_written_down_once() -> None:
    """However often beta repeats it: an acknowledgement from beyond the last order is one of the last order."""
    grid = committed()
    alpha = grid["alpha"]
    alpha.handle(ev.HoldJobs(request=3, principal=OPERATOR, group=GroupId("alpha-1"), indices=None))
    grid.settle()
    before = len(alpha.stored)
    for _ in range(3):
        receive(alpha, "beta", ms.ControlAck(subgroup=PART, epoch=1, control_seq=1 << 40))
    assert len(alpha.stored) == before
