"""The completion script in a real zsh, with the names of a real node."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.cli import main as cli
from diana.cli.published.reference import command_of
from diana.cli.shared.parsing import parser_of
from tests.cli.shells import Zsh, make_program
from tests.e2e.grid import Grid

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh on this machine, so its completion is not tried"),
]


@pytest.fixture
def zsh(tmp_path: Path) -> Iterator[Zsh]:
    with Zsh(make_program(tmp_path)) as shell:
        yield shell


def test_verbs_options_values_files_and_the_names_of_a_node_are_completed(grid: Grid, zsh: Zsh, tmp_path: Path) -> None:
    assert set(zsh.completed("diana ")) == {*cli.VERBS, "help"}
    assert zsh.completed("diana sub") == ["submit"]
    assert zsh.completed("diana wait --time") == ["--timeout"]
    assert zsh.completed("diana submit --format t") == ["toml"]
    assert zsh.completed("diana results g-1 --outcome f") == ["failed"]
    assert zsh.completed("diana site dr") == ["drain"]
    assert zsh.completed("diana help exit") == ["exit-codes"]
    (tmp_path / "some-job.toml").touch()
    assert zsh.completed(f"diana submit {tmp_path}/some") == ["some-job.toml"]
    # Where no node answers there are no names, and no complaint.
    assert zsh.completed(f"diana status --data {tmp_path} ") == []

    alpha, beta = grid.add("alpha", 1), grid.add("beta", 1)
    grid.join()
    grid.start()
    with alpha.client() as client:
        groups = [client.submit({"group": {"command": ["true"]}}).group for _ in range(3)]
        there = f"--data {alpha.data}"
        assert sorted(zsh.completed(f"diana status {there} ")) == groups
        assert zsh.completed(f"diana wait {there} {groups[0]} {groups[1]}") == [groups[1]]
        assert sorted(zsh.completed(f"diana cancel {there} al")) == groups
        assert sorted(zsh.completed(f"{tmp_path}/diana explain {there} ")) == groups
        assert sorted(zsh.completed(f"diana move {there} {groups[0]} --to ")) == ["alpha", "beta"]
    assert zsh.completed(f"diana status --data {beta.data} ") == []
    # As it is typed: a prefix all names share is put in, what is alone is ended with a space.
    zsh.typed(f"diana status {there} a", "alpha-")
    zsh.typed("diana comp", "diana completion ")


def test_every_verb_offers_all_its_options_and_zsh_complains_of_nothing(zsh: Zsh) -> None:
    for verb, entry in cli.VERBS.items():
        parser = parser_of(verb, entry.summary, command_of(verb, entry))
        options = {word for action in parser._actions for word in action.option_strings if word.startswith("--")}
        offered = set(zsh.completed(f"diana {verb} --"))
        # Of two names for one option either will do.
        missing = {word for word in options - offered if word not in ("--me", "--mine")}
        assert not missing and offered <= options, (verb, missing, offered - options)
    assert "_arguments:" not in zsh.terminal.raw.decode()


def test_a_verb_is_listed_with_one_line_about_it(zsh: Zsh) -> None:
    zsh.terminal.press("diana re\t")
    zsh.terminal.until(cli.VERBS["retry"].summary)
    shown = zsh.terminal.raw.decode()
    assert all(f"{verb} " in shown for verb in ("release", "restore", "results"))
    assert "Of what is named only the failed jobs" not in shown
