"""Retries, cancels, holds, expiry and crashes that cross with groups that wait for groups (SPEC J4; PROMISES 1.1,
1.4)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.placement.draft import Drafts
from diana.engine.site import dependencies
from diana.engine.site.dependencies import Dependencies
from diana.model.facts import Outcome
from diana.model.ids import GroupId
from diana.model.job.spec import Outputs
from diana.model.views.views import Ok
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, OPERATOR, dataset, spec, whole
from tests.engine.groups.test_dag import CHAIN, end, member, names, states, submit, three, view


def chain_of(*members: ev.Member, key: str = "") -> ev.SubmitChain:
    return ev.SubmitChain(request=7, principal=ALICE, key=key, members=members, wall_s=0.0)


def with_data_at_beta() -> Grid:
    """A submission that reads dataset:far is looked up at beta before it is accepted."""
    grid = Grid(alpha=2, beta=2)
    grid["beta"].handle(ev.AddDataset(request=3, principal=OPERATOR, dataset=dataset("far", "f")))
    grid.pass_time(60.0)
    return grid


READS_FAR = member("reader", refs=(("dataset:far", whole(2)),))


@pytest.mark.parametrize("durable", [False, True])
def test_a_crash_during_a_submission_leaves_all_of_its_groups_or_none(durable: bool) -> None:
    alpha = Grid(alpha=4)["alpha"]
    wanted = chain_of(member("a"), member("b", 0), member("c", 1), key="k")
    effects = alpha.engine.handle(wanted, alpha.grid.now)
    if durable:
        alpha.keep(effects)
    alpha.restart()
    assert len(alpha.engine.core.state.groups) == (3 if durable else 0)
    assert names(submit(alpha, *wanted.members, key="k")) == [*CHAIN]
    for _ in CHAIN:
        end(alpha.grid)
    assert states(alpha, *CHAIN) == ["done", "done", "done"]
    assert len(alpha.started) == 6
    assert len(alpha.records(r.GroupSubmitted)) == 3


@pytest.mark.parametrize("step", range(1, 9))
def test_a_crash_between_any_two_messages_of_a_submission_with_far_data_loses_and_doubles_nothing(step: int) -> None:
    grid = with_data_at_beta()
    alpha = grid["alpha"]
    first = grid.delivered
    grid.fate = lambda _, number, letter: "mute" if number == first + step and letter[1] == "alpha" else "deliver"
    alpha.handle(chain_of(READS_FAR, member("next", 0), key="k"))
    grid.settle()
    grid.pass_time(30.0)
    grid.fate = None
    assert names(submit(alpha, READS_FAR, member("next", 0), key="k")) == ["alpha-1", "alpha-2"]
    grid.finish()
    assert states(alpha, "alpha-1", "alpha-2") == ["done", "done"]
    assert set(grid.claims().values()) == {1}


def test_a_group_that_fails_while_one_behind_it_is_being_submitted_refuses_that() -> None:
    grid = with_data_at_beta()
    alpha = grid["alpha"]
    alpha.submit(spec(1, sites=("alpha",)), 1)
    alpha.handle(chain_of(READS_FAR, member("later", behind=("alpha-1",)), key="k"))
    assert alpha.engine.core.book(Drafts).chains
    alpha.end(outcome=Outcome.FAILED)
    grid.settle()
    refused = alpha.replies.pop(7)
    assert isinstance(refused, fx.Refusal)
    assert refused.text == "group later: after: alpha-1 failed; mend that first: diana retry alpha-1"
    assert list(alpha.engine.core.state.groups) == ["alpha-1"]


def test_a_key_is_one_submission_also_while_another_kind_of_it_is_under_way() -> None:
    for chain_first in (True, False):
        grid = with_data_at_beta()
        alpha = grid["alpha"]
        one = ev.SubmitGroup(
            request=8, principal=ALICE, key="k", spec=READS_FAR.spec, jobs=2, refs=READS_FAR.refs, wall_s=0.0
        )
        both = chain_of(READS_FAR, member("next", 0), key="k")
        for event in (both, one) if chain_first else (one, both):
            alpha.handle(event)
        grid.settle()
        accepted, refused = (alpha.replies[n] for n in ((7, 8) if chain_first else (8, 7)))
        assert isinstance(refused, fx.Refusal) and "asks for something else" in refused.text
        assert isinstance(accepted, fx.GroupsAccepted if chain_first else fx.GroupAccepted)
        assert len(alpha.engine.core.state.groups) == (2 if chain_first else 1)


def test_a_cancelled_group_that_is_retried_behind_a_failed_one_is_held_visibly_again() -> None:
    grid = three()
    alpha = grid["alpha"]
    end(grid, Outcome.FAILED)
    alpha.cancel("alpha-2")
    assert alpha.retry("alpha-2", cancelled=True) == Ok(2)
    assert states(alpha, *CHAIN) == ["failed", "held", "held"]
    assert "diana retry alpha-1" in view(alpha, "alpha-2").note
    assert "diana retry alpha-1" in view(alpha, "alpha-3").note
    alpha.retry("alpha-1")
    for _ in CHAIN:
        end(grid)
    assert states(alpha, *CHAIN) == ["done", "done", "done"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_failed_group_is_retried_although_the_one_before_it_has_expired(restart: bool) -> None:
    grid = Grid({"keep_s": 1000.0}, alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(1), 1)
    end(grid)
    submit(alpha, member("later", behind=("alpha-1",)))
    grid.pass_time(1500.0)
    end(grid, Outcome.FAILED)
    grid.pass_time(700.0)
    assert list(alpha.engine.core.state.groups) == ["alpha-2"]
    alpha.retry("alpha-2")
    if restart:
        alpha.restart()
    assert view(alpha, "alpha-2").note == "" and not view(alpha, "alpha-2").final
    end(grid)
    assert states(alpha, "alpha-2") == ["done"]


def test_a_held_group_is_placed_when_it_is_released_after_the_one_before_it_ended() -> None:
    grid = three()
    alpha = grid["alpha"]
    alpha.hold("alpha-2")
    end(grid)
    assert states(alpha, *CHAIN) == ["done", "held", "waiting"]
    alpha.restart()
    assert alpha.release_jobs("alpha-2") == Ok(2)
    assert states(alpha, *CHAIN) == ["done", "running", "waiting"]
    alpha.hold("alpha-3")
    alpha.release_jobs("alpha-3")
    end(grid)
    end(grid)
    assert states(alpha, *CHAIN) == ["done", "done", "done"]


def test_a_group_released_before_the_one_before_it_ended_still_waits() -> None:
    grid = three()
    alpha = grid["alpha"]
    alpha.hold("alpha-2")
    alpha.release_jobs("alpha-2")
    assert states(alpha, *CHAIN) == ["running", "waiting", "waiting"]


def test_part_of_a_waiting_group_may_be_cancelled_and_the_rest_runs_when_it_is_its_turn() -> None:
    grid = three()
    alpha = grid["alpha"]
    assert alpha.cancel("alpha-2", whole(1)) == Ok(1)
    end(grid)
    assert [run.index for run in alpha.started if run.subgroup.startswith("alpha-2/")] == [1]
    end(grid)
    assert states(alpha, *CHAIN) == ["done", "cancelled", "held"]
    alpha.retry("alpha-2", cancelled=True)
    end(grid)
    end(grid)
    assert states(alpha, *CHAIN) == ["done", "done", "done"]


def test_retrying_one_job_of_two_that_failed_lets_nothing_behind_it_go() -> None:
    grid = three()
    alpha = grid["alpha"]
    end(grid, Outcome.FAILED)
    alpha.retry("alpha-1", whole(1))
    assert states(alpha, *CHAIN) == ["running", "waiting", "waiting"]
    end(grid)
    assert states(alpha, *CHAIN) == ["failed", "held", "held"]
    assert len(alpha.started) == 3


@pytest.mark.parametrize("registered", [False, True])
def test_cancelling_what_is_being_registered_comes_too_late_and_loses_nothing(registered: bool) -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.outputs, alpha.register_at_once = ("out",), False
    submit(alpha, member("a", makes="made"), member("b", 0, refs=(("dataset:made", whole(2)),)))
    end(grid)
    order = alpha.registrations.pop()
    assert alpha.cancel("alpha-1") == Ok(0)
    if not registered:
        # The stager had done its work, the records of it were not on disk yet.
        alpha.restart()
        order = alpha.registrations.pop()
    alpha.register(order)
    assert states(alpha, "alpha-1", "alpha-2") == ["done", "running"]
    alpha.handle(ev.OutputsInCatalogue(ticket=order.ticket, dataset=None, error="told twice"))
    assert states(alpha, "alpha-1", "alpha-2") == ["done", "running"]


def gathering(name: str, to: str, *collect: str) -> ev.Member:
    wanted = msgspec.structs.replace(spec(1, name=name), outputs=Outputs(collect=collect, to=to))
    return ev.Member(spec=wanted, jobs=1, refs=())


def test_groups_of_one_submission_do_not_overwrite_each_others_files() -> None:
    alpha = Grid(alpha=4)["alpha"]
    refused = submit(alpha, gathering("a", "/out", "x", "y"), gathering("b", "/out/.", "z", "y"))
    assert isinstance(refused, fx.Refusal)
    assert refused.text.startswith("group b: outputs.to: group a puts its 'y' into /out/. too; name another folder")
    assert names(submit(alpha, gathering("a", "/out", "{group}-y"), gathering("b", "/out", "{group}-y", "y")))


def test_groups_of_one_submission_whose_patterns_may_find_the_same_are_refused() -> None:
    alpha = Grid(alpha=4)["alpha"]

    def finding(name: str, *collect: str) -> ev.Member:
        member = gathering(name, "/out", *collect)
        outputs = msgspec.structs.replace(member.spec.outputs, kept=True)
        return msgspec.structs.replace(member, spec=msgspec.structs.replace(member.spec, outputs=outputs))

    for first, second, named in (("*.a", "*.b", "*.a"), ("x", "y/", "x"), ("y/", "x", "y/")):
        refused = submit(alpha, finding("a", first), finding("b", second))
        assert isinstance(refused, fx.Refusal)
        assert refused.text.startswith(f"group b: outputs.to: group a puts its {named!r} into /out too; name another")
    assert names(submit(alpha, finding("a", "*.a"), finding("b", "b-{index}"), finding("c", "{group}/*")))


def test_retrying_what_waits_for_a_failed_group_says_what_to_retry_instead() -> None:
    grid = three()
    alpha = grid["alpha"]
    assert "it waits for alpha-1 (stage-1)" in getattr(alpha.retry("alpha-2"), "text", "")
    end(grid, Outcome.FAILED)
    refused = alpha.retry("alpha-3")
    assert isinstance(refused, fx.Refusal)
    assert refused.text.startswith(
        "alpha-3 has nothing to retry: it waits for alpha-1 (stage-1), which failed; try it again: diana retry alpha-1"
    )
    refused = submit(alpha, member("more", behind=("alpha-3",)))
    assert isinstance(refused, fx.Refusal)
    assert refused.text == (
        "after: alpha-3 (stage-3) waits for alpha-1 (stage-1), which failed; mend that first: diana retry alpha-1"
    )


# --- whatever comes, in whatever order ---------------------------------------------------------------------

GROUPS = 5
OPERATIONS = ("done", "failed", "unknown", "retry", "cancel", "cancel-all", "hold", "release", "restart", "time")
BEFORE = st.lists(st.sets(st.integers(0, GROUPS - 1), max_size=2), min_size=GROUPS, max_size=GROUPS)
STEPS = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, GROUPS - 1)), max_size=25)


@settings(max_examples=60, deadline=None)
@given(before=BEFORE, steps=STEPS)
def test_nothing_starts_before_its_turn_and_nothing_is_forgotten_whatever_crosses(
    before: list[set[int]], steps: list[tuple[str, int]]
) -> None:
    grid = Grid(alpha=3)
    alpha = grid["alpha"]
    members = [member(f"g{k}", *sorted(b for b in found if b < k), jobs=1) for k, found in enumerate(before)]
    every = names(submit(alpha, *members))
    for what, which in steps:
        _step(grid, alpha, what, every[which])
        _nothing_started_early(alpha)
        _blocked_is_what_the_states_imply(alpha)
    for _ in range(GROUPS + 1):
        for name in every:
            alpha.release_jobs(name)
            alpha.retry(name, held=True, cancelled=True)
        grid.settle()
        alpha.obey_kills()
        end(grid)
        _nothing_started_early(alpha)
    assert states(alpha, *every) == ["done"] * GROUPS


def _step(grid: Grid, alpha: Site, what: str, name: str) -> None:
    match what:
        case "done" | "failed" | "unknown":
            alpha.end(1, Outcome[what.upper()])
        case "retry":
            alpha.retry(name, held=True, cancelled=True)
        case "cancel" | "cancel-all":
            every = what == "cancel-all"
            order = ev.CancelJobs(request=5, principal=ALICE, group=GroupId(name), indices=None, dependents=every)
            alpha.handle(order)
            alpha.obey_kills()
        case "hold":
            alpha.hold(name)
        case "release":
            alpha.release_jobs(name)
        case "restart":
            alpha.restart()
        case "time":
            grid.pass_time(10.0)
    grid.settle()


def _nothing_started_early(alpha: Site) -> None:
    """A group that was placed had everything before it done; what is done stays done."""
    groups = alpha.engine.core.state.groups
    for group in groups.values():
        if group.decisions:
            assert all(groups[name].state == "done" for name in group.after), alpha.grid.story()


def _blocked_is_what_the_states_imply(alpha: Site) -> None:
    core = alpha.engine.core
    blocked, dependents = (
        set(core.book(Dependencies).blocked),
        {k: sorted(v) for k, v in core.book(Dependencies).dependents.items() if v},
    )
    dependencies.rebuild(core)
    assert blocked == core.book(Dependencies).blocked, alpha.grid.story()
    assert dependents == {k: sorted(v) for k, v in core.book(Dependencies).dependents.items()}
