"""The gangs of a group on its page: who holds processors, who is waited for, and how far apart the components began."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from diana.client import Client
from tests.e2e.grid import REPO, Grid, until
from tests.web.conftest import Window

RING = REPO / "examples" / "koala" / "ring.py"
SITES = ("alpha", "beta", "gamma")


@pytest.fixture
def three(grid: Grid) -> Grid:
    for name in SITES:
        grid.add(name, 2)
    grid.join()
    grid.settings(claim_wait_s=300.0)
    grid.start()
    return grid


def busy(grid: Grid, site: str, until_there: Path) -> str:
    """Have all processors of the site be taken until that file is there; return the group."""
    with grid.sites[site].client() as client:
        command = ["sh", "-c", 'while ! [ -e "$0" ]; do sleep 0.2; done', str(until_there)]
        group = client.submit({"group": {"command": command, "sites": [site]}, "sweep": {"n": "1-2"}}).group
        until(lambda: client.status(group)[0].running == 2, f"{site} is busy", 20)
        return group


def ring(client: Client, keep_s: float, rounds: int = 1) -> str:
    command = [sys.executable, str(RING), str(keep_s)]
    job = {"group": {"name": "ring", "command": command}, "components": [{"site": site, "cpus": 1} for site in SITES]}
    return client.submit(job | ({"sweep": {"round": f"1-{rounds}"}} if rounds > 1 else {})).group


def opened(window: Window, client: Client, where: str) -> Page:
    window.page.goto(client.dashboard().url)
    expect(window.page.locator("#site")).to_have_text("alpha")
    window.page.evaluate("where => { location.hash = where }", f"#/group/{where}")
    return window.page


def rows(page: Page) -> dict[str, list[str]]:
    """Site -> cells of its row in the table of the first gang."""
    found = page.locator(".gang").first.locator("tbody tr")
    cells = [[text.strip() for text in found.nth(at).locator("td").all_inner_texts()] for at in range(found.count())]
    return {row[0]: row[1:] for row in cells}


def test_a_gang_that_waits_says_for_whom_and_one_that_ran_how_far_apart_its_components_began(
    three: Grid, window: Window
) -> None:
    free = three.root / "free"
    busy(three, "beta", free)
    with three.sites["alpha"].client() as client:
        group = ring(client, 0.1)
        page = opened(window, client, group)
        title = page.locator(".gang h3")
        expect(title).to_have_text(
            re.compile(
                r"^Gang 0: has waited [\d.]+ s for beta; alpha, gamma hold processors; given up in \d+ (s|min) if"
            )
        )
        expect(page.locator("details tbody tr", has_text="the job names it, takes 1 of")).to_have_count(3)
        found = rows(page)
        assert [found[site][:3] for site in SITES] == [
            ["1", "1", "holds"],
            ["1", "1", "waited for"],
            ["1", "1", "holds"],
        ]
        assert all(re.fullmatch(r"[\d.]+ (s|ms)", found[site][3]) for site in SITES), found
        free.touch()
        expect(title).to_have_text(
            re.compile(r"^Gang 0: over; began [\d.]+ s after submission; start spread ([\d.]+ s|\d+ ms)$")
        )
        assert client.wait(group, 60).state == "done"
        spread_s = client.explain(group).begun[0].spread_s
        assert 0 <= spread_s < 1.0
        starts = sorted(row.started_s for row in client.results(group))
        assert abs(starts[-1] - starts[0] - spread_s) < 0.01, "by the same clocks as the results"
        expect(page.locator(".gang tbody tr", has_text="first")).to_have_count(1)
        assert {row[2] for row in rows(page).values()} == {"done"}


def test_any_gang_is_shown_by_a_job_of_it_and_a_job_of_no_gang_is_told_in_one_line(three: Grid, window: Window) -> None:
    with three.sites["alpha"].client() as client:
        many = ring(client, 0.0, rounds=24)
        single = client.submit({"group": {"command": ["true"]}, "sweep": {"n": "1-3"}}).group
        assert client.wait(many, 120).state == "done" and client.wait(single, 60).state == "done"
        page = opened(window, client, many)
        expect(page.locator(".gang")).to_have_count(20)
        expect(page.get_by_text("20 of 24")).to_be_visible()
        page.get_by_label("Gang of job").fill("71")
        page.get_by_label("Gang of job").press("Enter")
        expect(page.locator(".gang h3")).to_have_text(re.compile("^Gang 23: over"))
        page.get_by_role("button", name="All gangs").click()
        expect(page.locator(".gang")).to_have_count(20)
        window.allow += ["400"]
        page.evaluate("where => { location.hash = where }", f"#/group/{many}.72")
        expect(page.get_by_text(f"{many} has jobs 0 to 71, no 72")).to_be_visible()

        # What is no gang has no such section, and says why where somebody asks for one.
        page.evaluate("where => { location.hash = where }", f"#/group/{single}")
        expect(page.get_by_role("heading", name="Jobs that ended")).to_be_visible()
        expect(page.get_by_text("3 of 3 done")).to_be_visible()
        assert not page.get_by_text("Its gangs").is_visible()
        page.evaluate("where => { location.hash = where }", f"#/group/{single}.1")
        line = f"{single}.1 is no component of a gang: the jobs of {single} run each by itself."
        expect(page.get_by_text(line)).to_be_visible()
        expect(page.get_by_text("3 of 3 done")).to_be_visible()


def test_the_gang_of_a_job_that_never_began_is_over_and_not_held(three: Grid, window: Window) -> None:
    with three.sites["alpha"].client() as client:
        busy(three, "beta", three.root / "never")
        group = ring(client, 0.0)
        client.cancel(group)
        assert client.wait(group, 60).state == "cancelled"
        page = opened(window, client, f"{group}.1")
        expect(page.get_by_text("It is over, and no start of it is known.")).to_be_visible()
