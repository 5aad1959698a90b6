"""Run times and waits are learned where jobs end, told in quotes, and plans are held against what came
(SPEC D1, D10, U3)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch import quote_answer
from diana.engine.journal import effects as fx
from diana.engine.messages import messages as ms
from diana.engine.messages.wanted import carried, wanted_of
from diana.engine.placement.candidates import unusable
from diana.engine.placement.outcomes import expected, outcomes, predicted
from diana.model.facts import Outcome
from diana.model.history import template_key
from diana.model.job.spec import GroupSpec, Resources
from diana.model.settings import Settings
from diana.model.views.decision import Decision
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, spec
from tests.engine.handover.test_gangs import gang


def asked(wanted: GroupSpec, jobs: int = 1, owner: str = ALICE.name) -> ms.QuoteRequest:
    need = wanted.resources
    return ms.QuoteRequest(
        quote=1,
        processors=need.processors,
        memory_bytes=need.memory_bytes,
        gpus=need.gpus,
        jobs=jobs,
        refs=(),
        owner=owner,
        template=template_key(wanted),
        work_s=need.work_s,
    )


def planned(site: Site, wanted: GroupSpec, jobs: int, request: int = 77) -> Decision:
    made = site.submit(wanted, jobs, request, plan_only=True)
    assert isinstance(made, fx.DecisionMade)
    return made.decision


def one_by_one(grid: Grid, site: Site, seconds: float, outcome: Outcome = Outcome.DONE) -> None:
    """All jobs of the site, each taking so long."""
    while site.running:
        grid.pass_time(seconds)
        site.end(1, outcome)
        grid.settle()


def test_a_site_learns_run_times_from_jobs_that_were_done_and_keeps_them_over_a_restart() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    wanted = spec(5, work_s=10.0)
    assert quote_answer.quote(alpha.engine.core, asked(wanted)).runs_seen == 0
    alpha.submit(wanted, 5)
    one_by_one(grid, alpha, 20.0)
    for _ in range(2):
        quote = quote_answer.quote(alpha.engine.core, asked(wanted))
        assert quote.runs_seen == 5
        assert (quote.run_low_s, quote.run_s, quote.run_high_s, quote.run_mean_s) == pytest.approx((20.0,) * 4)
        alpha.restart()
    assert quote_answer.quote(alpha.engine.core, asked(wanted, owner=BOB.name)).runs_seen == 0


def test_what_a_site_learns_of_alike_components_serves_the_next_quote_for_such_a_gang() -> None:
    grid = Grid(alpha=2, beta=2)
    grid["alpha"].submit(gang("1x2@alpha+1x2@beta", work_s=10.0), 2)
    grid.pass_time(20.0)
    grid.finish()
    for components, seen in (("3x2", 1), ("2x1", 0), ("1x2+1x1", 0)):
        wanted = gang(components, work_s=10.0)
        request = carried(ms.QuoteRequest, wanted_of(wanted, jobs=1, owner=ALICE.name), quote=1, refs=())
        assert quote_answer.quote(grid["beta"].engine.core, request).runs_seen == seen, components


def test_how_long_jobs_take_to_fail_is_not_learned() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    wanted = spec(3, work_s=10.0)
    alpha.submit(wanted, 3)
    one_by_one(grid, alpha, 1.0, Outcome.FAILED)
    assert quote_answer.quote(alpha.engine.core, asked(wanted)).runs_seen == 0


def test_work_that_waits_is_counted_with_learned_run_times() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    wanted = spec(4, work_s=10.0)
    alpha.submit(wanted, 4)
    one_by_one(grid, alpha, 50.0)
    alpha.submit(wanted, 4, 2)
    grid.pass_time(20.0)
    quote = quote_answer.quote(alpha.engine.core, asked(wanted))
    assert quote.wait_s == pytest.approx(30.0 + 3 * 50.0)
    assert quote.jobs_ahead + alpha.engine.core.totals.started() == 4
    assert quote.wait_low_s < quote.wait_s < quote.wait_high_s


def test_what_has_a_lower_priority_is_not_waited_for() -> None:
    """Bob comes to Alice's backlog: his single job would pass it (SPEC D4), so its wait is that of what was given to
    the LRM already."""
    grid = Grid({"claim_ahead": 1}, alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(100, work_s=10.0), 100)
    hers = quote_answer.quote(alpha.engine.core, asked(spec(1, work_s=10.0)))
    his = quote_answer.quote(alpha.engine.core, asked(spec(1, work_s=10.0), owner=BOB.name))
    assert his.priority > hers.priority
    assert his.jobs_ahead == 0
    assert his.wait_s <= 20.0
    assert hers.wait_s == pytest.approx(1000.0)


def test_a_site_that_never_ran_its_like_is_priced_by_what_others_saw_and_their_speed() -> None:
    grid = Grid(alpha=1, beta=1)
    grid["beta"].settings = Settings(slots=1, speed=2.0)
    grid["beta"].restart()
    grid.settle()
    alpha = grid["alpha"]
    wanted = spec(3, work_s=10.0, sites=("alpha",))
    alpha.submit(wanted, 3)
    one_by_one(grid, alpha, 30.0)
    rows = {row.site: row for row in planned(alpha, spec(1, work_s=10.0), 1).candidates}
    assert (rows["alpha"].run_s, rows["alpha"].run_from) == (pytest.approx(30.0), "here")
    assert (rows["beta"].run_s, rows["beta"].run_from) == (pytest.approx(15.0), "elsewhere")


def test_an_origin_remembers_what_others_took_when_they_are_gone() -> None:
    grid = Grid(alpha=1, beta=1)
    grid.pass_time(2.0)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(3, work_s=10.0, sites=("beta",)), 3)
    one_by_one(grid, beta, 40.0)
    grid.part("beta")
    row = planned(alpha, spec(1, work_s=10.0), 1).candidates[0]
    assert (row.site, row.run_from, row.run_s) == ("alpha", "elsewhere", pytest.approx(40.0))


def test_unknown_work_is_a_guess_and_says_so() -> None:
    grid = Grid({"default_work_s": 7.0}, alpha=1)
    row = planned(grid["alpha"], spec(1, work_s=0.0), 1).candidates[0]
    assert (row.run_s, row.run_from) == (pytest.approx(7.0), "guess")
    row = planned(grid["alpha"], spec(1, work_s=3.0), 1, 78).candidates[0]
    assert (row.run_s, row.run_from) == (pytest.approx(3.0), "declared")


def test_a_plan_tells_how_far_past_ones_were_off_and_explain_compares() -> None:
    grid = Grid({"result_batch_s": 0.0}, alpha=1)
    alpha = grid["alpha"]
    assert planned(alpha, spec(1, work_s=10.0), 1).past_groups == 0
    for n in range(6):
        # Each is its own template, so that nothing is learned and every run is a tenth too long.
        alpha.submit(spec(1, work_s=10.0 + n), 1, n)
        one_by_one(grid, alpha, 1.1 * (10.0 + n))
    made = planned(alpha, spec(1, work_s=100.0), 1)
    assert made.past_groups == 6
    assert made.past_error == pytest.approx(0.1, abs=0.001)
    assert (made.low_s, made.expected_s, made.high_s) == pytest.approx((110.0,) * 3, rel=0.001)
    assert (made.basis, made.range_from) == ("declared", "outcomes")
    group = alpha.group("alpha-1")
    (row,) = outcomes(group)
    assert (row.site, row.jobs, row.over) == ("alpha", 1, True)
    assert (row.predicted_end_s, row.started_s, row.ended_s) == pytest.approx((10.0, 0.0, 11.0))
    assert predicted(group).end_s == pytest.approx(10.0)


def test_what_nobody_declared_and_nobody_saw_has_no_predicted_end() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    made = planned(alpha, spec(3, work_s=0.0), 3)
    assert (made.basis, made.expected_s, made.low_s, made.high_s) == ("guess", -1.0, -1.0, -1.0)
    alpha.submit(spec(3, work_s=0.0), 3)
    group = alpha.group("alpha-1")
    assert (expected(group).end_s, predicted(group).end_s) == (-1.0, -1.0)
    one_by_one(grid, alpha, 10.0)
    assert not alpha.engine.core.state.past_ends.told, "what was not foretold is not scored"


def test_a_declared_end_has_no_range_before_outcomes_are_known() -> None:
    made = planned(Grid(alpha=1)["alpha"], spec(3, work_s=10.0), 3)
    assert (made.basis, made.range_from, made.low_s, made.high_s) == ("declared", "", -1.0, -1.0)
    assert made.expected_s == pytest.approx(30.0)


def test_a_group_ends_with_its_slowest_job_not_with_the_mean_one() -> None:
    """Jobs of 10 and of 90 s: of eight at once some take 90 s, though the mean is 50 s."""
    grid = Grid(alpha=8)
    alpha = grid["alpha"]
    wanted = spec(1, work_s=50.0)
    for n in range(3):
        for run_s in (10.0, 90.0):
            alpha.submit(wanted, 1, 2 * n + int(run_s))
            one_by_one(grid, alpha, run_s)
    made = planned(alpha, wanted, 8)
    (part,) = made.parts
    assert part.predicted_end_s == pytest.approx(50.0, rel=0.2), "what plans are compared by stays"
    assert made.slowest_s == pytest.approx(90.0, rel=0.15)
    assert made.basis == "runs"
    alpha.restart()
    assert planned(alpha, wanted, 8, 78) == made, "what was learned is in the journal"


def test_a_group_that_was_moved_is_scored_too() -> None:
    """Moves are among what a forecast has to foresee; without them only the lucky ones would count."""
    grid = Grid({"result_batch_s": 0.0}, alpha=1, beta=1)
    grid.pass_time(2.0)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(2, work_s=10.0, sites=("alpha",)), 2)
    assert predicted(alpha.group("alpha-1")).end_s > 0
    one_by_one(grid, alpha, 12.0)
    assert len(alpha.engine.core.state.past_ends.declared) == 1
    assert not beta.engine.core.state.past_ends.declared, "scores are the origin's"


def test_a_group_that_was_held_or_retried_or_failed_teaches_no_error() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    for n in range(6):
        made = alpha.submit(spec(2, work_s=10.0), 2, n)
        assert isinstance(made, fx.GroupAccepted)
        alpha.hold(made.group)
        grid.pass_time(500.0)
        alpha.release_jobs(made.group)
        one_by_one(grid, alpha, 10.0)
    assert planned(alpha, spec(1, work_s=1.0), 1).past_groups == 0


def test_a_near_miss_names_the_one_thing_that_would_have_to_be_otherwise() -> None:
    grid = Grid(alpha=8, beta=4)
    rows = {r.site: r for r in planned(grid["alpha"], spec(1, processors=6), 1).candidates}
    assert rows["beta"].rejected == "has 4 of the 6 processors a job needs"
    assert rows["beta"].near_miss == "processors <= 4"
    grid = Grid({"memory_bytes": 2**30}, alpha=8, beta=4)
    grid["alpha"].settings = Settings(slots=8)
    grid["alpha"].restart()
    grid.settle()
    big = GroupSpec(argv=("true",), resources=Resources(processors=6, memory_bytes=2**31))
    row = next(r for r in planned(grid["alpha"], big, 1).candidates if r.site == "beta")
    assert row.near_miss == "", "two things would have to be otherwise"


def test_a_peer_that_quotes_nonsense_is_no_candidate() -> None:
    good = quote_answer.quote(Grid(beta=1)["beta"].engine.core, asked(spec(1)))
    assert not unusable(good, spec(1))
    for wrong in ({"wait_s": float("nan")}, {"run_mean_s": -1.0}, {"runs_seen": -1}, {"busy_fraction": 2.0}):
        assert "no sense" in unusable(msgspec.structs.replace(good, **wrong), spec(1))
