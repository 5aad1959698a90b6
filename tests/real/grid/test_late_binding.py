"""Late binding with real nodes: what cannot start waits at the origin, sites call for it as they come free, and a crash
on either side loses and doubles nothing."""

from __future__ import annotations

import time
from functools import partial

import pytest

from tests.e2e.grid import Grid, Starts, outcomes, until

pytestmark = pytest.mark.e2e

JOBS = 24
MANY = 60
"""So many that a slow machine does not end them before the stop."""


def two_sites(grid: Grid) -> None:
    grid.add("alpha", 1)
    grid.add("beta", 2)
    grid.join()
    grid.settings(binding="late")
    grid.start()


def job(starts: Starts, jobs: int = JOBS, work_s: float = 20.0) -> dict[str, object]:
    made = starts.job(jobs, then=["sleep", "0.5"])
    made["resources"] = {"work": work_s}
    return made


def test_jobs_wait_at_their_origin_and_are_called_by_the_sites_that_come_free(grid: Grid, starts: Starts) -> None:
    two_sites(grid)
    alpha = grid.sites["alpha"]
    with alpha.client() as client:
        group = client.submit(job(starts)).group
        until(lambda: 0 < client.status(group)[0].unplaced <= JOBS - 3, "some run, the others wait unbound", 10.0)
        shown = partial(grid.run, alpha, "status", "--data", str(alpha.data), group)
        until(lambda: "wait for their turn at" in shown().stdout, "the status says what they wait for", 10.0)
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", JOBS), status
        assert {share.site for share in status.shares} == {"alpha", "beta"}
        assert outcomes(client, group) == dict.fromkeys(range(JOBS), "done")
        reasons = {decision.reason for decision in client.explain(group).decisions}
        assert any(reason.startswith("their turn came at") for reason in reasons), reasons
    assert len(starts.all()) == JOBS and not starts.doubled()


@pytest.mark.parametrize("who", ["alpha", "beta"])
def test_a_kill_of_origin_or_site_in_the_middle_loses_and_doubles_no_waiting_job(
    grid: Grid, starts: Starts, who: str
) -> None:
    two_sites(grid)
    alpha, struck = grid.sites["alpha"], grid.sites[who]
    with alpha.client() as client:
        group = client.submit(job(starts)).group
        until(lambda: len(starts.all()) >= 4, "some have begun", 20.0)
    struck.kill()
    time.sleep(0.5)
    struck.start()
    with alpha.client() as client:
        status = client.wait(group, timeout_s=90)
        assert (status.state, status.done) == ("done", JOBS), status
    assert len(starts.all()) == JOBS and not starts.doubled()


def test_an_orderly_stop_of_the_origin_binds_what_waits_and_the_other_site_goes_on(grid: Grid, starts: Starts) -> None:
    two_sites(grid)
    alpha = grid.sites["alpha"]
    with alpha.client() as client:
        # As long as they are: else a site that has seen some end foretells less than one that has not, and keeps all.
        group = client.submit(job(starts, MANY, work_s=0.5)).group
        until(lambda: len(starts.all()) >= 4, "some have begun", 20.0)
        assert client.status(group)[0].unplaced > 0
    alpha.terminate()

    def at_beta() -> int:
        return sum(1 for start in starts.all() if start.site == "beta")

    before = at_beta()
    until(lambda: at_beta() >= before + 6, "beta starts what was bound to it while its origin is away", 20.0)
    alpha.start()
    with alpha.client() as client:
        status = client.wait(group, timeout_s=90)
        assert (status.state, status.done) == ("done", MANY), status
    assert len(starts.all()) == MANY and not starts.doubled()
