"""A page of docs/ typed into a shell: its files written, its commands given one after the other, what they say kept."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.grid import REPO, Grid

PLUGINS = REPO / "diana" / "workflows" / "plugins"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Fenced blocks of `docs/PAGE`: the language and the text."""
    for found in _BLOCK.finditer((REPO / "docs" / page).read_text(encoding="utf-8")):
        yield found[1], found[2]


def environment(grid: Grid) -> dict[str, str]:
    """As after `pip install 'diana-grid[snakemake]'`, with `diana` and `snakemake` in PATH; marked as the grid's, which
    ends what is left."""
    programs = grid.root / "bin"
    if not programs.exists():
        programs.mkdir()
        for name, module in (("diana", "diana.cli"), ("snakemake", "snakemake")):
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
            (programs / name).chmod(0o755)
    return {
        **os.environ,
        "DIANA_E2E_GRID": grid.mark,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": f"{REPO}:{PLUGINS}",
        "HOME": str(grid.root),
        "XDG_CACHE_HOME": str(grid.root / "cache"),
    }


class Shell:
    """One bash; what is exported or started in the background stays for the next command. `here` turns a command of the
    page into one for this test: other ports, say."""

    def __init__(self, grid: Grid, folder: Path, here: Callable[[str], str]) -> None:
        self._here = here
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            env=environment(grid),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bash.kill()
        self._bash.wait()
        for pipe in (self._bash.stdin, self._bash.stdout):
            if pipe is not None:
                pipe.close()

    def say(self, command: str, code: int = 0) -> str:
        """Its output. AssertionError when it ends with another code."""
        assert self._bash.stdin is not None and self._bash.stdout is not None
        self._bash.stdin.write(f'{self._here(command)}\necho "::$?::"\n')
        self._bash.stdin.flush()
        said = []
        for line in self._bash.stdout:
            if ended := re.search(r"::(\d+)::$", line):
                text = "".join(said)
                print(f"$ {command}\n{text}")
                assert int(ended[1]) == code, f"{command}: ended with {ended[1]}\n{text}"
                return text
            said.append(line)
        raise AssertionError(f"{command}: the shell ended\n{''.join(said)}")
