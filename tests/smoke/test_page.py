"""The real thing here: a Chromium that shows a page of the dashboard, and writes nothing on its console."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.grid import Grid, until
from tests.web.conftest import Window
from tests.web.test_pages import _number, _open, _sweep, _turn

JOBS = 40


def test_the_list_of_groups_shows_what_the_node_says_of_one(grid: Grid, window: Window) -> None:
    alpha = grid.add("alpha", 4)
    grid.start()
    page = _open(window, alpha)
    _turn(page, "groups")
    expect(page.get_by_text("No groups here")).to_be_visible()
    with alpha.client() as client:
        group = _sweep(client, JOBS, "test $DIANA_INDEX -ne 7")
        expect(page.get_by_role("link", name=group)).to_be_visible()
        final = client.wait(group, 60)
    until(lambda: window.cells("main", group)[3] == final.state, "the final state shows", 60)
    cells = window.cells("main", group)
    assert [_number(cells[at]) for at in (5, 6, 8)] == [final.jobs, final.done, final.failed] == [JOBS, JOBS - 1, 1]
