"""A gang at three hosts of which two do not reach each other: nothing of it starts, and the pair is named (SPEC K6)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.grid import Grid, outcomes, until
from tests.real.gangs import begins, by_gang, job_file, whole
from tests.real.hosts import rule, site_on
from tests.real.machines.test_three_machines import Lan

pytestmark = pytest.mark.e2e


@pytest.fixture
def lan() -> Iterator[Lan]:
    made = Lan(4)
    try:
        yield made
    finally:
        made.close()


def test_a_pair_of_hosts_that_do_not_reach_each_other_is_named_and_nothing_starts(lan: Lan, grid: Grid) -> None:
    alpha = site_on(grid, lan, 1, "alpha", slots=1)
    beta = site_on(grid, lan, 2, "beta", alpha, slots=1)
    site_on(grid, lan, 3, "gamma", alpha, beta, slots=1)
    grid.settings(claim_wait_s=10.0)
    grid.start()
    node = beta.address.rpartition(":")[2]
    # Their nodes talk; what components of a gang say to each other is dropped on its way out.
    drop = ("OUTPUT", "-d", lan.ip(3), "-p", "tcp", "--syn", "!", "--dport", node, "-j", "DROP")
    rule(lan, 2, "-A", *drop)
    path = grid.root / "begins"
    with alpha.client() as client:
        group = client.submit(job_file(path)).group
        named = f"beta does not reach gamma at {lan.ip(3)}"
        until(lambda: named in client.status(group)[0].note, "the pair is named", 40)
        time.sleep(3.0)
        assert not begins(path)
        rule(lan, 2, "-D", *drop)
        assert client.wait(group, timeout_s=90).state == "done"
        assert set(outcomes(client, group).values()) == {"done"}
    ((found,),) = by_gang(path).values()
    assert whole(found), found
    assert {begin.hosts for begin in found} == {",".join(lan.ip(at) for at in (1, 2, 3))}


def test_a_gang_that_names_no_sites_goes_where_its_hosts_reach_each_other_by_itself(lan: Lan, grid: Grid) -> None:
    alpha = site_on(grid, lan, 1, "alpha", slots=1)
    beta = site_on(grid, lan, 2, "beta", alpha, slots=1)
    gamma = site_on(grid, lan, 3, "gamma", alpha, beta, slots=1)
    delta = site_on(grid, lan, 4, "delta", alpha, beta, gamma, slots=1)
    grid.settings(claim_wait_s=10.0)
    grid.start()
    node = beta.address.rpartition(":")[2]
    rule(lan, 2, "-A", "OUTPUT", "-d", lan.ip(3), "-p", "tcp", "--syn", "!", "--dport", node, "-j", "DROP")
    path, gate = grid.root / "begins", grid.root / "gate"
    with alpha.client() as client:
        # The fourth site is busy at first: else the gang might begin there, and meet nobody's wall.
        until_there = f"while [ ! -e {gate} ]; do sleep 0.05; done"
        busy = client.submit({"group": {"command": ["sh", "-c", until_there], "sites": [delta.name]}}).group
        until(lambda: client.status(busy)[0].running == 1, "delta is busy", 20)
        group = client.submit(job_file(path, sites=("", "", ""))).group
        named = f"beta does not reach gamma at {lan.ip(3)}"
        until(lambda: named in client.status(group)[0].note, lambda: f"{client.status(group)}\n{grid.story()}", 40)
        assert not begins(path)
        gate.touch()
        assert client.wait(group, timeout_s=120).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"done"}
    ((found,),) = by_gang(path).values()
    assert whole(found), found
    assert not {"beta", "gamma"} <= {begin.site for begin in found}
