"""SPEC D9: sites that can only dial out are full peers, towards an open site and, through it, towards each other."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Starts, outcomes, until
from tests.real.hosts import site_on, wall
from tests.real.machines.test_three_machines import Lan, Machine

pytestmark = pytest.mark.e2e

JOBS = 60


@pytest.fixture
def lan() -> Iterator[Lan]:
    made = Lan(3)
    try:
        yield made
    finally:
        made.close()


def run(origin: Machine, starts: Starts, to: Path) -> set[str]:
    """A group from there, its outputs gathered there; where its jobs ran."""
    before = starts.count()
    job = starts.job(JOBS, ("sh", "-c", "echo $DIANA_INDEX > out-$DIANA_INDEX; sleep 0.3"))
    with origin.client() as client:
        group = client.submit({**job, "outputs": {"collect": ["out-{index}"], "to": str(to)}}).group
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", JOBS), (status, origin.story())
        assert outcomes(client, group) == dict.fromkeys(range(JOBS), "done")
        until(lambda: len(list(to.glob("out-*"))) == JOBS, lambda: f"all outputs\n{origin.story()}", 30)
    assert {p.name: p.read_text() for p in to.iterdir()} == {f"out-{n}": f"{n}\n" for n in range(JOBS)}
    mine = starts.all()[before:]
    assert len(mine) == JOBS
    return {start.site for start in mine}


def test_sites_behind_walls_submit_run_and_receive_work(lan: Lan, grid: Grid, starts: Starts) -> None:
    hub = site_on(grid, lan, 1, "hub", slots=1)
    claims = site_on(grid, lan, 2, "claims", hub)
    silent = site_on(grid, lan, 3, "silent", hub, advertise="none")
    wall(lan, 2)
    wall(lan, 3)
    for site in (hub, claims, silent):
        site.launch()
    for site in (hub, claims, silent):
        site.ready()
    began_s = time.monotonic()
    grid.meet(45)
    print(f"all three met within {time.monotonic() - began_s:.1f} s")
    for number, origin in enumerate((claims, silent, hub)):
        began_s = time.monotonic()
        ran = run(origin, starts, grid.root / f"out-{number}")
        print(f"{origin.name}: ran at {sorted(ran)} in {time.monotonic() - began_s:.1f} s")
        assert ran >= {"claims", "silent"}, (ran, grid.story())
    # Idle streams stand: nothing but keepalive for longer than three of its rounds.
    time.sleep(10)
    for site in (hub, claims, silent):
        assert not re.search(r"is gone|too many pings|too_many_pings", dict(site.texts())["node.log"]), site.story()


def test_two_walled_sites_meet_again_when_their_relay_comes_back(lan: Lan, grid: Grid) -> None:
    hub = site_on(grid, lan, 1, "hub", slots=1)
    one = site_on(grid, lan, 2, "one", hub, advertise="none")
    other = site_on(grid, lan, 3, "other", hub, advertise="none")
    wall(lan, 2)
    wall(lan, 3)
    grid.start()

    def sees(site: Machine, name: str) -> bool:
        with site.client() as client:
            return any(seen.site == name and seen.state == "alive" for seen in client.sites())

    hub.kill()
    until(lambda: not sees(one, "hub"), lambda: f"the loss shows\n{one.story()}", 30, 0.2)
    hub.start()
    grid.meet(30)
    assert sees(one, "other") and sees(other, "one")
