"""A site's limits on users meet submissions, quotes and offers (SPEC D11)."""

from __future__ import annotations

import msgspec

from diana.engine.dispatch import capacity, quote_answer
from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.journal.effects import GroupAccepted
from diana.engine.messages import messages as ms
from diana.engine.placement.candidates import unusable
from diana.model.settings import Settings
from tests.engine.bench import Grid
from tests.engine.builders import BOB, spec

LIMIT = {"user_max_queued": 10}


def test_more_jobs_than_a_user_may_queue_are_refused_at_submit_with_the_range() -> None:
    grid = Grid(LIMIT, alpha=0, beta=0)
    alpha = grid["alpha"]
    told = alpha.submit(spec(11), 11, 1)
    assert told == fx.Refusal(
        code="usage",
        text="alpha queues at most 10 jobs per user, 0 wait: takes 1 to 10 more, not 11; submit fewer jobs",
    )
    assert not alpha.engine.core.state.groups


def test_what_waits_counts_and_another_user_has_a_limit_of_its_own() -> None:
    grid = Grid(LIMIT, alpha=1)
    alpha = grid["alpha"]
    assert isinstance(alpha.submit(spec(8, work_s=100.0), 8, 1), GroupAccepted)
    waiting = 8 - len(alpha.running)
    alpha.hold("alpha-1")
    told = alpha.submit(spec(10), 10, 2)
    assert isinstance(told, fx.Refusal)
    assert (told.code, told.retry_after_s > 0) == ("retry", True)
    assert f"{waiting} wait: takes 1 to {10 - waiting} more" in told.text
    assert isinstance(alpha.submit(spec(10), 10, 3, who=BOB), GroupAccepted)
    assert capacity.queued_of(alpha.engine.core, "alice@vo") == waiting


def test_jobs_no_site_has_yet_count_where_they_were_submitted() -> None:
    grid = Grid(LIMIT, alpha=0, beta=4)
    alpha = grid["alpha"]
    alpha.submit(spec(10), 10, 1, settle=False)
    grid.post_box.clear()
    grid.part("beta")
    grid.pass_time(3.0)
    assert isinstance(alpha.submit(spec(1), 1, 2), fx.Refusal)


def test_a_site_whose_user_limit_is_near_says_how_many_it_takes() -> None:
    grid = Grid(alpha=0, beta=4)
    grid["beta"].engine.core.state.settings = type(grid["beta"].settings)(slots=4, user_max_queued=10)
    told = grid["alpha"].submit(spec(20), 20, 1, plan_only=True)
    assert isinstance(told, fx.Refusal)
    assert "beta: takes no more than 10 of its 20 jobs" in told.text


def test_a_site_near_its_limit_takes_part_of_a_group_and_others_the_rest() -> None:
    grid = Grid(alpha=0, beta=4, gamma=1)
    for limit in ({"user_max_queued": 10}, {"max_queued_jobs": 10}):
        beta = grid["beta"]
        beta.engine.core.state.settings = Settings(slots=4, **limit)  # type: ignore[arg-type]
        made = grid["alpha"].submit(spec(40), 40, 1, plan_only=True)
        assert isinstance(made, fx.DecisionMade)
        assert {part.site: part.jobs for part in made.decision.parts} == {"beta": 10, "gamma": 30}
        assert [row.max_jobs for row in made.decision.candidates if row.site == "beta"] == [10]
    assert isinstance(grid["alpha"].submit(spec(40), 40, 2), GroupAccepted)
    grid.finish()
    assert sum(len(custody.indices) for custody in grid["beta"].records(r.CustodyTaken)) == 10
    assert len(grid["alpha"].group("alpha-1").done) == 40


def test_a_site_at_its_limit_takes_none_and_says_why() -> None:
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(30, work_s=50.0), 30, 1)
    waiting = capacity.queued_of(alpha.engine.core, "alice@vo")
    asked = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=5, refs=(), owner="alice@vo")
    for limit, takes in ((waiting + 9, 0), (waiting + 5, 0), (waiting + 2, 2)):
        alpha.engine.core.state.settings = Settings(slots=1, user_max_queued=limit)
        quote = quote_answer.quote(alpha.engine.core, asked)
        assert (quote.max_jobs, quote.rejected) == (takes, "")
    alpha.engine.core.state.settings = Settings(slots=1, user_max_queued=waiting)
    quote = quote_answer.quote(alpha.engine.core, asked)
    assert quote.rejected == f"queues at most {waiting} jobs per user, {waiting} wait: takes none more, not 5"


def test_an_answer_that_takes_less_than_nothing_is_not_believed() -> None:
    grid = Grid(alpha=1)
    asked = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=5, refs=())
    quote = quote_answer.quote(grid["alpha"].engine.core, asked)
    assert unusable(quote, spec(1)) == ""
    assert unusable(msgspec.structs.replace(quote, max_jobs=-1), spec(1))


def test_an_offer_over_the_limit_is_refused_and_placed_elsewhere() -> None:
    grid = Grid(alpha=0, beta=4, gamma=1)
    grid["alpha"].submit(spec(20), 20, 1, settle=False)
    while not any(isinstance(letter[2], ms.Prepare) for letter in grid.post_box):
        grid.deliver_one()
    beta = grid["beta"].engine.core
    beta.state.settings = type(grid["beta"].settings)(slots=4, user_max_queued=1)
    grid.settle()
    grid.pass_time(10.0)
    grid.finish()
    assert len(grid["alpha"].group("alpha-1").done) == 20
    assert not grid["beta"].records(r.CustodyTaken)


def test_running_jobs_are_counted_per_user() -> None:
    grid = Grid(alpha=4)
    alpha = grid["alpha"]
    alpha.submit(spec(2, work_s=100.0), 2, 1)
    alpha.submit(spec(1, work_s=100.0), 1, 2, who=BOB)
    assert capacity.running_of(alpha.engine.core) == {"alice@vo": 2, "bob@vo": 1}
    grid.finish()
    assert capacity.running_of(alpha.engine.core) == {}
