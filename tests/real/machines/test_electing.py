"""The RootGrid is the most available machine of a site (SPEC D8), on real processes: the leader's machine flaps, the
standby's does not."""

from __future__ import annotations

import time

import pytest

from tests.e2e.grid import Grid, Site, Starts, until
from tests.real.pairs import add_standby, durability, in_sync, takes_over

pytestmark = pytest.mark.e2e

RESTARTS = 5
WITHIN_S = 60.0


def flapping_pair(grid: Grid, *, elect: bool) -> tuple[Site, Site]:
    """A pair without a witness, so that the standby takes over by no death of the leader: whoever leads in the end was
    elected, or stayed."""
    alpha = grid.add("alpha", own_vo=True)
    grid.settings(elect=elect)
    alpha.start()
    spare = add_standby(grid, alpha, "")
    spare.launch()
    in_sync(alpha, other=spare)
    with alpha.client() as client:
        until(lambda: len(client.peers().machines) == 2, "both machines are counted", 20.0, 0.2)
    for _ in range(RESTARTS):
        alpha.kill()
        alpha.launch()
        takes_over(alpha)
    return alpha, spare


def test_after_five_kills_of_the_leader_the_more_available_machine_leads(grid: Grid, starts: Starts) -> None:
    begun = time.monotonic()
    alpha, spare = flapping_pair(grid, elect=True)
    with alpha.client() as client:
        group = client.submit(starts.job(4, then=("sleep", "0.2"))).group
    flapped = time.monotonic()
    until(lambda: durability(spare) == 2, lambda: f"spare leads\n{spare.story()}\n{alpha.story()}", WITHIN_S, 0.2)
    print(f"flapped for {flapped - begun:.1f} s, elected {time.monotonic() - flapped:.1f} s later")
    assert durability(alpha) == 0
    with spare.client() as client:
        assert client.wait(group, timeout_s=60.0).done == 4
        rows = {row.machine: row for row in client.peers().machines}
    assert (rows["spare"].role, rows["main"].role) == ("RootGrid", "standby")
    # The hand-over itself is no going; on a busy machine the way back as a standby may be one.
    assert RESTARTS - 0.1 < rows["main"].goings < RESTARTS + 1.1
    assert rows["main"].availability < rows["spare"].availability - 0.02
    assert "hands over to spare: spare is more available than main" in alpha.story()
    time.sleep(15.0)
    assert durability(spare) == 2, "it stays with it"


def test_a_site_that_may_not_elect_tells_its_operator_the_command(grid: Grid) -> None:
    alpha, spare = flapping_pair(grid, elect=False)
    in_sync(alpha, other=spare)
    with alpha.client() as client:
        until(lambda: client.peers().to_lead == "spare", "it is proposed", WITHIN_S, 0.2)
        (row,) = (row for row in client.doctor() if row.name == "RootGrid")
    assert (row.state, row.mend) == ("warn", "diana site promote")
    assert "spare is more available than main" in row.found
    until(lambda: "hand over with: diana site promote" in alpha.story(), "the log says it", 30.0, 0.5)
    said = grid.run(alpha, "peers", "--data", str(alpha.data))
    assert "hand over with: diana site promote" in said.stdout and "AVAILABLE" in said.stdout, said
    assert durability(alpha) == 2
    told = grid.run(alpha, "site", "promote", "--data", str(alpha.data))
    assert told.returncode == 0, told
    takes_over(spare)
    in_sync(spare, other=alpha)
    with spare.client() as client:
        rows = {row.machine: row for row in client.peers().machines}
    assert RESTARTS - 0.1 < rows["main"].goings < RESTARTS + 1.1
