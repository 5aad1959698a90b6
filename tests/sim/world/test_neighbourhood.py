"""A VO with more sites than one table should hold: each knows those near it on a ring of hashed names, and works with
them (PERFORMANCE P9)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.engine.membership.table import MembershipTable
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.policy.membership import State, mark, ring_distance
from diana.sim.scenario import scenario as sc
from diana.sim.world.members import Members, MemberSite
from diana.sim.world.runner import simulate

KNOWN = 16
SITES = 64


def grid_of(count: int, seed: int) -> Members:
    return Members(count, seed, settings=Settings(known_sites=KNOWN, active_peers=6))


def nearest(grid: Members, site: SiteId, count: int) -> set[SiteId]:
    others = [other.site for other in grid.up() if other.site != site]
    return set(sorted(others, key=lambda other: ring_distance(site, other))[:count])


def table(member: MemberSite) -> dict[SiteId, State]:
    assert member.engine is not None
    return {site: peer.state for site, peer in member.engine.core.view.peers.items()}


@given(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9))
def test_the_ring_is_as_long_one_way_as_the_other(one: str, other: str) -> None:
    assert ring_distance(one, other) == ring_distance(other, one)
    assert (ring_distance(one, other) == 0) == (mark(one) == mark(other))
    assert 0 <= ring_distance(one, other) <= 1 << 62


@pytest.mark.wide
def test_a_site_comes_to_know_its_neighbours_and_no_more_than_its_table_holds() -> None:
    grid = grid_of(SITES, 1)
    grid.start_all()
    grid.run(60.0)
    for member in grid.up():
        known = table(member)
        assert member.engine is not None
        assert len(known) <= KNOWN + KNOWN // 8 + len(member.engine.core.book(MembershipTable).linked)
        near = nearest(grid, member.site, KNOWN - 4)
        assert {site for site in near if known.get(site) is State.ALIVE} == near
        assert member.engine.core.book(MembershipTable).alive == 1 + sum(state < State.LOST for state in known.values())


def seconds_until(grid: Members, holds: Callable[[], bool], most: int) -> int:
    for second in range(1, most + 1):
        grid.run(1.0)
        if holds():
            return second
    raise AssertionError(f"not within {most} s")


def join_loss_return(seed: int) -> tuple[int, int, int]:
    """Seconds until all neighbours of a site know of each."""
    grid = grid_of(SITES, seed)
    grid.start_all()
    grid.run(60.0)
    new, lost = grid.add(), grid.members[SiteId("s00007")]
    new.start()
    near = nearest(grid, new.site, KNOWN // 2)
    join_s = seconds_until(grid, lambda: all(new.site in table(grid.members[site]) for site in near), 40)

    def states() -> set[State | None]:
        return {table(grid.members[site]).get(lost.site) for site in around}

    around = nearest(grid, lost.site, KNOWN // 2)
    lost.stop(goodbye=False)
    loss_s = seconds_until(grid, lambda: states() <= {None, State.LOST}, 60)
    lost.start()
    return join_s, loss_s, seconds_until(grid, lambda: states() == {State.ALIVE}, 15)


@pytest.mark.wide
def test_neighbours_learn_of_a_join_a_loss_and_a_return_within_seconds() -> None:
    join_s, loss_s, return_s = (mean(times) for times in zip(*map(join_loss_return, range(2, 7)), strict=True))
    assert join_s < 12 and loss_s < 30 and return_s < 5


@pytest.mark.wide
def test_when_neighbours_are_gone_farther_sites_take_their_places() -> None:
    grid = grid_of(SITES, 3)
    grid.start_all()
    grid.run(40.0)
    home = grid.members[SiteId("s00003")]
    for site in nearest(grid, home.site, KNOWN - 2):
        grid.members[site].stop(goodbye=False)
    grid.run(120.0)
    alive = {site for site, state in table(home).items() if state is State.ALIVE}
    assert len(alive) >= KNOWN - KNOWN // 8, "a table is not left with those that are lost"
    assert alive <= {member.site for member in grid.up()}


WIDE_GRID = """
version = 1
name = "wide grid"
about = "Thirty sites that keep tables of sixteen; all work comes at one of them, more than its neighbours can take."
limit_s = 4000

[settings]
known_sites = 16
active_peers = 6

[[sites]]
name = "site"
slots = 2
count = 30

[[users]]
name = "user@vo"

[[workload]]
name = "burst"
site = "site"
jobs = 200
work_s = 10.0
submit_s = 30.0

[expect]
done = 200
sites_used = 12
"""


@pytest.mark.wide
def test_work_is_placed_among_neighbours_and_all_of_it_is_done() -> None:
    report = simulate(sc.parse(WIDE_GRID), 1)
    assert report.good(), (report.violations, report.unmet)
