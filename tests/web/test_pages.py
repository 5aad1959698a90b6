"""The dashboard against five real sites: what it shows is what the node says, as it changes, and over a restart."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from diana.client import Client
from tests.e2e.grid import Grid, Site, until
from tests.web.conftest import SHOTS, Window

LIVE_S = 60.0
"""Patience for what changed to show."""


def _open(window: Window, site: Site) -> Page:
    with site.client() as client:
        window.page.goto(client.dashboard().url)
    expect(window.page.locator("#site")).to_have_text(site.name)
    return window.page


def _turn(page: Page, where: str) -> None:
    page.evaluate("where => { location.hash = where }", f"#/{where}")


def _sweep(client: Client, jobs: int, command: str, name: str = "sweep") -> str:
    job = {"group": {"name": name, "command": ["sh", "-c", command]}, "sweep": {"array": f"0-{jobs - 1}"}}
    return client.submit({**job, "resources": {"work": 0.5}}).group


def _number(text: str) -> int:
    return int(text.replace(",", "").replace("-", "0"))


def _picture(page: Page, name: str, tmp_path: Path) -> None:
    """For the docs, when asked to make them anew (DIANA_SCREENSHOTS=1)."""
    folder = SHOTS if os.environ.get("DIANA_SCREENSHOTS") else tmp_path
    page.screenshot(path=folder / f"dashboard-{name}.png")


def test_the_pages_show_what_the_node_says_while_it_happens(five: Grid, window: Window, tmp_path: Path) -> None:
    alpha = five.sites["alpha"]
    page = _open(window, alpha)
    with alpha.client() as client:
        # The grid: every site with its numbers, in the table and on the map.
        sites = {site.site: site for site in client.sites()}
        expect(page.locator("tbody tr")).to_have_count(5)
        for name, site in sites.items():
            cells = window.cells("main", name)
            assert (cells[0], cells[1], _number(cells[2])) == (name, site.state, site.slots)
        expect(page.locator("svg.map g circle.body")).to_have_count(5)
        until(lambda: client.links().links, "a link is measured", 30)

        def drawn() -> bool:
            lines = {frozenset((link.source, link.target)) for link in client.links().links}
            return page.locator("svg.map line.link").count() >= len(lines) > 0

        until(drawn, "the links are drawn", 10, 0.2)

        # A group that is submitted while a page is open appears by itself and moves on.
        _turn(page, "groups")
        expect(page.get_by_text("No groups here")).to_be_visible()
        go = tmp_path / "go"
        halfway = f"test $DIANA_INDEX -lt 120 || while ! test -e {go}; do sleep 0.2; done"
        group = _sweep(client, 240, f"echo job $DIANA_INDEX; {halfway}; sleep 0.6; test $DIANA_INDEX -ne 7")
        expect(page.get_by_role("link", name=group)).to_be_visible(timeout=LIVE_S * 1000)

        def ended() -> int:
            return _number(window.cells("main", group)[6])

        before = until(ended, "some have ended", LIVE_S, 0.1)
        go.touch()
        until(lambda: ended() > before, lambda: f"the number of ended jobs rises: {before}", LIVE_S, 0.1)
        _turn(page, "grid")
        page.wait_for_timeout(800)
        _picture(page, "grid", tmp_path)
        final = client.wait(group, 60)
        _turn(page, "groups")
        until(lambda: window.cells("main", group)[3] == final.state, "the final state shows", LIVE_S)
        cells = window.cells("main", group)
        assert [_number(cells[at]) for at in (5, 6, 8)] == [final.jobs, final.done, final.failed] == [240, 239, 1]
        _picture(page, "groups", tmp_path)

        # Its story: shares, the decision with its cost table, the failed job, and what that wrote.
        page.get_by_role("link", name=group).click()
        explained = client.explain(group)
        decision = explained.decisions[0]
        expect(page.get_by_text(decision.reason)).to_be_visible()
        costs = page.locator("details tbody tr")
        expect(costs).to_have_count(sum(not cost.rejected for cost in decision.candidates))
        for share in client.status([group])[0].shares:
            assert share.site in page.locator("main").inner_text()
        first = (
            page.locator("h2", has_text="Jobs that ended")
            .locator("xpath=following-sibling::div[1]")
            .locator("tbody tr")
            .first
        )
        expect(first).to_contain_text("failed")
        first.get_by_role("button").click()
        expect(page.locator("pre")).to_have_text("job 7\n")
        _picture(page, "group", tmp_path)

        # What happened is in the pictures.
        _turn(page, "activity")
        expect(page.locator("main svg.chart")).to_have_count(6)
        until(
            lambda: "239 jobs done" in page.locator("main").inner_text(), lambda: page.locator("main").inner_text(), 25
        )


def test_a_page_that_is_open_goes_on_after_the_node_was_killed_and_started_again(five: Grid, window: Window) -> None:
    alpha = five.sites["alpha"]
    page = _open(window, alpha)
    window.allow += ["net::ERR_", "Failed to fetch"]
    with alpha.client() as client:
        group = _sweep(client, 10, "true", "before")
        client.wait(group, 30)
    _turn(page, "groups")
    expect(page.get_by_role("link", name=group)).to_be_visible()
    alpha.kill()
    expect(page.locator("#standing")).to_contain_text("trying again", timeout=60_000)
    alpha.start()
    expect(page.locator("#standing")).to_be_hidden(timeout=60_000)
    with alpha.client() as client:
        later = _sweep(client, 10, "true", "after")
        client.wait(later, 30)
    expect(page.get_by_role("link", name=later)).to_be_visible(timeout=LIVE_S * 1000)
    expect(page.get_by_role("link", name=group)).to_be_visible()


def test_queues_show_who_waits_at_which_level_here_and_elsewhere(five: Grid, window: Window) -> None:
    alpha = five.sites["alpha"]
    page = _open(window, alpha)
    with alpha.client() as client:
        job: dict[str, Any] = {"group": {"name": "long", "command": ["sleep", "30"], "sites": ["alpha"]}}
        group = client.submit({**job, "sweep": {"array": "0-19"}, "resources": {"work": 30}}).group
        until(lambda: client.queue().queued > 10, "jobs wait", 15)
        _turn(page, "queues")
        queue = client.queue()
        row = queue.classes[0]
        expect(page.locator("tbody").first.locator("tr").first).to_contain_text(row.user, timeout=LIVE_S * 1000)
        cells = [
            text.strip() for text in page.locator("tbody").first.locator("tr").first.locator("td").all_inner_texts()
        ]
        assert (cells[0], cells[2], _number(cells[4])) == (row.level, row.user, row.jobs)
        expect(page.get_by_role("link", name=group)).to_be_visible()
        assert f"{queue.queued:,} queued" in page.locator("main").inner_text()
        page.get_by_label("site").select_option("beta")
        expect(page.locator("main")).to_contain_text("beta, default mode: 0 queued")
        client.cancel(group)


def test_an_operator_drains_the_site_and_steers_a_group_from_the_page(five: Grid, window: Window) -> None:
    alpha = five.sites["alpha"]
    page = _open(window, alpha)
    with alpha.client() as client:
        _turn(page, "site/alpha")
        page.get_by_role("button", name="Drain").click()
        page.get_by_label("reason").fill("power cut on Friday")
        page.locator("dialog").get_by_role("button", name="Drain").click()
        until(lambda: client.ledger().drained == "power cut on Friday", "it is drained", 10)
        expect(page.get_by_role("button", name="Take work again")).to_be_visible()
        page.get_by_role("button", name="Take work again").click()
        until(lambda: not client.ledger().drained, "it takes work again", 10)
        page.get_by_role("button", name="Check this node").click()
        rows = page.locator("h2", has_text="Checks").locator("xpath=following-sibling::div[1]").locator("tbody tr")
        until(lambda: rows.count() > 3, "the checks show", 15)

        group = _sweep(client, 200, "sleep 20", "long")
        _turn(page, f"group/{group}")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("dialog")).to_contain_text("200 jobs")
        page.locator("dialog").get_by_role("button", name="Leave it").click()
        assert client.status([group])[0].state != "cancelled"
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Cancel the group").click()
        expect(page.locator("main")).to_contain_text("cancelled: 200 jobs")
        client.wait(group, 30)


def test_who_may_not_look_is_told_what_to_do(five: Grid, window: Window) -> None:
    alpha = five.sites["alpha"]
    window.allow += ["401"]
    with alpha.client() as client:
        url = client.dashboard().url
    base = url.partition("#")[0]
    page = window.page
    page.goto(base)
    expect(page.locator("main")).to_contain_text("diana dashboard")
    page.goto(f"{base}#enter=nonsense")
    expect(page.locator("main")).to_contain_text("was used or is too old")
    page.evaluate("localStorage.setItem('diana-token', 'forged')")
    page.goto(base)
    expect(page.locator("main")).to_contain_text("ask for a way in: diana dashboard")
    page.goto(url)
    expect(page.locator("h1")).to_have_text("Grid")
    window.allow += ["400"]
    _turn(page, "group/alpha-999")
    expect(page.locator("main")).to_contain_text("no group alpha-999 of yours at alpha")


HOSTILE = (
    "<img src=x onerror=window.__xss=1>",
    '"><script>window.__xss=1</script>',
    "<svg/onload=window.__xss=1>",
    "javascript:window.__xss=1//",
    "{{constructor.constructor('window.__xss=1')()}}",
    "</title></textarea></style><iframe srcdoc='<script>parent.__xss=1</script>'>",
    "`${window.__xss=1}`",
)


def _written(text: str) -> str:
    """As a command's word: braces doubled, as they would stand for values."""
    return text.replace("{", "{{").replace("}", "}}")


def test_what_users_call_their_work_and_what_jobs_write_stays_text(five: Grid, window: Window) -> None:
    alpha = five.sites["alpha"]
    page = _open(window, alpha)
    with alpha.client() as client:
        groups = [_sweep(client, 1, 'printf %s "$0"; printf %s "$0" >&2; exit 3', text) for text in HOSTILE]
        hostile = client.submit(
            {
                "group": {"name": "log", "command": ["printf", "%s\\n", *map(_written, HOSTILE)]},
                "sweep": {"array": "0-0"},
            }
        ).group
        for group in (*groups, hostile):
            client.wait(group, 30)
        client.operate("drain", reason=HOSTILE[0])
        _turn(page, "groups")
        for text in HOSTILE:
            expect(page.get_by_text(text, exact=True).first).to_be_visible(timeout=LIVE_S * 1000)
        for group, text in zip(groups, HOSTILE, strict=True):
            _turn(page, f"group/{group}")
            expect(page.locator("h1")).to_have_text(f"{group} · {text}")
        _turn(page, f"group/{hostile}")
        page.get_by_role("button", name=f"{hostile}.0").click()
        expect(page.locator("pre")).to_have_text("".join(f"{text}\n" for text in HOSTILE))
        _turn(page, "site/alpha")
        expect(page.get_by_text(HOSTILE[0]).first).to_be_visible(timeout=LIVE_S * 1000)
        _turn(page, "grid")
        page.wait_for_timeout(500)
        client.operate("undrain")
    assert page.evaluate("window.__xss") is None
    assert page.locator("main img, main script, main iframe").count() == 0


def test_keys_and_a_phone_reach_everything(five: Grid, window: Window, tmp_path: Path) -> None:
    alpha = five.sites["alpha"]
    page = _open(window, alpha)
    with alpha.client() as client:
        group = _sweep(client, 20, "true")
        client.wait(group, 30)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    for name in ("Grid", "Groups"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == name
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=group)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("nothing like it")
    expect(page.get_by_role("link", name=group)).to_be_hidden()
    page.set_viewport_size({"width": 375, "height": 700})
    for where in ("grid", "groups", "queues", "activity", "site/alpha", f"group/{group}"):
        _turn(page, where)
        page.wait_for_timeout(300)
        wide = page.evaluate("document.scrollingElement.scrollWidth")
        assert wide <= 375, f"{where} is {wide} wide on a phone"
    _turn(page, "grid")
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("button", name=re.compile("Theme")).click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.wait_for_timeout(300)
    _picture(page, "phone-dark", tmp_path)


def test_what_collects_metrics_reads_them_with_a_token_of_its_own(five: Grid) -> None:
    import urllib.error
    import urllib.request

    alpha = five.sites["alpha"]
    with alpha.client() as client:
        found = client.dashboard("metrics", for_s=365 * 86400.0)

    def read(url: str, accept: str = "") -> tuple[str, str]:
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {found.token}", "Accept": accept})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    kind, text = read(found.url)
    assert kind.startswith("text/plain") and "\ndiana_slots 4.0\n" in text
    kind, text = read(found.url, "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text") and text.endswith("# EOF\n")
    with pytest.raises(urllib.error.HTTPError) as refused:
        read(found.url.replace("/metrics", "/api/live"))
    with refused.value:
        assert refused.value.code == 403


@pytest.mark.parametrize("where", ["0.0.0.0:0"])
def test_others_look_over_tls(grid: Grid, browser: Any, where: str) -> None:
    """With the node's own certificate, which a browser has to be told to take."""
    from diana.node.config.site_file import load_config
    from diana.node.config.text import write_config
    from diana.node.web.config import Web

    alpha = grid.add("alpha", 2)
    config = load_config(alpha.paths.config)
    write_config(alpha.paths.config, msgspec.structs.replace(config, web=Web(listen=where)))
    grid.join()
    grid.start()
    with alpha.client() as client:
        url = client.dashboard().url
    assert url.startswith("https://")
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(url)
    expect(page.locator("#site")).to_have_text("alpha")
    expect(page.locator("tbody tr")).to_have_count(1)
    context.close()
