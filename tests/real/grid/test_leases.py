"""A site is lost while it runs jobs with on_site_lost = "rerun": its spawner ends them, they run elsewhere, and what it
tells when it is back is put aside (PROMISES 1.7 and section 2, "Leases")."""

from __future__ import annotations

import time

import pytest

from tests.e2e.grid import Grid, Starts, outcomes, timely, until

pytestmark = pytest.mark.e2e

JOBS = 4
LEASE_S = 4.0
WAIT_S = 1.1 * LEASE_S + 30.0
THERE = """
test $DIANA_EPOCH -gt 1 && exec sleep 0.1
test $DIANA_INDEX = 0 && exec sleep 1.5
trap '' TERM
while :; do sleep 1; done
"""
"""At the first site job 0 ends within the lease, the others heed no TERM; elsewhere all are quick."""


def test_a_site_that_is_killed_loses_its_jobs_to_another_and_its_results_come_too_late(
    grid: Grid, starts: Starts
) -> None:
    alpha, beta, gamma = grid.add("alpha", 1), grid.add("beta", JOBS), grid.add("gamma", JOBS)
    grid.join()
    grid.settings(lease_s=LEASE_S, migration="off")
    for site in (alpha, beta):
        site.launch()
    for site in (alpha, beta):
        site.ready()
    job = starts.job(JOBS, ("sh", "-c", THERE), not_sites=["alpha"], on_site_lost="rerun")
    with alpha.client() as client:
        until(lambda: {s.site for s in client.sites() if s.state == "alive"} >= {"alpha", "beta"}, "they meet", 20.0)
        group = client.submit(job).group
    until(lambda: starts.count() == JOBS, grid.story, 20.0)
    gamma.launch()
    beta.kill()
    lost_s = time.monotonic()
    gamma.ready()
    # TERM at the end of the lease, KILL five seconds later, with no node to say so.
    until(lambda: not beta.jobs_alive(), grid.story, LEASE_S + 8.0)
    ended_s = time.monotonic() - lost_s
    timely(ended_s, LEASE_S + 8.0, "the end of the lease")
    assert ended_s > 1.0 and starts.sites() == {"beta"}
    with alpha.client() as client:
        (status,) = client.status([group])
        assert (status.state, status.unreachable) == ("unreachable", JOBS), status
        assert "are placed anew in" in status.note
        status = client.wait(group, timeout_s=WAIT_S + 20.0)
        assert (status.state, status.done) == ("done", JOBS), status
        decided = client.explain(group).decisions[-1]
        assert "beta was silent for its lease of 4 s" in decided.reason and "on_site_lost = rerun" in decided.reason
    assert time.monotonic() - lost_s >= WAIT_S - LEASE_S
    before = starts.count()
    assert before == 2 * JOBS and starts.sites() == {"beta", "gamma"}

    beta.start()
    with beta.client() as client:
        until(lambda: client.info().queued_jobs + client.info().running_jobs == 0, beta.story, 15.0)
    with alpha.client() as client:
        until(lambda: {s.site for s in client.sites() if s.state == "alive"} >= {"beta"}, "it is back", 20.0)
        assert outcomes(client, group) == dict.fromkeys(range(JOBS), "done")
        assert {result.site for result in client.results(group)} == {"gamma"}
        # The site has work again, as soon as it has written down what is no longer its.
        more = client.submit(starts.job(2, ("true",), sites=["beta"], on_site_lost="rerun")).group
        assert client.wait(more, timeout_s=20.0).state == "done"
    assert starts.count() == before + 2
