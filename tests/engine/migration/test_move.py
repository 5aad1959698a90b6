"""Jobs that wait move to another site; those that started stay (SPEC D7, U2 move; PROMISES section 2, recall)."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.state import encode_state
from diana.engine.messages import messages as ms
from diana.engine.site.surroundings import Journal
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from diana.model.views.views import Ok
from tests.engine.bench import Fate, Grid
from tests.engine.builders import BOB, OPERATOR, spec
from tests.engine.handover.test_handover_faults import FAULTS, one_fault, some_faults
from tests.engine.placement.test_hold import until, view

LONG = 100.0


def span(start: int, stop: int) -> IndexSet:
    return IndexSet.span(start, stop)


def at_beta(jobs: int = 12, gamma: int = 4, on_crash: Literal["hold", "rerun"] = "hold") -> Grid:
    """A group of alpha's that waits at beta, since gamma was out of reach when it was placed."""
    grid = Grid({"migration": "off"}, alpha=1, beta=1, gamma=gamma)
    grid.part("gamma")
    grid["alpha"].submit(spec(jobs, work_s=LONG, not_sites=("alpha",), on_crash=on_crash), jobs)
    grid.pass_time(2.0)
    grid.heal("gamma")
    grid.pass_time(2.0)
    return grid


def placed(grid: Grid) -> dict[str, IndexSet]:
    found: dict[str, IndexSet] = {}
    for part in grid["alpha"].group("alpha-1").subgroups.values():
        found[part.site] = found.get(part.site, IndexSet()) | part.indices
    return found


def test_what_waits_goes_to_the_site_named_and_what_started_stays() -> None:
    grid = at_beta()
    ran = len(grid["beta"].running)
    assert grid["alpha"].move("alpha-1", "gamma") == Ok(12 - ran, started=ran)
    grid.pass_time(5.0)
    assert placed(grid) == {"beta": span(0, ran), "gamma": span(ran, 12)}
    assert grid["alpha"].group("alpha-1").decisions[-1].reason.startswith("moved (gamma: asked for by alice@vo); ")
    grid.finish()
    assert grid.claims() == {("alpha-1", i): 1 for i in range(12)}
    assert view(grid).state == "done"


def test_until_their_site_answers_jobs_show_as_moving() -> None:
    grid = at_beta()
    grid.part("beta")
    grid["alpha"].move("alpha-1", "gamma")
    assert [share.state for share in view(grid).shares] == ["moving"]
    grid.heal("beta")
    grid.pass_time(5.0)
    assert [share.state for share in view(grid).shares] == ["committed", "committed"]


def test_jobs_move_home_and_from_home() -> None:
    grid = Grid({"migration": "off"}, alpha=1, beta=3)
    grid.part("beta")
    grid["alpha"].submit(spec(12, work_s=LONG), 12)
    grid.heal("beta")
    beta = grid["beta"]
    ran = len(grid["alpha"].running)
    assert grid["alpha"].move("alpha-1", "beta", span(6, 12)) == Ok(6, started=0)
    grid.pass_time(5.0)
    assert placed(grid)["beta"] == span(6, 12)
    still = 6 - len(beta.running)
    assert grid["alpha"].move("alpha-1", "alpha") == Ok(still, started=6 - still)
    grid.finish()
    assert ran and grid.claims() == {("alpha-1", i): 1 for i in range(12)}


def test_a_part_that_is_only_offered_is_withdrawn_and_goes_where_it_is_told() -> None:
    grid = Grid(alpha=0, beta=4, gamma=2)
    grid["alpha"].submit(spec(6, sites=("beta", "gamma")), 6, settle=False)
    until(grid, ms.Prepared)
    grid["alpha"].move("alpha-1", "gamma")
    grid.finish()
    assert set(placed(grid)) == {"gamma"}
    assert grid.claims() == {("alpha-1", i): 1 for i in range(6)}


def test_a_site_that_does_not_take_them_after_all_ends_the_order_and_they_go_where_it_is_best() -> None:
    grid = at_beta(gamma=0)
    assert isinstance(grid["alpha"].move("alpha-1", "gamma"), Ok)
    grid.pass_time(10.0)
    assert set(placed(grid)) == {"beta"}
    told = grid["alpha"].group("alpha-1").decisions[-1].reason
    assert told.startswith("moved (gamma did not take them: ") and "gamma: has no slots" in told, told
    grid.finish()
    assert grid.claims() == {("alpha-1", i): 1 for i in range(12)}


def test_a_job_that_was_tried_there_before_stays_with_its_attempts() -> None:
    """An attempt was made there: elsewhere its number would be used a second time."""
    grid = at_beta(on_crash="rerun")
    alpha, beta = grid["alpha"], grid["beta"]
    tried = {run.index for run in beta.running}
    alpha.hold("alpha-1")
    beta.end(outcome=Outcome.INTERRUPTED)
    alpha.move("alpha-1", "gamma")
    alpha.release_jobs("alpha-1")
    grid.pass_time(5.0)
    assert placed(grid) == {"beta": IndexSet.of(tried), "gamma": span(0, 12) - IndexSet.of(tried)}
    grid.finish()
    assert grid.claims() == {("alpha-1", i): 2 if i in tried else 1 for i in range(12)}


def test_a_move_nobody_can_make_is_refused_in_a_line() -> None:
    grid = at_beta(gamma=0)
    alpha = grid["alpha"]
    refusals = [alpha.move("alpha-1", "delta"), alpha.move("alpha-1", "beta"), alpha.move("alpha-1", "gamma", who=BOB)]
    assert [said.text for said in refusals if isinstance(said, fx.Refusal)] == [
        "no site delta is known at alpha; see diana sites",
        "alpha-1 has nothing to move to beta: 12 of them are there",
        "no group alpha-1 of yours at alpha; diana status lists yours",
    ]


def test_an_order_given_while_the_jobs_are_priced_holds() -> None:
    grid = Grid(alpha=0, beta=8, gamma=2)
    grid["alpha"].submit(spec(6), 6, settle=False)
    until(grid, ms.Quote)
    assert grid["alpha"].move("alpha-1", "gamma", settle=False) == Ok(6)
    grid.finish()
    assert placed(grid) == {"gamma": span(0, 6)}


def test_a_refusal_ends_the_order_for_those_jobs_alone_that_it_was_about() -> None:
    """The others were ordered elsewhere while the site that refuses was asked."""
    grid = at_beta(gamma=0)
    grid["alpha"].move("alpha-1", "gamma", settle=False)
    until(grid, ms.QuoteRequest)
    grid["alpha"].move("alpha-1", "beta", span(8, 12), settle=False)
    grid.settle()
    grid.pass_time(10.0)
    orders = [(m.indices, m.to) for m in grid["alpha"].records(r.JobsMoved)]  # type: ignore[union-attr]
    assert orders[-1][1] == "" and orders[-1][0].isdisjoint(span(8, 12)), orders


def test_a_site_that_takes_no_work_is_named_before_anything_is_called_back() -> None:
    grid = at_beta()
    alpha = grid["alpha"]
    grid["gamma"].handle(ev.DrainSite(request=5, principal=OPERATOR, on=True, reason="power"))
    grid.pass_time(2.0)
    drained = alpha.move("alpha-1", "gamma")
    grid.part("gamma")
    grid.pass_time(60.0)
    silent = alpha.move("alpha-1", "gamma")
    assert [said.text for said in (drained, silent) if isinstance(said, fx.Refusal)] == [
        "site gamma is drained: power",
        "site gamma does not answer, last heard of 62 s ago; see diana sites",
    ]
    assert not alpha.group("alpha-1").moving


def test_jobs_that_move_again_and_again_leave_nothing_behind() -> None:
    grid = at_beta(gamma=1)
    grid["gamma"].submit(spec(9, work_s=LONG, sites=("gamma",)), 9)
    for turn in range(12):
        grid["alpha"].move("alpha-1", ("gamma", "beta")[turn % 2], span(10, 12))
        grid.pass_time(3.0)
        assert len(grid["alpha"].group("alpha-1").subgroups) == 2
    assert placed(grid) == {"beta": span(0, 12)}
    grid.finish()
    assert {of: n for of, n in grid.claims().items() if of[0] == "alpha-1"} == {("alpha-1", i): 1 for i in range(12)}


def test_what_is_cancelled_on_its_way_back_ends_cancelled() -> None:
    grid = at_beta()
    grid["alpha"].move("alpha-1", "gamma", settle=False)
    until(grid, ms.Result)
    grid["alpha"].cancel("alpha-1", settle=False)
    grid.finish()
    assert view(grid).state == "cancelled"
    assert not grid["gamma"].started


def test_what_is_held_moves_and_stays_held() -> None:
    grid = at_beta()
    grid["alpha"].hold("alpha-1", span(6, 12))
    grid["alpha"].move("alpha-1", "gamma")
    grid.pass_time(5.0)
    assert placed(grid)["gamma"].isdisjoint(span(6, 12))
    assert view(grid).held == 6
    grid["alpha"].release_jobs("alpha-1")
    grid.pass_time(5.0)
    assert span(6, 12).issubset(placed(grid)["gamma"])
    grid.finish()
    assert grid.claims() == {("alpha-1", i): 1 for i in range(12)}


def test_a_million_jobs_move_as_ten_do() -> None:
    few, many = (moved_records(jobs) for jobs in (10, 1_000_000))
    assert few == many


def moved_records(jobs: int) -> list[str]:
    grid = at_beta(jobs)
    before = len(grid["alpha"].stored)
    grid["alpha"].move("alpha-1", "gamma")
    grid.pass_time(2.0)
    return [type(one).__name__ for one in grid["alpha"].records()[before:]]


# --- faults ------------------------------------------------------------------------------------------------


def moved_life(fate: Fate | None) -> Grid:
    """To gamma, some of it back to beta, then home; messages meet their fates."""
    grid = at_beta(gamma=1)
    alpha = grid["alpha"]
    grid.fate = fate
    alpha.move("alpha-1", "gamma", settle=False)
    grid.pass_time(30.0)
    alpha.move("alpha-1", "beta", span(4, 9), settle=False)
    grid.pass_time(3.0)
    alpha.move("alpha-1", "alpha", settle=False)
    grid.pass_time(30.0)
    grid.finish(count=3)
    assert grid.claims() == {("alpha-1", i): 1 for i in range(12)}, grid.story()
    assert view(grid).state == "done"
    for site in grid.sites.values():
        assert not site.engine.core.state.custodies, site.name
        journal = Journal(snapshot=None, seq=0, at_s=0.0, records=site.stored)
        again = Engine.restore(journal, site=site.name, keyring=site.keyring, now=grid.now)
        assert again.snapshot() == encode_state(site.engine.core.state)
    return grid


def test_without_faults_work_moves_from_site_to_site_and_is_done_once() -> None:
    moved_life(None)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "kind", [ms.Control, ms.ControlAck, ms.Result, ms.ResultAck, ms.Prepare, ms.Commit], ids=lambda k: k.__name__
)
def test_a_move_meets_a_fault(kind: type, fault: str) -> None:
    for which in (1, 2, 3):
        moved_life(one_fault(kind, fault, which))


@pytest.mark.wide
@settings(max_examples=40)
@given(st.data())
def test_moves_meet_any_mixture_of_faults(data: st.DataObject) -> None:
    moved_life(some_faults(data))
