"""Nodes that stand still for longer than any lease, sites that are cut off for minutes, a wall clock that jumps by an
hour: no job is lost, and none is started twice (PROMISES section 1).

The settings are shortened, so that what takes minutes takes seconds. By hand, in full, with the settings as they are:

    DIANA_STOPPED_S=120 DIANA_CUT_S=600 .venv/bin/python -m pytest --timeout 2000 tests/real/faults -k away_for_long
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.e2e.grid import Grid, Site, Starts, outcomes, until
from tests.real.faults.wall_clock import WallClock, WithWallClock
from tests.real.hosts import cut, site_on
from tests.real.machines.test_three_machines import Lan

pytestmark = pytest.mark.e2e

SHORT = {"lease_s": 2.0, "suspect_after_s": 2.0, "resend_most_s": 1.0, "offer_wait_s": 1.0, "summary_every_s": 0.5}
STOPPED_S = float(os.environ.get("DIANA_STOPPED_S", "0"))
CUT_S = float(os.environ.get("DIANA_CUT_S", "0"))
SHORT_S = 4.5
"""More than two of the shortened leases."""
JOBS = 40
HOUR_S = 3600


def both_run(starts: Starts) -> None:
    until(lambda: starts.sites() == {"alpha", "beta"}, "both sites run", 20.0)


def ended_once(site: Site, group: str, starts: Starts, within_s: float = 60.0) -> None:
    with site.client() as client:
        status = client.wait(group, timeout_s=within_s)
        assert (status.state, status.done) == ("done", JOBS), status
        assert outcomes(client, group) == dict.fromkeys(range(JOBS), "done")
    assert starts.count() == JOBS and not starts.doubled()


def test_nodes_that_stand_still_beyond_every_lease_lose_and_double_nothing(grid: Grid, starts: Starts) -> None:
    alpha, beta = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    if not STOPPED_S:
        grid.settings(**SHORT)
    grid.start()
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS, ("sleep", "0.5"))).group
    both_run(starts)
    for site in (beta, alpha):
        assert site.process is not None
        site.process.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_S or SHORT_S)
        if site is beta:
            with alpha.client() as client:
                assert {other.site: other.state for other in client.sites()}["beta"] != "alive"
        site.process.send_signal(signal.SIGCONT)
    ended_once(alpha, group, starts)


@pytest.fixture
def lan() -> Iterator[Lan]:
    made = Lan(2)
    try:
        yield made
    finally:
        made.close()


def test_a_partition_beyond_every_lease_loses_and_doubles_nothing(lan: Lan, grid: Grid, starts: Starts) -> None:
    alpha = site_on(grid, lan, 1, "alpha", slots=2)
    site_on(grid, lan, 2, "beta", alpha, slots=2)
    if not CUT_S:
        grid.settings(**SHORT)
    grid.start()
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS, ("sleep", "0.5"))).group
        both_run(starts)
        cut(lan, 1, 2)
        time.sleep(CUT_S or SHORT_S)
        assert {other.site: other.state for other in client.sites()}["beta"] != "alive"
        cut(lan, 1, 2, heal=True)
    ended_once(alpha, group, starts, 90.0)


def test_a_wall_clock_that_jumps_by_an_hour_and_back_loses_and_doubles_nothing(grid: Grid, starts: Starts) -> None:
    clock = WallClock(grid.root)
    alpha, beta = grid.add("alpha", 2), grid.add("beta", 2)
    beta.__class__ = WithWallClock
    assert isinstance(beta, WithWallClock)
    beta.clock = clock
    grid.join()
    grid.start()
    with alpha.client() as client, beta.client() as other:
        group = client.submit(starts.job(JOBS, ("sleep", "0.3"))).group
        own = other.submit({"group": {"command": ["true"]}}).group
        both_run(starts)
        for seconds in (HOUR_S, -HOUR_S, 0):
            clock.move(seconds)
            seen = starts.count()
            starts.wait_for(min(seen + 4, JOBS), 20.0)
            # An hour back beta's certificates, minutes old, are not valid yet: it says so, and links again afterwards.
            if seconds >= 0:
                until(lambda: "beta" in {s.site for s in client.sites() if s.state == "alive"}, grid.story, 20.0)
            assert 0.0 <= other.status([own])[0].age_s < 120.0, "its own time did not jump"
    # A node that begins an hour ahead goes on from there.
    clock.move(HOUR_S)
    beta.kill()
    beta.start()
    clock.move(0)
    log = beta.paths.node_log.read_text().splitlines()
    assert log[0][:13] != log[-1][:13], "its clock was moved"
    ended_once(alpha, group, starts)
