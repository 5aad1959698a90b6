"""PROMISES section 4, faults of disks, clocks, processes and whole sites: each does here what it does in life."""

from __future__ import annotations

import pytest

from diana.engine.journal.effects import Effect
from diana.engine.journal.events import Event, PeerDown, Received, Tick
from diana.engine.messages.messages import Abort
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.views.views import GroupView
from diana.sim.kernel.faults import Faults
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.specs.fault_spec import FaultsSpec
from diana.sim.world.runner import run, simulate
from diana.sim.world.world import World
from tests.sim.worlds import A, B, C, at, begun

TEXT = """version = 1
report = ["faults"]
settings = {offer_wait_s = 4.0, resend_most_s = 2.0}
fsync_s = 0.002
sites = [{name = "a", slots = 2}, {name = "b", slots = 2}, {name = "c", slots = 2}]
[[workload]]
name = "w"
site = "a"
jobs = 30
work_s = 2.0
submit_s = 3.0
"""
CALM = sc.parse(TEXT)


def linked(world: World, a: SiteId, b: SiteId) -> bool:
    return bool(world.network.link(a, b).stream)


def overheard(world: World, site: SiteId) -> list[tuple[float, Event]]:
    """Events its engine is given from now on, and when."""
    heard: list[tuple[float, Event]] = []
    engine = at(world, site).engine
    assert engine is not None
    handle = engine.handle

    def listen(event: Event, now: float) -> list[Effect]:
        heard.append((world.clock.now_s, event))
        return handle(event, now)

    engine.handle = listen  # type: ignore[method-assign]
    return heard


def shown(world: World) -> GroupView | None:
    answer = world.sites[A].ask("group", group_of(world))
    return answer if isinstance(answer, GroupView) else None


def group_of(world: World) -> GroupId | None:
    return world.users.submissions["w"].group


def ended_well(world: World) -> None:
    """Goes on to the end: nothing lost, nothing doubled, all done."""
    limit_s = world.clock.now_s + 600
    while world.clock.now_s < limit_s and not all(s.group for s in world.users.submissions.values()):
        world.clock.run_until(world.clock.now_s + 1)
    world.heal()
    view = shown(world)
    while world.clock.now_s < limit_s and not (view is not None and view.final):
        world.clock.run_until(world.clock.now_s + 1)
        view = shown(world)
    world.heal()
    assert view is not None and view.done + view.held == view.jobs, view
    assert world.checkers.found == []


def test_a_node_that_is_stopped_for_a_moment_meets_all_that_came_in_order_and_keeps_its_streams() -> None:
    world = begun(CALM, 6.0)
    b = at(world, B)
    heard = overheard(world, B)
    b.stall()
    world.clock.run_until(8.0)
    assert linked(world, A, B) and b._halted, "what came waits at its door"
    waiting = [arguments[0] for action, arguments in b._halted if action == b.handle]
    assert heard == []
    b.go_on(b.stalls)
    world.clock.run_until(world.clock.now_s + 0.01)
    assert [event for _, event in heard if not isinstance(event, Tick)][: len(waiting)] == waiting
    ended_well(world)


def test_a_node_that_is_stopped_for_long_loses_its_streams_and_has_new_ones_when_it_goes_on() -> None:
    world = begun(CALM, 6.0)
    b = at(world, B)
    b.stall()
    world.clock.run_until(12.0)
    assert not linked(world, A, B) and not linked(world, B, C)
    running = b.lrm.executed
    assert running > 0, "its jobs went on"
    b.go_on(b.stalls)
    world.clock.run_until(13.0)
    assert linked(world, A, B) and linked(world, B, C)
    ended_well(world)


def test_what_a_clogged_link_held_comes_at_once_and_in_order() -> None:
    world = begun(CALM, 4.0)
    heard = overheard(world, B)
    assert world.network.clog(A, B) and not world.network.clog(B, A)
    for epoch in range(5):
        world.network.send(A, B, Abort(subgroup=SubgroupId("a-1-1.0"), epoch=epoch))
        world.clock.run_until(world.clock.now_s + 0.3)
    assert not any(isinstance(event, Received) and event.sender == A for _, event in heard)
    world.network.unclog(A, B)
    orders = [(at_s, event.message) for at_s, event in heard if isinstance(event, Received)]
    aborts = [(at_s, order.epoch) for at_s, order in orders if isinstance(order, Abort)]
    assert aborts == [(world.clock.now_s, epoch) for epoch in range(5)]


def test_a_stream_clogged_for_longer_than_the_keepalive_is_given_up_with_what_it_held() -> None:
    world = begun(CALM, 4.0)
    world.network.clog(A, B)
    world.network.send(A, B, Abort(subgroup=SubgroupId("a-1-1.0"), epoch=1))
    world.clock.run_until(8.0)
    assert not linked(world, A, B)
    world.network.unclog(A, B)
    world.clock.run_until(10.0)
    assert linked(world, A, B)
    ended_well(world)


def test_commits_to_a_slow_disk_take_long_and_nothing_is_said_before_they_are_through() -> None:
    world = begun(CALM, 1.0)
    a = at(world, A)
    a.storage.slow_until_s = 60.0
    while a._committing:
        world.clock.run_until(world.clock.now_s + 0.001)
    before, began_s = a.store.commits, world.clock.now_s
    world.clock.run_until(3.05)
    assert a._committing and a.store.commits == before
    assert group_of(world) is None
    world.clock.run_until(began_s + 10.0)
    assert a.store.commits > before
    ended_well(world)


def test_a_site_without_room_refuses_new_work_and_takes_it_when_there_is_room_again() -> None:
    world = begun(CALM, 1.0)
    a = at(world, A)
    a.storage.full_until_s = 20.0
    a.look_for_room()
    world.clock.run_until(10.0)
    assert group_of(world) is None and "disk" in world.users.submissions["w"].why
    world.clock.run_until(20.0)
    a.look_for_room()
    ended_well(world)


@pytest.mark.parametrize("kept", [True, False])
def test_an_error_of_the_disk_stops_the_node_whether_or_not_the_commit_was_kept(kept: bool) -> None:
    world = begun(CALM, 2.0)
    a = at(world, A)
    boots, found = a.boots, a.store.load().seq
    a.storage.breaks = kept
    while a.up():
        world.clock.run_until(world.clock.now_s + 0.001)
    assert (a.store.load().seq > found) is kept
    world.clock.run_until(20.0)
    assert a.boots == boots + 1
    ended_well(world)


@pytest.mark.parametrize("off_s", [3600.0, -3600.0])
def test_a_wall_clock_that_jumps_changes_nothing_and_site_time_never_falls_behind_the_journal(off_s: float) -> None:
    calm = begun(CALM, 200.0)
    world = begun(CALM, 5.0)
    for site in (A, B):
        at(world, site).wall_off_s = off_s
    world.clock.run_until(200.0)
    assert shown(world) == shown(calm)
    a = at(world, A)
    for wall_off_s in (off_s, 0.0):
        a.wall_off_s = wall_off_s
        last_s = a.store.load().at_s
        a.crash(durable=True)
        world.clock.run_until(world.clock.now_s + 10.0)
        assert a.up() and a.site_s() >= last_s
        assert off_s < 0 or a.site_s() >= 3600.0


def test_a_group_comes_to_its_end_while_all_wall_clocks_are_wrong_and_nodes_restart() -> None:
    world = begun(CALM, 2.0)
    at(world, A).wall_off_s, at(world, B).wall_off_s = 3600.0, -3600.0
    for site in (A, B, C):
        at(world, site).crash(durable=True)
    world.clock.run_until(12.0)
    at(world, A).wall_off_s = -3600.0
    at(world, A).crash(durable=True)
    ended_well(world)


def test_nobody_says_goodbye_for_a_site_that_is_lost_and_it_comes_back_with_its_disk() -> None:
    world = begun(CALM, 7.0)
    b = at(world, B)
    heard = overheard(world, A)
    b.lose(30.0)
    world.clock.run_until(11.0)
    assert [at_s for at_s, event in heard if event == PeerDown(B)] == [pytest.approx(10.0, abs=0.01)]
    world.clock.run_until(36.0)
    assert not b.up()
    world.clock.run_until(38.0)
    assert b.up() and b.engine is not None
    ended_well(world)


def test_a_loss_outlasts_the_restart_of_a_node_that_had_crashed_before() -> None:
    world = begun(CALM, 7.0)
    b = at(world, B)
    b.crash(durable=True)
    b.lose(60.0)
    world.clock.run_until(66.0)
    assert not b.up()
    world.clock.run_until(68.0)
    assert b.up()


KINDS = ("clog", "partition", "disk_slow", "disk_full", "disk_error", "clock_jump", "stall", "site_loss")


@pytest.mark.wide
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_strikes_is_counted_under_its_name_and_costs_no_job(kind: str) -> None:
    scenario = sc.parse(TEXT + f"[faults]\nuntil_s = 40.0\nheal_s = 300.0\n{kind}_every_s = 3.0\n")
    for seed in range(3):
        report = simulate(scenario, seed)
        assert report.good(), report.violations
        assert set(report.fault_kinds) == {kind} and report.fault_kinds[kind] >= 3


def test_a_seed_goes_without_some_kinds_and_says_so() -> None:
    spec = FaultsSpec(draw=True, off=0.5, until_s=1.0, loss=0.5, delay=0.5, crash=0.5, stall_every_s=9.0)
    options = [Faults(spec, seed).options() for seed in range(40)]
    for key in ("loss", "delay", "crash", "stall_every_s"):
        without = sum(option[key] == 0 for option in options)
        assert 8 < without < 32
    assert all(option["draw"] is False for option in options)


def test_no_seed_goes_without_faults_altogether() -> None:
    spec = FaultsSpec(draw=True, off=0.9, until_s=60.0, loss=0.1, crash=0.01, cut_every_s=100.0)
    for seed in range(100):
        options = Faults(spec, seed).options()
        assert options["loss"] or options["crash"], options
    assert not any(Faults(FaultsSpec(draw=True, off=0.9, until_s=60.0), 1).options()[key] for key in ("loss", "crash"))


def test_the_same_seed_gives_the_same_digest_with_all_kinds() -> None:
    every = "\n".join(f"{kind}_every_s = 9.0" for kind in KINDS)
    scenario = sc.parse(TEXT + f"[faults]\ndraw = true\nuntil_s = 30.0\nheal_s = 300.0\n{every}\nloss = 0.1\n")
    first, second = (run(World(scenario, 5, Boot())) for _ in range(2))
    assert first.digest == second.digest and first.good()
