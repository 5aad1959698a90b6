"""Gangs that cannot begin, or are not to, on real nodes: nobody starts, the site is named, and no processor is kept
(SPEC K5)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site, outcomes, until
from tests.real.faults.wall_clock import WallClock, WithWallClock
from tests.real.gangs import SITES, begins, by_gang, job_file, whole

pytestmark = pytest.mark.e2e

HOUR_S = 3600


def three(grid: Grid) -> Site:
    for name in SITES:
        grid.add(name, 1)
    grid.join()
    grid.settings(claim_wait_s=5.0)
    return grid.sites["alpha"]


def all_free(grid: Grid, *names: str) -> None:
    """Ordinary jobs begin at these sites, and end."""
    for name in names or SITES:
        with grid.sites[name].client() as client:
            group = client.submit({"group": {"command": "true", "sites": [name]}}).group
            assert client.wait(group, timeout_s=30).state == "done", grid.story()


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "not-executable"])
def test_a_command_that_cannot_be_executed_at_one_site_has_nobody_start_and_the_site_is_named(
    grid: Grid, program: str, tmp_path: Path
) -> None:
    alpha, path = three(grid), grid.root / "begins"
    grid.start()
    if program == "not-executable":
        (tmp_path / program).write_text("#!/bin/sh\n")
        program = str(tmp_path / program)
    asked = job_file(path, sites=SITES[:2])
    asked["components"] = [{"site": "alpha"}, {"site": "beta"}, {"site": "gamma", "command": [program]}]
    with alpha.client() as client:
        group = client.submit(asked, options={"check_command": False}).group
        assert client.wait(group, timeout_s=90).state == "failed", grid.story()
        said = client.status(group)[0]
        assert program in said.note and "at site gamma" in said.note and (said.failed, said.cancelled) == (1, 2)
        assert outcomes(client, group) == {2: "not_started"}
        all_free(grid)
    assert not begins(path)


@pytest.mark.parametrize("waits", ["for a job", "for a spawner that stands still"])
def test_a_gang_one_of_which_never_comes_to_the_barrier_keeps_no_site_and_can_be_cancelled(
    grid: Grid, waits: str
) -> None:
    alpha, path = three(grid), grid.root / "begins"
    grid.start()
    spawner = grid.sites["gamma"].spawner_pid()
    with grid.sites["gamma"].client() as there, alpha.client() as client:
        if waits == "for a job":
            busy = there.submit({"group": {"command": ["sleep", "600"], "sites": ["gamma"]}}).group
            until(lambda: there.status(busy)[0].running == 1, "gamma is busy", 20)
        else:
            os.kill(spawner, signal.SIGSTOP)
        group = client.submit(job_file(path)).group
        note = "its components hold processors and wait for gamma"
        until(lambda: client.status(group)[0].note == note, lambda: str(client.status(group)), 30)
        until(lambda: "gamma had no processors" in client.status(group)[0].note, "it is given up", 30)
        all_free(grid, "alpha", "beta")
        until(lambda: client.status(group)[0].note == note, "it is claimed once more", 60)
        client.cancel(group)
        os.kill(spawner, signal.SIGCONT)
        if waits == "for a job":
            there.cancel(busy)
        assert client.wait(group, timeout_s=30).state == "cancelled"
    all_free(grid)
    assert not begins(path) and not any(site.jobs_alive() for site in grid.sites.values())


def test_clocks_an_hour_apart_that_jump_at_the_barrier_change_nothing(grid: Grid, tmp_path: Path) -> None:
    three(grid)
    clocks = {}
    for name, moved_s in (("beta", HOUR_S), ("gamma", 2 * HOUR_S)):
        site, folder = grid.sites[name], tmp_path / name
        site.__class__ = WithWallClock
        assert isinstance(site, WithWallClock)
        folder.mkdir()
        clocks[name] = site.clock = WallClock(folder)
        site.clock.move(moved_s)
    grid.start()
    spawner = grid.sites["gamma"].spawner_pid()
    os.kill(spawner, signal.SIGSTOP)
    path = grid.root / "begins"
    with grid.sites["alpha"].client() as client:
        # That whose clock is behind: none takes work that was signed in its future (docs/trust.md).
        group = client.submit(job_file(path, 4, 0.2)).group
        note = "its components hold processors and wait for gamma"
        until(lambda: client.status(group)[0].note == note, lambda: str(client.status(group)), 30)
        for clock in clocks.values():
            clock.move(0)
        os.kill(spawner, signal.SIGCONT)
        assert client.wait(group, timeout_s=60).state == "done", grid.story()
        assert set(outcomes(client, group).values()) == {"done"}
    gangs = by_gang(path)
    assert len(gangs) == 4 and all(whole(found) for (found,) in gangs.values()), gangs
