"""Shell completion: the scripts are what shells take, and complete verbs, options and values."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from diana.cli import main as cli
from diana.cli.published import completion
from tests.cli.shells import bash, completed, make_program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_program(tmp_path_factory.mktemp("bin"))


def test_bash_knows_how_to_complete_diana_once_the_script_was_read(program: Path) -> None:
    (line,) = bash(program, "complete -p diana")
    assert line.startswith("complete ") and line.endswith(" diana")


def test_bash_completes_verbs_options_and_values(program: Path, tmp_path: Path) -> None:
    assert completed(program, "sub") == ["submit"]
    assert set(completed(program, "")) == {*cli.VERBS, "help"}
    assert completed(program, "wait", "--time") == ["--timeout"]
    assert completed(program, "submit", "--format", "t") == ["toml"]
    assert completed(program, "site", "dr") == ["drain"]
    assert completed(program, "help", "exit") == ["exit-codes"]
    (tmp_path / "some-job.toml").touch()
    assert completed(program, "submit", f"{tmp_path}/some") == [f"{tmp_path}/some-job.toml"]


def test_where_no_node_answers_there_are_no_names_and_no_complaint(program: Path, tmp_path: Path) -> None:
    assert completed(program, "status", "--data", str(tmp_path), "") == []
    ended = subprocess.run(
        [str(program), "completion", "sites", "--data", str(tmp_path)], capture_output=True, check=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == (b"", b"")


def test_a_name_that_a_shell_would_expand_is_not_offered() -> None:
    assert completion.plain(["alpha-1", "$(reboot)", "`x`", "a b", "Alpha", "beta\n", "", "-x"]) == ["alpha-1"]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_script_names_every_verb_and_asks_for_groups(shell: str) -> None:
    text = completion.script(shell)
    assert all(verb in text for verb in cli.VERBS)
    assert any(asked in text for asked in ("completion groups", 'completion "$1"', "completion $what"))
