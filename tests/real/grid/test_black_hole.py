"""With real nodes (SPEC U10, D7): a site that fails every job takes few of a group, and what waits at a site that
drains runs elsewhere."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.e2e.grid import Grid, Site, Starts, timely, until
from tests.e2e.test_hold_retry import diana

pytestmark = pytest.mark.e2e

JOBS = 500


def three(grid: Grid) -> tuple[Site, Site, Site]:
    sites = grid.add("alpha", 2), grid.add("beta", 4), grid.add("gamma", 2)
    grid.join()
    for site in sites:
        site.start()
    with sites[0].client() as client:
        until(lambda: sum(s.state == "alive" for s in client.sites()) == 3, "all are linked", 20)
    return sites


@pytest.mark.parametrize("bad", ["beta", "alpha"])
def test_a_site_where_every_job_fails_takes_ten_of_five_hundred(grid: Grid, starts: Starts, bad: str) -> None:
    alpha, *_ = three(grid)
    job = starts.job(JOBS, then=("sh", "-c", f'test "$DIANA_SITE" != {bad} && exec sleep 0.02'))
    with alpha.client() as client:
        group = client.submit(job).group
        status = client.wait(group, timeout_s=90)
        assert (status.done + status.failed, status.failed > 0) == (JOBS, True), status
    where = Counter(start.site for start in starts.all())
    assert where[bad] == status.failed <= 10 and not starts.doubled(), where
    assert f"{bad} fails them fast" in diana(alpha, "explain", group)
    shown = diana(alpha, "sites")
    assert f"fails jobs of {group} at once" in shown
    with alpha.client() as client:
        (row,) = next(site.guarded for site in client.sites() if site.site == bad)
    # By chance of which jobs were under way together it has failed all it may, or is tried with one more.
    barred = row.stand == "barred"
    assert (row.group, row.machine, barred or row.stand == "probation") == (group, "", True), row
    assert row.since_wall_s <= time.time() + 1, row
    assert row.until_wall_s == 0 if barred else row.until_wall_s > row.since_wall_s, row
    stand = "barred" if barred else "on probation"
    assert f"guard: {group} is {stand} at {bad} for " in shown, shown
    lifts = f"diana retry {group}, once {bad} is mended" if barred else f"one job that does well at {bad}; diana retry"
    assert f"; lifted by {lifts}" in shown, shown


def test_a_broken_job_alone_in_the_world_or_everywhere_fails_to_its_end_at_once(grid: Grid, starts: Starts) -> None:
    alpha, *_ = three(grid)
    with alpha.client() as client:
        for n, sites in enumerate((["alpha"], ["beta"], [])):
            began_s, before = time.monotonic(), starts.count()
            job = starts.job(100, then=("false",), name=f"broken{n}", sites=sites)
            status = client.wait(client.submit(job).group, timeout_s=60)
            assert (status.state, status.failed) == ("failed", 100)
            assert starts.count() - before == 100
            timely(time.monotonic() - began_s, 30, "the failed group")


def test_what_waits_at_a_site_that_drains_runs_elsewhere(grid: Grid, starts: Starts) -> None:
    alpha, beta, _ = three(grid)
    with alpha.client() as client:
        group = client.submit(starts.job(120, then=("sleep", "0.2"), not_sites=["alpha"], bind="early")).group
        until(lambda: {"beta", "gamma"} <= starts.sites(), "both run", 30)
        diana(beta, "site", "drain", "--reason", "power cut")
        until(lambda: "power cut" in diana(alpha, "explain", group), "alpha calls them back", 20)
        time.sleep(1.0)
        ran = Counter(start.site for start in starts.all())["beta"]
        status = client.wait(group, timeout_s=120)
        assert (status.state, status.done) == ("done", 120)
    where = Counter(start.site for start in starts.all())
    # Twelve at most were given to beta's machine when it drained; nothing came after them.
    assert ran <= where["beta"] <= ran + 12 and where["gamma"] > 40 and not starts.doubled(), where
    assert "drained" in diana(alpha, "sites")
