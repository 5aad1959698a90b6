"""A site's limits on users meet submissions, quotes and offers (SPEC D11)."""

from __future__ import annotations

from diana.engine import effects as fx
from diana.engine import load
from diana.engine import messages as ms
from diana.engine import records as r
from diana.engine.effects import GroupAccepted
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
    assert load.queued_of(alpha.engine.core, "alice@vo") == waiting


def test_jobs_no_site_has_yet_count_where_they_were_submitted() -> None:
    grid = Grid(LIMIT, alpha=0, beta=4)
    alpha = grid["alpha"]
    alpha.submit(spec(10), 10, 1, settle=False)
    grid.post_box.clear()
    grid.part("beta")
    grid.pass_time(3.0)
    assert isinstance(alpha.submit(spec(1), 1, 2), fx.Refusal)


def test_a_site_whose_user_limit_is_reached_says_so_in_its_quote() -> None:
    grid = Grid(alpha=0, beta=4)
    grid["beta"].engine.core.state.settings = type(grid["beta"].settings)(slots=4, user_max_queued=10)
    told = grid["alpha"].submit(spec(20), 20, 1, plan_only=True)
    assert isinstance(told, fx.Refusal)
    assert "beta: queues at most 10 jobs per user, 0 wait: takes 1 to 10 more, not 20" in told.text


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
    assert load.running_of(alpha.engine.core) == {"alice@vo": 2, "bob@vo": 1}
    grid.finish()
    assert load.running_of(alpha.engine.core) == {}
