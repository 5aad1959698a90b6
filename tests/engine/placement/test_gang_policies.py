"""The placement policy of gangs by its name: the group's, its site's, or an operator's own (SPEC K2)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.model.job.spec import FlexibleSpec, GroupSpec
from diana.policy.gang.installed import checked
from diana.policy.gang.policies import POLICIES, GangPolicy
from diana.policy.gang.requests import GangPlacement, GangRequest, PlacedComponent, Rooms, Unplaced
from tests.engine.bench import Grid
from tests.engine.placement.test_gang_planning import answer, gang, places

FOUR = {"alpha": 4, "beta": 4}


def reversed_fit(request: GangRequest, rooms: Rooms, *_: object) -> GangPlacement | Unplaced:
    parts = [PlacedComponent(at, each.processors, rooms.names()[-1]) for at, each in enumerate(request)]  # type: ignore[arg-type, union-attr, var-annotated]
    return GangPlacement(tuple(parts))


def grid(policy: GangPolicy, default: str = "") -> Grid:
    made = Grid({"gang_placement": default}, **FOUR)
    for site in made.sites.values():
        site.engine.core.gang_policies = {"lab": checked("lab", policy), **POLICIES}
    return made


def policy_of(made: Grid, wanted: GroupSpec) -> str:
    told = answer(made, wanted)
    assert isinstance(told, fx.DecisionMade) and told.decision.gang is not None, told
    return told.decision.gang.policy


def test_an_operators_policy_places_gangs_by_its_name() -> None:
    made = grid(reversed_fit)
    assert places(made, gang("2x2", policy="lab")) == ["2@beta", "2@beta"]
    assert places(made, gang("2x2")) == ["2@alpha", "2@beta"]


def test_an_operators_policy_that_answers_wrongly_or_raises_costs_its_gang_alone() -> None:
    told = answer(grid(reversed_fit), gang("2x3", policy="lab"))
    assert isinstance(told, fx.Refusal) and told.code == "unplaceable"
    assert told.text == (
        "these sites cannot take this gang, idle or not: "
        "the plug-in lab answered wrongly: beta has no room for component 2"
    )
    made = grid(lambda *_: 1 // 0)  # type: ignore[arg-type, return-value]
    told = answer(made, gang("2x2", policy="lab"))
    assert isinstance(told, fx.Refusal) and "the plug-in lab failed: ZeroDivisionError" in told.text
    assert places(made, gang("2x2")) == ["2@alpha", "2@beta"]


@pytest.mark.parametrize("plan_only", [True, False])
def test_an_unknown_name_is_refused_before_anything_is_asked(plan_only: bool) -> None:
    made = grid(reversed_fit)
    wanted = gang("2x2", policy="worst-fitt")
    told = made["alpha"].submit(wanted, 2, plan_only=plan_only)
    assert isinstance(told, fx.Refusal) and told.code == "usage"
    assert told.text == (
        "gang.placement: 'worst-fitt': no such placement; did you mean worst-fit? Known here: "
        "close-to-files, cluster-min, flexible-min, grads, lab, turnaround, worst-fit"
    )


def test_the_sites_default_places_gangs_whose_group_names_none() -> None:
    assert places(grid(reversed_fit, "lab"), gang("2x2")) == ["2@beta", "2@beta"]
    made = grid(reversed_fit, "cluster-min")
    assert policy_of(made, gang("2x2")) == "cluster-min"
    assert policy_of(made, gang("2x2", policy="worst-fit")) == "worst-fit"


@pytest.mark.parametrize("default", ["worst-fit", "close-to-files", "cluster-min"])
def test_a_default_that_divides_nothing_is_not_for_a_total_that_is_to_be_divided(default: str) -> None:
    made = grid(reversed_fit, default)
    assert places(made, gang(flexible=6)) == ["4@alpha", "2@beta"]
    assert policy_of(made, gang(flexible=6)) == "flexible-min"
    listed = msgspec.structs.replace(gang(), flexible=FlexibleSpec(processors=6, splits=((3, 3),)))
    assert policy_of(made, listed) == default
    told = answer(made, gang(flexible=6, policy=default))
    assert isinstance(told, fx.Refusal)
    assert told.text.endswith(f"; {default} divides no total: leave gang.placement out, or list flexible.splits")


@pytest.mark.parametrize(("name", "near"), [("WF", "worst-fit"), ("fcm", "flexible-min"), ("Worst-Fit", "worst-fit")])
def test_a_name_of_the_papers_or_in_capitals_is_known_for_what_is_meant(name: str, near: str) -> None:
    told = answer(grid(reversed_fit), gang("2x2", policy=name))
    assert isinstance(told, fx.Refusal) and f"no such placement; did you mean {near}? Known here: " in told.text


def test_without_a_default_the_request_suggests_the_policy() -> None:
    made = Grid(**FOUR)
    assert [policy_of(made, gang("2x2")), policy_of(made, gang(flexible=6))] == ["worst-fit", "flexible-min"]


def test_a_default_that_wants_a_model_is_for_groups_that_have_one() -> None:
    made = grid(reversed_fit, "grads")
    assert policy_of(made, gang("2x2")) == "worst-fit"
    modelled = msgspec.structs.replace(gang("2x2"), model=(("time_s", "1.0"),))
    assert policy_of(made, modelled) == "grads"
    assert policy_of(made, msgspec.structs.replace(modelled, rank="site.speed")) == "worst-fit"
