"""PROMISES section 4: two sites are cut off from each other for 10 s; work goes on, and 30 s later all is as before."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.grid import Grid, Starts, outcomes, timely, until
from tests.real.hosts import cut, site_on
from tests.real.machines.test_three_machines import Lan

pytestmark = pytest.mark.e2e

JOBS = 600
CUT_S = 10.0
HEALED_S = 30.0


@pytest.fixture
def lan() -> Iterator[Lan]:
    made = Lan(2)
    try:
        yield made
    finally:
        made.close()


def test_a_partition_of_ten_seconds_loses_and_doubles_nothing(lan: Lan, grid: Grid, starts: Starts) -> None:
    alpha = site_on(grid, lan, 1, "alpha", slots=4)
    site_on(grid, lan, 2, "beta", alpha, slots=4)
    grid.start()
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS, ("sleep", "0.2"))).group
    starts.wait_for(JOBS // 6)
    until(lambda: starts.sites() == {"alpha", "beta"}, "both sites run", 20)
    cut(lan, 1, 2)
    at_cut = starts.count()
    time.sleep(CUT_S)
    assert starts.count() > at_cut, "work goes on at both sites"
    cut(lan, 1, 2, heal=True)
    healed_s = time.monotonic()
    grid.meet(HEALED_S)
    print(f"linked {time.monotonic() - healed_s:.1f} s after healing")
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60)
        print(f"consistent {time.monotonic() - healed_s:.1f} s after healing")
        assert (status.state, status.done) == ("done", JOBS), status
        assert outcomes(client, group) == dict.fromkeys(range(JOBS), "done")
    assert len(starts.all()) == JOBS and not starts.doubled()
    timely(time.monotonic() - healed_s, HEALED_S + 15, "the healing")
