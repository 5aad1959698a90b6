"""The same output on terminals, in pipes, where nobody reads it, and where it cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from diana.cli.shared import output, parsing
from tests.cli.terminal import Terminal

ROOT = Path(__file__).parents[2]
DIANA = [sys.executable, "-m", "diana.cli"]
TABLE = """
from diana.cli.shared import output
row = ("alpha-12", "[red]x", "done", output.bar([(3, "#"), (1, "x"), (2, "-")], 10), 1_000_000)
output.heading("groups of \\x1b[2Jann")
output.print_table(("GROUP", "NAME", "STATE", "PROGRESS", ">JOBS"), [row], least=("NAME", "JOBS"))
"""


def shown(program: str, columns: int, **environment: str) -> Terminal:
    where = {"PYTHONPATH": str(ROOT), "NO_COLOR": "", **environment}
    with Terminal([sys.executable, "-c", program], columns=columns, environment=where) as terminal:
        assert terminal.ended() == 0
    return terminal


def test_a_terminal_gets_colours_and_names_as_plain_text() -> None:
    terminal = shown(TABLE, 100)
    assert b"\x1b[32m" in terminal.raw and b"\x1b[2J" not in terminal.raw
    heading, header, row = terminal.text().splitlines()
    assert heading == "groups of ?[2Jann"
    assert header.split() == ["GROUP", "NAME", "STATE", "PROGRESS", "JOBS"]
    assert row.split() == ["alpha-12", "[red]x", "done", "######xx----........", "1000000"]


@pytest.mark.parametrize(("columns", "left_out"), [(50, "NAME"), (42, "NAME, JOBS")])
def test_a_narrow_terminal_does_without_some_columns_and_says_which(columns: int, left_out: str) -> None:
    lines = shown(TABLE, columns).text().splitlines()
    assert max(map(len, lines[:-1])) <= columns
    assert lines[-1] == f"(no room for {left_out}; --json has all)"
    assert "alpha-12" in lines[2] and "######xx" in lines[2]


def test_no_color_is_heeded_when_it_is_not_empty() -> None:
    assert b"\x1b[" not in shown(TABLE, 100, NO_COLOR="1").raw
    assert b"\x1b[" in shown(TABLE, 100, NO_COLOR="").raw


def test_the_option_no_color_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from diana.cli.groups.look import COMMANDS

    for words, said in (([], ""), (["--no-color"], "1")):
        monkeypatch.setenv("NO_COLOR", "")
        parsing.parse("sites", "sites", COMMANDS["sites"], words)
        assert os.environ["NO_COLOR"] == said


def test_a_line_that_is_redrawn_fits_the_terminal_and_is_gone_at_the_end() -> None:
    program = (
        "from diana.cli.shared.progress import StatusLine\n"
        "line = StatusLine()\nline.show('alpha-12 ' + 'x' * 200 + '\\x07')\n"
        "line.show('short')\nline.end()\nprint('after')"
    )
    raw = shown(program, 40).raw.decode()
    first, second, after = raw.split("\r\x1b[K")[1:]
    assert (len(first), first[-1], second, after) == (39, "…", "short", "after\r\n")


def test_a_pipe_gets_no_control_characters() -> None:
    program = (
        TABLE + "from diana.cli.shared.progress import StatusLine, progress\n"
        "line = StatusLine()\nline.show('x')\nline.end()\n"
        "with progress('runs') as tell:\n    assert tell is None\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=60, cwd=ROOT, env={**os.environ}
    )
    assert b"\x1b" not in ended.stdout + ended.stderr and b"\r" not in ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[1].split() == [b"GROUP", b"NAME", b"STATE", b"PROGRESS", b"JOBS"]


def test_columns_are_left_out_in_order_until_the_rest_fits() -> None:
    names, widths, least = ["A", "B", "C", "D"], [10, 10, 10, 10], ("C", "B")
    assert output.fitting(names, widths, least, 46) == [0, 1, 2, 3]
    assert output.fitting(names, widths, least, 45) == [0, 1, 3]
    assert output.fitting(names, widths, least, 33) == [0, 3]
    assert output.fitting(names, widths, least, 5) == [0, 3]


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """`diana` stands for the command."""
    script = f'diana() {{ "{sys.executable}" -m diana.cli "$@"; }}\n{line}'
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT, env={**os.environ}
    )


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("{ sleep 0.2; diana help exit-codes; } | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("{ sleep 0.2; diana completion bash; } | head -0; exit ${PIPESTATUS[0]}", 141, ""),
        ("diana simulate /nowhere.toml | true; exit ${PIPESTATUS[0]}", 2, "no such file"),
        ("diana help exit-codes >&-", 0, ""),
        ("diana simulate /nowhere.toml >&-", 2, "no such file"),
        ("diana simulate /nowhere.toml 2>&-", 2, ""),
        ("diana help exit-codes >/dev/full", 2, "standard output: No space left on device"),
        ("diana completion zsh >/dev/full", 2, "standard output: No space left on device"),
        ("f=$(mktemp); (ulimit -f 0; diana help exit-codes >$f); c=$?; rm $f; exit $c", 2, "standard output: File too"),
    ],
)
def test_output_that_nobody_takes_is_no_fault_of_ours(line: str, code: int, says: str) -> None:
    ended = shell(line)
    assert ended.returncode == code, ended
    assert says in ended.stderr and ended.stderr.count("\n") == bool(says)


def test_top_without_a_terminal_says_what_to_use_instead() -> None:
    ended = shell("diana top | cat; exit ${PIPESTATUS[0]}")
    assert ended.returncode == 2
    assert ended.stderr.startswith("diana: top: wants a terminal; elsewhere take diana status")
    assert ended.stderr.count("\n") == 1
