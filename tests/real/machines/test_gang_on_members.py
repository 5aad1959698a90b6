"""A gang of which two components are on machines of one site (SPEC K5, D8)."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import pytest

from tests.e2e.grid import Grid, Site, outcomes, until
from tests.e2e.test_hold_retry import diana
from tests.real.gangs import APART_S, SITES, begins, by_gang, job_file, whole
from tests.real.members import Machine, add_member

pytestmark = pytest.mark.e2e


def test_components_on_members_begin_with_the_others_though_their_leader_is_killed_meanwhile(grid: Grid) -> None:
    alpha, beta = grid.add(SITES[0], 0), grid.add(SITES[1], 1)
    grid.join()
    grid.settings(claim_wait_s=60.0)
    grid.start()
    members = [add_member(grid, alpha, f"m{k}", slots=1) for k in (1, 2)]
    for member in members:
        member.launch()
    for member in members:
        member.ready()
    path, spawner = grid.root / "begins", members[1].spawner_pid()
    with beta.client() as client:
        until(lambda: {row.site: row.slots for row in client.sites()}.get(alpha.name) == 2, "alpha's machines", 20.0)
        os.kill(spawner, signal.SIGSTOP)
        places = [{"site": alpha.name, "cpus": 1, "count": 2}, {"site": beta.name}]
        group = client.submit({**job_file(path), "components": places}).group
        note = f"its components hold processors and wait for {alpha.name}"
        until(lambda: client.status(group)[0].note == note, "one of alpha's two is not at the barrier", 20.0)
    alpha.kill()
    alpha.start()
    assert not begins(path)
    os.kill(spawner, signal.SIGCONT)
    with beta.client() as client:
        assert client.wait(group, timeout_s=90).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"done"}
    found = begins(path)
    moments = [begin.at_s for begin in found]
    assert sorted((begin.rank, begin.site) for begin in found) == [(0, "alpha"), (1, "alpha"), (2, "beta")]
    assert max(moments) - min(moments) < APART_S, found


def two_members(grid: Grid) -> tuple[Site, Site, list[Machine]]:
    """alpha with three members, m3 of which is not started; beta, where gangs are submitted."""
    alpha, beta = grid.add(SITES[0], 0), grid.add(SITES[1], 1)
    grid.join()
    grid.settings(claim_wait_s=20.0)
    grid.start()
    members = [add_member(grid, alpha, f"m{k}", slots=1) for k in (1, 2, 3)]
    for member in members[:2]:
        member.launch()
    for member in members[:2]:
        member.ready()
    with beta.client() as client:
        until(lambda: {row.site: row.slots for row in client.sites()}.get(alpha.name) == 2, "alpha's machines", 20.0)
    return alpha, beta, members


PLACES = [{"site": "alpha", "cpus": 1, "count": 2}, {"site": "beta"}]


def lost(member: Machine) -> None:
    """The whole machine: its node, its spawner, and what ran there."""
    member.kill()
    spawner, jobs = member.spawner_pid(), member.jobs_alive()
    for pid in filter(None, (spawner, *jobs)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_gang_whose_member_is_lost_at_the_barrier_begins_whole_on_another(grid: Grid) -> None:
    _alpha, beta, (_m1, m2, m3) = two_members(grid)
    path, spawner = grid.root / "begins", beta.spawner_pid()
    os.kill(spawner, signal.SIGSTOP)
    with beta.client() as client:
        group = client.submit({**job_file(path), "components": PLACES}).group
        note = f"its components hold processors and wait for {beta.name}"
        until(lambda: client.status(group)[0].note == note, lambda: f"{client.status(group)}\n{grid.story()}", 20.0)
        lost(m2)
        m3.start()
        os.kill(spawner, signal.SIGCONT)
        assert client.wait(group, timeout_s=240).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"done"}
    ((*torn, last),) = by_gang(path).values()
    assert whole(last) and sorted(begin.site for begin in last) == ["alpha", "alpha", "beta"], (torn, last)


def test_a_gang_whose_member_is_lost_while_it_runs_is_held_and_retried_whole(grid: Grid) -> None:
    _alpha, beta, (_m1, m2, m3) = two_members(grid)
    path = grid.root / "begins"
    with beta.client() as client:
        group = client.submit({**job_file(path, run_s=15.0), "components": PLACES}).group
        until(lambda: len(begins(path)) == 3, lambda: f"all run\n{grid.story()}", 30.0)
        lost(m2)
        m2.start()
        m3.start()
        until(lambda: client.status(group)[0].held, lambda: f"{client.status(group)}\n{grid.story()}", 60.0)
        print(client.status(group)[0])
        diana(beta, "retry", "--held", group)
        assert client.wait(group, timeout_s=240).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"done"}
    ((first, last),) = by_gang(path).values()
    assert whole(first) and whole(last)
