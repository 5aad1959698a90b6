"""The real thing here: nodes on hosts of their own (network namespaces), which find each other by multicast, and their
deaths by kill -9: of a site in mid-group, and of a leader whose standby takes over with a witness."""

from __future__ import annotations

import pytest

from diana.client import Client
from tests.e2e.grid import MEET_S, Grid, Starts, outcomes, until
from tests.real.hosts import site_on
from tests.real.machines.test_three_machines import Lan, Machine
from tests.real.pairs import add_standby, in_sync, takes_over

pytestmark = pytest.mark.e2e

JOBS = 60
ALL = {"alpha", "beta", "gamma"}


def all_done(client: Client, group: str, starts: Starts, grid: Grid) -> None:
    status = client.wait(group, timeout_s=90)
    assert (status.state, status.done) == ("done", JOBS), f"{status}\n{grid.story()}"
    assert dict(outcomes(client, group)) == dict.fromkeys(range(JOBS), "done")
    assert starts.count() == JOBS and not starts.doubled(), starts.doubled()


def test_three_nodes_that_were_told_of_nobody_lose_and_double_nothing_though_a_site_and_a_leader_are_killed(
    lan: Lan, grid: Grid, starts: Starts
) -> None:
    alpha, _, gamma = (
        site_on(grid, lan, number, name, slots=2, zeroconf=True)
        for number, name in enumerate(("alpha", "beta", "gamma"), 1)
    )
    grid.start()
    spare = add_standby(grid, alpha, "beta", made=Machine(grid, lan, 4, "spare"))
    spare.launch()
    # A leader begins anew with its first standby.
    in_sync(alpha, other=spare)

    with alpha.client() as client:
        # And knows nobody at first.
        until(lambda: {seen.site for seen in client.sites() if seen.state == "alive"} >= ALL, grid.story, MEET_S)
        group = client.submit(starts.job(JOBS, then=("sleep", "0.5"), bind="early")).group
        starts.wait_for(JOBS // 3)
        gamma.kill()
        gamma.start()
        all_done(client, group, starts, grid)
        assert starts.sites() == ALL, f"{client.explain(group).decisions}\n{grid.story()}"

    starts.path.write_text("")
    with alpha.client() as client:
        # What runs at a dead leader's own machine would wait until that is back.
        group = client.submit(starts.job(JOBS, then=("sleep", "0.5"), sites=["beta", "gamma"])).group
        assert client.status([group])[0].durability == 2
    starts.wait_for(JOBS // 3)
    alpha.kill()
    print(f"spare leads after {takes_over(spare):.1f} s")
    with spare.client() as client:
        all_done(client, group, starts, grid)
