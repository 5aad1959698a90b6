"""Membership of many sites, and work between sites that do not see each other directly (SPEC D9; PERFORMANCE P9)."""

from __future__ import annotations

import pytest

from diana.engine.membership.table import MembershipTable
from diana.engine.messages.messages import Gossip
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.policy.membership import State
from diana.sim.scenario import scenario as sc
from diana.sim.specs.fault_spec import FaultsSpec
from diana.sim.world.members import Members
from diana.sim.world.runner import simulate


def known_to_all(grid: Members) -> bool:
    count = len(grid.up())
    return all(m.engine is not None and m.engine.core.book(MembershipTable).alive == count for m in grid.up())


@pytest.mark.parametrize("count", [10, pytest.param(40, marks=pytest.mark.wide)])
def test_sites_that_start_with_a_seed_or_two_come_to_know_all_others(count: int) -> None:
    grid = Members(count, 1, seeds=2)
    grid.start_all()
    grid.run(20.0)
    assert known_to_all(grid) and not grid.wrong()


def test_the_table_is_exact_after_a_join_a_loss_a_goodbye_and_a_return() -> None:
    grid = Members(40, 2)
    grid.acquaint()
    grid.run(10.0)
    new = grid.add()
    new.start()
    assert grid.until(new.site, State.ALIVE, within_s=15.0) < 15.0
    lost, left = grid.members[SiteId("s00007")], grid.members[SiteId("s00011")]
    lost.stop(goodbye=False)
    assert grid.until(lost.site, State.LOST, within_s=30.0) < 30.0
    left.stop(goodbye=True)
    assert grid.until(left.site, State.LEFT, within_s=10.0) < 10.0
    for member in (lost, left):
        member.start()
        assert grid.until(member.site, State.ALIVE, within_s=10.0) < 10.0
    grid.run(5.0)
    assert known_to_all(grid) and not grid.wrong()


@pytest.mark.parametrize("count", [30, pytest.param(60, marks=pytest.mark.wide)])
def test_joins_and_losses_are_known_within_seconds_and_nobody_else_is_suspected(count: int) -> None:
    grid = Members(count, 5)
    grid.acquaint()
    grid.run(10.0)
    new, lost = grid.add(), grid.members[SiteId("s00007")]
    new.start()
    assert grid.until(new.site, State.ALIVE, within_s=15.0) < 3.0
    lost.stop(goodbye=False)
    assert grid.until(lost.site, State.LOST, within_s=30.0) < 10.0
    raised = grid.counted("suspicions_raised")
    lost.start()
    assert grid.until(lost.site, State.ALIVE, within_s=15.0) < 3.0
    # Streams are taken up and let go meanwhile: the other end is told, so that it does not take that for silence.
    grid.run(40.0)
    assert grid.counted("suspicions_raised") <= raised and not grid.wrong()


@pytest.mark.parametrize("seed", range(2))
def test_lost_doubled_and_late_messages_make_nobody_lost(seed: int) -> None:
    faults = FaultsSpec(until_s=1e9, loss=0.2, duplicate=0.2, delay=0.3, delay_s=3.0)
    grid = Members(24, seed, faults=faults)
    grid.acquaint()
    grid.run(30.0)
    assert not grid.wrong()


@pytest.mark.wide
def test_two_halves_that_were_cut_apart_find_each_other_within_half_a_minute() -> None:
    grid = Members(24, 3)
    grid.acquaint()
    grid.run(10.0)
    sites = sorted(grid.members)
    pairs = [(a, b) for a in sites[:12] for b in sites[12:]]
    for a, b in pairs:
        grid.network.cut(a, b)
    grid.run(30.0)
    assert grid.wrong() == 2 * len(pairs), "each half holds the other for lost and nobody else"
    for a, b in pairs:
        grid.network.mend(a, b)
    grid.run(30.0)
    assert not grid.wrong()


@pytest.mark.wide
def test_a_liar_that_tells_of_everybody_s_end_makes_nobody_lost() -> None:
    """It repeats at each turn that all are lost, at versions they are about to speak."""
    from diana.engine.messages.messages import Rumour

    grid = Members(24, 4)
    grid.acquaint()
    grid.run(10.0)
    sites = sorted(grid.members)
    liar = grid.members[sites[0]]
    worst = 0
    for _ in range(15):
        assert liar.engine is not None
        core = liar.engine.core
        lies = tuple(
            Rumour(s, p.summary.generation, p.summary.counter + 5, State.LOST, liar.site)
            for s, p in sorted(core.view.peers.items())
            if p.summary is not None
        )
        for site in sorted(core.book(MembershipTable).linked):
            grid.network.send(liar.site, site, Gossip(rumours=lies))
        grid.run(1.0)
        worst = max(worst, grid.wrong())
    grid.run(10.0)
    assert not grid.wrong(), "nobody is believed lost once the liar is silent"
    assert worst < 0.5 * 24 * 23


@pytest.mark.wide
def test_traffic_of_a_site_hardly_grows_with_the_grid() -> None:
    def per_site(count: int) -> float:
        grid = Members(count, 5)
        grid.acquaint()
        grid.run(10.0)
        grid.counts.clear()
        grid.run(10.0)
        return grid.counts["bytes"] / 10.0 / count

    limit = 16 * 200 + 3 * (Settings().gossip_bytes + 600) + 2000
    small, large = per_site(24), per_site(72)
    assert large < 1.6 * small + 3000
    assert large < 1.5 * limit


def test_who_can_only_dial_out_is_known_to_all_and_knows_all() -> None:
    grid = Members(30, 6, dial_only=8)
    grid.start_all()
    grid.run(40.0)
    assert known_to_all(grid) and not grid.wrong()


FIREWALLED = """version = 1
seeds = 1
settings = {offer_wait_s = 3.0, resend_most_s = 3.0, active_peers = 2}
sites = [
    {name = "open", slots = 1}, {name = "two", slots = 1}, {name = "three", slots = 1},
    {name = "in", slots = 1, dial_only = true}, {name = "out", slots = 30, dial_only = true},
]
[[workload]]
name = "one"
site = "in"
jobs = 300
work_s = 5.0
submit_s = 30.0
output_bytes = 1000
[expect]
done = 300
sites_used = 2
"""


def test_work_goes_between_two_sites_that_can_only_dial_out() -> None:
    report = simulate(sc.parse(FIREWALLED), 1)
    assert report.good(), report.unmet
