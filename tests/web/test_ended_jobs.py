"""Every ended job of a group is to be reached from its page, however many there are."""

from __future__ import annotations

import time

from playwright.sync_api import expect

from tests.e2e.grid import Grid, timely, until
from tests.web.conftest import Window
from tests.web.test_pages import _open, _sweep, _turn

JOBS = 2600
FAILED = [index for index in range(JOBS) if index % 40 == 39]


def test_the_last_job_of_a_large_group_and_each_that_failed_are_a_page_away(grid: Grid, window: Window) -> None:
    alpha = grid.add("alpha", 8)
    grid.start()
    page = _open(window, alpha)
    with alpha.client() as client:
        group = _sweep(client, JOBS, "test $((DIANA_INDEX % 40)) -ne 39")
        client.wait(group, 240)
    _turn(page, f"group/{group}")
    ended = page.locator("h2", has_text="Jobs that ended").locator("xpath=following-sibling::div[1]")
    rows = ended.locator("tbody tr")
    back, on = (ended.get_by_role("button", name=name, exact=True) for name in ("Previous", "Next"))

    def shown(first: int, last: int, count: int) -> None:
        expect(rows.first.locator("td").first).to_have_text(f"{group}.{first}")
        expect(rows).to_have_count(count)
        expect(rows.last.locator("td").first).to_have_text(f"{group}.{last}")

    # What failed comes first, and all of it is to be had.
    shown(FAILED[0], FAILED[49], 50)
    expect(ended.get_by_role("status")).to_have_text(f"of {len(FAILED)}")
    expect(back).to_be_disabled()
    on.click()
    shown(FAILED[50], FAILED[-1], len(FAILED) - 50)
    expect(on).to_be_disabled()
    back.click()
    shown(FAILED[0], FAILED[49], 50)

    # Of all that ended: from a job on, and onward from there.
    ended.get_by_label("Show").select_option("ended")
    shown(0, 49, 50)
    expect(ended.get_by_role("status")).to_have_text(f"of {JOBS:,}")
    ended.get_by_label("from job").fill(str(JOBS - 60))
    ended.get_by_role("button", name="Go").click()
    shown(JOBS - 60, JOBS - 11, 50)
    on.click()
    shown(JOBS - 10, JOBS - 1, 10)
    ended.get_by_label("Show").select_option("held")
    expect(ended.get_by_text("No such job has ended.")).to_be_visible()


def test_the_last_of_a_million_cancelled_jobs_is_shown_at_once_and_did_never_run(grid: Grid, window: Window) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    page = _open(window, alpha)
    with alpha.client() as client:
        job = {"group": {"command": ["sleep", "600"]}, "sweep": {"array": "0-999999"}, "resources": {"work": 600}}
        group = client.submit(job).group
        until(lambda: client.status([group])[0].running > 0, "some run", 20.0)
        client.cancel(group)
        assert client.wait(group, 60).cancelled == 1_000_000
        began_s = time.monotonic()
        last = [row.index for row in client.results(group, outcome="cancelled", first=999_990, most=5)]
        timely(time.monotonic() - began_s, 2.0, "the answer")
        assert last == list(range(999_990, 999_995))
        job = {"group": {"command": ["sleep", "600"]}, "sweep": {"array": "0-3"}, "resources": {"work": 1}}
        given = client.submit(job).group
        until(lambda: client.status([given])[0].running > 0, "some run", 20.0)
        client.cancel(given)
        assert client.wait(given, 60).cancelled == 4
    # One that ran was ended by a signal; one that a machine was given and never began has neither code nor times.
    _turn(page, f"group/{given}")
    cells = {index: page.locator("tbody tr", has_text=f"{given}.{index}").locator("td") for index in (0, 3)}
    expect(cells[0].nth(2)).to_have_text("SIGTERM")
    assert cells[3].all_inner_texts()[2:8] == ["", "alpha", "1", "", "", ""]
    _turn(page, f"group/{group}")
    page.get_by_label("from job").fill("999990")
    page.get_by_role("button", name="Go").click()
    row = page.locator("tbody tr", has_text=f"{group}.999999")
    expect(row).to_contain_text("never ran")
    expect(page.get_by_text("of 1,000,000", exact=True)).to_be_visible()
