"""The README does what it says: each line of "Submit anything" is typed as it stands, in a copy of what it names."""

from __future__ import annotations

import re
import shutil

from tests.docs.commands import reader
from tests.e2e.grid import REPO

README = REPO / "README.md"
NOT_TYPED = re.compile(r"make setup|export PATH|diana top")
"""The command is there already; and a page that lives wants a terminal."""


def typed() -> list[str]:
    section = README.read_text(encoding="utf-8").split("\n## Submit anything\n")[1].split("\n## ")[0]
    lines = [line.split("  #")[0].strip() for line in section.splitlines() if line.startswith("    ")]
    return [line for line in lines if line and not NOT_TYPED.match(line)]


def test_each_line_of_the_front_page_does_what_it_says() -> None:
    commands = typed()
    assert len(commands) > 20
    with reader() as shell:
        shutil.copytree(REPO / "examples", shell.home / "examples")
        for page in REPO.glob("*.md"):
            shutil.copy(page, shell.home)
        for command in commands:
            shell.type(command)
        assert len(list((shell.home / "alpha-4").glob("walk-*.json"))) == 60
