"""Groups that wait for groups, and outputs that become datasets (SPEC J4)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.placement.draft import Drafts
from diana.engine.site.dependencies import Dependencies
from diana.model.facts import Outcome
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec, Outputs
from diana.model.trust.principal import Principal
from diana.model.views.views import GroupView, Ok
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, OPERATOR, dataset, spec, whole
from tests.engine.handover.test_gangs import gang

Refs = tuple[tuple[str, IndexSet], ...]


def member(
    name: str, *after: int, jobs: int = 2, makes: str = "", refs: Refs = (), behind: tuple[str, ...] = ()
) -> ev.Member:
    wanted = spec(jobs, name=name)
    if makes:
        wanted = with_dataset(wanted, makes)
    groups = tuple(GroupId(g) for g in behind)
    return ev.Member(spec=wanted, jobs=jobs, refs=refs, after=after, after_groups=groups)


def with_dataset(wanted: GroupSpec, name: str) -> GroupSpec:
    return msgspec.structs.replace(wanted, outputs=Outputs(collect=("out",), dataset=name))


def submit(site: Site, *members: ev.Member, key: str = "", who: Principal = ALICE) -> object:
    site.handle(ev.SubmitChain(request=7, principal=who, key=key, members=members, wall_s=0.0))
    site.grid.settle()
    return site.replies.pop(7, None)


def names(answer: object) -> list[str]:
    assert isinstance(answer, fx.GroupsAccepted), answer
    return [group.group for group in answer.groups]


def view(site: Site, group: str) -> GroupView:
    seen = site.ask("group", group)
    assert isinstance(seen, GroupView)
    return seen


def states(site: Site, *groups: str) -> list[str]:
    return [view(site, group).state for group in groups]


CHAIN = ("alpha-1", "alpha-2", "alpha-3")


def three() -> Grid:
    """stage-1 -> stage-2 -> stage-3, two jobs each."""
    grid = Grid(alpha=4)
    assert names(submit(grid["alpha"], member("stage-1"), member("stage-2", 0), member("stage-3", 1))) == [*CHAIN]
    return grid


def end(grid: Grid, outcome: Outcome = Outcome.DONE) -> None:
    """End what runs and let results and retries settle."""
    grid["alpha"].end(outcome=outcome)
    grid.settle()
    grid.pass_time(5.0)


def test_a_group_is_placed_only_when_the_one_before_it_is_done() -> None:
    grid = three()
    alpha = grid["alpha"]
    assert states(alpha, *CHAIN) == ["running", "waiting", "waiting"]
    assert view(alpha, "alpha-2").note == "waits for alpha-1 (stage-1)"
    assert {run.subgroup for run in alpha.started} == {"alpha-1/0"}
    end(grid)
    assert states(alpha, *CHAIN) == ["done", "running", "waiting"]
    end(grid)
    end(grid)
    assert states(alpha, *CHAIN) == ["done", "done", "done"]
    assert [run.subgroup for run in alpha.started] == [f"alpha-{k}/0" for k in (1, 1, 2, 2, 3, 3)]


def test_all_groups_of_a_submission_are_one_transaction() -> None:
    alpha = Grid(alpha=4)["alpha"]
    effects = alpha.handle(
        ev.SubmitChain(request=7, principal=ALICE, key="", members=(member("a"), member("b", 0)), wall_s=0.0)
    )
    made = [e.record for e in effects if isinstance(e, fx.Persist) and isinstance(e.record, r.GroupSubmitted)]
    assert [(g.group, g.after, g.chain) for g in made] == [
        ("alpha-1", (), ("alpha-1", "alpha-2")),
        ("alpha-2", ("alpha-1",), ()),
    ]


def test_groups_of_gangs_stand_beside_others_in_one_submission() -> None:
    alpha = Grid(alpha=4)["alpha"]
    gangs = ev.Member(spec=gang("3x1", 2), jobs=6, refs=())
    assert names(submit(alpha, gangs, member("b", 0))) == ["alpha-1", "alpha-2"]


def test_the_same_key_gives_the_same_groups_and_another_body_is_refused() -> None:
    alpha = Grid(alpha=4)["alpha"]
    members = (member("a"), member("b", 0))
    first = submit(alpha, *members, key="k")
    assert submit(alpha, *members, key="k") == first
    alpha.restart()
    assert submit(alpha, *members, key="k") == first
    for other in ((member("a"), member("b")), members[:1], (*members, member("c"))):
        refused = submit(alpha, *other, key="k")
        assert isinstance(refused, fx.Refusal) and "belongs to alpha-1" in refused.text
    assert isinstance(alpha.submit(members[0].spec, 2, key="k"), fx.Refusal)
    assert len(alpha.engine.core.state.groups) == 2


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    ("outcome", "how", "mend"),
    [
        (Outcome.FAILED, "failed", "diana retry alpha-1"),
        (Outcome.UNKNOWN, "is held", "diana retry --held alpha-1"),
        (Outcome.CANCELLED, "was cancelled", "diana retry --cancelled alpha-1"),
    ],
)
def test_what_lies_behind_a_group_that_did_not_end_well_is_held_visibly_until_it_is_retried(
    outcome: Outcome, how: str, mend: str, restart: bool
) -> None:
    grid = three()
    alpha = grid["alpha"]
    end(grid, outcome)
    if restart:
        alpha.restart()
    for group in CHAIN[1:]:
        seen = view(alpha, group)
        assert (seen.state, seen.final, seen.held, seen.unplaced) == ("held", True, 2, 0)
        assert seen.note == (
            f"waits for alpha-1 (stage-1), which {how}; try it again: {mend}, or cancel this one: diana cancel {group}"
        )
    alpha.retry("alpha-1", held=True, cancelled=True)
    assert states(alpha, *CHAIN) == ["running", "waiting", "waiting"]
    assert not view(alpha, "alpha-3").final
    for _ in CHAIN:
        end(grid)
    assert states(alpha, *CHAIN) == ["done", "done", "done"]


def test_a_restart_in_the_middle_of_a_chain_changes_nothing() -> None:
    grid = three()
    for _ in CHAIN:
        grid["alpha"].restart()
        end(grid)
    assert states(grid["alpha"], *CHAIN) == ["done", "done", "done"]
    assert len(grid["alpha"].started) == 6


def test_two_groups_before_one_are_both_waited_for() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    submit(alpha, member("a", jobs=1), member("b", jobs=1), member("c", 0, 1, jobs=1))
    assert view(alpha, "alpha-3").note == "waits for alpha-1 (a), alpha-2 (b)"
    alpha.end(1)
    assert view(alpha, "alpha-3").note == "waits for alpha-2 (b)"
    end(grid, Outcome.FAILED)
    assert states(alpha, *CHAIN) == ["done", "failed", "held"]
    alpha.retry("alpha-2")
    end(grid)
    end(grid)
    assert states(alpha, *CHAIN) == ["done", "done", "done"]


def test_a_blocked_group_can_be_cancelled_and_blocks_the_next() -> None:
    grid = three()
    alpha = grid["alpha"]
    end(grid, Outcome.FAILED)
    assert alpha.cancel("alpha-2") == Ok(2)
    assert states(alpha, *CHAIN) == ["failed", "cancelled", "held"]
    assert "waits for alpha-2 (stage-2), which was cancelled" in view(alpha, "alpha-3").note


def test_cancel_leaves_the_dependents_held_or_takes_them_along() -> None:
    grid = three()
    alpha = grid["alpha"]
    alpha.handle(ev.CancelJobs(request=5, principal=ALICE, group=GroupId("alpha-1"), indices=whole(1), dependents=True))
    refused = alpha.replies[5]
    assert isinstance(refused, fx.Refusal) and "with the whole of a group" in refused.text
    alpha.cancel("alpha-1")
    alpha.obey_kills()
    grid.settle()
    assert states(alpha, *CHAIN) == ["cancelled", "held", "held"]

    grid = three()
    alpha = grid["alpha"]
    alpha.handle(ev.CancelJobs(request=5, principal=ALICE, group=GroupId("alpha-1"), indices=None, dependents=True))
    assert alpha.replies[5] == Ok(6)
    alpha.obey_kills()
    grid.settle()
    assert states(alpha, *CHAIN) == ["cancelled", "cancelled", "cancelled"]


def test_a_group_of_an_earlier_submission_is_waited_for() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(1), 1)
    assert names(submit(alpha, member("later", behind=("alpha-1",)))) == ["alpha-2"]
    assert states(alpha, "alpha-1", "alpha-2") == ["running", "waiting"]
    end(grid)
    assert states(alpha, "alpha-1", "alpha-2") == ["done", "running"]


def test_waiting_for_what_is_not_ones_own_or_has_failed_is_refused() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(1), 1)
    for who, group in ((BOB, "alpha-1"), (ALICE, "alpha-9")):
        refused = submit(alpha, member("later", behind=(group,)), who=who)
        assert isinstance(refused, fx.Refusal)
        assert refused.text == f"after: no group {group} of yours at alpha; see: diana status"
    end(grid, Outcome.FAILED)
    refused = submit(alpha, member("later", behind=("alpha-1",)))
    assert isinstance(refused, fx.Refusal) and refused.text == (
        "after: alpha-1 failed; mend that first: diana retry alpha-1"
    )


def test_one_refused_member_refuses_all() -> None:
    alpha = Grid({"max_queued_jobs": 1000}, alpha=4, beta=4)["alpha"]
    refs: Refs = (("dataset:nowhere", whole(2)),)
    for bad, why in (
        (member("b", 0, refs=refs), "group b: dataset nowhere"),
        (ev.Member(spec=spec(2, name="b", processors=9), jobs=2, refs=()), "group b: no site can take this group"),
        (member("b", jobs=1001), "group b: 1,001 jobs: alpha takes 1,000 at most; submit them in pieces"),
        (member("b", jobs=999), "1,001 jobs: alpha takes 1,000 at most"),
    ):
        refused = submit(alpha, member("a"), bad, key="k")
        assert isinstance(refused, fx.Refusal) and refused.text.startswith(why), refused
    assert (
        not alpha.engine.core.state.groups
        and not alpha.engine.core.book(Drafts).open
        and not alpha.engine.core.book(Drafts).chains
    )
    assert names(submit(alpha, member("a"), key="k")) == ["alpha-1"]


def test_outputs_are_a_dataset_before_the_group_is_called_done() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.outputs, alpha.register_at_once = ("out",), False
    refs: Refs = (("dataset:made", whole(2)),)
    submit(alpha, member("a", makes="made"), member("b", 0, refs=refs))
    end(grid)
    assert states(alpha, "alpha-1", "alpha-2") == ["registering", "waiting"]
    assert [(o.dataset, o.to) for o in alpha.registrations] == [("made", "")]
    alpha.restart()
    assert [o.dataset for o in alpha.registrations] == ["made"]
    alpha.register(alpha.registrations.pop())
    added = [type(record).__name__ for record in alpha.records()]
    assert added.index("DatasetAdded") < added.index("OutputsRegistered") < added.index("GroupClosed")
    assert states(alpha, "alpha-1", "alpha-2") == ["done", "running"]
    assert alpha.engine.core.state.datasets["made"].files == 2


def test_outputs_that_cannot_be_registered_fail_the_group_and_retry_registers_again() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.outputs, alpha.register_at_once = ("out",), False
    submit(alpha, member("a", makes="made"), member("b", 0))
    end(grid)
    alpha.register(alpha.registrations.pop(), error="the name stands for other content")
    assert states(alpha, "alpha-1", "alpha-2") == ["failed", "held"]
    assert view(alpha, "alpha-1").note == "dataset made: the name stands for other content"
    assert alpha.retry("alpha-1") == Ok(0)
    assert states(alpha, "alpha-1", "alpha-2") == ["registering", "waiting"]
    alpha.register(alpha.registrations.pop())
    assert states(alpha, "alpha-1", "alpha-2") == ["done", "running"]
    assert len(alpha.started) == 4


def test_groups_of_one_submission_expire_together_and_not_before_those_behind_them() -> None:
    grid = Grid({"keep_s": 1000.0}, alpha=4)
    alpha = grid["alpha"]
    submit(alpha, member("a"), member("b", 0), key="k")
    end(grid)
    grid.pass_time(5000.0)
    assert states(alpha, "alpha-1", "alpha-2") == ["done", "running"]
    end(grid)
    grid.pass_time(500.0)
    assert states(alpha, "alpha-1", "alpha-2") == ["done", "done"]
    grid.pass_time(3000.0)
    core = alpha.engine.core
    assert not core.state.groups and not core.state.keys and not any(core.book(Dependencies).dependents.values())


def test_a_long_chain_costs_per_group_and_ends() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    members = [member(f"s{k}", *([k - 1] if k else []), jobs=1) for k in range(300)]
    submit(alpha, *members)
    end(grid, Outcome.FAILED)
    assert len(alpha.engine.core.book(Dependencies).blocked) == 299
    assert "waits for alpha-1 (s0), which failed" in view(alpha, "alpha-300").note
    alpha.retry("alpha-1")
    assert not alpha.engine.core.book(Dependencies).blocked
    for _ in range(300):
        alpha.end()
    grid.settle()
    assert view(alpha, "alpha-300").state == "done"


def test_a_name_that_stands_for_others_data_is_refused_and_ones_own_gets_a_new_version() -> None:
    grid = Grid(alpha=4, beta=1)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.outputs, alpha.register_at_once = ("out",), False
    for site, name in ((alpha, "here"), (beta, "there")):
        site.handle(ev.AddDataset(request=3, principal=OPERATOR, dataset=dataset(name, "f")))
    grid.pass_time(60.0)
    for name, where in (("here", "alpha"), ("there", "beta")):
        refused = alpha.submit(with_dataset(spec(1), name), 1)
        assert isinstance(refused, fx.Refusal)
        assert refused.text == f"outputs.dataset = {name}: stands for data of others at {where}; use another name"
    only = with_dataset(spec(1, sites=("alpha",)), "made")
    for who in (ALICE, ALICE, BOB):
        assert isinstance(alpha.submit(only, 1, who=who), fx.GroupAccepted)
    alpha.end()
    orders = [alpha.registrations.pop(0) for _ in range(3)]
    assert [order.new_version for order in orders] == [False, True, False]
    alpha.register(orders[0])
    alpha.register(orders[1])
    # What was under way when the name was taken is for the catalogue to refuse; what comes later is refused here.
    alpha.register(orders[2], error="other content")
    alpha.retry("alpha-3", who=OPERATOR)
    assert not alpha.registrations
    assert view(alpha, "alpha-3").note == "outputs.dataset = made: stands for data of others at alpha; use another name"
