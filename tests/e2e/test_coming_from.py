"""The pages for those who come from another tool do what they show: each is typed as it stands, at its own node."""

from __future__ import annotations

import pytest

from tests.docs.commands import reader
from tests.e2e.grid import REPO

PAGES = REPO / "docs" / "coming-from"


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
def test_a_page_for_those_who_come_from_another_tool_does_what_it_shows(page: str) -> None:
    with reader() as shell:
        assert shell.play(PAGES / page) > 0
