"""A gang with `on_site_lost = "rerun"` whose site is lost while it runs: its machine ends what outlived the lease, and
the gang begins anew elsewhere when all of it is over (SPEC K7)."""

from __future__ import annotations

import os
import signal

import pytest

from tests.e2e.grid import Grid, outcomes, until
from tests.real.gangs import SITES, begins, by_gang, job_file, whole

pytestmark = pytest.mark.e2e

LEASE_S = 5.0
RUN_S = 1.1 * LEASE_S + 30.0 + 12.0
"""Longer than an origin waits for a silent site."""


@pytest.mark.parametrize("loses", [signal.SIGKILL, signal.SIGSTOP])
def test_a_gang_that_lost_a_site_while_it_ran_begins_anew_elsewhere_and_nothing_of_it_runs_beside(
    grid: Grid, loses: signal.Signals
) -> None:
    for name in SITES:
        grid.add(name, 1)
    grid.join()
    grid.settings(lease_s=LEASE_S)
    grid.start()
    path = grid.root / "begins"
    with grid.sites["alpha"].client() as client:
        group = client.submit(job_file(path, run_s=RUN_S, sites=("", ""), on_site_lost="rerun")).group
        until(lambda: len(begins(path)) == 2, lambda: f"{client.status(group)}\n{grid.story()}", 20)
        (lost,) = (begin.site for begin in begins(path) if begin.site != "alpha")
        other = next(name for name in SITES if name not in ("alpha", lost))
        process = grid.sites[lost].process
        assert process is not None
        os.kill(process.pid, loses)
        until(lambda: not grid.sites[lost].jobs_alive(), "its spawner ends what outlived the lease", 30)
        assert len(begins(path)) == 2
        assert client.wait(group, timeout_s=240).state == "done", grid.story()
        ((first, last),) = by_gang(path).values()
        assert {begin.site for begin in first} == {"alpha", lost} and {begin.site for begin in last} == {"alpha", other}
        assert whole(first, 2) and whole(last, 2)
        assert set(outcomes(client, group).values()) == {"done"}
        if loses is signal.SIGKILL:
            grid.sites[lost].kill()
            grid.sites[lost].start()
        else:
            os.kill(process.pid, signal.SIGCONT)
        until(lambda: {one.site for one in client.sites() if one.state == "alive"} >= {lost}, "it is back", 60)
        more = client.submit({"group": {"command": "true", "sites": [lost]}}).group
        assert client.wait(more, timeout_s=60).state == "done", "it takes work again"
    assert len(begins(path)) == 4
