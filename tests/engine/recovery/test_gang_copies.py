"""A site whose journal was put back while it held or ran components of gangs: none starts without its origin's word,
and what ran is told (SPEC K5; PROMISES section 4: I1)."""

from __future__ import annotations

import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.model.views.views import Ok
from tests.engine.bench import Grid
from tests.engine.handover.test_gangs import begun, held, kill, submit

AT_BOTH = "1x1@alpha+1x1@beta"


def put_back(grid: Grid, copy: list[bytes]) -> None:
    """An older copy of beta's database is started, as a backup is; its machine goes on."""
    beta = grid["beta"]
    beta.stored, beta.db_uuid = list(copy), "db-beta-2"
    beta.restart(restored=True)
    grid.settle()


def claimed_after_the_copy() -> tuple[Grid, str, list[bytes]]:
    """A gang of which beta's copy of its journal knows the offer, and no claim."""
    grid = Grid({"claim_wait_s": 20.0}, alpha=0, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaim) else "deliver"
    name = submit(grid, "1x1@beta+1x1@gamma")
    copy = list(grid["beta"].stored)
    assert [one for one in grid["beta"].records(r.CustodyTaken)] and not grid["beta"].started
    return grid, name, copy


def test_a_component_at_its_barrier_does_not_start_because_its_site_has_an_older_journal() -> None:
    grid, name, copy = claimed_after_the_copy()
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaimed) and post[0] == "gamma" else "deliver"
    grid.pass_time(5.0)
    assert held(grid) == [("beta", 0), ("gamma", 1)]
    put_back(grid, copy)
    assert begun(grid) == [], "the machine's word outranks the journal, and tells of no more than a claim"
    (run,) = grid["beta"].running
    assert run.attempt == 1
    grid.fate = None
    for _ in range(200):
        kill(grid)
        grid.pass_time(1.0)
    assert {index for _, index in begun(grid)} <= {0, 1}
    grid.finish(rounds=300)
    assert grid["alpha"].group(name).state == "done"
    assert not [run for run in grid["beta"].gone if grid["beta"].gone[run].environment == ()], (
        "let go by its origin alone"
    )


@pytest.mark.parametrize("lost", [False, True])
def test_a_component_that_was_let_go_before_the_copy_was_put_back_tells_its_result(lost: bool) -> None:
    grid, name, copy = claimed_after_the_copy()
    grid.fate = None
    grid.pass_time(5.0)
    assert begun(grid) == [("beta", 0), ("gamma", 1)]
    put_back(grid, copy)
    if lost:
        grid.pass_time(30.0)
    grid["beta"].end()
    grid["gamma"].end()
    grid.settle()
    grid.finish(rounds=300)
    assert grid["alpha"].group(name).state == "done" and len(grid["alpha"].group(name).done) == 2
    assert [run.attempt for run in grid["beta"].started] == [1]


def let_go_after_the_copy(components: str, gangs: int = 1) -> tuple[Grid, str, list[bytes]]:
    """Gangs of which the first runs, and of which a copy of its origin's journal knows the offers alone."""
    grid = Grid({"claim_wait_s": 20.0}, alpha=2, beta=1)
    name = submit(grid, components, gangs)
    assert len(begun(grid)) == 2
    at = [isinstance(one, r.RunsStarted) for one in grid["alpha"].records()].index(True)
    return grid, name, grid["alpha"].stored[:at]


def origin_put_back(grid: Grid, name: str, copy: list[bytes]) -> None:
    """An older copy of alpha's database is started on a machine that knows of no run; alice lets her group go on."""
    alpha = grid["alpha"]
    for book in (alpha.running, alpha.gone, alpha.ended):
        book.clear()
    alpha.stored, alpha.db_uuid = list(copy), "db-alpha-2"
    alpha.restart(restored=True)
    grid.settle()
    grid.pass_time(5.0)
    assert begun(grid) == [] or {site for site, _ in begun(grid)} == {"beta"}
    assert isinstance(alpha.release_jobs(name), Ok)
    for _ in range(60):
        kill(grid)
        grid.pass_time(1.0)


def test_a_gang_starts_whole_again_where_its_origin_has_an_older_journal_and_lost_its_own_component() -> None:
    grid, name, copy = let_go_after_the_copy(AT_BOTH)
    origin_put_back(grid, name, copy)
    assert [run.index for run in grid["alpha"].gone] == [0]
    assert [run.index for run in grid["beta"].gone] == [1, 1], "the one that ran alone was ended"
    grid.finish()
    assert grid["alpha"].group(name).state == "done" and len(grid["alpha"].group(name).done) == 2


def test_a_gang_at_home_starts_again_where_its_site_has_an_older_journal() -> None:
    grid, name, copy = let_go_after_the_copy("2x1@alpha")
    origin_put_back(grid, name, copy)
    assert sorted(run.index for run in grid["alpha"].gone) == [0, 1]
    grid.finish()
    assert grid["alpha"].group(name).state == "done" and len(grid["alpha"].group(name).done) == 2


def test_a_component_whose_end_went_with_its_origins_journal_waits_for_nobody_once_another_has_ended() -> None:
    grid, name, copy = let_go_after_the_copy(AT_BOTH)
    grid["alpha"].end()
    grid["beta"].end()
    grid.settle()
    origin_put_back(grid, name, copy)
    grid.finish()
    group = grid["alpha"].group(name)
    assert group.state and not group.unplaced and not any(part.open_jobs() for part in group.subgroups.values())
    assert [run.index for run in grid["beta"].gone] == [1], "it has its end, and does not begin again by itself"


def test_a_gang_at_home_that_ended_while_its_group_waited_for_its_user_is_not_begun_again() -> None:
    """The copy shows it as offered; the machine, which went on, told its ends."""
    grid, name, copy = let_go_after_the_copy("2x1@alpha", gangs=2)
    alpha = grid["alpha"]
    alpha.stored, alpha.db_uuid = list(copy), "db-alpha-2"
    alpha.restart(restored=True)
    grid.settle()
    alpha.end(2)
    grid.pass_time(5.0)
    assert sorted(alpha.group(name).done) == [0, 1] and not alpha.group(name).state
    assert isinstance(alpha.release_jobs(name), Ok)
    for _ in range(60):
        kill(grid)
        grid.pass_time(1.0)
    grid.finish()
    assert alpha.group(name).state == "done" and sorted(run.index for run in alpha.gone) == [0, 1, 2, 3]


def ended_after_the_copy(site: str, home: bool) -> tuple[Grid, str]:
    """A gang of which the component at `site` ended since a copy of that site's journal, in which it runs; what it said
    of its end is lost, and its machine was told to forget it."""
    grid = Grid({"claim_wait_s": 20.0}, alpha=1 if home else 0, beta=1, gamma=1)
    name = submit(grid, f"1x1@{site}+1x1@gamma")
    assert begun(grid) == [(site, 0), ("gamma", 1)]
    copy = list(grid[site].stored)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.Result) and post[0] == site else "deliver"
    grid[site].end()
    grid.settle()
    assert not grid[site].running and not grid[site].ended
    grid.fate = None
    node = grid[site]
    node.stored, node.db_uuid = copy, f"db-{site}-2"
    node.restart(restored=True)
    grid.settle()
    return grid, name


def test_a_component_that_a_backup_shows_as_running_and_its_machine_does_not_know_is_not_begun_again() -> None:
    grid, name = ended_after_the_copy("beta", home=False)
    assert not grid["beta"].records(r.RunsReturned), "nobody knows that it never began"
    grid["gamma"].end()
    for _ in range(60):
        grid.pass_time(1.0)
    group = grid["alpha"].group(name)
    assert [run.index for run in (*grid["beta"].gone, *grid["gamma"].gone)] == [0, 1]
    assert list(group.done) == [1] and not group.state, "its user decides"
    assert isinstance(grid["alpha"].retry(name, unreachable=True), Ok)
    for _ in range(60):
        kill(grid)
        grid.pass_time(1.0)
    grid.finish()
    assert grid["alpha"].group(name).state == "done" and len(grid["alpha"].group(name).done) == 2
    assert sorted(run.index for site in grid.sites.values() for run in site.gone) == [0, 0, 1, 1]


def test_a_gang_with_a_component_out_of_reach_is_not_tried_again_while_another_runs() -> None:
    grid, name = ended_after_the_copy("beta", home=False)
    for _ in range(60):
        grid.pass_time(1.0)
    answer = grid["alpha"].retry(name, unreachable=True)
    assert isinstance(answer, fx.Refusal) and "have not ended" in answer.text


def test_a_claim_that_a_backup_shows_and_its_machine_does_not_know_is_given_up_by_its_origin() -> None:
    """It was never let go, as the origin knows, and the gang is placed anew."""
    grid = Grid({"claim_wait_s": 20.0}, alpha=0, beta=1, gamma=1)
    grid.fate = lambda g, _, post: "lose" if isinstance(post[2], ms.GangClaimed) and post[0] == "gamma" else "deliver"
    name = submit(grid, "1x1@beta+1x1@gamma")
    assert held(grid) == [("beta", 0), ("gamma", 1)]
    beta = grid["beta"]
    copy = list(beta.stored)
    beta.held.clear()
    beta.running.clear()
    put_back(grid, copy)
    grid.fate = None
    for _ in range(120):
        kill(grid)
        grid.pass_time(1.0)
    grid.finish(rounds=300)
    group = grid["alpha"].group(name)
    assert group.state == "done" and len(group.done) == 2


def test_a_gang_at_home_that_a_backup_shows_as_let_go_begins_again_at_its_users_word_alone() -> None:
    grid, name = ended_after_the_copy("alpha", home=True)
    grid.pass_time(30.0)
    assert [run.index for run in grid["alpha"].gone] == [0]
    assert isinstance(grid["alpha"].release_jobs(name), Ok)
    for _ in range(60):
        kill(grid)
        grid.pass_time(1.0)
    grid.finish()
    group = grid["alpha"].group(name)
    assert group.state and not any(part.open_jobs() for part in group.subgroups.values())
    assert [run.index for run in grid["alpha"].gone] == [0, 0]
