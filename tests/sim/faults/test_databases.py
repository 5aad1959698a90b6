"""PROMISES sections 1, 4: what a lost, old or restored database of a site may cost; the judges allow no more."""

from __future__ import annotations

from collections import Counter

import pytest

from diana.model.ids import GroupId
from diana.model.views.views import GroupView
from diana.sim.experiments.failure import failure
from diana.sim.scenario import scenario as sc
from diana.sim.world.runner import simulate
from diana.sim.world.world import World
from tests.sim.worlds import A, B, C, at, begun

TEXT = """version = 1
report = ["faults"]
settings = {offer_wait_s = 4.0, resend_most_s = 2.0}
fsync_s = 0.002
sites = [{name = "a", slots = 3}, {name = "b", slots = 4}, {name = "c", slots = 4}]
[[workload]]
name = "one"
site = "a"
jobs = 40
work_s = 3.0
submit_s = 3.0
moves = [{to = "b", at_s = 6.0, first = 20, jobs = 10}]
[[workload]]
name = "two"
site = "b"
jobs = 30
work_s = 2.0
submit_s = 8.0
fail_fraction = 0.2
retry_s = 30.0
output_bytes = 1000
"""
WORK = sc.parse(TEXT)
KINDS = ("database_lost", "database_old", "backup_restored")


def shown(world: World, name: str) -> GroupView:
    submission = world.users.submissions[name]
    answer = world.sites[submission.site].ask("group", submission.group)
    assert isinstance(answer, GroupView)
    return answer


@pytest.mark.wide
@pytest.mark.parametrize("kind", KINDS)
def test_no_job_starts_twice_and_none_vanishes_whatever_becomes_of_a_database(kind: str) -> None:
    scenario = sc.parse(TEXT + f"[faults]\nuntil_s = 50.0\nheal_s = 400.0\n{kind}_every_s = 20.0\n")
    struck: Counter[str] = Counter()
    for seed in range(8):
        report = simulate(scenario, seed)
        assert report.good(), failure(scenario, report)
        struck.update(report.fault_kinds)
    assert set(struck) == {kind} and struck[kind] >= 8


@pytest.mark.parametrize("marked", [True, False])
def test_a_destination_on_an_old_copy_starts_nothing_of_it_and_its_origin_shows_the_jobs(marked: bool) -> None:
    world = begun(WORK, 9.0)
    b = at(world, B)
    b.store.keep_copy()
    world.clock.run_until(14.0)
    executed = b.lrm.executed
    b.put_back("database_old", marked)
    world.clock.run_until(80.0)
    view = shown(world, "one")
    assert view.unreachable or view.held, view
    assert world.checkers.aftermath.rests(view)
    assert b.lrm.executed - executed <= 2 * b.lrm.slots, "what its spawner had claimed may start, nothing else"
    assert world.checkers.found == []


def test_an_origin_on_an_old_copy_holds_its_groups_until_their_user_lets_them_go_on() -> None:
    world = begun(WORK, 9.0)
    a = at(world, A)
    a.store.keep_copy()
    world.clock.run_until(16.0)
    a.put_back("database_old", True)
    world.clock.run_until(60.0)
    view = shown(world, "one")
    assert not view.final and "release" in view.note
    world.users.lift(A, 61.0)
    world.clock.run_until(120.0)
    view = shown(world, "one")
    assert view.done + view.held + view.failed == view.jobs
    assert world.checkers.found == []


def lost_after_copy(text: str) -> tuple[World, GroupId]:
    world = begun(sc.parse(text), 1.0)
    a = at(world, A)
    a.store.keep_copy()
    world.clock.run_until(5.0)
    gone = world.users.submissions["one"].group
    assert gone == GroupId("a-1")
    a.put_back("backup_restored")
    assert world.checkers.aftermath.gone == {gone}
    world.clock.run_until(20.0)
    return world, gone


def test_a_group_that_came_after_the_copy_comes_back_under_its_key_where_a_peer_has_jobs_of_it() -> None:
    world, lost = lost_after_copy(TEXT)
    assert not world.checkers.aftermath.gone
    assert "release" in shown(world, "one").note
    world.users.submissions["one"].group = None
    world.users.begin()
    world.clock.run_until(30.0)
    assert world.users.submissions["one"].group == lost
    world.users.lift(A, 31.0)
    world.clock.run_until(120.0)
    view = shown(world, "one")
    assert view.done + view.held + view.failed == view.jobs
    assert world.checkers.found == []


def test_a_group_that_came_after_the_copy_and_stayed_at_home_is_gone_and_its_number_is_not_given_again() -> None:
    world, gone = lost_after_copy(
        TEXT.replace("jobs = 40", "jobs = 2").replace('moves = [{to = "b", at_s = 6.0, first = 20, jobs = 10}]', "")
    )
    assert world.checkers.aftermath.gone == {gone}
    world.users.submissions["one"].group = None
    world.users.begin()
    world.clock.run_until(30.0)
    again = world.users.submissions["one"].group
    assert again is not None and again != gone
    assert world.checkers.found == []


def test_the_judges_still_see_a_second_start_after_a_database_was_put_back() -> None:
    world = begun(WORK, 12.0)
    a = at(world, A)
    a.store.keep_copy()
    a.put_back("database_old")
    group = world.users.submissions["one"].group
    assert group is not None and group in world.checkers.aftermath.touched
    story = world.checkers._groups[group]
    index, life = next((i, life) for i, life in story.lives.items() if life.outcome is not None)
    world.checkers.executed(C, life.run, "hold")
    assert [v.rule for v in world.checkers.found] == ["I1"] and world.checkers.found[0].index == index


def test_the_judges_still_see_a_group_that_was_in_the_copy_and_vanished() -> None:
    world = begun(WORK, 12.0)
    a = at(world, A)
    a.store.keep_copy()
    a.put_back("database_old")
    a.store.lose("nothing")
    a.recount()
    assert "in the copy that was put back, gone now" in world.checkers.found[0].text


def test_groups_that_had_nothing_to_do_with_that_site_are_judged_as_ever() -> None:
    world = begun(WORK, 2.0)
    at(world, C).put_back("database_lost")
    world.clock.run_until(12.0)
    assert world.checkers.aftermath.touched == set()
