"""Migration with real nodes (SPEC D7): nobody orders it, work leaves a site where it waits for one that came later,
each job runs once, also while sites are killed, and `explain` says why it went."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from tests.e2e.grid import Grid, Site, Starts, outcomes, until
from tests.e2e.test_hold_retry import diana
from tests.real.grid.test_move import alive

pytestmark = pytest.mark.e2e

JOBS = 160
RUN_S = 0.5


def waiting_at_beta(grid: Grid, starts: Starts) -> tuple[Site, Site, Site, str]:
    """A group of alpha's waits at beta; then gamma comes, which could have it through long before."""
    alpha, beta, gamma = grid.add("alpha", 1), grid.add("beta", 2), grid.add("gamma", 4)
    grid.join()
    for site in (alpha, beta):
        site.start()
    with alpha.client() as client:
        until(lambda: "beta" in alive(alpha), "beta is linked", 20)
        job = starts.job(JOBS, then=("sleep", str(RUN_S)), not_sites=["alpha"], bind="early")
        job["resources"] = {"work": RUN_S}
        group = client.submit(job).group
        until(lambda: starts.count() >= 4, "some jobs run", 30)
    gamma.start()
    return alpha, beta, gamma, group


def all_done_once(grid: Grid, starts: Starts, alpha: Site, group: str) -> Counter[str]:
    with alpha.client() as client:
        status = client.wait(group, timeout_s=90)
        assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
        assert dict(outcomes(client, group)) == dict.fromkeys(range(JOBS), "done")
    assert len(starts.all()) == JOBS and not starts.doubled(), starts.doubled()
    return Counter(start.site for start in starts.all())


def test_work_moves_to_a_site_that_came_later_without_an_order(grid: Grid, starts: Starts) -> None:
    alpha, _, _, group = waiting_at_beta(grid, starts)
    where = all_done_once(grid, starts, alpha, group)
    assert where["gamma"] >= JOBS // 4 and where["beta"] >= JOBS // 10 and not where["alpha"], where
    said = diana(alpha, "explain", group)
    assert " to gamma: beta has work that waits (" in said and "ahead there" in said, said


def test_kills_while_work_moves_by_itself_lose_and_double_nothing(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    alpha, beta, gamma, group = waiting_at_beta(grid, starts)
    until(lambda: "gamma" in alive(alpha), "gamma is linked", 20)
    for _ in range(3):
        time.sleep(chance.uniform(0.0, 6.0))
        victim = chance.choice((alpha, beta, gamma))
        victim.kill()
        victim.start()
    where = all_done_once(grid, starts, alpha, group)
    assert where["gamma"], where
