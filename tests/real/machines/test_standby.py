"""A standby on real nodes: the leader lost or stopped while a group runs (D8; PROMISES 1.1-1.8, section 2 Standby)."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from diana.adapters.trust import certificates
from diana.client import Client
from tests.e2e.grid import Grid, Site, Starts, outcomes, until
from tests.real.pairs import IN_SYNC_S, add_standby, durability, in_sync, takes_over, user_of

pytestmark = pytest.mark.e2e

FULL = bool(os.environ.get("DIANA_FULL"))
JOBS = 5000 if FULL else 300
JOB_S = "0.5" if FULL else "0.1"
KILLS = 20 if FULL else 1
STOPS = (5, 5, 5, 30, 30, 30, 120, 120, 120) if FULL else (30,)
END_S = 900.0 if FULL else 90.0
WAITING_JOBS = 120


def alpha_with_standby(grid: Grid) -> tuple[Site, Site]:
    """alpha gives all its work to beta and gamma; beta is its witness."""
    alpha = grid.add("alpha", 0)
    grid.add("beta", 4)
    grid.add("gamma", 4)
    grid.join()
    grid.start()
    spare = add_standby(grid, alpha, "beta")
    spare.launch()
    in_sync(alpha)
    return alpha, spare


def all_done(client: Client, group: str, starts: Starts, jobs: int = JOBS) -> None:
    status = client.wait(group, timeout_s=END_S)
    assert (status.state, status.done) == ("done", jobs), status
    assert dict(outcomes(client, group)) == dict.fromkeys(range(jobs), "done")
    assert len(starts.all()) == jobs and not starts.doubled()


def test_the_standby_takes_over_from_a_killed_leader_and_nothing_is_lost_or_doubled(
    grid: Grid, starts: Starts, chance: random.Random
) -> None:
    leader, other = alpha_with_standby(grid)
    credential = user_of(grid, leader, other)
    with Client(credential=credential) as client:
        group = client.submit(starts.job(JOBS, then=("sleep", JOB_S))).group
        assert client.status([group])[0].durability == 2
    took: list[float] = []
    for kill in range(KILLS):
        starts.wait_for(JOBS * (kill + 1) // (KILLS + 3), END_S)
        time.sleep(chance.uniform(0.0, 0.5))
        leader.kill()
        took.append(takes_over(other))
        leader.launch()
        leader, other = other, leader
        in_sync(leader)
    print("takeovers after", *(f"{seconds:.1f}" for seconds in took), "s")
    assert durability(other) == 0
    with Client(credential=credential) as client:
        all_done(client, group, starts)


def test_jobs_that_wait_for_their_turn_when_the_leader_dies_are_called_from_the_standby(
    grid: Grid, starts: Starts
) -> None:
    """Reservations are volatile: the standby prices the group anew, and the sites hear of it from there (D3, D8)."""
    leader, spare = alpha_with_standby(grid)
    credential = user_of(grid, leader, spare)
    job = starts.job(WAITING_JOBS, then=("sleep", "0.5"), bind="late")
    job["resources"] = {"work": 20}
    with Client(credential=credential) as client:
        group = client.submit(job).group
    with leader.client() as client:
        starts.wait_for(12, END_S)
        waited = client.status(group)[0].unplaced
    leader.kill()
    assert waited > WAITING_JOBS // 2
    takes_over(spare)
    with Client(credential=credential) as client:
        until(lambda: 0 < client.status(group)[0].unplaced < waited, "they are called from the standby", 20.0)
        all_done(client, group, starts, WAITING_JOBS)


def test_a_standby_renews_its_certificate_through_the_leader_while_it_follows(grid: Grid) -> None:
    alpha = grid.add("alpha", own_vo=True)
    alpha.start()
    spare = add_standby(grid, alpha, "")
    certificates.issue_site(alpha.paths.keys, "alpha", spare.paths.keys, valid_days=30.0 / 86_400.0)
    path = spare.paths.keys / "site.pem"
    before_s = certificates.dates_of_chain(path.read_bytes()).until_s
    spare.launch()
    until(
        lambda: certificates.dates_of_chain(path.read_bytes()).until_s > before_s + 3600.0,
        lambda: f"the standby's certificate was renewed\n{spare.story()}\n{alpha.story()}",
        IN_SYNC_S,
        0.1,
    )
    in_sync(alpha)


def test_a_leader_that_stops_for_five_seconds_leads_on(grid: Grid, starts: Starts) -> None:
    alpha, spare = alpha_with_standby(grid)
    assert alpha.process is not None
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS, then=("sleep", JOB_S))).group
    starts.wait_for(JOBS // 4, END_S)
    alpha.process.send_signal(signal.SIGSTOP)
    time.sleep(5.0)
    alpha.process.send_signal(signal.SIGCONT)
    with alpha.client() as client:
        all_done(client, group, starts)
    in_sync(alpha)
    assert durability(spare) == 0


@pytest.mark.parametrize("stop_s", sorted({stop_s for stop_s in STOPS if stop_s > 5}))
def test_a_leader_that_wakes_too_late_follows_the_one_that_took_over(grid: Grid, starts: Starts, stop_s: int) -> None:
    leader, other = alpha_with_standby(grid)
    with leader.client() as client:
        group = client.submit(starts.job(JOBS, then=("sleep", JOB_S))).group
    starts.wait_for(JOBS // 10, END_S)
    for _ in range(STOPS.count(stop_s)):
        begun = time.monotonic()
        assert leader.process is not None
        leader.process.send_signal(signal.SIGSTOP)
        print(f"takeover after {takes_over(other):.1f} s")
        time.sleep(max(0.0, begun + stop_s - time.monotonic()))
        leader.process.send_signal(signal.SIGCONT)
        leader, other = other, leader
        in_sync(leader)
        assert durability(other) == 0
    with leader.client() as client:
        all_done(client, group, starts)
    told = grid.run(other, "status", "--data", str(other.data))
    assert told.returncode == 4
    name = "spare" if leader.name == "spare" else "main"
    assert told.stderr == f"diana: alpha's RootGrid is {name} at {leader.address}; this is its standby\n"


def test_an_operator_hands_over_and_back(grid: Grid, starts: Starts) -> None:
    alpha, spare = alpha_with_standby(grid)
    with alpha.client() as client:
        group = client.submit(starts.job(JOBS, then=("sleep", "0.05"))).group
    starts.wait_for(JOBS // 10)
    done = grid.run(alpha, "site", "promote", "--data", str(alpha.data))
    assert (done.returncode, done.stdout) == (0, "spare leads alpha now\n"), done
    takes_over(spare)
    in_sync(spare)
    done = grid.run(spare, "site", "promote", "--data", str(spare.data))
    assert done.returncode == 0, done
    takes_over(alpha)
    in_sync(alpha)
    with alpha.client() as client:
        all_done(client, group, starts)


def test_without_a_witness_only_an_operators_force_replaces_a_dead_leader(grid: Grid) -> None:
    alpha = grid.add("alpha", 1)
    grid.join()
    grid.start()
    spare = add_standby(grid, alpha, "")
    spare.launch()
    in_sync(alpha)
    with alpha.client() as client:
        group = client.submit({"group": {"command": ["sleep", "60"]}, "sweep": {"array": "0-9"}}).group
    alpha.kill()
    time.sleep(9.0)
    assert durability(spare) == 0
    refused = grid.run(spare, "site", "promote", "--data", str(spare.data))
    assert refused.returncode == 2 and "diana site promote --force" in refused.stderr
    done = grid.run(spare, "site", "promote", "--force", "--data", str(spare.data))
    assert (done.returncode, done.stdout) == (0, "spare leads alpha\n"), done
    takes_over(spare)
    with spare.client() as client:
        (status,) = client.status([group])
        assert status.jobs == 10 and not status.final, status
    alpha.launch()
    in_sync(spare)
    assert durability(alpha) == 0
