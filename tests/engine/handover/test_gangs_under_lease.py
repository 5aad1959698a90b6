"""Gangs with `on_site_lost = "rerun"`: what runs at a silent site ends with its lease, and the gang begins anew when
all of it is over (SPEC K7; `tests/protocol/claiming_lease.py`)."""

from __future__ import annotations

from diana.engine.handover import leases
from diana.engine.journal import records as r
from diana.engine.messages import leases as lm
from diana.engine.messages import messages as ms
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from tests.engine.bench import Grid, Site
from tests.engine.handover.test_gangs import begun, held, kill, submit

LEASE_S = 20.0
SURELY_OVER_S = LEASE_S * leases.LONGER + leases.MARGIN_S


def running(components: str = "1x1@alpha+2x1") -> Grid:
    """A gang of three that was let go: at alpha, and two of the other sites."""
    grid = Grid({"lease_s": LEASE_S, "claim_wait_s": 20.0, "migration": "off"}, alpha=1, beta=1, gamma=1, delta=1)
    submit(grid, components, on_site_lost="rerun")
    assert [site for site, _ in begun(grid)] == ["alpha", "beta", "delta"]
    return grid


def times_let_go(grid: Grid) -> int:
    return len(grid["alpha"].records(r.GangGo))


def lease_ends(site: Site) -> None:
    """Its machine ends what ran under the lease, by its own clock."""
    for run in list(site.running):
        site._ends(run, Outcome.LEASE_OVER)


def run_now(grid: Grid) -> list[tuple[str, int]]:
    return sorted((name, run.index) for name, site in grid.sites.items() for run in site.gone if run in site.running)


def test_a_gang_begins_anew_elsewhere_when_the_lease_of_a_silent_site_is_over_and_the_others_have_ended() -> None:
    grid = running()
    grid.part("beta")
    grid.pass_time(SURELY_OVER_S - 1.0)
    kill(grid)
    assert times_let_go(grid) == 1 and len(run_now(grid)) == 3, "its component may run there"
    lease_ends(grid["beta"])
    grid.pass_time(3.0)
    assert times_let_go(grid) == 1, "the others still run"
    kill(grid)
    grid.pass_time(60.0)
    assert times_let_go(grid) == 2
    assert [site for site, _ in run_now(grid)] == ["alpha", "delta", "gamma"]
    grid.heal("beta")
    grid.finish()
    assert grid["alpha"].group("alpha-1").state == "done"
    assert not grid["beta"].engine.core.state.custodies and not grid["alpha"].engine.core.state.disowned


def test_an_origin_that_starts_anew_waits_for_the_whole_lease_again() -> None:
    grid = running()
    grid.part("beta")
    grid.pass_time(SURELY_OVER_S - 1.0)
    grid["alpha"].restart()
    grid.pass_time(SURELY_OVER_S - 1.0)
    kill(grid)
    assert times_let_go(grid) == 1 and len(run_now(grid)) == 3
    grid.pass_time(2.0)
    kill(grid)
    grid.pass_time(60.0)
    assert times_let_go(grid) == 2


def test_a_gang_that_broke_waits_for_a_silent_component_until_its_lease_is_over() -> None:
    grid = running()
    grid.part("delta")
    # beta could not start its own with the others.
    for run in list(grid["beta"].gone):
        grid["beta"]._ends(run, Outcome.UNBEGUN)
    grid.settle()
    grid.pass_time(20.0)
    kill(grid)
    assert grid["alpha"].engine.core.state.disowned, "delta has not said that its own has ended"
    grid["alpha"].restart()
    grid.pass_time(SURELY_OVER_S - 1.0)
    kill(grid)
    assert times_let_go(grid) == 1
    lease_ends(grid["delta"])
    grid.pass_time(60.0)
    assert times_let_go(grid) == 2
    assert [site for site, _ in run_now(grid)] == ["alpha", "beta", "gamma"]


def test_a_component_is_not_let_go_before_it_has_a_lease() -> None:
    grid = Grid({"lease_s": LEASE_S, "claim_wait_s": 60.0, "migration": "off"}, alpha=0, beta=1)
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], lm.Renewed) else "deliver"
    submit(grid, "1x1@beta", on_site_lost="rerun")
    assert not grid["beta"].started, "its processors wait with it"
    grid.fate = None
    grid.pass_time(10.0)
    assert begun(grid) == [("beta", 0)]


def test_an_order_to_start_that_finds_no_lease_waits_for_one() -> None:
    grid = Grid({"lease_s": LEASE_S, "claim_wait_s": 200.0, "migration": "off"}, alpha=0, beta=1)
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.Commit) else "deliver"
    submit(grid, "1x1@beta", on_site_lost="rerun")
    grid.part("beta")
    grid.pass_time(LEASE_S + 1.0)
    grid.cut.discard("beta")
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], lm.Renewed) else "deliver"
    grid.heal("beta")
    grid.pass_time(5.0)
    assert not begun(grid)
    grid.fate = None
    grid.pass_time(10.0)
    assert begun(grid) == [("beta", 0)]


def test_a_site_that_starts_anew_asks_for_a_lease_for_what_stands_at_its_barrier() -> None:
    grid = Grid({"lease_s": LEASE_S, "claim_wait_s": 200.0, "migration": "off"}, alpha=0, beta=1)
    grid.fate = lambda _, __, post: "lose" if isinstance(post[2], ms.Commit) else "deliver"
    submit(grid, "1x1@beta", on_site_lost="rerun")
    assert held(grid) == [("beta", 0)] and times_let_go(grid) == 1
    grid["beta"].restart()
    grid.fate = None
    grid.settle()
    grid.pass_time(30.0)
    assert begun(grid) == [("beta", 0)]


def test_components_that_ended_with_their_lease_are_given_back_and_all_begin_anew() -> None:
    grid = running()
    grid.part("beta")
    grid.pass_time(LEASE_S + 1.0)
    lease_ends(grid["beta"])
    assert [run.attempt for run in grid["beta"].started] == [1], "it is not run again there without the others"
    grid.heal("beta")
    for _ in range(3):
        kill(grid)
        grid.pass_time(10.0)
    assert times_let_go(grid) == 2 and len(run_now(grid)) == 3
    assert {run.attempt for site in grid.sites.values() for run in site.running} == {2}, "their logs are told apart"
    grid.finish()
    group = grid["alpha"].group("alpha-1")
    assert group.state == "done" and not group.cancelled


def test_a_gang_of_which_a_component_has_its_end_is_not_begun_anew() -> None:
    grid = running()
    grid["delta"].end()
    grid.settle()
    grid.part("beta")
    grid.pass_time(SURELY_OVER_S + 1.0)
    kill(grid)
    grid.pass_time(60.0)
    group = grid["alpha"].group("alpha-1")
    assert times_let_go(grid) == 1 and (len(group.done), len(group.cancelled)) == (1, 2)


def test_a_gang_that_waits_for_lost_sites_is_not_begun_anew() -> None:
    grid = Grid({"lease_s": LEASE_S, "claim_wait_s": 20.0, "migration": "off"}, alpha=1, beta=1)
    submit(grid, "1x1@alpha+1x1@beta")
    grid.part("beta")
    grid.pass_time(3 * SURELY_OVER_S)
    kill(grid)
    assert times_let_go(grid) == 1 and len(run_now(grid)) == 2
    assert grid["alpha"].group("alpha-1").open_of(IndexSet.span(0, 2)) == IndexSet.span(0, 2)
