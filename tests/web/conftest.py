"""A real Chromium against a real grid. Whatever a page writes on its console, or throws, fails the test that saw it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.e2e.conftest import chance, grid, starts
from tests.e2e.grid import Grid

__all__ = ["chance", "grid", "starts"]

FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# A page on a busy machine takes its time.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "no chromium on this machine; `make soak PARTS=web` gets it from apt"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield chromium
        chromium.close()


class Window:
    """A page, and what it complained of. `allow`: parts of lines that are to be expected."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.allow: list[str] = []
        page.on("console", lambda line: self._heard(line.type, line.text))
        page.on("pageerror", lambda error: self._heard("error", str(error)))
        page.on("dialog", self._dialog)

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(part in text for part in self.allow):
            self.complaints.append(f"{kind}: {text}")

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def cells(self, table: str, row: str) -> list[str]:
        """Text of the row that begins with `row`, in the table under this heading's section."""
        found = self.page.locator(table).locator("tbody tr", has=self.page.get_by_text(row, exact=True)).first
        return [text.strip() for text in found.locator("td").all_inner_texts()]


@pytest.fixture
def window(browser: Browser) -> Iterator[Window]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = Window(context.new_page())
    opened.page.set_default_timeout(60_000)
    yield opened
    context.close()
    assert not opened.complaints, "\n".join(opened.complaints)


@pytest.fixture
def five(grid: Grid) -> Grid:
    for name, slots in (("alpha", 4), ("beta", 8), ("gamma", 2), ("delta", 6), ("epsilon", 4)):
        grid.add(name, slots)
    grid.join()
    grid.start()
    return grid


SHOTS = Path(__file__).parents[2] / "docs"
