"""Moving jobs with real nodes (SPEC D7, U2 move): what waits runs elsewhere, what started stays, each once, also while
the sites are killed."""

from __future__ import annotations

import random
import re
import time
from collections import Counter

import pytest

from diana.errors import DianaError
from tests.e2e.grid import Grid, Site, Starts, outcomes, until
from tests.e2e.test_hold_retry import diana

pytestmark = pytest.mark.e2e

JOBS = 400


def at_beta(grid: Grid, starts: Starts) -> tuple[Site, Site, Site, str]:
    """A group of alpha's that waits at beta, since gamma came later."""
    alpha, beta, gamma = grid.add("alpha", 1), grid.add("beta", 2), grid.add("gamma", 4)
    grid.join()
    for site in (alpha, beta):
        site.start()
    with alpha.client() as client:
        until(lambda: "beta" in alive(alpha), "beta is linked", 20)
        job = starts.job(JOBS, then=("sleep", "0.1"), not_sites=["alpha"])
        group = client.submit(job).group
        until(lambda: starts.count() >= 8, "some jobs run", 30)
    gamma.start()
    until(lambda: "gamma" in alive(alpha), "gamma is linked", 20)
    return alpha, beta, gamma, group


def alive(site: Site) -> set[str]:
    with site.client() as client:
        return {other.site for other in client.sites() if other.state == "alive"}


def test_what_waits_is_moved_with_one_command(grid: Grid, starts: Starts) -> None:
    alpha, _, _, group = at_beta(grid, starts)
    said = diana(alpha, "move", group, "--to", "gamma")
    assert re.match(rf"{group}: moving \d+ jobs to gamma(; \d+ jobs? had started and runs? on)?$", said.strip()), said
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", JOBS)
        assert dict(outcomes(client, group)) == dict.fromkeys(range(JOBS), "done")
        assert sum(share.jobs for share in status.shares) == JOBS
    where = Counter(start.site for start in starts.all())
    assert where["gamma"] > 300 and where["beta"] >= 8 and not starts.doubled(), where
    assert "no site delta is known at alpha" in diana(alpha, "move", group, "--to", "delta", code=2)


def test_kills_while_jobs_move_to_and_fro_lose_and_double_nothing(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    alpha, beta, gamma, group = at_beta(grid, starts)
    for turn in range(6):
        with alpha.client() as client:
            try:
                client.move(group, ("gamma", "beta")[turn % 2])
            except DianaError as error:
                assert re.search("nothing to move|does not answer, last heard of", str(error)), error
        time.sleep(chance.uniform(0.0, 0.4))
        victim = chance.choice((alpha, beta, gamma))
        victim.kill()
        victim.start()
        time.sleep(chance.uniform(0.0, 0.5))
    with alpha.client() as client:
        status = client.wait(group, timeout_s=90)
        assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
        assert dict(outcomes(client, group)) == dict.fromkeys(range(JOBS), "done")
    assert len(starts.all()) == JOBS and not starts.doubled(), starts.doubled()
