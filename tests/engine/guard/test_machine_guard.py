"""SPEC U10, D8: of several machines of a site one may be the black hole; the site goes on without it."""

from __future__ import annotations

import pytest

from diana.model.views.views import Sites
from tests.engine.bench import Grid
from tests.engine.builders import spec
from tests.engine.machines.test_workers import Machines


def site_of(**slots: int) -> tuple[Grid, Machines]:
    grid = Grid(alpha=0)
    machines = Machines(grid["alpha"], **slots)
    for name in slots:
        machines.ready(name)
    return grid, machines


def live(machines: Machines, *bad: str, rounds: int = 400) -> int:
    """Jobs that the bad machines failed until nothing was left to run."""
    failed = 0
    for _ in range(rounds):
        for name in bad:
            while some := machines.fail(name, 10**9):
                failed += some
        for name in machines.slots:
            if name not in bad:
                machines.end(name, machines.slots[name])
        if not any(machines.open(name) for name in machines.slots):
            return failed
        machines.pass_time(1.0)
    raise AssertionError("not over")


@pytest.mark.parametrize("slots", [{"m1": 4, "m2": 4, "m3": 4}, {"m1": 2, "m2": 40, "m3": 2}, {"m1": 2, "m2": 2}])
def test_a_machine_that_fails_what_it_gets_takes_little_and_the_others_do_the_rest(slots: dict[str, int]) -> None:
    grid, machines = site_of(**slots)
    machines.submit(spec(500), 500)
    failed = live(machines, "m2")
    group = grid["alpha"].group("alpha-1")
    assert (len(group.failed), len(group.done)) == (failed, 500 - failed)
    # Now and then it is tried with one.
    assert 0 < failed <= 20


def test_it_is_shown_at_its_site() -> None:
    grid, machines = site_of(m1=4, m2=4)
    machines.submit(spec(500), 500)
    machines.fail("m2", 3)
    sites = grid["alpha"].ask("sites")
    assert isinstance(sites, Sites)
    assert sites.sites[0].shown.note == "machine m2 fails jobs of alpha-1 at once"
    (row,) = sites.sites[0].guarded
    assert (row.shown.group, row.shown.machine, row.shown.stand) == ("alpha-1", "m2", "probation")
    now = machines.site.engine.core.now
    assert (row.since_s, row.until_s) == (now, now + 60.0)
    assert row.shown.why == "of the last 3 jobs 3 failed within 10.0 s"
    assert row.shown.lifts == "one job that does well on m2; diana retry alpha-1"
    # It is shown until one does well, with the time it began.
    machines.pass_time(61.0)
    machines.fail("m2", 1)
    sites = grid["alpha"].ask("sites")
    assert isinstance(sites, Sites)
    assert (sites.sites[0].guarded[0].since_s, sites.sites[0].guarded[0].until_s) == (now, now + 61.0 + 120.0)
    machines.pass_time(121.0)
    machines.end("m2", 1)
    sites = grid["alpha"].ask("sites")
    assert isinstance(sites, Sites) and sites.sites[0].guarded == ()


def test_a_machine_that_is_mended_gets_jobs_again() -> None:
    _, machines = site_of(m1=1, m2=4)
    machines.submit(spec(5000, work_s=1000.0), 5000)
    while machines.fail("m2", 10**9):
        pass
    machines.pass_time(61.0)
    assert machines.open("m2") == 1
    machines.end("m2", 1)
    machines.pass_time(1.0)
    assert machines.open("m2") >= 4


def test_a_group_that_fails_on_every_machine_fails_to_its_end() -> None:
    grid, machines = site_of(m1=4, m2=4)
    machines.submit(spec(300), 300)
    assert live(machines, "m1", "m2", rounds=5) == 300
    assert len(grid["alpha"].group("alpha-1").failed) == 300


def test_a_broken_machine_sends_nothing_of_the_group_away() -> None:
    grid = Grid(alpha=0, beta=1)
    machines = Machines(grid["alpha"], m1=8, m2=8)
    for name in ("m1", "m2"):
        machines.ready(name)
    machines.submit(spec(100, work_s=100.0, sites=("alpha", "beta")), 100)
    machines.fail("m1", 3)
    grid.settle()
    assert len(grid["alpha"].group("alpha-1").decisions) == 1
