"""Gangs over real nodes one site of which is drained, or announces a maintenance: what holds processors there goes
elsewhere whole, what runs there runs on, and what may run nowhere else waits and says for whom (SPEC D8, K5)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from diana.errors import Unplaceable
from tests.e2e.grid import Grid, Site, outcomes, until
from tests.e2e.test_hold_retry import diana
from tests.real.gangs import begins, by_gang, job_file, whole
from tests.real.grid.test_maintenance import HOUR_S, announced

pytestmark = pytest.mark.e2e


def why(name: str) -> str:
    return f"new switches at {name}"


@pytest.fixture
def alpha(grid: Grid) -> Site:
    """Origin of gangs, without processors of its own; three other sites have one each."""
    grid.add("alpha", 0)
    for name in ("beta", "gamma", "delta"):
        grid.add(name, 1)
    grid.join()
    grid.settings(claim_wait_s=60.0)
    grid.start()
    return grid.sites["alpha"]


def drain(grid: Grid, name: str) -> None:
    """Until the origin has heard of it."""
    diana(grid.sites[name], "site", "drain", "--reason", why(name))
    with grid.sites["alpha"].client() as client:
        until(lambda: any(row.site == name and why(name) in row.note for row in client.sites()), f"{name} drains", 20)


def ends(grid: Grid, group: str) -> None:
    with grid.sites["alpha"].client() as client:
        ended = client.wait(group, timeout_s=90)
        assert (ended.state, ended.failed) == ("done", 0), f"{ended}\n{grid.story()}"
        assert set(outcomes(client, group).values()) == {"done"}


def one_attempt(path: Path, *sites: str) -> None:
    """All of the gang began once, together, at these sites."""
    ((found,),) = by_gang(path).values()
    assert whole(found, len(sites)) and {begin.site for begin in found} == set(sites), found


@pytest.mark.parametrize("drained", ["beta", "gamma"], ids=["which holds processors", "for which the others wait"])
def test_a_gang_at_the_barrier_goes_elsewhere_whole_when_one_of_its_sites_is_drained(
    grid: Grid, alpha: Site, drained: str
) -> None:
    path, spawner = grid.root / "begins", grid.sites["gamma"].spawner_pid()
    os.kill(spawner, signal.SIGSTOP)
    with alpha.client() as client:
        # Where nothing else differs, sites are taken by name.
        drain(grid, "delta")
        group = client.submit(job_file(path, sites=("", ""))).group
        note = "its components hold processors and wait for gamma"
        until(lambda: client.status(group)[0].note == note, lambda: f"{client.status(group)}\n{grid.story()}", 20)
        diana(grid.sites["delta"], "site", "undrain")
        until(lambda: not any(row.note for row in client.sites()), "delta takes work", 20)
        drain(grid, drained)
        until(lambda: why(drained) in diana(alpha, "explain", group), "why it went back", 20)
        os.kill(spawner, signal.SIGCONT)
    ends(grid, group)
    one_attempt(path, *({"beta", "gamma", "delta"} - {drained}))


def test_a_gang_that_names_a_drained_site_is_refused_and_one_that_waited_for_it_before_goes_on_waiting(
    grid: Grid, alpha: Site
) -> None:
    path, gate = grid.root / "begins", grid.root / "gate"
    with alpha.client() as client:
        until_there = f"while [ ! -e {gate} ]; do sleep 0.05; done"
        busy = client.submit({"group": {"command": ["sh", "-c", until_there], "sites": ["gamma"]}}).group
        until(lambda: client.status(busy)[0].running == 1, "gamma is busy", 20)
        group = client.submit(job_file(path, sites=("beta", "gamma"))).group
        drain(grid, "gamma")
        until(lambda: why("gamma") in client.status(group)[0].note, lambda: f"{client.status(group)}", 20)
        gate.touch()
        assert why("gamma") in diana(alpha, "explain", group)
        with pytest.raises(Unplaceable, match=f"gamma is drained: {why('gamma')}"):
            client.submit(job_file(path, sites=("beta", "gamma")))
        # It holds nothing meanwhile: its other site works for others.
        other = client.submit({"group": {"command": "true", "sites": ["beta"]}}).group
        assert client.wait(other, timeout_s=20).state == "done"
    assert not begins(path)
    diana(grid.sites["gamma"], "site", "undrain")
    ends(grid, group)
    one_attempt(path, "beta", "gamma")


def test_a_component_that_runs_at_a_site_that_is_drained_runs_to_its_end(grid: Grid, alpha: Site) -> None:
    path = grid.root / "begins"
    with alpha.client() as client:
        group = client.submit(job_file(path, run_s=8.0, sites=("beta", "gamma"))).group
        until(lambda: len(begins(path)) == 2, "all components run", 30)
        drain(grid, "gamma")
        assert client.status(group)[0].running, "it is drained while they run"
    ends(grid, group)
    one_attempt(path, "beta", "gamma")


def limited(path: Path, limit_s: float, *sites: str) -> dict[str, object]:
    return {**job_file(path, sites=sites), "resources": {"time": f"{limit_s:g}s", "work": 0.5}}


def test_a_gang_that_would_not_end_before_a_maintenance_begins_elsewhere_or_after_it(grid: Grid, alpha: Site) -> None:
    free, named, short = (grid.root / name for name in ("free", "named", "short"))
    now_s = time.time()
    diana(grid.sites["beta"], *announced(now_s + HOUR_S, now_s + 2 * HOUR_S))
    with alpha.client() as client:
        until(lambda: "maintenance from" in diana(alpha, "sites"), "alpha hears of it", 10)
        anywhere = client.submit(limited(free, 2 * HOUR_S, "", "")).group
        ends(grid, anywhere)
        one_attempt(free, "gamma", "delta")
        waits = client.submit(limited(named, 2 * HOUR_S, "beta", "gamma")).group
        until(
            lambda: "beta, which announces maintenance from" in client.status(waits)[0].note,
            lambda: f"{client.status(waits)}",
            20,
        )
        # One that ends in time does not wait behind it.
        quick = client.submit(limited(short, 20.0, "beta", "gamma")).group
        ends(grid, quick)
        one_attempt(short, "beta", "gamma")
        assert not begins(named) and client.status(waits)[0].gangs_waiting == 1
    diana(grid.sites["beta"], "site", "undrain")
    ends(grid, waits)
    one_attempt(named, "beta", "gamma")


def test_a_gang_at_the_barrier_goes_elsewhere_when_a_maintenance_of_its_site_begins(grid: Grid, alpha: Site) -> None:
    path, spawner = grid.root / "begins", grid.sites["gamma"].spawner_pid()
    os.kill(spawner, signal.SIGSTOP)
    with alpha.client() as client:
        drain(grid, "delta")
        group = client.submit(limited(path, HOUR_S, "", "")).group
        note = "its components hold processors and wait for gamma"
        until(lambda: client.status(group)[0].note == note, lambda: f"{client.status(group)}\n{grid.story()}", 20)
        diana(grid.sites["delta"], "site", "undrain")
        diana(grid.sites["beta"], *announced(time.time() + 3.0, time.time() + HOUR_S))
        until(lambda: "is drained: maintenance until" in diana(alpha, "explain", group), "why it went back", 20)
        os.kill(spawner, signal.SIGCONT)
    ends(grid, group)
    one_attempt(path, "gamma", "delta")
