"""Groups with `max_parallel`: the limit holds over all sites at every moment, whoever calls their jobs back (J6), and
they move by themselves only where that frees some of it (SPEC D7; docs/decisions/migration.md)."""

from __future__ import annotations

import random

import pytest

from diana.engine.journal import effects as fx
from diana.engine.messages import migration as mm
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from tests.engine.bench import Grid
from tests.engine.builders import spec

LONG_S = 100.0


def capped(cap: int, jobs: int, *, migration: str = "off", slots: int = 1, **settings: object) -> Grid:
    """A group of alpha's under a limit that waits at beta; gamma, idle, came after it was placed."""
    grid = Grid({"migration": migration, **settings}, alpha=1, beta=slots, gamma=4)
    grid.part("gamma")
    grid["alpha"].submit(spec(jobs, work_s=LONG_S, not_sites=("alpha",), max_parallel=cap), jobs)
    grid.pass_time(2.0)
    grid.heal("gamma")
    grid.pass_time(2.0)
    return grid


def running(grid: Grid) -> int:
    return sum(len(site.running) for site in grid.sites.values())


def shares(grid: Grid) -> int:
    parts = grid["alpha"].group("alpha-1").subgroups.values()
    return sum(min(part.max_parallel, part.open_jobs()) for part in parts)


def surplus_of(grid: Grid) -> list[fx.Send]:
    sent = (one for site in grid.sites.values() for one in site.trace if isinstance(one, fx.Send))
    return [one for one in sent if isinstance(one.message, mm.Surplus) and one.message.groups]


def test_a_small_capped_group_moves_by_itself_as_far_as_its_limit_lets_it() -> None:
    """Four jobs, a limit of three: one runs at beta, and what waits goes to gamma as shares are free."""
    grid = capped(3, 4, migration="default")
    most = 0
    for _ in range(30):
        grid.pass_time(1.0)
        most = max(most, running(grid))
        assert running(grid) <= 3 and shares(grid) <= 3
    assert surplus_of(grid) and grid["gamma"].running and most >= 2
    assert "gamma" in grid["alpha"].group("alpha-1").decisions[-1].reason
    grid.finish()
    assert set(grid.claims().values()) == {1} and len(grid.claims()) == 4


@pytest.mark.parametrize(("cap", "jobs", "slots", "rounds"), [(4, 20, 3, 7), (10, 50, 9, 7)])
def test_jobs_that_are_moved_go_in_the_same_part_as_the_shares_that_are_free(
    cap: int, jobs: int, slots: int, rounds: int
) -> None:
    """All of them at once would keep the few shares that are free just then, and wait for each other."""
    grid = Grid({"migration": "off"}, alpha=1, beta=slots, gamma=jobs)
    grid.part("gamma")
    grid["alpha"].submit(spec(jobs, work_s=LONG_S, not_sites=("alpha",), max_parallel=cap), jobs)
    grid.pass_time(2.0)
    grid.heal("gamma")
    grid.pass_time(2.0)
    grid["alpha"].move("alpha-1", "gamma")
    grid.pass_time(20.0)
    for _ in range(rounds):
        assert running(grid) <= cap
        for name in ("beta", "gamma"):
            if grid[name].running:
                grid[name].end(len(grid[name].running))
        grid.pass_time(10.0)
    assert grid["alpha"].group("alpha-1").state == "done"


@pytest.mark.parametrize("migration", ["default", "paper"])
def test_jobs_stay_where_those_left_behind_would_keep_the_limit(migration: str) -> None:
    """Gamma has room for four of eleven that wait; the seven others could use the whole limit at beta."""
    grid = capped(3, 12, migration=migration, migration_threshold=0.0)
    grid.pass_time(30.0)
    assert not grid["gamma"].started and not grid["alpha"].group("alpha-1").unplaced


@pytest.mark.parametrize("migration", ["default", "paper"])
def test_what_waits_for_the_limit_and_for_no_slot_is_offered_by_nobody(migration: str) -> None:
    grid = capped(2, 12, migration=migration, slots=4, migration_threshold=0.0)
    assert len(grid["beta"].running) == 2
    grid.pass_time(30.0)
    assert not surplus_of(grid) and not grid["gamma"].started


def test_jobs_of_a_capped_group_that_are_called_back_wait_without_a_share_beside_an_idle_site() -> None:
    """The hazard. A user moves some of what waits at beta to gamma, which is idle. The part left at beta may use the
    whole limit, though it has one slot for it: the moved jobs gave up their place in beta's queue for none."""
    grid = capped(3, 12)
    assert len(grid["beta"].running) == 1, "two of the limit's three shares lie idle"
    grid["alpha"].move("alpha-1", "gamma", IndexSet.span(6, 12))
    grid.pass_time(60.0)
    group = grid["alpha"].group("alpha-1")
    assert group.unplaced == IndexSet.span(6, 12) and shares(grid) == 3
    assert not grid["gamma"].started, "idle, and nothing may be placed there"
    for _ in range(6):
        assert not grid["gamma"].started
        grid["beta"].end(1)
        grid.pass_time(5.0)
    assert len(grid["gamma"].running) == 3, "with the part over, its share is free"


def test_what_a_part_has_no_jobs_for_is_free_for_those_that_were_called_back() -> None:
    """All that waits goes; one job runs on, and of the three shares two are free."""
    grid = capped(3, 12)
    assert len(grid["beta"].running) == 1
    grid["alpha"].move("alpha-1", "gamma")
    grid.pass_time(5.0)
    assert len(grid["gamma"].running) == 2 and running(grid) == 3 == shares(grid)


def test_what_was_called_back_as_a_whole_leaves_its_share_and_the_limit_holds() -> None:
    """Beta, drained of slots by another's long job, started none of it: the whole part goes."""
    grid = Grid({"migration": "off"}, alpha=1, beta=1, gamma=4)
    grid.part("gamma")
    grid["beta"].submit(spec(1, work_s=LONG_S, sites=("beta",)), 1)
    grid["alpha"].submit(spec(6, work_s=LONG_S, not_sites=("alpha",), max_parallel=2, bind="early"), 6)
    grid.pass_time(2.0)
    grid.heal("gamma")
    grid.pass_time(2.0)
    assert len(grid["beta"].running) == 1
    grid["alpha"].move("alpha-1", "gamma")
    grid.pass_time(5.0)
    assert len(grid["gamma"].running) == 2 and shares(grid) == 2


@pytest.mark.wide
@pytest.mark.parametrize("migration", ["default", "paper", "off"])
@pytest.mark.parametrize("seed", range(8))
def test_running_jobs_never_exceed_the_limit_whatever_moves_them(seed: int, migration: str) -> None:
    """Random moves, drains, crashes, lost links, ends and failures; the limit is looked at after every event."""
    rng = random.Random(f"{seed} {migration}")
    cap, jobs = rng.randrange(1, 6), rng.randrange(8, 25)
    grid = Grid({"migration": migration, "migration_gain_s": 0.5}, alpha=2, beta=2, gamma=3)
    grid["alpha"].submit(
        spec(jobs, work_s=20.0, max_parallel=cap, on_crash="rerun", max_subgroup=rng.choice((0, 4))), jobs
    )
    away = ""
    for _ in range(60):
        act, name = rng.randrange(9), rng.choice(("beta", "gamma"))
        if act == 0:
            grid["alpha"].move("alpha-1", rng.choice(("alpha", "beta", "gamma")))
        elif act == 1:
            grid["alpha"].move("alpha-1", name, IndexSet.span(0, rng.randrange(1, jobs)))
        elif act == 2 and not away:
            grid.part(away := name)
        elif act == 3 and away:
            grid.heal(away)
            away = ""
        elif act == 4 and not away:
            grid[rng.choice(("alpha", "beta", "gamma"))].restart()
        else:
            for site in grid.sites.values():
                site.end(rng.randrange(3), rng.choice((Outcome.DONE, Outcome.DONE, Outcome.UNKNOWN)))
        grid.pass_time(rng.uniform(0.0, 6.0))
        assert running(grid) <= cap, f"seed {seed}: {running(grid)} run under a limit of {cap}\n{grid.story()}"
        assert shares(grid) <= cap, f"seed {seed}"
    if away:
        grid.heal(away)
    for _ in range(400):
        if grid.all_final():
            break
        for site in grid.sites.values():
            site.end(1)
        grid.pass_time(3.0)
        assert running(grid) <= cap, f"seed {seed}"
    assert grid.all_final(), f"seed {seed}: {grid.story()}"
