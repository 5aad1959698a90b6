"""Lists of groups: whose, which first, how many, and at what cost."""

from __future__ import annotations

import pytest

from diana.engine.journal import events as ev
from diana.engine.views import answers
from diana.model.ids import GroupId
from diana.model.trust.principal import Principal
from diana.model.views import views
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, OPERATOR, spec


def listed(site: Site, who: Principal = OPERATOR, **limits: object) -> views.Groups:
    asked = ev.Ask(request=5, principal=who, what="groups", **limits)  # type: ignore[arg-type]
    site.handle(asked)
    answer = site.replies[5]
    assert isinstance(answer, views.Groups)
    return answer


def names(found: views.Groups) -> list[str]:
    return [view.group for view in found.groups]


def grid_of(groups: int) -> Site:
    """Groups of one job each, by turns of two users; the two oldest have not ended, all others have."""
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    for number in range(groups):
        alpha.submit(spec(1, work_s=100.0), 1, number + 1, who=ALICE if number % 2 else BOB)
        if number > 1:
            alpha.cancel(f"alpha-{number + 1}", who=OPERATOR)
        grid.pass_time(0.1)
    return alpha


def test_of_more_groups_than_asked_for_the_open_ones_come_and_then_the_newest() -> None:
    alpha = grid_of(6)
    everything = listed(alpha)
    assert names(everything) == [f"alpha-{n}" for n in range(1, 7)] and everything.left_out == 0
    assert [view.final for view in everything.groups] == [False, False, True, True, True, True]
    few = listed(alpha, limit=3)
    assert (names(few), few.left_out) == (["alpha-1", "alpha-2", "alpha-6"], 3)
    fewer = listed(alpha, limit=1)
    assert (names(fewer), fewer.left_out) == (["alpha-2"], 5)


def test_only_open_ones_or_only_the_askers_own_are_counted_too() -> None:
    alpha = grid_of(6)
    assert names(listed(alpha, active=True)) == ["alpha-1", "alpha-2"]
    assert names(listed(alpha, ALICE)) == ["alpha-2", "alpha-4", "alpha-6"]
    assert names(listed(alpha, OPERATOR, mine=True)) == []
    own = listed(alpha, ALICE, limit=2)
    assert (names(own), own.left_out) == (["alpha-2", "alpha-6"], 1)


def test_a_long_list_tells_of_a_few_groups_and_names_the_others_which_are_asked_for_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views, "GROUPS_AT_ONCE", 3)
    alpha = grid_of(8)
    first = listed(alpha, limit=7)
    assert (names(first), first.left_out) == (["alpha-1", "alpha-2", "alpha-4"], 1)
    assert list(first.more) == [f"alpha-{n}" for n in (5, 6, 7, 8)]
    assert names(listed(alpha, named=first.more)) == list(first.more)
    assert names(listed(alpha, ALICE, named=first.more)) == ["alpha-6", "alpha-8"]


def test_a_group_beyond_the_limit_costs_no_view() -> None:
    alpha = grid_of(40)
    core, before = alpha.engine.core, []
    made = answers.group_view

    def counted(*words: object) -> views.GroupView:
        before.append(1)
        return made(*words)  # type: ignore[arg-type]

    answers.group_view = counted
    try:
        answer = answers._groups(core, ev.Ask(request=1, principal=OPERATOR, what="groups", limit=5))
    finally:
        answers.group_view = made
    assert (len(before), len(answer.groups), answer.left_out) == (5, 5, 35)


def test_a_placed_group_says_when_its_plan_ends() -> None:
    alpha = grid_of(2)
    placed = listed(alpha).groups[0]
    decision = alpha.group("alpha-1").decisions[0]
    assert placed.expected_end_s == decision.decided_at_s - alpha.group("alpha-1").submitted_s + decision.end_s() > 0
    grid = Grid(alpha=0, beta=4)
    grid["alpha"].submit(spec(10), 10, 1, settle=False)
    (unplaced,) = listed(grid["alpha"]).groups
    assert (unplaced.unplaced, unplaced.expected_end_s) == (10, -1.0)


def test_groups_asked_for_by_name_come_in_that_order_and_cost_by_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    alpha = grid_of(20)
    viewed: list[str] = []
    made = answers.group_view
    monkeypatch.setattr(answers, "group_view", lambda core, group: viewed.append(group.group) or made(core, group))
    wanted = (GroupId("alpha-4"), GroupId("alpha-3"), GroupId("alpha-99"), GroupId("alpha-2"))
    assert names(listed(alpha, ALICE, named=wanted)) == ["alpha-4", "alpha-2"], "not others', nor what is not there"
    assert viewed == ["alpha-4", "alpha-2"]
    assert names(listed(alpha, OPERATOR, named=wanted)) == ["alpha-4", "alpha-3", "alpha-2"]
