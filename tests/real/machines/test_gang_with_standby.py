"""Gangs whose site of submission, or one of whose sites, is a pair: the machine that leads is killed for good while a
component stands at the barrier, and while all run, and the standby goes on (SPEC D8, K5, K7)."""

from __future__ import annotations

import os
import signal

import pytest

from diana.client import Client
from tests.e2e.grid import Grid, Site, outcomes, until
from tests.real.gangs import begins, by_gang, job_file, whole
from tests.real.members import add_member
from tests.real.pairs import add_standby, in_sync, takes_over, user_of

pytestmark = pytest.mark.e2e


def pair(grid: Grid, slots: int = 0) -> tuple[Site, Site]:
    """(The machine that leads alpha, its standby); beta, the witness, and gamma have a processor each."""
    alpha = grid.add("alpha", slots)
    grid.add("beta", 1)
    grid.add("gamma", 1)
    grid.join()
    # Longer than a takeover: the claims stand meanwhile.
    grid.settings(claim_wait_s=240.0)
    grid.start()
    spare = add_standby(grid, alpha, "beta")
    spare.launch()
    in_sync(alpha, other=spare)
    return alpha, spare


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_standby_of_the_origin_goes_on_with_a_gang_at_the_barrier_and_with_one_that_runs(
    grid: Grid, when: str
) -> None:
    alpha, spare = pair(grid)
    path, spawner = grid.root / "begins", grid.sites["gamma"].spawner_pid()
    credential = user_of(grid, alpha, spare)
    if when == "before":
        os.kill(spawner, signal.SIGSTOP)
    with Client(credential=credential) as client:
        group = client.submit(job_file(path, run_s=20.0, sites=("beta", "gamma"))).group
    with alpha.client() as client:
        if when == "before":
            note = "its components hold processors and wait for gamma"
            until(lambda: client.status(group)[0].note == note, lambda: f"{client.status(group)}\n{grid.story()}", 20)
        else:
            until(lambda: len(begins(path)) == 2, lambda: f"all run\n{grid.story()}", 30)
    alpha.kill()
    print(f"takeover after {takes_over(spare):.1f} s")
    if when == "before":
        assert not begins(path)
        os.kill(spawner, signal.SIGCONT)
    with Client(credential=credential) as client:
        ended = client.wait(group, timeout_s=240)
        assert (ended.state, ended.failed) == ("done", 0), f"{ended}\n{grid.story()}"
        assert set(outcomes(client, group).values()) == {"done"}
    ((found,),) = by_gang(path).values()
    assert whole(found, 2), found
    assert {begin.site for begin in found} == {"beta", "gamma"}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_component_on_a_member_goes_on_when_the_leader_of_its_site_is_lost(grid: Grid, when: str) -> None:
    alpha, spare = pair(grid)
    member = add_member(grid, alpha, "m1", slots=1)
    member.start()
    path, spawner, beta = grid.root / "begins", grid.sites["gamma"].spawner_pid(), grid.sites["beta"]
    if when == "before":
        os.kill(spawner, signal.SIGSTOP)
    with beta.client() as client:
        until(lambda: {row.site: row.slots for row in client.sites()}.get("alpha") == 1, "alpha's machine", 20)
        group = client.submit(job_file(path, run_s=20.0, sites=("alpha", "beta", "gamma"))).group
        if when == "before":
            note = "its components hold processors and wait for gamma"
            until(lambda: client.status(group)[0].note == note, lambda: f"{client.status(group)}\n{grid.story()}", 20)
        else:
            until(lambda: len(begins(path)) == 3, lambda: f"all run\n{grid.story()}", 30)
        member.root = None
        alpha.kill()
        print(f"takeover after {takes_over(spare):.1f} s")
        member.ready()
        if when == "before":
            assert not begins(path)
            os.kill(spawner, signal.SIGCONT)
        ended = client.wait(group, timeout_s=240)
        assert (ended.state, ended.failed) == ("done", 0), f"{ended}\n{grid.story()}"
        assert set(outcomes(client, group).values()) == {"done"}
    ((found,),) = by_gang(path).values()
    assert whole(found), found


def test_a_component_on_the_machine_that_led_is_waited_for_until_that_machine_is_back(grid: Grid) -> None:
    alpha, spare = pair(grid, slots=1)
    path, beta = grid.root / "begins", grid.sites["beta"]
    with beta.client() as client:
        group = client.submit(job_file(path, run_s=20.0, sites=("alpha", "beta", "gamma"))).group
        until(lambda: len(begins(path)) == 3, lambda: f"all run\n{grid.story()}", 30)
        # Its job runs on, as jobs of a node that is killed do.
        alpha.kill()
        print(f"takeover after {takes_over(spare):.1f} s")
        assert client.status(group)[0].gangs_running == 1
        alpha.launch()
        ended = client.wait(group, timeout_s=240)
        assert (ended.state, ended.failed) == ("done", 0), f"{ended}\n{grid.story()}"
        assert set(outcomes(client, group).values()) == {"done"}
    ((found,),) = by_gang(path).values()
    assert whole(found), found
