"""A node that is killed and started again over a thousand running jobs serves, in `make soak` within seconds, and loses
and doubles none of them (PROMISES section 4)."""

from __future__ import annotations

import os
import time

import pytest

from tests.e2e.grid import Grid, Starts, outcomes, timely, until

pytestmark = pytest.mark.e2e

JOBS = 1000
BACK_S = 10.0
"""Most seconds from the start of the process to its first answer, on a machine that others keep busy."""


def test_a_restart_over_a_thousand_live_jobs_takes_seconds_and_loses_none(grid: Grid, starts: Starts) -> None:
    alpha = grid.add("alpha", slots=JOBS)
    alpha.start()
    gate = grid.root / "gate"
    os.mkfifo(gate)
    with alpha.client() as client:
        # Each blocks in opening the pipe, at no cost, and ends when somebody opened it to write.
        group = client.submit(starts.job(JOBS, ("cat", str(gate)))).group
        starts.wait_for(JOBS, 60.0)
    spawner = alpha.spawner_pid()
    alpha.kill()
    begun_s = time.monotonic()
    alpha.start()
    took_s = time.monotonic() - begun_s
    print(f"serves {took_s:.1f} s after its start")
    timely(took_s, BACK_S, "its start")
    with alpha.client() as client:
        until(lambda: client.status([group])[0].running == JOBS, "all are known to run", BACK_S, 0.1)
    assert alpha.spawner_pid() == spawner
    os.close(os.open(gate, os.O_WRONLY))
    with alpha.client() as client:
        status = client.wait(group, timeout_s=60.0)
        assert (status.state, status.done) == ("done", JOBS), status
        assert outcomes(client, group) == dict.fromkeys(range(JOBS), "done")
    assert starts.count() == JOBS and not starts.doubled()
