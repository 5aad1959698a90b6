"""Jobs that the black-hole guard holds back are a row of its own on the site's page."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.e2e.grid import Grid
from tests.web.conftest import Window
from tests.web.test_pages import LIVE_S, _open, _turn


def test_a_site_on_probation_shows_of_which_group_since_when_why_and_what_lifts_it(grid: Grid, window: Window) -> None:
    alpha, *_ = (grid.add(name, slots) for name, slots in (("alpha", 2), ("beta", 4), ("gamma", 2)))
    grid.join()
    grid.start()
    page = _open(window, alpha)
    _turn(page, "site/beta")
    expect(page.locator("dl.facts")).to_contain_text("holds nothing back")
    with alpha.client() as client:
        job = {
            "group": {"command": ["sh", "-c", 'test "$DIANA_SITE" != beta && exec sleep 0.02']},
            "sweep": {"array": "0-299"},
        }
        group = client.submit(job).group
        status = client.wait(group, 90)
        assert 0 < status.failed <= 10, status
    heading = page.get_by_role("heading", name="Held back by the black-hole guard")
    expect(heading).to_be_visible(timeout=LIVE_S * 1000)
    expect(page.locator("dl.facts")).to_contain_text("holds back 1")
    cells = window.cells("main", group)
    # By chance of which jobs were under way together it has failed all it may, or is tried with one more.
    barred = cells[2] == "barred"
    assert cells[:2] == [group, "the whole site"] and cells[2] in ("barred", "probation")
    assert cells[3].endswith(" ago") and (cells[4] == "not by itself" if barred else cells[4].startswith("in ")), cells
    assert re.match(r"(of the last \d+ jobs|another|all it may fail)", cells[5]), cells
    lifts = (
        f"diana retry {group}, once beta is mended"
        if barred
        else f"one job that does well at beta; diana retry {group}"
    )
    assert cells[6] == lifts
    # A page that was opened before shows it as time goes by, and at other sites there is none of it.
    since = cells[3]
    expect(page.locator("main tbody td", has_text=re.compile("ago$")).first).not_to_have_text(
        since, timeout=LIVE_S * 1000
    )
    _turn(page, "site/gamma")
    expect(heading).to_be_hidden()
