"""`diana top` against a real node: the page, a group's story, orders, a node that goes away, a real terminal."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from diana.cli.top.app import Top
from diana.cli.top.logs import LogScreen
from diana.cli.top.screens import Question, StoryScreen
from diana.cli.top.table import RowTable
from diana.client import AsyncClient
from diana.wire.client import messages as wire
from tests.cli.terminal import Terminal
from tests.e2e.grid import REPO, Grid, Site

pytestmark = pytest.mark.e2e
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def alpha() -> Iterator[Site]:
    made = Grid()
    try:
        site = made.add("alpha", 2)
        site.start()
        yield site
    finally:
        made.close()


@asynccontextmanager
async def page(
    site: Site, info: wire.InfoResponse | None = None, size: tuple[int, int] = (140, 45)
) -> AsyncIterator[Pilot[None]]:
    if info is None:
        with site.client() as client:
            info = client.info()
    app = Top(lambda: AsyncClient(site.data), info, every_s=0.2)
    async with app.run_test(size=size) as pilot:
        yield pilot
    assert app.fault is None


async def until(look: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(WITHIN_S):
            while not look():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {WITHIN_S:g} s: {what}") from None


def table(pilot: Pilot[None], name: str) -> RowTable:
    found = pilot.app.screen_stack[0].query_one(f"#{name}", RowTable)
    return found


def row(pilot: Pilot[None], name: str, key: str) -> list[str]:
    """Empty while there is none."""
    found = table(pilot, name)
    return [cell.plain for cell in found.get_row(key)] if key in found.rows else []


def text(pilot: Pilot[None], selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Static).render())


def screen_text(pilot: Pilot[None]) -> str:
    """The text a terminal would show."""
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


async def submitted(pilot: Pilot[None], *words: str, name: str = "", jobs: int = 1) -> str:
    app = pilot.app
    assert isinstance(app, Top)
    job = {"group": {"command": list(words), "name": name or words[0]}, "sweep": {"array": f"1-{jobs}"}}
    return (await app.client.submit(job)).group


async def test_the_page_shows_sites_queues_groups_and_machines_and_goes_on(alpha: Site) -> None:
    async with page(alpha) as pilot:
        group = await submitted(pilot, "sleep", "600", name="[red]x", jobs=50)
        await until(lambda: row(pilot, "groups", group)[7:8] == ["2"], "two jobs run")
        shown = row(pilot, "groups", group)
        assert shown[:3] == [group, "[red]x", "running"] and shown[4] == "0/50" and shown[8] == "48"
        assert row(pilot, "sites", "alpha")[:4] == ["alpha (here)", "alive", "##########", "2/2"]
        await until(lambda: bool(table(pilot, "queue").row_count), "somebody waits")
        assert row(pilot, "machines", "main")[1] == "RootGrid"
        await until(lambda: "[red]x" in screen_text(pilot), "the name is drawn as it is")
        assert text(pilot, "#line").startswith("alpha of alpha-vo, as ")
        await pilot.press("c")
        assert isinstance(pilot.app.screen, Question)
        await pilot.press("n")
        await pilot.press("c", "y")
        await until(lambda: row(pilot, "groups", group)[2:3] == ["cancelled"], "it is cancelled")
        await pilot.press("a")
        await until(lambda: not table(pilot, "groups").row_count, "nothing is open")


async def test_a_groups_story_tells_shares_reasons_and_failures(alpha: Site) -> None:
    async with page(alpha, size=(80, 24)) as pilot:
        group = await submitted(pilot, "sh", "-c", "test $DIANA_ATTEMPT -gt 1 || exit 3", jobs=2)
        await until(lambda: row(pilot, "groups", group)[2:3] == ["failed"], "it has failed")
        await pilot.press("ctrl+home", "enter")
        assert isinstance(pilot.app.screen, StoryScreen)
        screen = pilot.app.screen
        await until(lambda: len(screen._failures.last) == 2 and screen._explained is not None, "all was read")
        await pilot.pause(0.3)
        told = pilot.app.screen.query_one("#story", Static)
        lines = [str(line) for line in told.content.renderables]  # type: ignore[union-attr]
        assert f"{group}.0" in "\n".join(lines) and any(line.startswith("Why so: ") for line in lines)
        assert any("failed" in line and line.split()[:2] == [f"{group}.1", "alpha"] for line in lines)
        await pilot.press("r")
        assert isinstance(pilot.app.screen, Question)
        await pilot.press("y", "escape")
        assert len(pilot.app.screen_stack) == 1
        await until(lambda: row(pilot, "groups", group)[2:3] == ["done"], "it was tried again, with success")


async def test_a_job_that_runs_shows_what_it_writes_as_it_writes_it(alpha: Site, tmp_path: Path) -> None:
    go = tmp_path / "go"
    async with page(alpha, size=(80, 24)) as pilot:
        script = f"echo job $DIANA_INDEX begins; until test -e {go}; do sleep 0.1; done; echo job $DIANA_INDEX goes on"
        group = await submitted(pilot, "sh", "-c", script, jobs=2)
        await until(lambda: row(pilot, "groups", group)[7:8] == ["2"], "two jobs run")
        await pilot.press("ctrl+home", "enter", "l")
        shown = pilot.app.screen
        assert isinstance(shown, LogScreen)
        await until(lambda: "job 0 begins" in shown._log.lines and shown._said == "runs", "the running job's log shows")
        await pilot.press("n")
        await until(lambda: "job 1 begins" in shown._log.lines, "so does that of the next")
        assert "job 0 begins" not in shown._log.lines
        await pilot.press("j", "0", "enter")
        await until(lambda: "job 0 begins" in shown._log.lines, "and of one that is named")
        go.touch()
        await until(lambda: "job 0 goes on" in shown._log.lines, "it is followed")
        await until(lambda: shown._said == "it has ended", "its end is told")
        await pilot.press("j", "escape")
        assert len(pilot.app.screen_stack) == 3 and not shown._asked.has_class("-asked")
        await pilot.press("q", "q")
        assert len(pilot.app.screen_stack) == 1
        # The number of a job was no word to filter groups by.
        assert isinstance(pilot.app, Top) and pilot.app._word == ""


async def test_keys_filter_rows_and_let_a_table_fill_the_page(alpha: Site) -> None:
    async with page(alpha, size=(80, 24)) as pilot:
        one = await submitted(pilot, "true", name="wanted")
        other = await submitted(pilot, "true", name="another")
        await until(lambda: bool(row(pilot, "groups", one) and row(pilot, "groups", other)), "both are there")
        await pilot.press("slash", *"wanted", "enter")
        await until(lambda: not row(pilot, "groups", other), "one is filtered out")
        assert row(pilot, "groups", one) and "filtered out" in str(table(pilot, "groups").border_title)
        await pilot.press("escape")
        await until(lambda: bool(row(pilot, "groups", other)), "all are back")
        assert not table(pilot, "queue").display, "a short page has no room for it"
        await pilot.press("u")
        await pilot.pause(0.1)
        assert table(pilot, "queue").display and not table(pilot, "groups").display
        await pilot.press("u")
        await pilot.pause(0.1)
        assert table(pilot, "groups").display and not table(pilot, "queue").display


async def test_what_others_submitted_is_not_touched(alpha: Site) -> None:
    stranger = wire.InfoResponse(site="alpha", principal="ben@alpha-vo", role="user")
    async with page(alpha, stranger) as pilot:
        group = await submitted(pilot, "sleep", "0.1")
        await until(lambda: bool(row(pilot, "groups", group)), "it is there")
        await pilot.press("c")
        assert len(pilot.app.screen_stack) == 1 and [note.severity for note in pilot.app._notifications] == ["warning"]


async def test_the_page_outlives_the_node_and_goes_on_when_it_is_back(alpha: Site) -> None:
    async with page(alpha) as pilot:
        await until(lambda: "alpha" in table(pilot, "sites").rows, "the site is there")
        await asyncio.to_thread(alpha.terminate)
        await until(lambda: "unreachable for" in text(pilot, "#line"), "it says so")
        assert row(pilot, "sites", "alpha"), "what was known stays"
        await asyncio.to_thread(alpha.start)
        await until(lambda: "unreachable" not in text(pilot, "#line"), "it goes on")
        group = await submitted(pilot, "true")
        await until(lambda: row(pilot, "groups", group)[2:3] == ["done"], "it is up to date")


def test_on_a_real_terminal_it_starts_goes_on_and_ends_with_q(alpha: Site) -> None:
    with alpha.client() as client:
        group = client.submit({"group": {"command": "true", "name": "[bold]first"}}).group
    command = [sys.executable, "-m", "diana.cli", "top", "--data", str(alpha.data), "--every", "0.3s"]
    with Terminal(command, columns=120, rows=40, environment={"PYTHONPATH": str(REPO)}) as terminal:
        terminal.until(group)
        terminal.until("[bold]first")
        with alpha.client() as client:
            later = client.submit({"group": {"command": "true", "name": "second"}}).group
        terminal.until(later)
        terminal.press("q")
        assert terminal.ended() == 0
    assert "Traceback" not in terminal.text()


def test_a_fault_of_ours_ends_the_page_with_one_line_and_its_evidence(alpha: Site, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom diana.cli.main import main\nfrom diana.cli.top import tables\n"
        "tables.groups = lambda *words: 1 / 0\n"
        f"sys.exit(main(['top', '--data', {str(alpha.data)!r}]))"
    )
    where = {"PYTHONPATH": str(REPO), "TMPDIR": str(tmp_path)}
    with Terminal([sys.executable, "-c", program], columns=200, rows=40, environment=where) as terminal:
        assert terminal.ended() == 70
    (evidence,) = tmp_path.glob("diana-fault-*.txt")
    assert (
        f"diana: internal error: ZeroDivisionError: division by zero; the evidence is in {evidence}" in terminal.text()
    )
    assert "Traceback" not in terminal.text() and "in _fill" in evidence.read_text()


def test_without_a_node_it_does_not_begin(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "diana.cli", "top", "--data", str(tmp_path)]
    with Terminal(command, columns=200, environment={"PYTHONPATH": str(REPO)}) as terminal:
        assert terminal.ended() == 4
    assert terminal.text().startswith(f"diana: no site in {tmp_path}")
