"""The front page stays one that is read to its end."""

from __future__ import annotations

from tests.e2e.grid import REPO

LINES = 120
COLUMNS = 120


def test_the_front_page_is_short_and_has_no_long_line() -> None:
    lines = (REPO / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES
    assert [line for line in lines if len(line) > COLUMNS] == []
