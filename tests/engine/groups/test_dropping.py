"""Groups that are over are forgotten at their user's word."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.model.ids import GroupId
from diana.model.job.spec import Outputs
from diana.model.trust.principal import Principal
from diana.model.views.views import GroupsDropped
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, OPERATOR, spec
from tests.engine.groups.test_dag import end, member, submit


def drop(
    site: Site,
    *groups: str,
    who: Principal = ALICE,
    outputs: bool = False,
    have_files: tuple[str, ...] = (),
    each: bool = False,
) -> object:
    named, full = tuple(map(GroupId, groups)), frozenset(map(GroupId, have_files))
    site.handle(ev.DropGroups(request=997, principal=who, groups=named, outputs=outputs, have_files=full, each=each))
    return site.replies.pop(997)


def refused(reply: object) -> str:
    assert isinstance(reply, fx.Refusal) and reply.code == "usage", reply
    return reply.text


def dropped(site: Site) -> list[tuple[str, bool]]:
    return [(effect.group, effect.outputs) for effect in site.trace if isinstance(effect, fx.DropGroup)]


def ended(jobs: int = 2, key: str = "", **outputs: object) -> tuple[Grid, Site]:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    made = msgspec.structs.replace(spec(jobs), outputs=Outputs(**outputs)) if outputs else spec(jobs)
    alpha.submit(made, jobs, key=key)
    grid.finish()
    return grid, alpha


def test_a_group_that_is_over_is_forgotten_and_its_key_is_free() -> None:
    _, alpha = ended(key="k")
    assert drop(alpha, "alpha-1") == GroupsDropped((GroupId("alpha-1"),))
    assert dropped(alpha) == [("alpha-1", False)] and not alpha.engine.core.state.groups
    assert "no group alpha-1 of yours" in refused(drop(alpha, "alpha-1"))
    assert alpha.submit(spec(4), 4, 2, key="k") == fx.GroupAccepted(GroupId("alpha-2"), 4)


def test_it_stays_forgotten_when_its_site_starts_anew() -> None:
    _, alpha = ended()
    drop(alpha, "alpha-1")
    alpha.restart()
    assert not alpha.engine.core.state.groups


def test_a_group_that_is_not_over_stays_and_all_that_were_named_with_it() -> None:
    grid, alpha = ended()
    alpha.submit(spec(2), 2, 2)
    assert refused(drop(alpha, "alpha-1", "alpha-2")) == "alpha-2 is not over; diana cancel alpha-2 ends it"
    assert set(alpha.engine.core.state.groups) == {"alpha-1", "alpha-2"}
    answer = drop(alpha, "alpha-2", "alpha-1", each=True)
    assert answer == GroupsDropped(
        (GroupId("alpha-1"),), ((GroupId("alpha-2"), "alpha-2 is not over; diana cancel alpha-2 ends it"),)
    )
    grid.finish()
    assert drop(alpha, "alpha-2", "alpha-2") == GroupsDropped((GroupId("alpha-2"),))


def test_a_group_that_another_waits_for_stays_until_that_is_over() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(2), 2)
    grid.finish()
    submit(alpha, member("slow", behind=("alpha-1",)))
    assert refused(drop(alpha, "alpha-1")) == "alpha-2 waits for alpha-1; diana cancel alpha-2 ends that"
    grid.finish()
    assert isinstance(drop(alpha, "alpha-1"), GroupsDropped)


def test_groups_of_one_submission_go_together_so_that_their_key_keeps_its_meaning() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    submit(alpha, member("a"), member("b", 0), key="k")
    end(grid)
    end(grid)
    for one, other in (("alpha-1", "alpha-2"), ("alpha-2", "alpha-1")):
        assert refused(drop(alpha, one)) == f"{one} was submitted together with {other}; drop all of them at once"
        assert drop(alpha, one, each=True) == GroupsDropped((), ((GroupId(one), refused(drop(alpha, one))),))
    assert isinstance(drop(alpha, "alpha-2", "alpha-1"), GroupsDropped)
    assert not alpha.engine.core.state.groups and not alpha.engine.core.state.keys


def test_another_user_is_not_told_that_there_is_a_group_and_an_operator_may_drop_it() -> None:
    _, alpha = ended()
    assert refused(drop(alpha, "alpha-1", who=BOB)) == refused(drop(alpha, "alpha-9", who=BOB)).replace("-9", "-1")
    assert isinstance(drop(alpha, "alpha-1", who=OPERATOR), GroupsDropped)


@pytest.mark.parametrize(
    ("outputs", "refused_unasked", "gone"),
    [
        ({"collect": ("out",)}, True, True),
        ({"collect": ("out",), "to": "/home/ann/out"}, False, True),
        ({"collect": ("out",), "to": "https://store/x"}, False, True),
        ({"collect": ("out",), "to": "https://store/x", "merge": ("join",)}, True, True),
        ({"collect": ("out",), "dataset": "made"}, False, False),
    ],
)
def test_outputs_go_at_the_users_word_or_where_they_are_copies_and_never_from_under_a_dataset(
    outputs: dict[str, object], refused_unasked: bool, gone: bool
) -> None:
    _, alpha = ended(**outputs)
    if refused_unasked:
        assert "alpha-1 has outputs at the node; diana fetch alpha-1" in refused(
            drop(alpha, "alpha-1", have_files=("alpha-1",))
        )
    assert isinstance(drop(alpha, "alpha-1", have_files=("alpha-1",), outputs=refused_unasked), GroupsDropped)
    assert dropped(alpha) == [("alpha-1", gone)]


def test_a_group_that_left_no_files_goes_without_a_word_about_outputs() -> None:
    _, alpha = ended(collect=("out",))
    assert isinstance(drop(alpha, "alpha-1"), GroupsDropped)
    assert dropped(alpha) == [("alpha-1", False)]


def test_outputs_of_which_the_dataset_was_removed_are_asked_about_like_others() -> None:
    _, alpha = ended(collect=("out",), dataset="made")
    alpha.handle(ev.RemoveDataset(request=5, principal=OPERATOR, name="made"))
    assert "alpha-1 has outputs at the node" in refused(drop(alpha, "alpha-1", have_files=("alpha-1",)))
    assert isinstance(drop(alpha, "alpha-1", have_files=("alpha-1",), outputs=True), GroupsDropped)
    assert dropped(alpha) == [("alpha-1", True)]


def test_outputs_on_which_a_dataset_rests_stay_at_the_users_word_as_well() -> None:
    _, alpha = ended(collect=("out",), dataset="made")
    assert isinstance(drop(alpha, "alpha-1", have_files=("alpha-1",), outputs=True), GroupsDropped)
    assert dropped(alpha) == [("alpha-1", False)]
