"""Pages are read to their end: the front page is short, and no prose has a line longer than a screen is wide."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.grid import REPO

LINES = 120
COLUMNS = 120
PAGES = subprocess.run(["git", "ls-files", "*.md"], cwd=REPO, capture_output=True, text=True, check=True).stdout.split()
FENCE = re.compile(r"\s*(```|~~~)")
NO_PROSE = re.compile(r"\s*[|#<]|!\[|    ")
"""Tables, heads, markup and pictures; what is indented so far is shown as it stands, but for what a list holds."""
MADE = re.compile(r"<!-- .*: begin -->.*?<!-- .*: end -->", re.DOTALL)
"""Parts of a page that a program writes."""


def long_lines(text: str) -> list[str]:
    """Lines of prose that are too long and could be broken: a single long word could not."""
    found, is_code = [], False
    for line in MADE.sub("", text).splitlines():
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code and len(line) > COLUMNS and not NO_PROSE.match(line) and " " in line.strip():
            found.append(line)
    return found


def test_the_front_page_is_short_and_none_of_its_lines_is_long() -> None:
    lines = (REPO / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES
    assert [line for line in lines if len(line) > COLUMNS] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_line_of_prose_is_longer_than_a_screen_is_wide(page: str) -> None:
    assert long_lines(Path(REPO, page).read_text(encoding="utf-8")) == []


def test_tables_and_code_may_be_wide_and_a_paragraph_may_not() -> None:
    wide = "word " * 30
    assert long_lines(f"{wide}\n- {wide}\n| {wide} |\n\n    {wide}\n\n```\n{wide}\n```\n# {wide}") == [
        wide,
        f"- {wide}",
    ]
