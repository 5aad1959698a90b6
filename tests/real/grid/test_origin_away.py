"""An origin is away: jobs that were handed over run on, jobs that wait for their turn wait for it, and nothing runs
twice when it is back. DIANA_AWAY_S=600 keeps it away for ten minutes, by hand."""

from __future__ import annotations

import os
import time

import pytest

from tests.e2e.grid import Grid, Starts, until

AWAY_S = float(os.environ.get("DIANA_AWAY_S", "15"))
RUN_S = 0.5
JOBS = int(4 * AWAY_S / RUN_S)
"""More than two slots get through in that time."""


@pytest.mark.timeout(120 + 5 * AWAY_S)
@pytest.mark.parametrize("binding", ["early", "late"])
def test_an_origin_is_away_and_what_was_handed_over_runs_on(grid: Grid, starts: Starts, binding: str) -> None:
    grid.add("alpha", 1)
    grid.add("beta", 2)
    grid.join()
    grid.settings(binding=binding, migration="off")
    grid.start()
    alpha = grid.sites["alpha"]
    made = starts.job(JOBS, then=["sleep", str(RUN_S)])
    made["resources"] = {"work": RUN_S}
    with alpha.client() as client:
        group = client.submit(made).group
        until(lambda: len(starts.all()) >= 6, "some have begun", 20.0)
        unbound = client.status(group)[0].unplaced
    assert bool(unbound) == (binding == "late")

    def at_beta() -> int:
        return sum(1 for start in starts.all() if start.site == "beta")

    before = at_beta()
    alpha.kill()
    time.sleep(AWAY_S)
    ran = at_beta() - before
    print(f"{binding}: {ran} jobs began at beta in {AWAY_S:g} s without their origin; {unbound} of {JOBS} were unbound")
    if binding == "early":
        assert ran >= AWAY_S / RUN_S, "two slots go on with what was handed over"
    else:
        # What was called for some seconds ahead, and no more.
        assert ran <= JOBS - unbound
    alpha.start()
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60 + 3 * AWAY_S)
        assert (status.state, status.done) == ("done", JOBS), status
    assert len(starts.all()) == JOBS and not starts.doubled()
