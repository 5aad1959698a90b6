"""Submitting: what is answered, what is refused, and that a million jobs cost what one costs (SPEC J1, J6, D3)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.state import encode_state
from diana.engine.messages import messages as ms
from diana.engine.placement.draft import Drafts
from diana.model.ids import GroupId, SiteId
from diana.model.indexset import IndexSet
from diana.model.trust.principal import Principal, Role
from diana.model.views.views import GroupView, Ok
from tests.engine.bench import Grid
from tests.engine.builders import ALICE, BOB, OPERATOR, dataset, kinds, spec, whole


def refused(answer: object) -> fx.Refusal:
    assert isinstance(answer, fx.Refusal), answer
    return answer


# --- the answer ---------------------------------------------------------------------------------------------


def test_the_answer_stands_after_the_record_it_rests_on() -> None:
    grid = Grid(alpha=4)
    trace = grid["alpha"].trace
    trace.clear()
    assert grid["alpha"].submit(spec(3), 3) == fx.GroupAccepted(GroupId("alpha-1"), 3)
    names = kinds(trace)
    assert names.index("GroupSubmitted") < names.index("Reply")
    assert names.index("GroupPlaced") < names.index("RunsStarted") < names.index("Start")


@pytest.mark.parametrize("role", [Role.PEER, Role.MEMBER, Role.NOBODY])
def test_only_users_and_operators_submit(role: Role) -> None:
    grid = Grid(alpha=4)
    assert refused(grid["alpha"].submit(spec(3), 3, who=Principal(role, "x"))).code == "denied"
    assert not grid["alpha"].engine.core.state.groups


def test_an_empty_sweep_and_no_processors_are_mistakes() -> None:
    grid = Grid(alpha=4)
    assert refused(grid["alpha"].submit(spec(1), 0)).code == "usage"
    assert refused(grid["alpha"].submit(spec(1, processors=0), 1)).code == "usage"


def test_a_full_disk_and_a_full_queue_ask_to_come_again() -> None:
    grid = Grid({"max_queued_jobs": 10}, alpha=1)
    alpha = grid["alpha"]
    assert refused(alpha.submit(spec(11), 11)).text == "11 jobs: alpha takes 10 at most; submit them in pieces"
    assert refused(alpha.submit(spec(11), 11)).code == "usage", "waiting would not help"
    assert isinstance(alpha.submit(spec(10), 10), fx.GroupAccepted)
    assert refused(alpha.submit(spec(10), 10)).code == "retry"
    alpha.handle(ev.RoomChecked(low="disk is full"))
    answer = refused(alpha.submit(spec(1), 1))
    assert (answer.code, answer.text) == ("retry", "alpha: disk is full")
    assert answer.retry_after_s > 0


def test_a_merge_where_nothing_can_run_is_refused_at_once() -> None:
    grid = Grid(alpha=0, beta=4)
    assert "alpha, which has no slots" in refused(grid["alpha"].submit(spec(2, merge=("m",)), 2)).text
    assert isinstance(grid["beta"].submit(spec(2, merge=("m",)), 2), fx.GroupAccepted)


# --- keys ----------------------------------------------------------------------------------------------------


def test_the_same_key_and_body_is_the_same_group() -> None:
    """PROMISES 1.2."""
    grid = Grid(alpha=4)
    first = grid["alpha"].submit(spec(3), 3, key="k")
    assert grid["alpha"].submit(spec(3), 3, 2, key="k") == first
    grid["alpha"].restart()
    assert grid["alpha"].submit(spec(3), 3, 3, key="k") == first
    assert len(grid["alpha"].engine.core.state.groups) == 1
    assert len(grid["alpha"].started) == 3


def test_the_same_key_with_another_body_is_an_error() -> None:
    grid = Grid(alpha=4)
    grid["alpha"].submit(spec(3), 3, key="k")
    assert "belongs to alpha-1" in refused(grid["alpha"].submit(spec(4), 4, 2, key="k")).text


def test_keys_are_each_users_own() -> None:
    grid = Grid(alpha=4)
    grid["alpha"].submit(spec(3), 3, key="k")
    assert grid["alpha"].submit(spec(4), 4, 2, key="k", who=BOB) == fx.GroupAccepted(GroupId("alpha-2"), 4)


def test_a_key_repeated_while_quotes_come_in_waits_for_the_same_answer() -> None:
    grid = Grid(alpha=4, beta=4)
    alpha = grid["alpha"]
    alpha.handle(ev.AddDataset(request=90, principal=OPERATOR, dataset=dataset("d", "f")))
    refs = (("dataset:d/f", whole(2)),)
    for request, jobs in ((1, 2), (2, 2), (3, 5)):
        alpha.submit(spec(jobs), jobs, request, key="k", refs=refs if jobs == 2 else (), settle=False)
    assert set(alpha.replies) == {90, 3}
    assert refused(alpha.replies[3]).code == "usage"
    grid.settle()
    assert alpha.replies[1] == alpha.replies[2] == fx.GroupAccepted(GroupId("alpha-1"), 2)
    assert len(alpha.engine.core.state.groups) == 1


def test_a_known_key_is_answered_also_when_nothing_new_is_taken() -> None:
    grid = Grid({"max_queued_jobs": 3}, alpha=4)
    first = grid["alpha"].submit(spec(3), 3, key="k")
    assert grid["alpha"].submit(spec(3), 3, 2, key="k") == first
    grid["alpha"].handle(ev.RoomChecked(low="disk is full"))
    assert grid["alpha"].submit(spec(3), 3, 3, key="k") == first


# --- where it cannot go -----------------------------------------------------------------------------------------


def test_a_group_no_site_can_take_is_refused_with_the_reason_of_every_site_meant() -> None:
    grid = Grid(alpha=2, beta=4, gamma=8)
    answer = refused(grid["alpha"].submit(spec(3, processors=6, sites=("alpha", "beta", "mars")), 3))
    assert answer.code == "unplaceable"
    for reason in (
        "alpha: has 2 of the 6 processors a job needs",
        "beta: has 4 of the 6 processors a job needs",
        "mars: no site known here",
    ):
        assert reason in answer.text
    assert "gamma" not in answer.text, "a site the user left out needs no word"
    nowhere = refused(grid["alpha"].submit(spec(1, not_sites=("alpha", "beta", "gamma")), 1))
    assert "alpha, beta, gamma: not among the sites the group allows" in nowhere.text
    assert not grid["alpha"].engine.core.state.groups
    assert grid["alpha"].submit(spec(1), 1, 2) == fx.GroupAccepted(GroupId("alpha-1"), 1)


def test_a_missing_dataset_names_the_sites_that_were_asked_and_the_mend() -> None:
    grid = Grid(alpha=2, beta=4, gamma=4)
    grid.part("gamma")
    answer = refused(grid["alpha"].submit(spec(1), 1, refs=(("dataset:nope/f", whole(1)),)))
    assert answer.code == "usage"
    assert "dataset nope/f: not registered at alpha, beta (no answer from gamma)" in answer.text
    assert "diana datasets add" in answer.text
    assert not grid["alpha"].engine.core.state.groups


def test_a_site_that_gives_no_quote_delays_a_decision_for_the_quote_wait_only() -> None:
    grid = Grid(alpha=2, beta=4)
    grid["alpha"].handle(ev.AddDataset(request=90, principal=OPERATOR, dataset=dataset("d", "f")))
    grid.cut.add("beta")
    assert grid["alpha"].submit(spec(2), 2, refs=(("dataset:d/f", whole(2)),)) is None
    grid.pass_time(2.5)
    assert isinstance(grid["alpha"].replies[1], fx.GroupAccepted)


@pytest.mark.parametrize(
    "change", [{"speed": 0.0}, {"speed": -1.0}, {"slots": -3}, {"slots": 0}, {"work_ahead_s": -5.0}]
)
def test_a_quote_that_makes_no_sense_makes_its_site_no_candidate(change: dict[str, object]) -> None:
    """A peer's numbers are never divided by unasked."""
    grid = Grid(alpha=2, beta=4)
    alpha = grid["alpha"]
    assert isinstance(alpha.submit(spec(100), 100, settle=False), fx.GroupAccepted)
    while not isinstance(grid.post_box[0][2], ms.Quote):
        grid.deliver_one()
    sender, to, message = grid.post_box.popleft()
    grid.post_box.appendleft((sender, to, msgspec.structs.replace(message, **change)))
    grid.settle()
    assert {s.site for s in alpha.group("alpha-1").subgroups.values()} == {"alpha"}


def test_a_summary_of_a_site_without_speed_does_no_harm_in_a_large_grid() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    for n in range(20):
        site = SiteId(f"p{n}")
        hello = msgspec.structs.replace(alpha.hello(), site=site, db_uuid=f"{n}")
        alpha.handle(ev.PeerUp(hello))
        summary = ms.Summary(
            site=site,
            generation=1,
            counter=1,
            seq=1,
            slots=4,
            free_slots=4,
            speed=0.0,
            queued_jobs=0,
            running_jobs=0,
            work_ahead_s=0.0,
            datasets=(),
            accepting=True,
        )
        alpha.handle(ev.Received(site, summary))
    alpha.handle(ev.SubmitGroup(request=1, principal=ALICE, key="", spec=spec(3), jobs=3, refs=(), wall_s=0.0))
    assert isinstance(alpha.replies[1], fx.GroupAccepted)


# --- plan -----------------------------------------------------------------------------------------------------


def test_a_plan_is_the_decision_of_the_submission_and_leaves_no_trace() -> None:
    grid = Grid(alpha=2, beta=4)
    alpha = grid["alpha"]
    before = [encode_state(s.engine.core.state) for s in grid.sites.values()]
    answer = alpha.submit(spec(12, work_s=50.0), 12, plan_only=True)
    assert isinstance(answer, fx.DecisionMade)
    assert [encode_state(s.engine.core.state) for s in grid.sites.values()] == before
    assert not alpha.engine.core.book(Drafts).open
    alpha.submit(spec(12, work_s=50.0), 12, 2)
    (made,) = alpha.group("alpha-1").decisions
    assert made == answer.decision


def test_a_plan_for_nowhere_gives_the_reasons() -> None:
    grid = Grid(alpha=2)
    answer = refused(grid["alpha"].submit(spec(1, processors=3), 1, plan_only=True))
    assert answer.code == "unplaceable"


# --- placement ----------------------------------------------------------------------------------------------------


def test_work_of_several_processors_is_priced_by_its_run_time() -> None:
    """Eight jobs of 100 s on 4 slots, two at a time: 400 s, not 800."""
    grid = Grid(alpha=4)
    grid["alpha"].submit(spec(8, work_s=100.0, processors=2), 8)
    (made,) = grid["alpha"].group("alpha-1").decisions
    assert made.whole_s == pytest.approx(400.0)


def test_the_work_of_several_processors_ahead_counts_processor_seconds() -> None:
    grid = Grid(alpha=4)
    grid["alpha"].submit(spec(20, work_s=100.0, processors=2), 20)
    made = grid["alpha"].submit(spec(1, processors=2), 1, 2, plan_only=True)
    assert isinstance(made, fx.DecisionMade)
    assert made.decision.candidates[0].wait_s == pytest.approx(200.0 * 20 / 4)
    made = grid["alpha"].submit(spec(1), 1, 3, plan_only=True)
    assert isinstance(made, fx.DecisionMade)
    assert made.decision.candidates[0].wait_s == pytest.approx(100.0), "a narrower job passes all but what runs"


@pytest.mark.parametrize("max_subgroup", [0, 5])
def test_max_parallel_holds_over_all_sites_and_all_times(max_subgroup: int) -> None:
    """J6: also when parts are refused, lost and placed again, and when the parts would be more than the limit."""
    grid = Grid(alpha=2, beta=4, gamma=4)
    alpha = grid["alpha"]
    alpha.submit(spec(40, work_s=50.0, max_parallel=3, max_subgroup=max_subgroup), 40, settle=False)
    while grid.post_box and not isinstance(grid.post_box[0][2], ms.Prepare):
        grid.deliver_one()
    grid["beta"].handle(ev.RoomChecked(low="disk is full"))
    for turn in range(400):
        grid.settle()
        assert sum(len(s.running) for s in grid.sites.values()) <= 3
        parts = alpha.group("alpha-1").subgroups.values()
        assert sum(min(s.max_parallel, s.open_jobs()) for s in parts) <= 3
        if grid.all_final():
            break
        if turn == 20:
            grid["beta"].handle(ev.RoomChecked(low=""))
            grid["gamma"].restart()
        for site in grid.sites.values():
            site.end(1)
        grid.pass_time(1.0)
    assert set(grid.claims().values()) == {1}
    assert len(alpha.group("alpha-1").done) == 40


def test_a_site_that_only_submits_hands_everything_over() -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(spec(6), 6)
    grid.finish()
    assert len(grid["beta"].started) == 6


def test_a_group_waits_for_a_site_that_comes_back_and_says_why() -> None:
    grid = Grid(alpha=0, beta=2)
    grid["alpha"].submit(spec(6), 6, settle=False)
    grid.post_box.clear()
    grid.part("beta")
    grid.pass_time(30.0)
    seen = grid["alpha"].ask("group", "alpha-1")
    assert isinstance(seen, GroupView)
    assert seen.unplaced == 6
    assert "beta: no answer for" in seen.note
    grid.heal("beta")
    grid.finish()
    assert set(grid.claims().values()) == {1}


# --- a million ------------------------------------------------------------------------------------------------------


def effects_of_life(jobs: int) -> tuple[list[str], list[str], int]:
    """Effects of submitting and of cancelling, and the bytes of state in between."""
    grid = Grid(alpha=2, beta=4)
    alpha = grid["alpha"]
    for site in grid.sites.values():
        site.trace.clear()
    alpha.submit(spec(jobs, work_s=100.0), jobs)
    submitted = kinds([e for s in grid.sites.values() for e in s.trace])
    size = sum(len(s.engine.snapshot()) for s in grid.sites.values())
    for site in grid.sites.values():
        site.trace.clear()
    assert alpha.cancel("alpha-1") == Ok(jobs)
    for site in grid.sites.values():
        site.obey_kills()
    grid.pass_time(5.0)
    grid.settle()
    assert alpha.group("alpha-1").state == "cancelled"
    return submitted, kinds([e for s in grid.sites.values() for e in s.trace]), size


def test_a_million_jobs_are_submitted_split_handed_over_and_cancelled_with_the_effects_of_a_hundred() -> None:
    """J1: the cost does not grow with the group's size; no object per job."""
    small, million = effects_of_life(100), effects_of_life(1_000_000)
    assert million[0] == small[0]
    assert len(million[1]) <= len(small[1]) + 2
    assert million[2] - small[2] < 200


def test_state_of_a_queued_million_holds_no_jobs() -> None:
    """PERFORMANCE P7: at most one byte per queued job in groups; here far less than one per thousand."""
    grid = Grid(alpha=2)
    empty = len(grid["alpha"].engine.snapshot())
    grid["alpha"].submit(spec(1_000_000), 1_000_000)
    assert len(grid["alpha"].engine.snapshot()) - empty < 4000
    custody = next(iter(grid["alpha"].engine.core.state.custodies.values()))
    assert len(custody.running) <= 3 * 2
    assert isinstance(custody.pending, IndexSet)
    assert len(custody.pending.bounds) == 2


def test_the_journal_names_every_group_once() -> None:
    grid = Grid(alpha=2)
    for n in range(5):
        grid["alpha"].submit(spec(1), 1, n)
    names = [rec.group for rec in grid["alpha"].records(r.GroupSubmitted)]  # type: ignore[union-attr]
    assert names == [f"alpha-{n}" for n in range(1, 6)]
