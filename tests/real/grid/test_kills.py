"""kill -9 at random moments of a large group: of the origin, of an executing site, of a spawner (PROMISES 1.1-1.6)."""

from __future__ import annotations

import os
import random
import time

import pytest

from diana.errors import DianaError
from diana.model.views.group import GroupStatus
from tests.e2e.grid import Grid, Site, Starts, outcomes

pytestmark = pytest.mark.e2e

JOBS = int(os.environ.get("DIANA_JOBS", "2000"))
KILLS = int(os.environ.get("DIANA_KILLS", "3"))
SLOTS = 4
END_S = 90.0


def three_sites(grid: Grid) -> tuple[Site, Site, Site]:
    sites = grid.add("alpha", SLOTS), grid.add("beta", SLOTS), grid.add("gamma", SLOTS)
    grid.join()
    grid.start()
    return sites


def at_a_random_moment(starts: Starts, chance: random.Random, first: float = 0.05, last: float = 0.7) -> None:
    """When some share of the jobs, between `first` and `last`, has started, and a little later."""
    starts.wait_for(int(JOBS * chance.uniform(first, last)))
    time.sleep(chance.uniform(0.0, 0.05))


def final(origin: Site, group: str) -> GroupStatus:
    with origin.client() as client:
        try:
            return client.wait(group, timeout_s=END_S)
        except DianaError as error:
            raise AssertionError(f"{error}: {client.status([group])}") from None


def results(origin: Site, group: str) -> dict[int, str]:
    with origin.client() as client:
        return dict(outcomes(client, group))


def test_kill_of_the_origin_loses_and_doubles_nothing(grid: Grid, starts: Starts, chance: random.Random) -> None:
    alpha, _, _ = three_sites(grid)
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS)).group
    at_a_random_moment(starts, chance)
    alpha.kill()
    time.sleep(chance.uniform(0.0, 1.0))
    alpha.start()
    status = final(alpha, group)
    assert (status.state, status.done) == ("done", JOBS), status
    assert results(alpha, group) == dict.fromkeys(range(JOBS), "done")
    assert len(starts.all()) == JOBS and not starts.doubled()
    assert starts.sites() == {"alpha", "beta", "gamma"}


def test_kill_of_an_executing_site_loses_and_doubles_nothing(grid: Grid, starts: Starts, chance: random.Random) -> None:
    alpha, beta, gamma = three_sites(grid)
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS)).group
    at_a_random_moment(starts, chance)
    victim = chance.choice([beta, gamma])
    victim.kill()
    time.sleep(chance.uniform(0.0, 1.0))
    victim.start()
    status = final(alpha, group)
    assert (status.state, status.done) == ("done", JOBS), status
    assert results(alpha, group) == dict.fromkeys(range(JOBS), "done")
    assert len(starts.all()) == JOBS and not starts.doubled()


def test_kill_of_a_spawner_holds_only_what_ran_there(grid: Grid, starts: Starts, chance: random.Random) -> None:
    alpha, *_ = three_sites(grid)
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS, on_crash="hold")).group
    at_a_random_moment(starts, chance)
    chance.choice(list(grid.sites.values())).kill_spawner()
    status = final(alpha, group)
    assert status.done + status.held == JOBS, status
    assert status.held <= SLOTS and status.state == ("held" if status.held else "done"), status
    found = results(alpha, group)
    assert sorted(found) == list(range(JOBS))
    assert sorted(found.values()) == sorted(["done"] * status.done + ["unknown"] * status.held)
    assert not starts.doubled()


def test_kill_of_a_spawner_reruns_only_what_ran_there(grid: Grid, starts: Starts, chance: random.Random) -> None:
    alpha, *_ = three_sites(grid)
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS, on_crash="rerun")).group
    at_a_random_moment(starts, chance)
    victim = chance.choice(list(grid.sites.values()))
    victim.kill_spawner()
    status = final(alpha, group)
    assert (status.state, status.done) == ("done", JOBS), status
    assert results(alpha, group) == dict.fromkeys(range(JOBS), "done")
    doubled = starts.doubled()
    assert len(doubled) <= SLOTS and all(len(twice) == 2 for twice in doubled.values()), doubled
    assert {start.site for twice in doubled.values() for start in twice} <= {victim.name}


def test_kills_in_a_row_of_whatever_there_is_lose_nothing(grid: Grid, starts: Starts, chance: random.Random) -> None:
    alpha, beta, gamma = three_sites(grid)
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS, on_crash="rerun")).group
    # The first falls into the hand-over, the others anywhere.
    time.sleep(chance.uniform(0.0, 0.3))
    spawners = 0
    story = []
    for share in [0.0, *sorted(chance.uniform(0.02, 0.8) for _ in range(KILLS - 1))]:
        at_a_random_moment(starts, chance, share, share)
        victim = chance.choice([alpha, beta, gamma])
        with_spawner, with_node = chance.choice([(True, False), (False, True), (True, True)])
        story.append(f"{victim.name}{' spawner' * with_spawner}{' node' * with_node} at {starts.count()}")
        if with_spawner and victim.spawner_pid():
            victim.kill_spawner()
            spawners += 1
        if with_node:
            victim.kill()
            time.sleep(chance.uniform(0.0, 0.5))
            victim.start()
    print(*story, sep="\n")
    status = final(alpha, group)
    assert (status.state, status.done) == ("done", JOBS), status
    assert results(alpha, group) == dict.fromkeys(range(JOBS), "done")
    again = len(starts.all()) - JOBS
    assert 0 <= again <= SLOTS * spawners, starts.doubled()
