"""A group's own model decides where it goes, in place of its declared work; past runs correct it; a model that gives no
time somewhere keeps the group away from there (SPEC G2)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import records
from diana.engine.journal.state import decode_state
from diana.model.ids import GroupId
from diana.model.job.spec import GroupSpec
from diana.model.views.decision import Decision, SiteCost
from tests.engine.bench import Grid
from tests.engine.builders import spec


def grid(**slots: int) -> Grid:
    return Grid({"binding": "early"}, **(slots or {"alpha": 4, "beta": 4}))


def modelled(jobs: int, time_s: str, **more: object) -> GroupSpec:
    return spec(jobs, model=(("time_s", time_s),), **more)


def plan(made: Grid, asked: GroupSpec, jobs: int) -> Decision:
    made["alpha"].replies.pop(1, None)
    answer = made["alpha"].submit(asked, jobs, plan_only=True)
    assert isinstance(answer, fx.DecisionMade), answer
    return answer.decision


def row(decision: Decision, site: str) -> SiteCost:
    return next(one for one in decision.candidates if one.site == site)


@pytest.mark.parametrize(("fast", "slow"), [("alpha", "beta"), ("beta", "alpha")])
def test_the_ranking_is_the_models_and_not_that_of_the_declared_work(fast: str, slow: str) -> None:
    decision = plan(grid(), modelled(4, f"site.name == '{fast}' ? 10.0 : 500.0", work_s=1.0), 4)
    assert [part.site for part in decision.parts] == [fast]
    assert (row(decision, fast).model_s, row(decision, slow).model_s) == (10.0, 500.0)
    assert row(decision, slow).run_s == 500.0 and row(decision, slow).run_from == "model"


def test_a_requirement_may_bound_what_the_model_foretells() -> None:
    asked = modelled(4, "site.name == 'beta' ? 10.0 : 500.0", requirements=("site.run_s <= 60",))
    decision = plan(grid(), asked, 4)
    assert row(decision, "alpha").failed[0].found == "500 <= 60 does not hold"
    assert [part.site for part in decision.parts] == ["beta"]


def test_a_site_where_the_model_gives_no_time_gets_no_job_and_is_told() -> None:
    decision = plan(grid(), modelled(4, "site.name == 'beta' ? 10.0 : -1.0"), 4)
    assert row(decision, "alpha").rejected == "its model gives no time there: time_s = -1.0"
    answer = grid()["alpha"].submit(modelled(4, "0.0 / 0.0"), 4)
    assert isinstance(answer, fx.Refusal) and "alpha, beta: its model gives no time there: time_s = nan" in answer.text


@pytest.mark.parametrize("where", ["alpha", "beta"])
def test_past_runs_correct_the_model_wherever_they_ran(where: str) -> None:
    made = grid()
    made["alpha"].submit(modelled(8, "10.0", sites=(where,)), 8)
    for _ in range(2):
        made.pass_time(20.0)
        made[where].end()
        made.settle()
    accepted = made["alpha"].records(records.ResultAccepted)
    seen = [one for record in accepted for one in record.ratios]  # type: ignore[attr-defined]
    assert sum(samples for _, samples, _ in seen) == 8
    mean = sum(total for *_, total in seen) / 8
    told = row(plan(made, modelled(8, "10.0"), 8), "alpha")
    assert told.run_s == pytest.approx(10.0 * mean * 2, rel=0.01) and (told.model_s, told.runs_seen) == (10.0, 8)
    # What a model was off by is known of other values of the same program, and after a restart.
    made["alpha"].restart()
    made.settle()
    other = row(plan(made, modelled(4, "30.0"), 4), "alpha")
    assert other.run_s == pytest.approx(30.0 * mean, rel=0.01)
    kept = decode_state(made["alpha"].engine.snapshot())
    assert sum(sketch.seen for sketch in kept.model_ratios.sketches.values()) == 8


def test_what_ran_without_the_model_does_not_foretell_its_end() -> None:
    made = grid()
    made["alpha"].submit(spec(8), 8)
    for _ in range(2):
        made.pass_time(20.0)
        made["alpha"].end()
        made["beta"].end()
        made.settle()
    assert plan(made, spec(4), 4).basis == "runs"
    decision = plan(made, modelled(4, "777.0"), 4)
    assert decision.basis == "declared" and decision.slowest_s == pytest.approx(777.0, rel=0.01)


def test_a_group_without_a_model_leaves_no_ratios() -> None:
    made = grid()
    made["alpha"].submit(spec(4), 4)
    made.pass_time(5.0)
    made["alpha"].end()
    made["beta"].end()
    made.settle()
    assert not any(record.ratios for record in made["alpha"].records(records.ResultAccepted))  # type: ignore[attr-defined]


def test_a_kept_model_that_this_release_cannot_read_places_nothing_and_says_why() -> None:
    made = grid()
    asked = msgspec.structs.replace(spec(1), model=(("time_s", "site.colour"),))
    answer = made["alpha"].submit(asked, 1)
    assert isinstance(answer, fx.Refusal) and "package.model.time_s: 'site.colour' is no name here" in answer.text
    assert GroupId("alpha-1") not in made["alpha"].engine.core.state.groups
