"""No input ends a node: each reader of what others hand in refuses nonsense in one line, and never in another way.

Each is fed in a process of its own, for what goes wrong in a parser written in C ends the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fuzz.child import last_input
from tests.fuzz.crashes import CRASHES
from tests.fuzz.readers import NAMES, REPO, readers
from tests.runs import SEED

FEW, MANY = 30, 20_000 if os.environ.get("DIANA_FULL") == "1" else 3_000
"""Inputs of each reader in `make test`, and in `make soak PARTS=wide`."""


def fed(names: Sequence[str], count: int, folder: Path) -> list[int]:
    """Executions of each; AssertionError shows what a reader made of which input."""
    command = [sys.executable, "-m", "tests.fuzz.child", ",".join(names), str(SEED), str(count), str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(REPO), "TMPDIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
    executed = [int(line) for line in done.stdout.split()]
    if done.returncode:
        name = names[len(executed)]
        text = last_input(folder / "input")
        (folder / "crash").write_bytes(text)
        raise AssertionError(
            f"{name}: ended with {done.returncode} on {len(text)} bytes in {folder / 'crash'} (DIANA_SEED={SEED}): "
            f"{text[:300]!r}\n{done.stderr[-3000:]}"
        )
    return executed


@pytest.mark.parametrize("names", [NAMES[0::2], NAMES[1::2]], ids=",".join)
def test_no_input_ends_a_reader_but_in_one_line(names: tuple[str, ...], tmp_path: Path) -> None:
    executed = fed(names, FEW, tmp_path)
    assert len(executed) == len(names) and min(executed) >= FEW


@pytest.mark.wide
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_no_input_of_many_ends_a_reader_but_in_one_line(name: str, tmp_path: Path) -> None:
    assert min(fed([name], MANY, tmp_path)) >= MANY


def test_every_reader_is_fed() -> None:
    assert set(readers()) == set(NAMES) >= set(CRASHES)
