"""The player of pages takes commands and what is to be seen out of them, and tells right from wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import replay
from tests.docs.replay import Shell, pattern, steps

PAGE = """\
Text with `$ no command`.

```console
$ echo one \\
> two
one two
$ false
$ echo $?
1
```

```toml title="job.toml"
[group]
```

```sh
make setup
```
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setattr(replay, "PATIENCE_S", 1.0)
    monkeypatch.setattr(replay, "APART", ())
    made = Shell(tmp_path, "/usr/bin:/bin")
    try:
        yield made
    finally:
        made.close()


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text)
    return path


def test_commands_go_on_and_files_stand_among_them(tmp_path: Path) -> None:
    found = steps(page(tmp_path, PAGE))
    assert [(step.line, step.command, step.shown, step.file) for step in found] == [
        (4, "echo one \\\ntwo", ["one two"], ""),
        (7, "false", [], ""),
        (8, "echo $?", ["1"], ""),
        (13, "", [], "job.toml"),
    ]
    assert found[-1].content == "[group]\n"


@pytest.mark.parametrize(
    ("shown", "told", "fits"),
    [
        (["a  b"], "a b\n", True),
        (["a ... c"], "a many words c\n", True),
        (["a ... c"], "a\nc\n", False),
        (["...", "end"], "one\ntwo\nend\n", True),
        (["...", "end"], "end\n", True),
        (["...", "end"], "end\nmore\n", False),
        ([], "", True),
        ([], "something\n", False),
        (["1.0 (x)"], "1x0 (x)\n", False),
    ],
)
def test_dots_stand_for_text_and_for_lines_and_nothing_else_does(shown: list[str], told: str, fits: bool) -> None:
    assert (pattern(shown).fullmatch(told) is not None) == fits


def test_a_page_in_order_is_played_and_its_files_are_written(shell: Shell, tmp_path: Path) -> None:
    assert shell.play(page(tmp_path, PAGE)) == 3
    assert (tmp_path / "job.toml").read_text() == "[group]\n"


def test_what_is_copied_goes_into_later_commands(shell: Shell, tmp_path: Path) -> None:
    text = "```console\n$ echo say abc-1_x NAME\nsay TOKEN NAME\n$ echo TOKEN again\nabc-1_x again\n```\n"
    assert shell.play(page(tmp_path, text)) == 2


def test_what_a_command_asks_for_is_answered(shell: Shell, tmp_path: Path) -> None:
    text = "```console\n$ echo abc-1_x\nTOKEN\n$ sed s/^/got:/\ntoken: TOKEN\ngot:abc-1_x\n```\n"
    assert shell.play(page(tmp_path, text)) == 2


def test_what_the_shell_says_of_a_job_that_was_killed_is_nothing_of_the_page(shell: Shell, tmp_path: Path) -> None:
    text = "```console\n$ sleep 30 &\n$ kill -9 $!; sleep 0.3; true\n$ echo on\non\n```\n"
    assert shell.play(page(tmp_path, text)) == 3


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("$ echo one\ntwo\n", "it printed\none\n"),
        ("$ false\n", "exit code 1"),
        ("$ false\n$ echo $?\n0\n", "it printed\n1\n"),
        ("$ echo one\n", "it printed\none\n"),
        ("$ diana status\nalpha\n", "exit code 127"),
        ("one\n", "begins with a command"),
    ],
)
def test_a_page_that_shows_what_does_not_come_fails_and_says_what_came(
    shell: Shell, tmp_path: Path, body: str, wrong: str
) -> None:
    with pytest.raises(AssertionError) as caught:
        shell.play(page(tmp_path, f"```console\n{body}```\n"))
    assert wrong in str(caught.value)
