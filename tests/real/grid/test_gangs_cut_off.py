"""A site of a gang is cut off before the gang is let go, and after the others were told (SPEC K5)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.e2e.grid import Grid, outcomes, until
from tests.real.gangs import begins, by_gang, job_file, whole
from tests.real.hosts import cut, site_on
from tests.real.machines.test_three_machines import Lan

pytestmark = pytest.mark.e2e

CLAIM_WAIT_S = 10.0
LATE_S = 4.0
BEYOND_S = CLAIM_WAIT_S + 24.0
"""More than a claim stands for."""


@pytest.fixture
def lan() -> Iterator[Lan]:
    made = Lan(3)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    ("runner", "cut_s"),
    [("", BEYOND_S), ("none", BEYOND_S), ("none", LATE_S)],
    ids=["before", "after some were told", "after some were told, for moments"],
)
def test_a_site_that_is_cut_off_while_a_gang_waits_at_the_barrier_tears_no_gang(
    lan: Lan, grid: Grid, runner: str, cut_s: float
) -> None:
    alpha = site_on(grid, lan, 1, "alpha", slots=1)
    beta = site_on(grid, lan, 2, "beta", alpha, slots=1)
    gamma = site_on(grid, lan, 3, "gamma", alpha, beta, slots=1)
    grid.settings(claim_wait_s=CLAIM_WAIT_S)
    grid.start()
    path, spawner = grid.root / "begins", gamma.spawner_pid()
    torn_s = cut_s if runner and cut_s == BEYOND_S else 0.0
    os.kill(spawner, signal.SIGSTOP)
    with alpha.client() as client:
        # Before: sites whose components talk look for each other's hosts, which beta cannot be asked for any more.
        group = client.submit({**job_file(path, run_s=torn_s + 5.0), "gang": {"runner": runner or "env"}}).group
        note = "its components hold processors and wait for gamma"
        until(lambda: client.status(group)[0].note == note, lambda: f"{client.status(group)}\n{grid.story()}", 20)
        # From the third, too, which would pass on what they say.
        for other in (1, 3):
            cut(lan, 2, other)
        os.kill(spawner, signal.SIGCONT)
        cut_at_s = time.monotonic()
        if runner:
            until(lambda: len(begins(path)) == 2, "those that are told begin", 20)
        time.sleep(max(0.0, cut_at_s + cut_s - time.monotonic()))
        assert {begin.site for begin in begins(path)} == ({"alpha", "gamma"} if runner else set())
        for other in (1, 3):
            cut(lan, 2, other, heal=True)
        assert client.wait(group, timeout_s=150).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"done"}
    ((*torn, last),) = by_gang(path).values()
    assert len(torn) == bool(torn_s) and sorted(begin.rank for begin in last) == [0, 1, 2], (torn, last)
    assert cut_s == LATE_S or whole(last)
