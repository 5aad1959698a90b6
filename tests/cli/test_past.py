"""`diana history merge`, `whatif` and `advise` as they are typed: what they print, and one line for each mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diana.cli.main import main
from tests.cli import json_shapes
from tests.sim.past.histories import Ran, told

Prints = Callable[..., Any]


@pytest.fixture
def histories(tmp_path: Path) -> Path:
    groups = [Ran(10.0 * k, [20.0] * 6, more={"work_s": 20.0}) for k in range(3)]
    told(tmp_path / "a", groups)
    told(tmp_path / "b", [ran._replace(site="beta") for ran in groups], "beta")
    return tmp_path


@pytest.fixture
def prints(capsys: pytest.CaptureFixture[str]) -> Prints:
    def run(verb: str, *words: object, codes: tuple[int, ...] = (0,)) -> Any:
        assert main([*map(str, words), "--json"]) in codes
        (value,) = json_shapes.check_lines(verb, capsys.readouterr().out)
        return value

    return run


@pytest.mark.wide
def test_histories_are_merged_replayed_and_advised_upon(histories: Path, prints: Prints) -> None:
    both = histories / "all"
    assert prints("history-merge", "history", "merge", histories / "a", histories / "b", "--out", both) == {
        "folder": str(both),
        "sites": ["alpha", "beta"],
    }
    few = ("--seeds", "1", "--workers", "1")
    found = prints("whatif", "whatif", both, "--site", "beta.slots+4", "--load", "1.5", *few)
    assert found["changes"] == ["--site beta.slots+4", "--load 1.5"] and found["base"]["groups"] == 6
    checked = prints("whatif-check", "whatif", both, "--check", *few, codes=(0, 1))
    assert checked["truly"]["groups"] == 6 and isinstance(checked["holds"], bool)
    assert prints("advise", "advise", both, *few)["tried"] >= 4


def test_each_has_a_page_for_a_browser_with_its_changes_and_numbers(
    histories: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = histories / "page.html"
    few = (str(histories / "a"), "--seeds", "1", "--workers", "1", "--html", str(page))
    for verb, words in (
        ("whatif", ["--site", "beta.slots+4", "--load", "1.5"]),
        ("whatif", ["--check"]),
        ("advise", []),
    ):
        assert main([verb, *few, *words]) in (0, 1)
        told, text = capsys.readouterr().out, page.read_text()
        assert text.startswith("<!doctype html>") and "<svg" in text and "<script" not in text
        (figure,) = [line.split()[-1] for line in told.splitlines() if line.startswith("core hours")] or ["turnaround"]
        assert figure in text
        page.unlink()


def test_each_mistake_is_one_line_and_exit_code_2(histories: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, why in (
        (["whatif", "a"], "say a change"),
        (["whatif", "a", "--check", "--site", "beta.slots+1"], "leave out --site beta.slots+1"),
        (["whatif", "a", "--check", "--html", "/nowhere/at/all.html"], "--html /nowhere/at/all.html: no such folder"),
        (["advise", "a", "--html", "."], "--html .: a folder; name a file"),
        (["whatif", "nowhere", "--check"], "no such file or directory"),
        (["history", "merge", "a"], "name two folders or more"),
        (["history", "merge", "a", "b", "--last", "7d"], "spans are chosen when a history is exported"),
        (["history", "export", "a"], "name the one to write with --out"),
        (
            ["history", "export", "--out", "/etc/passwd/h"],
            "--out /etc/passwd/h: /etc/passwd is no folder; name another",
        ),
        (["history", "merge", "a", "b", "--out", "/dev/null"], "--out /dev/null: /dev/null is no folder; name another"),
        (["history", "export", "--from", "yesterday"], "is no date; write 2026-11-30"),
        (["history", "export", "--from", "2026-11-30", "--to", "2026-11-01"], "the span ends before it begins"),
        (["history", "export", "--last", "7d", "--from", "2026-11-01"], "both say where the span begins"),
    ):
        assert main([str(histories / word) if word in ("a", "b") else word for word in words]) == 2, words
        (line,) = capsys.readouterr().err.splitlines()
        assert why in line, words
