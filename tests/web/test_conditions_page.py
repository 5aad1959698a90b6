"""The conditions of a group on its page: what each site has for each of them, also while no site has all."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.grid import Grid, until
from tests.web.conftest import Window
from tests.web.test_gangs_page import opened


def test_a_group_shows_which_site_meets_which_condition(grid: Grid, window: Window) -> None:
    for name, slots in (("alpha", 1), ("beta", 2), ("gamma", 4)):
        grid.add(name, slots)
    grid.join()
    grid.start()
    with grid.sites["alpha"].client() as client:
        job = {"command": "true", "requirements": ["site.slots >= 2", "site.name != 'beta'"]}
        group = client.submit({"group": job | {"set_requirements": "size(set) <= 2"}}).group
        client.wait(group, 60)
        page = opened(window, client, group)
        expect(page.get_by_text("gamma together: size(set) <= 2: yes (1)")).to_be_visible(timeout=20_000)
        found = page.locator("table", has_text="site.name != 'beta'").locator("tbody tr")
        until(lambda: found.count() == 3, "each site has its row", 20, 0.2)
        cells = [[text.strip() for text in found.nth(at).locator("td").all_inner_texts()] for at in range(3)]
        assert {row[0]: row[1:] for row in cells} == {
            "alpha": ["no (1)", "yes ('alpha')"],
            "beta": ["yes (2)", "no ('beta')"],
            "gamma": ["yes (4)", "yes ('gamma')"],
        }
