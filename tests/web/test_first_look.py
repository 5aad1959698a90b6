"""Pages as a newcomer meets them: a running job's output, states of sites, notes that are long."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.grid import Grid, until
from tests.web.conftest import Window
from tests.web.test_pages import _open, _turn


@pytest.fixture
def two(grid: Grid) -> Grid:
    for name in ("alpha", "beta"):
        grid.add(name, 4)
    grid.join()
    grid.start()
    return grid


def test_a_job_that_runs_shows_what_it_writes_as_it_writes_it(two: Grid, window: Window, tmp_path: Path) -> None:
    alpha = two.sites["alpha"]
    page = _open(window, alpha)
    go = tmp_path / "go"
    script = f"echo job $DIANA_INDEX begins; until test -e {go}; do sleep 0.2; done; echo job $DIANA_INDEX goes on"
    with alpha.client() as client:
        job = {"group": {"command": ["sh", "-c", script], "sites": ["alpha", "beta"]}, "sweep": {"array": "0-5"}}
        group = client.submit({**job, "resources": {"work": 5}}).group
        until(lambda: client.status([group])[0].running == 6, "they run", 30)
        _turn(page, f"group/{group}")
        which = page.get_by_label("number of a job")
        expect(which).to_have_value("0")
        which.fill("5")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(page.locator("pre")).to_have_text("job 5 begins\n")
        expect(page.get_by_text("it runs; more shows as it comes")).to_be_visible()
        # Another that is asked for takes its place.
        which.fill("1")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(page.locator("pre")).to_have_text("job 1 begins\n")
        go.touch()
        expect(page.locator("pre")).to_have_text("job 1 begins\njob 1 goes on\n")
        expect(page.get_by_text("it runs; more shows as it comes")).to_be_hidden()
        client.wait(group, 60)


def test_a_site_where_jobs_run_is_not_shown_as_closed_and_calls_are_summed_up(two: Grid, window: Window) -> None:
    page = _open(window, two.sites["alpha"])
    merged = "states => import('/group.js').then(m => m.bySite(states.map(state => ({ site: 'a', state })))[0].state)"
    assert (
        page.evaluate(merged, ["closed", "committed"]) == page.evaluate(merged, ["committed", "closed"]) == "committed"
    )
    assert page.evaluate(merged, ["closed", "unreachable", "committed"]) == "unreachable"
    assert page.evaluate(merged, ["closed", "closed"]) == "closed"

    # Calls of sites that came free are hundreds, and weigh nothing: a line tells of all alike.
    window.allow += ["400"]
    drawn = """decisions => import('/group.js').then(m => {
        const story = new m.GroupPage('alpha-999');
        story.close();
        story.explained({ decisions });
        return [...story.decisions.children].map(each => each.textContent);
    })"""
    called = {"reason": "their turn came at b"}
    first = {"reason": "two can start now", "candidates": [{"site": "a", "rejected": "full"}]}
    assert page.evaluate(drawn, [first, called, called]) == [
        "two can start nownot a: full",
        "their turn came at b (2 times)",
    ]


def test_long_notes_and_gangs_leave_the_list_of_groups_in_the_window(two: Grid, window: Window) -> None:
    alpha = two.sites["alpha"]
    page = _open(window, alpha)
    with alpha.client() as client:
        failed = client.submit({"group": {"command": ["true"], "cwd": "/no/such/folder"}}).group
        gang = client.submit({"group": {"command": ["true"]}, "components": [{"cpus": 1}, {"cpus": 1}]}).group
        assert client.wait(failed, 60).state == "failed"
        client.wait(gang, 60)
        _turn(page, "groups")
        expect(page.get_by_text("1 gang of 2: 1 over")).to_be_visible()
        row = page.locator("tbody tr", has=page.get_by_role("link", name=failed))
        expect(row.locator("td.text span")).to_have_attribute(
            "title", re.compile("no folder /no/such/folder here that its account may enter")
        )
        box = row.bounding_box()
        assert box is not None and box["height"] < 60, "two lines at most"
        assert (
            page.evaluate(
                "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('.scroll'))"
            )
            == 0
        )


def test_a_site_without_others_says_how_they_come_and_shows_no_map_of_one_place(grid: Grid, window: Window) -> None:
    alpha = grid.add("alpha", 4)
    grid.start()
    page = _open(window, alpha)
    expect(page.get_by_text("1 site with 4 slots")).to_be_visible()
    expect(page.get_by_text("diana invite")).to_be_visible()
    expect(page.locator("svg.map")).to_be_hidden()
    # On a phone the words beside the button make room for it.
    page.set_viewport_size({"width": 390, "height": 844})
    button, who = page.locator("#theme").bounding_box(), page.locator("#site").bounding_box()
    assert button and who and button["y"] < who["y"] + who["height"], (button, who)
