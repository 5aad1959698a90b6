"""Manual pages say what the parsers take, and are manual pages."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diana.cli.main import VERBS
from diana.cli.published import manual
from diana.cli.published.reference import command_of
from diana.cli.shared.parsing import parser_of

ROOT = Path(__file__).parents[2]


def test_each_verb_has_a_page_with_all_its_options() -> None:
    pages = manual.pages()
    assert set(pages) == {"diana.1", *(f"diana-{name}.1" for name in VERBS)}
    for name, entry in VERBS.items():
        page = pages[f"diana-{name}.1"].replace("\\-", "-")
        parser = parser_of(name, entry.summary, command_of(name, entry))
        for action in parser._actions:
            assert not action.help or all(f"\\fB{option}\\fR" in page for option in action.option_strings), action
        assert f"diana-{name}" in pages["diana.1"].replace("\\-", "-")


@pytest.mark.skipif(shutil.which("groff") is None, reason="wants groff")
def test_the_pages_are_what_man_reads(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "diana.cli.published.manual", str(tmp_path)], cwd=ROOT, check=True)
    for page in sorted(tmp_path.iterdir()):
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", "-P-c", str(page)], capture_output=True, text=True, check=True
        )
        assert not done.stderr, (page.name, done.stderr)
    assert "--retries N" in done.stdout or page.name != "diana-submit.1"
