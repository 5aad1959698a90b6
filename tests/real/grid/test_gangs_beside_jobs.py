"""Gangs and ordinary jobs over real nodes that want the same processors: all end, no gang is torn, and the quota for
gangs holds (SPEC K2, K5, D3)."""

from __future__ import annotations

import itertools
import re
import time

import pytest

from diana.client import Client
from diana.errors import Unplaceable
from diana.node.config.setup import init_user
from tests.e2e.grid import Grid, Starts, outcomes, until
from tests.real.gangs import SITES, begins, by_gang, job_file, whole

pytestmark = pytest.mark.e2e

JOBS = 100
GANGS = 5


def three(grid: Grid, slots: int, **settings: object) -> None:
    for name in SITES:
        grid.add(name, slots)
    grid.join()
    grid.settings(claim_wait_s=10.0, **settings)
    grid.start()


def test_gangs_and_jobs_of_two_users_that_wait_for_their_turn_all_end(grid: Grid, starts: Starts) -> None:
    three(grid, 2)
    path, users = grid.root / "begins", []
    for name in ("ann", "bob"):
        init_user(grid.sites["alpha"].data, name, grid.root / name)
        with Client(credential=grid.root / name) as client:
            job = starts.job(JOBS, then=("sleep", "0.5"), bind="late")
            users.append((name, client.submit({**job, "resources": {"work": 5}}).group))
    starts.wait_for(6)
    with grid.sites["alpha"].client() as client:
        gangs = client.submit(job_file(path, GANGS, 0.5)).group
        begun_s = time.monotonic()
        ended = client.wait(gangs, timeout_s=240)
        assert (ended.state, ended.failed) == ("done", 0), f"{ended}\n{grid.story()}"
        print(f"{GANGS} gangs took {time.monotonic() - begun_s:.1f} s beside {2 * JOBS} jobs")
    for name, group in users:
        with Client(credential=grid.root / name) as client:
            ended = client.wait(group, timeout_s=240)
            assert (ended.state, ended.done) == ("done", JOBS), f"{ended}\n{grid.story()}"
            assert set(outcomes(client, group).values()) == {"done"}
    assert len(starts.all()) == 2 * JOBS
    attempts = by_gang(path)
    assert len(attempts) == GANGS and all(whole(found) for (found,) in attempts.values()), attempts


def test_gangs_keep_to_the_quota_and_ordinary_jobs_have_the_rest(grid: Grid, starts: Starts) -> None:
    three(grid, 2, gang_quota=0.5)
    path, wide = grid.root / "begins", {**job_file(grid.root / "wide"), "components": [{"site": "beta", "cpus": 2}]}
    with grid.sites["alpha"].client() as client:
        refused = "component at beta: gives gangs 1 of its 2 processors at most (its gang_quota), and 2 are wanted"
        with pytest.raises(Unplaceable, match=re.escape(refused)):
            client.submit(wide)
        # Each holds all that gangs may: two together would pass the quota.
        gangs = client.submit(job_file(path, 3, 4.0)).group
        until(lambda: len(begins(path)) == 3, lambda: f"the first runs\n{grid.story()}", 30)
        jobs = client.submit(starts.job(6, then=("sleep", "0.1"))).group
        assert client.wait(jobs, timeout_s=60).done == 6
        # What gangs may not have is free for others all the time.
        assert client.status(gangs)[0].gangs_waiting + client.status(gangs)[0].gangs_running > 0
        assert client.wait(gangs, timeout_s=240).state == "done", grid.story()
    attempts = sorted(by_gang(path).values(), key=lambda found: found[0][0].at_s)
    assert len(attempts) == 3 and all(whole(found) for (found,) in attempts)
    begun = [min(begin.at_s for begin in found) for (found,) in attempts]
    assert all(later - earlier >= 4.0 for earlier, later in itertools.pairwise(begun)), begun
