"""People's view of the queues: levels, numbers, what would raise a group, Little's law, other sites' queues."""

from __future__ import annotations

import random
from math import inf

import pytest

from diana.engine.dispatch import forecast
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.views.queries import OpenQueries
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.trust.principal import Principal
from diana.model.views.queue import QueueView, Waiting
from diana.model.views.views import Explanation, GroupView
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, OPERATOR, spec, whole

PAPER = {"priority_mode": "paper", "time_threshold_s": 1800.0, "claim_ahead": 1}


def full_site(**more: object) -> Grid:
    """One slot and one claimed ahead, both taken by the operator's two jobs of 100 s; nothing waits yet."""
    grid = Grid({**PAPER, **more}, alpha=1)
    grid["alpha"].submit(spec(2, work_s=100.0), 2, who=OPERATOR)
    assert queue(grid["alpha"]).queued == 0
    return grid


def queue(site: Site, who: Principal = OPERATOR) -> QueueView:
    view = site.ask("queue", who=who)
    assert isinstance(view, QueueView)
    return view


def explain(site: Site, group: str, who: Principal = ALICE) -> tuple[Waiting, ...]:
    """With the other sites' answers delivered."""
    site.handle(ev.Ask(request=997, principal=who, what="explain", group=GroupId(group)))
    site.grid.settle()
    found = site.replies.pop(997)
    assert isinstance(found, Explanation)
    return found.waiting


def test_the_numbers_are_those_of_the_formula() -> None:
    grid = full_site(quotas={"alice@vo": 2.0})
    alpha = grid["alpha"]
    alpha.submit(spec(3), 3, who=ALICE)
    alpha.submit(spec(9), 9, who=BOB)
    view = queue(alpha)
    assert (view.site, view.mode, view.slots, view.running, view.claimed) == ("alpha", "paper", 1, 1, 1)
    assert (view.queued, view.total_processors, view.total_quota) == (12, 12, 3.0)
    first, second = view.classes
    # N = q T/(Q t): alice 2*12/3 = 8 >= 3, Pr 5/8; bob 12/3 = 4 < 9, Pr -5/9.
    assert (first.user, first.level, first.n, first.allowance) == ("alice@vo", "Q1", 3, 8.0)
    assert first.priority == first.base == pytest.approx(5 / 8)
    assert (second.user, second.level, second.n, second.allowance) == ("bob@vo", "Q4", 9, 4.0)
    assert second.priority == pytest.approx(-5 / 9)
    assert (second.jobs, second.ready, second.queue, second.demoted, second.ageing) == (9, 9, "global", False, 0.0)
    by_name = {user.user: user for user in view.users}
    assert (by_name["alice@vo"].queued_share, by_name["bob@vo"].queued_share) == (0.25, 0.75)
    assert (by_name["alice@vo"].quota, by_name["alice@vo"].quota_share) == (2.0, 0.5)
    assert (by_name["root@vo"].running, by_name["root@vo"].served_share) == (1, 1.0)


def test_others_see_the_classes_but_not_whose_groups_they_are() -> None:
    alpha = full_site()["alpha"]
    alpha.submit(spec(2), 2, who=ALICE)
    alpha.submit(spec(2), 2, who=BOB)
    assert {c.user: c.parts for c in queue(alpha, ALICE).classes} == {"alice@vo": ("alpha-2/0",), "bob@vo": ()}
    assert {c.user: c.parts for c in queue(alpha, OPERATOR).classes} == {
        "alice@vo": ("alpha-2/0",),
        "bob@vo": ("alpha-3/0",),
    }
    refused = alpha.ask("queue", who=Principal.peer(SiteId("beta")))
    assert isinstance(refused, fx.Refusal) and refused.code == "denied"


def test_explain_says_which_number_put_it_there_and_what_would_raise_it() -> None:
    grid = full_site()
    alpha = grid["alpha"]
    alpha.submit(spec(2), 2, who=ALICE)
    alpha.submit(spec(10), 10, who=BOB)
    (row,) = explain(alpha, "alpha-3", BOB)
    # T = 12, Q = 2: N = 6, n = 10, Pr = -0.4: Q3. Q2 when n falls to N, or after two thresholds.
    assert (row.level, row.n, row.allowance, row.quota, row.total_quota) == ("Q3", 10, 6.0, 1.0, 2.0)
    assert (row.priority, row.demand) == (pytest.approx(-0.4), pytest.approx(10.0))
    assert (row.rises_to, row.rises_at_n, row.rises_after_s) == ("Q2", 6.0, pytest.approx(3600.0))
    grid.pass_time(2000.0)
    (row,) = explain(alpha, "alpha-3", BOB)
    assert (row.ageing, row.priority) == (0.25, pytest.approx(-0.15))
    assert (row.rises_to, row.rises_at_n, row.rises_after_s) == ("Q2", 8.0, pytest.approx(1600.0))
    grid.pass_time(1601.0)
    (row,) = explain(alpha, "alpha-3", BOB)
    assert (row.level, row.rises_to) == ("Q2", "Q1"), "it rose when it was said it would"


def test_what_the_job_threshold_divides_is_told_as_two() -> None:
    alpha = full_site(job_threshold=3)["alpha"]
    alpha.submit(spec(5), 5)
    plain, demoted = explain(alpha, "alpha-2")
    assert (plain.jobs, plain.demoted, demoted.jobs, demoted.demoted) == (3, False, 2, True)
    assert demoted.priority == pytest.approx(plain.priority - 0.5)
    assert demoted.job_threshold == 3
    classes = queue(alpha).classes
    assert [(c.jobs, c.demoted) for c in classes] == [(3, False), (2, True)]


def test_in_the_default_mode_the_demand_tells_the_service_that_counts_beside_n() -> None:
    grid = Grid({"time_threshold_s": 0.0, "claim_ahead": 1}, alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(20), 20, who=ALICE)
    for _ in range(6):
        alpha.end()
        grid.pass_time(1.0)
    alpha.submit(spec(3), 3, who=BOB)
    rows = {row.user: row for group in ("alpha-1", "alpha-2") for row in explain(alpha, group, OPERATOR) if row.level}
    assert rows["bob@vo"].demand < rows["bob@vo"].n
    assert rows["alice@vo"].demand > rows["alice@vo"].n
    assert rows["alice@vo"].rises_after_s == -1.0, "ageing is off"


def test_held_claimed_and_unplaced_jobs_are_told_with_their_reason() -> None:
    grid = full_site()
    alpha = grid["alpha"]
    alpha.submit(spec(4), 4)
    alpha.handle(ev.HoldJobs(request=5, principal=ALICE, group=GroupId("alpha-2"), indices=IndexSet.span(0, 1)))
    by_note = {row.note: row.jobs for row in explain(alpha, "alpha-2")}
    assert by_note == {"": 3, "held until they are released": 1}
    (claimed,) = explain(alpha, "alpha-1", OPERATOR)
    assert claimed.jobs == 1 and "resource manager" in claimed.note and not claimed.level


def test_the_best_level_of_a_waiting_group_stands_in_its_status() -> None:
    alpha = full_site()["alpha"]
    alpha.submit(spec(4), 4)
    view = alpha.ask("group", "alpha-2")
    assert isinstance(view, GroupView)
    assert (view.level, view.priority) == ("Q2", pytest.approx(0.0))
    assert view.shares[0].level == "Q2"
    idle = alpha.ask("group", "alpha-1")
    assert isinstance(idle, GroupView) and idle.level == ""


# --- predictions -----------------------------------------------------------------------------------------------


def test_a_predicted_start_is_the_work_ahead_over_the_slots() -> None:
    grid = full_site()
    alpha = grid["alpha"]
    alpha.submit(spec(4, work_s=10.0), 4, who=ALICE)
    alpha.submit(spec(8, work_s=10.0), 8, who=BOB)
    core = alpha.engine.core
    starts = forecast.next_starts(core, core.queues.standing())
    by_part = {key[0]: wait_s for (key, _), wait_s in starts.items()}
    # 100 s run, 100 s claimed ahead, then alice's (better) four of 10 s, then bob's.
    assert by_part == {"alpha-2/0": pytest.approx(200.0), "alpha-3/0": pytest.approx(240.0)}
    (row,) = explain(alpha, "alpha-2")
    assert (row.low_s, row.high_s, row.predictions) == (pytest.approx(99.5), pytest.approx(401.0), 0)
    alpha.handle(ev.LrmLost())
    (row,) = explain(alpha, "alpha-2")
    assert row.low_s == -1.0 and "does not answer" in row.note


def test_ranges_learn_from_what_came_of_past_predictions() -> None:
    grid = Grid({**PAPER, "default_work_s": 10.0}, alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(2, work_s=10.0), 2)
    for _ in range(12):
        alpha.submit(spec(1, work_s=10.0), 1)
        queue(alpha)
        # Jobs take twice what they declare.
        grid.pass_time(20.0)
        alpha.end(1)
    view = queue(alpha)
    assert view.predictions >= 5
    assert (view.error_low, view.error_high) != (0.5, 2.0)
    assert view.error_low <= 1.0 <= view.error_high < inf


# --- Little's law ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_littles_law_holds_over_the_life_of_a_site(seed: int) -> None:
    """Groups come, start, are held, released and cancelled at random; when all is over N = R W."""
    chance = random.Random(seed)
    grid = Grid({"claim_ahead": 1}, alpha=2)
    alpha = grid["alpha"]
    for number in range(1, 15):
        alpha.submit(spec(9), chance.randint(1, 9), who=chance.choice([ALICE, BOB]))
        group, act = GroupId(f"alpha-{chance.randint(1, number)}"), chance.choice(["hold", "release", "cancel", ""])
        if act == "hold":
            alpha.handle(ev.HoldJobs(request=7, principal=OPERATOR, group=group, indices=None))
        elif act == "release":
            alpha.handle(ev.ReleaseJobs(request=7, principal=OPERATOR, group=group, indices=None))
        elif act == "cancel":
            alpha.cancel(group, who=OPERATOR)
        grid.pass_time(chance.uniform(0.0, 20.0))
        alpha.end(chance.randint(0, 4))
        core = alpha.engine.core
        assert core.line.flow.queued == sum(entry.jobs for entry in core.queues.entries.values())
    for number in range(1, 15):
        alpha.handle(ev.ReleaseJobs(request=8, principal=OPERATOR, group=GroupId(f"alpha-{number}"), indices=None))
    grid.finish()
    check = queue(alpha).littles
    assert check.arrived == check.left > 0
    assert check.deviation == pytest.approx(0.0, abs=1e-9)
    grid.pass_time(2.0)
    counters = alpha.engine.counters
    assert counters["queue_littles_deviation_milli"] == 0
    assert counters["queue_mean_wait_ms"] == pytest.approx(1000 * check.mean_wait_s, abs=1)


# --- other sites -------------------------------------------------------------------------------------------------


def two_sites() -> Grid:
    """Beta's one slot and claim are taken; alice's four jobs from alpha wait there."""
    grid = Grid(dict(PAPER), alpha=1, beta=1)
    grid["beta"].submit(spec(2, sites=["beta"], work_s=100.0), 2, who=OPERATOR)
    grid["alpha"].submit(spec(4, sites=["beta"]), 4)
    grid["beta"].submit(spec(1, sites=["beta"]), 1, who=BOB)
    grid.pass_time(2.0)
    return grid


def ask_other(grid: Grid, site: str, who: Principal = ALICE) -> object:
    grid["alpha"].handle(ev.Ask(request=996, principal=who, what="queue", site=SiteId(site)))
    grid.settle()
    return grid["alpha"].replies.pop(996, None)


def test_another_sites_queue_is_asked_for_and_filtered_by_who_asks() -> None:
    grid = two_sites()
    theirs = ask_other(grid, "beta")
    assert isinstance(theirs, QueueView) and theirs.site == "beta" and theirs.queued == 5
    assert {c.user: c.parts for c in theirs.classes} == {"alice@vo": ("alpha-1/0",), "bob@vo": ()}
    all_of_it = ask_other(grid, "beta", OPERATOR)
    assert isinstance(all_of_it, QueueView) and all(c.parts for c in all_of_it.classes)


def test_explain_asks_the_site_where_the_jobs_wait() -> None:
    grid = two_sites()
    (row,) = explain(grid["alpha"], "alpha-1")
    assert (row.site, row.part, row.jobs, row.n, row.queue) == ("beta", "alpha-1/0", 4, 4, "local")
    assert row.level and row.high_s > 0
    grid.pass_time(2.0)
    view = grid["alpha"].ask("group", "alpha-1")
    assert isinstance(view, GroupView)
    assert (view.level, view.priority) == (row.level, pytest.approx(row.priority)), "told along with its progress"


def test_a_site_that_does_not_answer_is_one_line_after_a_short_time() -> None:
    grid = two_sites()
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], ms.QueueRequest) else "deliver"
    assert ask_other(grid, "beta") is None
    grid.pass_time(4.0)
    refused = grid["alpha"].replies.pop(996)
    assert isinstance(refused, fx.Refusal) and refused.code == "unreachable" and "beta" in refused.text
    assert not grid["alpha"].engine.core.book(OpenQueries).open
    grid["alpha"].handle(ev.Ask(request=997, principal=ALICE, what="explain", group=GroupId("alpha-1")))
    grid.pass_time(4.0)
    found = grid["alpha"].replies.pop(997)
    assert isinstance(found, Explanation)
    assert [(row.jobs, row.level, row.note) for row in found.waiting] == [(4, "", "beta does not answer just now")]


def test_a_site_that_is_cut_off_or_unknown_is_told_at_once() -> None:
    grid = two_sites()
    grid["alpha"].handle(ev.Ask(request=996, principal=ALICE, what="queue", site=SiteId("beta")))
    grid.part("beta")
    cut = grid["alpha"].replies.pop(996)
    assert isinstance(cut, fx.Refusal) and cut.code == "unreachable"
    again = ask_other(grid, "beta")
    assert isinstance(again, fx.Refusal) and again.code == "unreachable"
    unknown = ask_other(grid, "nowhere")
    assert isinstance(unknown, fx.Refusal) and unknown.code == "usage"


def test_a_site_tells_of_parts_only_to_where_they_come_from() -> None:
    grid = two_sites()
    own, foreign = SubgroupId("beta-1/0"), SubgroupId("alpha-1/0")
    request = ms.QueueRequest(query=3, whole=False, parts=(foreign, own))
    sent = [e for e in grid["beta"].handle(ev.Received(SiteId("alpha"), request)) if isinstance(e, fx.Send)]
    (report,) = [e.message for e in sent if isinstance(e.message, ms.QueueReport)]
    assert {row.part for row in report.parts} == {foreign} and report.queue is None


def test_a_report_nobody_asked_for_or_about_another_site_is_not_believed() -> None:
    grid = two_sites()
    alpha = grid["alpha"]
    alpha.handle(ev.Received(SiteId("beta"), ms.QueueReport(query=77, parts=())))
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], ms.QueueRequest) else "deliver"
    ask_other(grid, "beta")
    (number,) = alpha.engine.core.book(OpenQueries).open
    own = queue(alpha)
    alpha.handle(ev.Received(SiteId("beta"), ms.QueueReport(query=number, queue=own, parts=())))
    assert 996 not in alpha.replies and alpha.warnings
    alpha.handle(ev.Received(SiteId("beta"), ms.QueueReport(query=number, queue=queue(grid["beta"]), parts=())))
    answer = alpha.replies.pop(996)
    assert isinstance(answer, QueueView) and answer.site == "beta"


def test_looking_changes_nothing() -> None:
    """No record, no start, no other order."""
    grid = full_site()
    alpha = grid["alpha"]
    alpha.submit(spec(4), 4)
    before = alpha.engine.snapshot()
    effects = alpha.handle(ev.Ask(request=1, principal=ALICE, what="queue"))
    assert [type(e) for e in effects] == [fx.Reply]
    assert alpha.engine.snapshot() == before
    assert whole(4) == alpha.group("alpha-2").subgroups[SubgroupId("alpha-2/0")].indices


def test_in_the_default_mode_the_wait_that_lifts_counts_from_the_last_start() -> None:
    grid = Grid({"claim_ahead": 1}, alpha=1)
    alpha = grid["alpha"]
    alpha.submit(spec(12), 12)
    grid.pass_time(1700.0)
    (_, row) = sorted(explain(alpha, "alpha-1"), key=lambda row: row.level)
    assert row.rises_after_s == pytest.approx(1900.0), "two thresholds, less what was waited"
    alpha.end()
    (_, row) = sorted(explain(alpha, "alpha-1"), key=lambda row: row.level)
    assert row.rises_after_s == pytest.approx(3600.0)


def test_a_group_that_has_as_many_running_as_it_may_does_not_start_in_a_free_slot() -> None:
    grid = Grid({"claim_ahead": 0}, alpha=3)
    alpha = grid["alpha"]
    alpha.submit(spec(3, work_s=100.0, max_parallel=1), 3, who=ALICE)
    (row,) = queue(alpha).classes
    assert (row.jobs, row.low_s, row.high_s) == (2, -1.0, -1.0)
