"""Gangs from submission to result: claimed at all sites, let go together, or not at all (SPEC K5-K7)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch.claim_book import ClaimBook
from diana.engine.handover.gangs.attempt_book import GangAttempts
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.components import components_of
from diana.model.job.gang import COMPONENT
from diana.model.job.spec import Axis, GroupSpec, RetryRules, Sweep
from diana.model.views.views import GroupView, Ok
from tests.engine.bench import Grid, Post
from tests.engine.builders import ALICE, BOB, spec


def gang(components: str, jobs: int = 1, **more: object) -> GroupSpec:
    asked = components_of(components)
    size = sum(each.count for each in asked)
    axes = (Axis(name="job", start=0, stop=jobs), Axis(name=COMPONENT, start=0, stop=size))
    return msgspec.structs.replace(spec(1, **more), components=asked, sweep=Sweep(axes=axes))


def submit(grid: Grid, components: str, jobs: int = 1, **more: object) -> str:
    wanted = gang(components, jobs, **more)
    answer = grid["alpha"].submit(wanted, jobs * wanted.gang_size)
    assert isinstance(answer, fx.GroupAccepted), answer
    return answer.group


def begun(grid: Grid) -> list[tuple[str, int]]:
    """(site, index) of the components that were let go."""
    return sorted((name, run.index) for name, site in grid.sites.items() for run in site.gone)


def held(grid: Grid) -> list[tuple[str, int]]:
    return sorted((name, run.index) for name, site in grid.sites.items() for run in site.held)


FIXED = "1x1@alpha+1x1@beta+1x1@gamma"


def test_components_at_three_sites_are_let_go_by_one_record_and_know_each_other() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    name = submit(grid, FIXED)
    assert begun(grid) == [("alpha", 0), ("beta", 1), ("gamma", 2)] and not held(grid)
    (go,) = grid["alpha"].records(r.GangGo)
    assert isinstance(go, r.GangGo) and len(go.parts) == 3
    told = {run.index: dict(order.environment) for site in grid.sites.values() for run, order in site.gone.items()}
    assert told[0] == told[1] == told[2]
    assert told[0]["DIANA_GANG_HOSTS"] == "alpha,beta,gamma" and told[0]["MASTER_PORT"] == "7"
    grid.finish()
    assert grid["alpha"].group(name).state == "done"
    assert set(grid.claims().values()) == {1}


def test_no_component_starts_while_another_waits_for_a_processor() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    grid["gamma"].submit(spec(1, sites=("gamma",)), 1, 9)
    submit(grid, FIXED)
    grid.pass_time(30.0)
    assert begun(grid) == []
    grid["gamma"].end()
    grid.pass_time(10.0)
    assert begun(grid) == [("alpha", 0), ("beta", 1), ("gamma", 2)]


def test_a_claim_that_another_waits_for_too_long_is_given_up_and_tried_again() -> None:
    grid = Grid({"claim_wait_s": 20.0}, alpha=1, beta=1, gamma=1)
    # Taken by its own user between the quote and the claim.
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) and post[1] == "gamma" else "deliver"
    name = submit(grid, FIXED)
    assert held(grid) == [("alpha", 0), ("beta", 1)]
    grid.pass_time(19.0)
    assert held(grid) == [("alpha", 0), ("beta", 1)] and begun(grid) == []
    grid.pass_time(1.5)
    for site in grid.sites.values():
        site.obey_kills()
    grid.settle()
    assert held(grid) == [] and "gamma had no processors" in grid["alpha"].engine.core.waiting_notes[name]  # type: ignore[index]
    grid.fate = None
    grid.pass_time(60.0)
    assert begun(grid) == [("alpha", 0), ("beta", 1), ("gamma", 2)]
    grid.finish()
    assert grid["alpha"].group(name).state == "done"


def test_a_claim_lapses_by_itself_where_its_origin_is_silent_and_a_late_commit_is_refused() -> None:
    grid = Grid({"claim_wait_s": 20.0}, alpha=1, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) and post[1] == "gamma" else "deliver"
    submit(grid, FIXED)
    (custody,) = grid["beta"].engine.state.custodies.values()
    grid.part("alpha")
    grid.pass_time(60.0)
    assert not grid["beta"].held and not grid["beta"].engine.state.custodies
    grid.heal("alpha")
    commit = ms.Commit(
        subgroup=custody.subgroup, epoch=custody.epoch, db_uuid="db-beta", hosts=("a", "b", "c"), token="0"
    )
    grid.post(grid["alpha"].name, grid["beta"].name, commit)
    grid.settle()
    assert not [run for run in grid["beta"].gone if run.epoch == custody.epoch]


def kill(grid: Grid) -> None:
    """Machines obey what they were told to kill."""
    for site in grid.sites.values():
        site.obey_kills()
    grid.settle()


def test_a_gang_that_was_given_up_is_tried_again_though_another_of_its_group_was_placed_meanwhile() -> None:
    grid = Grid(alpha=2, beta=2)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    name = submit(grid, "1x1@alpha+1x1@beta", jobs=2)
    first = next(part for part in grid["alpha"].group(name).subgroups.values() if part.site == "beta")
    hear(grid, "alpha", "beta", ms.GangYield(subgroup=first.subgroup, epoch=first.epoch))
    # Placing the other again takes the place of the look at the first.
    grid["alpha"].engine.core.to_place.add(grid["alpha"].group(name).group)
    grid.fate = None
    grid.pass_time(30.0)
    kill(grid)
    grid.pass_time(30.0)
    assert sorted(run.index for site in grid.sites.values() for run in site.gone) == [0, 1, 2, 3]


def test_a_gang_is_not_placed_anew_while_a_component_of_its_last_attempt_runs() -> None:
    grid = Grid({"claim_wait_s": 20.0}, alpha=2, beta=2, gamma=2)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.Commit) and post[1] == "beta" else "deliver"
    submit(grid, FIXED)
    grid.pass_time(60.0)
    grid.fate = None
    # There is room for another attempt, and beta's claim has lapsed; the other two heed no order to end.
    grid.pass_time(120.0)
    assert len(grid["alpha"].records(r.GangGo)) == 1 and not held(grid)
    grid["alpha"].obey_kills()
    grid.settle()
    grid.pass_time(60.0)
    assert len(grid["alpha"].records(r.GangGo)) == 1
    kill(grid)
    grid.pass_time(60.0)
    assert len(grid["alpha"].records(r.GangGo)) == 2


def test_the_claim_of_the_gang_that_was_submitted_first_begins_first_whoever_stands_before_it_in_the_queue() -> None:
    grid = Grid({"migration": "off"}, alpha=0, beta=4, gamma=0)
    # Alice has had much of beta, so that bob stands before her.
    grid["alpha"].submit(spec(40, sites=("beta",)), 40, 1)
    grid.finish()
    for name, who in (("alpha", ALICE), ("gamma", BOB)):
        grid[name].submit(gang("4x1@beta"), 4, 2, who=who, settle=False)
        grid.pass_time(1.0)
    first = [run for run in grid["beta"].started if run.subgroup.startswith(("alpha-2", "gamma"))][:4]
    assert {run.subgroup for run in first} == {"alpha-2/0"}


def test_an_order_to_cancel_that_overtakes_the_commit_leaves_it_nothing_to_let_go() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.Commit) else "deliver"
    name = submit(grid, FIXED)
    grid["alpha"].cancel(name)
    kill(grid)
    grid.fate = None
    grid.pass_time(30.0)
    kill(grid)
    grid.pass_time(30.0)
    assert begun(grid) == [("alpha", 0)] and grid["alpha"].group(name).state == "cancelled"


def test_a_component_that_was_cancelled_before_its_site_started_anew_is_not_let_go() -> None:
    grid = Grid({"claim_wait_s": 200.0, "migration": "off"}, alpha=0, beta=1)
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.Commit) else "deliver"
    name = submit(grid, "1x1@beta")
    assert held(grid) == [("beta", 0)]
    grid["alpha"].cancel(name)
    grid["beta"].restart()
    grid.fate = None
    grid.settle()
    kill(grid)
    grid.pass_time(30.0)
    assert not begun(grid) and grid["alpha"].group(name).state == "cancelled"


def test_two_claims_that_come_at_once_begin_by_rank() -> None:
    grid = Grid({"migration": "off"}, alpha=0, beta=4, gamma=0)
    grid["alpha"].submit(spec(40, sites=("beta",)), 40, 1)
    grid.finish()
    held_up: list[Post] = []

    def fate(_: Grid, __: int, post: Post) -> str:
        if isinstance(post[2], ms.GangClaim) and len(held_up) < 2:
            held_up.append(post)
            return "lose"
        return "deliver"

    grid.fate = fate
    grid["beta"].handle(ev.LrmLost())
    grid["alpha"].submit(gang("4x1@beta"), 4, 2)
    grid["gamma"].submit(gang("4x1@beta"), 4, 2, who=BOB)
    assert len(held_up) == 2
    for sender, _, message in reversed(held_up):
        hear(grid, "beta", sender, message)
    grid["beta"].lrm_ready()
    began = [run.subgroup for run in grid["beta"].started if run.subgroup.startswith(("alpha-2", "gamma"))]
    assert began[:4] == ["alpha-2/0"] * 4


def test_components_that_wait_without_the_others_of_their_gang_are_over_when_one_has_a_result() -> None:
    grid = Grid({"claim_wait_s": 20.0}, alpha=1, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.Commit) and post[1] == "beta" else "deliver"
    name = submit(grid, FIXED)
    grid["gamma"].end()
    grid.settle()
    grid.pass_time(60.0)
    kill(grid)
    grid.pass_time(60.0)
    group = grid["alpha"].group(name)
    assert (len(group.done), len(group.cancelled), group.state) == (1, 2, "cancelled")


def test_the_guard_does_not_let_a_first_wave_of_a_gang_start_alone() -> None:
    grid = Grid({"guard_jobs": 1}, alpha=0, beta=4)
    submit(grid, "4x1@beta")
    assert len(begun(grid)) == 4


def test_an_origin_places_no_second_gang_on_processors_that_its_first_has_yet_to_claim() -> None:
    grid = Grid(alpha=0, beta=2)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    name = submit(grid, "2x1@beta", jobs=3)
    assert len(grid["alpha"].group(name).subgroups) == 1


def test_a_component_that_was_cut_off_by_a_crash_is_not_run_again_alone() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    name = submit(grid, FIXED, on_crash="rerun")
    grid["beta"].end(outcome=Outcome.INTERRUPTED)
    grid.settle()
    kill(grid)
    grid.pass_time(10.0)
    assert [run.attempt for run in grid["beta"].started] == [1]
    assert grid["alpha"].group(name).state == "held"


def test_what_was_let_go_is_told_so_again_where_its_machine_was_away() -> None:
    grid = Grid(alpha=0, beta=1)
    (run,) = (submit(grid, "1x1@beta"), *grid["beta"].gone)[1:]
    # The order was lost with the connection: the machine holds it still.
    grid["beta"].held[run] = grid.now + 60.0
    del grid["beta"].gone[run]
    grid["beta"].lrm_ready()
    assert list(grid["beta"].gone) == [run]


@pytest.mark.parametrize("site", ["alpha", "beta"])
def test_a_restart_before_the_gang_is_let_go_loses_and_doubles_nothing(site: str) -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaimed) and post[0] == "gamma" else "deliver"
    name = submit(grid, FIXED)
    assert begun(grid) == [] and len(held(grid)) == 3
    grid[site].restart()
    grid.settle()
    assert begun(grid) == []
    grid.fate = None
    grid.pass_time(30.0)
    assert begun(grid) == [("alpha", 0), ("beta", 1), ("gamma", 2)]
    grid.finish()
    assert grid["alpha"].group(name).state == "done" and set(grid.claims().values()) == {1}


@pytest.mark.parametrize("site", ["alpha", "beta"])
def test_a_restart_after_the_gang_was_let_go_lets_the_others_go_all_the_same(site: str) -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.Commit) else "deliver"
    name = submit(grid, FIXED)
    assert begun(grid) == [("alpha", 0)], "its own component needs no message"
    grid[site].restart()
    grid.fate = None
    grid.pass_time(30.0)
    assert begun(grid) == [("alpha", 0), ("beta", 1), ("gamma", 2)]
    grid.finish()
    assert grid["alpha"].group(name).state == "done" and set(grid.claims().values()) == {1}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_gang_that_was_let_go_too_late_is_ended_and_placed_anew_when_all_of_it_is_over(restarts: bool) -> None:
    grid = Grid({"claim_wait_s": 20.0}, alpha=1, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.Commit) and post[1] == "beta" else "deliver"
    name = submit(grid, FIXED)
    assert begun(grid) == [("alpha", 0), ("gamma", 2)]
    grid.pass_time(60.0)
    # Beta's claim lapsed: nothing is placed anew before the others have ended.
    assert grid["beta"].gone == {} and len(grid["alpha"].records(r.GangGo)) == 1
    grid.fate = None
    if restarts:
        # Its own component has not ended yet.
        grid["alpha"].restart()
    for _ in range(3):
        for site in grid.sites.values():
            site.obey_kills()
        grid.pass_time(20.0)
    assert len(grid["alpha"].records(r.GangGo)) == 2
    again = [run for site in grid.sites.values() for run in site.gone if run in site.running]
    assert sorted(run.index for run in again) == [0, 1, 2]
    grid.finish()
    assert grid["alpha"].group(name).state == "done"
    told = [index for facts in grid["alpha"].facts.values() for index in facts.indices]
    assert sorted(told) == [0, 1, 2], "what became of the attempt before is no result, at home neither"


def test_a_component_that_fails_ends_the_others_and_a_retry_starts_all_of_them() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    name = submit(grid, FIXED)
    grid["beta"].end(outcome=Outcome.FAILED)
    grid.settle()
    grid.pass_time(1.0)
    for site in grid.sites.values():
        site.obey_kills()
    grid.settle()
    group = grid["alpha"].group(name)
    assert (len(group.failed), len(group.cancelled), group.state) == (1, 2, "failed")
    assert grid["alpha"].retry(name, IndexSet.span(2, 3)) == Ok(3), "one component stands for its gang"
    grid.pass_time(10.0)
    assert sorted(run.index for site in grid.sites.values() for run in site.gone if run in site.running) == [0, 1, 2]
    grid.finish()
    assert grid["alpha"].group(name).state == "done"


@pytest.mark.parametrize("retry", [None, RetryRules(failed=1)])
def test_a_gang_of_which_a_component_fails_is_tried_again_whole_by_itself(retry: RetryRules | None) -> None:
    grid = Grid(alpha=2, beta=2, gamma=2)
    name = submit(grid, FIXED, jobs=2, retries=0 if retry else 1, retry=retry)
    beta = grid["beta"]
    for again in (False, True):
        (run,) = (run for run in beta.running if run.index == 1)
        beta._ends(run, Outcome.FAILED)
        for _ in range(2):
            grid.settle()
            grid.pass_time(1.0)
            for site in grid.sites.values():
                site.obey_kills()
        if not again:
            for site in grid.sites.values():
                for other in [run for run in site.running if run.index > 2]:
                    site._ends(other, Outcome.DONE)
        grid.settle()
        grid.pass_time(10.0)
        on = sorted(run.index for site in grid.sites.values() for run in site.gone if run in site.running)
        assert on == ([] if again else [0, 1, 2])
    group = grid["alpha"].group(name)
    assert (group.state, len(group.done), len(group.failed), len(group.cancelled)) == ("failed", 3, 1, 2)


@pytest.mark.parametrize("how", ["cancelled", "unknown"])
def test_a_gang_that_was_cancelled_or_may_have_ended_well_is_not_tried_again_by_itself(how: str) -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    name = submit(grid, FIXED, retries=3)
    grid["beta"].end(outcome=Outcome.FAILED)
    grid.settle()
    if how == "cancelled":
        grid["alpha"].cancel(name)
    else:
        grid["gamma"].end(outcome=Outcome.UNKNOWN)
    grid.pass_time(1.0)
    for site in grid.sites.values():
        site.obey_kills()
    grid.settle()
    grid.pass_time(10.0)
    group = grid["alpha"].group(name)
    assert (group.state, group.own_retries) == ("failed" if how == "cancelled" else "held", 0)


def view(grid: Grid) -> GroupView:
    found = grid["alpha"].ask("group", group="alpha-1")
    assert isinstance(found, GroupView)
    return found


def merging() -> Grid:
    grid = Grid(alpha=1, beta=1)
    submit(grid, "1x1@alpha+1x1@beta", jobs=2, merge=("sum",))
    for _ in range(2):
        for site in grid.sites.values():
            site.end()
        grid.settle()
    assert view(grid).state == "merging"
    return grid


def test_the_merge_of_gangs_is_no_component_and_runs_once_at_home_whatever_restarts() -> None:
    grid = merging()
    alpha = grid["alpha"]
    assert [run.index for run in alpha.running] == [4]
    for _ in range(3):
        alpha.restart()
    assert set(alpha.engine.core.book(GangAttempts).parts) == {("alpha-1", 0), ("alpha-1", 1)}
    grid.finish()
    assert view(grid).state == "done" and len(alpha.records(r.MergeStarted)) == 1
    assert [run.index for run in alpha.started].count(4) == 1


def test_a_merge_of_gangs_that_failed_says_so_and_is_run_again_alone() -> None:
    grid = merging()
    alpha = grid["alpha"]
    alpha.end(1, Outcome.FAILED)
    assert view(grid).state == "failed" and "the merge command failed" in view(grid).note
    assert alpha.engine.core.book(GangAttempts).broken == {}
    assert alpha.retry("alpha-1") == Ok(1)
    grid.finish()
    assert (view(grid).state, view(grid).done) == ("done", 4)


def test_to_cancel_one_component_is_to_cancel_its_gang_and_no_other() -> None:
    grid = Grid(alpha=2, beta=2, gamma=2)
    name = submit(grid, FIXED, jobs=2)
    assert len(begun(grid)) == 6
    answer = grid["alpha"].cancel(name, IndexSet.of([4]))
    assert isinstance(answer, Ok) and answer.count == 3
    for site in grid.sites.values():
        site.obey_kills()
    grid.settle()
    grid.finish()
    group = grid["alpha"].group(name)
    assert (list(group.cancelled.within(IndexSet.span(0, 6))), len(group.done)) == ([3, 4, 5], 3)


def test_nothing_is_kept_of_gangs_whose_group_is_over() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    book = grid["alpha"].engine.core.book(GangAttempts)
    submit(grid, FIXED)
    grid.finish()
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    name = submit(grid, FIXED)
    part = next(part for part in grid["alpha"].group(name).subgroups.values() if part.site == "beta")
    hear(grid, "alpha", "beta", ms.GangYield(subgroup=part.subgroup, epoch=part.epoch))
    assert book.tries and book.not_before_s
    grid["alpha"].cancel(name)
    assert grid["alpha"].group(name).state == "cancelled"
    assert not (book.tries or book.not_before_s or book.parts or book.claims or book.claiming or book.over_s)


def test_nothing_is_kept_of_a_gang_that_broke_and_was_cancelled_before_it_began_again() -> None:
    grid = Grid(alpha=1, beta=1)
    name = submit(grid, "1x1@alpha+1x1@beta")
    for run in list(grid["beta"].gone):
        grid["beta"]._ends(run, Outcome.UNBEGUN)
    grid.settle()
    kill(grid)
    book = grid["alpha"].engine.core.book(GangAttempts)
    assert book.not_before_s and book.failed
    grid["alpha"].cancel(name)
    assert grid["alpha"].group(name).state == "cancelled"
    assert not (book.not_before_s or book.failed or book.look_s)


def test_a_claim_that_lapses_as_the_site_looks_for_what_may_go_elsewhere_is_in_its_queue_no_more() -> None:
    grid = Grid({"claim_wait_s": 10.0}, alpha=0, beta=1, gamma=1)
    grid["beta"].submit(spec(1, sites=("beta",)), 1, 9)
    submit(grid, "1x1@beta")
    beta = grid["beta"]
    (key,) = beta.engine.core.book(ClaimBook).until_s
    grid.part("alpha")
    grid.pass_time(beta.engine.core.book(ClaimBook).until_s[key] - grid.now - 0.01)
    assert key in beta.engine.core.queues.entries
    # Its node was stopped for a moment: the next look is due as well.
    grid.now += 60.0
    beta.handle(ev.Tick())
    assert key not in beta.engine.state.custodies


def test_equal_gangs_of_two_origins_at_the_same_processors_all_end() -> None:
    grid = Grid(alpha=1, beta=1)
    for number in range(3):
        grid["alpha"].submit(gang("1x1@alpha+1x1@beta"), 2, 10 + number, settle=False)
        grid["beta"].submit(gang("1x1@alpha+1x1@beta"), 2, 20 + number, settle=False)
    grid.settle()
    grid.finish(rounds=2000)
    states = [g.state for s in grid.sites.values() for g in s.engine.state.groups.values()]
    assert states == ["done"] * 6
    assert (
        not grid["alpha"].engine.core.book(GangAttempts).tries
        and not grid["alpha"].engine.core.book(GangAttempts).parts
    )


# --- words of liars ------------------------------------------------------------------------------------------


def claimed_at_two() -> Grid:
    """A gang whose component at gamma is not claimed."""
    grid = Grid(alpha=1, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaimed) and post[0] == "gamma" else "deliver"
    submit(grid, FIXED)
    return grid


def hear(grid: Grid, at: str, sender: str, message: ms.Message) -> None:
    grid[at].handle(ev.Received(SiteId(sender), message))
    grid.settle()


def test_a_claim_of_anothers_component_is_not_believed_and_a_site_speaks_for_its_own_alone() -> None:
    grid = claimed_at_two()
    parts = {part.site: part for part in grid["alpha"].group("alpha-1").subgroups.values()}
    gammas = parts[SiteId("gamma")]
    hear(grid, "alpha", "beta", ms.GangClaimed(subgroup=gammas.subgroup, epoch=gammas.epoch, host="b", port=1))
    hear(grid, "alpha", "beta", ms.GangYield(subgroup=gammas.subgroup, epoch=gammas.epoch))
    assert begun(grid) == [] and len(held(grid)) == 3


def test_an_order_to_begin_what_does_not_stand_whole_at_the_barrier_begins_nothing() -> None:
    grid = Grid(alpha=1, beta=2)
    # One of the two at beta waits for a processor.
    grid["beta"].submit(spec(1, sites=("beta",)), 1, 9)
    submit(grid, "1x1@alpha+2x1@beta")
    (custody,) = (one for one in grid["beta"].engine.state.custodies.values() if one.spec.is_gang)
    assert held(grid) == [("beta", 1)] and custody.pending
    commit = ms.Commit(
        subgroup=custody.subgroup, epoch=custody.epoch, db_uuid="db-beta", hosts=("a", "b", "c"), token="0"
    )
    hear(grid, "beta", "alpha", commit)
    kill(grid)
    assert begun(grid) == [] and (custody.subgroup, custody.epoch) in grid["beta"].engine.state.tombstones


def test_a_gang_that_was_let_go_does_not_make_way_for_another() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    name = submit(grid, FIXED)
    (part,) = (part for part in grid["alpha"].group(name).subgroups.values() if part.site == "beta")
    hear(grid, "alpha", "beta", ms.GangYield(subgroup=part.subgroup, epoch=part.epoch))
    assert not grid["alpha"].engine.core.waiting_notes and not grid["alpha"].records(r.TakenBack)
    # It is followed as before: the end of one is that of all.
    grid["beta"].end(outcome=Outcome.FAILED)
    grid.settle()
    kill(grid)
    group = grid["alpha"].group(name)
    assert (len(group.failed), len(group.cancelled), group.state) == (1, 2, "failed")


def test_a_claim_of_a_part_that_has_no_jobs_any_more_is_passed_over() -> None:
    grid = claimed_at_two()
    parts = {part.site: part for part in grid["alpha"].group("alpha-1").subgroups.values()}
    gammas = parts[SiteId("gamma")]
    gammas.indices = IndexSet()
    hear(grid, "alpha", "gamma", ms.GangClaimed(subgroup=gammas.subgroup, epoch=gammas.epoch, host="a", port=1))
    assert begun(grid) == []


@pytest.mark.parametrize(
    ("host", "port"), [("a,b", 1), ("", 1), ("a\nb", 1), ("a" * 300, 1), ("a", 70_000), ("a\0", 1)]
)
def test_an_address_that_is_none_is_not_believed(host: str, port: int) -> None:
    grid = claimed_at_two()
    parts = {part.site: part for part in grid["alpha"].group("alpha-1").subgroups.values()}
    gammas = parts[SiteId("gamma")]
    hear(grid, "alpha", "gamma", ms.GangClaimed(subgroup=gammas.subgroup, epoch=gammas.epoch, host=host, port=port))
    assert begun(grid) == [] and "that is none" in grid["alpha"].warnings[-1]


@pytest.mark.parametrize(
    "order",
    [{"hosts": ("a",)}, {"hosts": ("a", "b,c", "d")}, {"hosts": ("a", "b", "c"), "port": 70_000}, {"token": "x\0"}],
)
def test_an_origin_that_tells_nonsense_lets_nothing_go(order: dict[str, object]) -> None:
    grid = claimed_at_two()
    (custody,) = grid["beta"].engine.state.custodies.values()
    right = {"hosts": ("a", "b", "c"), "port": 1, "token": "0"}
    commit = ms.Commit(subgroup=custody.subgroup, epoch=custody.epoch, db_uuid="db-beta", **{**right, **order})  # type: ignore[arg-type]
    hear(grid, "beta", "alpha", commit)
    assert begun(grid) == [] and not custody.runnable


def test_a_stranger_neither_claims_nor_lets_go() -> None:
    grid = claimed_at_two()
    (custody,) = grid["beta"].engine.state.custodies.values()
    name = {"subgroup": custody.subgroup, "epoch": custody.epoch, "db_uuid": "db-beta"}
    hear(grid, "beta", "gamma", ms.Commit(**name, hosts=("a", "b", "c"), token="0"))  # type: ignore[arg-type]
    hear(grid, "beta", "gamma", ms.GangClaim(**name, wait_s=1e6))  # type: ignore[arg-type]
    assert begun(grid) == [] and not custody.runnable


def test_an_ordinary_job_is_no_component() -> None:
    grid = Grid(alpha=0, beta=1)
    grid["beta"].handle(ev.LrmLost())
    grid["alpha"].submit(spec(1), 1)
    (custody,) = grid["beta"].engine.state.custodies.values()
    claim = ms.GangClaim(subgroup=custody.subgroup, epoch=custody.epoch, db_uuid="db-beta", wait_s=9.0)
    hear(grid, "beta", "alpha", claim)
    assert "no component of a gang" in grid["beta"].warnings[-1]


def test_a_machine_that_is_reached_elsewhere_than_its_site_is_told_to_the_others() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    grid["beta"].host = "n7.beta"
    submit(grid, FIXED)
    told = {run.index: dict(order.environment) for site in grid.sites.values() for run, order in site.gone.items()}
    assert told[0]["DIANA_GANG_HOSTS"] == "alpha,n7.beta,gamma"


def test_each_of_the_components_at_one_site_is_told_with_its_own_machine() -> None:
    grid = Grid(alpha=1, beta=3)
    grid["beta"].host = "n{}.beta"
    submit(grid, "2x1@beta+1x1@alpha")
    told = {run.index: dict(order.environment) for site in grid.sites.values() for run, order in site.gone.items()}
    assert told[0]["DIANA_GANG_HOSTS"] == "n0.beta,n1.beta,alpha" and told[0]["MASTER_ADDR"] == "n0.beta"


@pytest.mark.parametrize("hosts", [("a", "b"), ("a,b",), ("",)])
def test_addresses_that_are_not_one_for_each_component_are_not_believed(hosts: tuple[str, ...]) -> None:
    grid = claimed_at_two()
    parts = {part.site: part for part in grid["alpha"].group("alpha-1").subgroups.values()}
    gammas = parts[SiteId("gamma")]
    told = ms.GangClaimed(subgroup=gammas.subgroup, epoch=gammas.epoch, host="a", port=1, hosts=hosts)
    hear(grid, "alpha", "gamma", told)
    assert begun(grid) == [] and "that is none" in grid["alpha"].warnings[-1]
