"""node.log and node.out do not grow for ever."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.cli.sites import detached
from diana.node import node_log


@pytest.fixture
def root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.mark.usefixtures("root_as_it_was")
def test_a_log_that_has_grown_is_put_aside_and_the_oldest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_log, "MOST_BYTES", 2000)
    node_log.log_to(tmp_path / "node.log")
    for number in range(200):
        logging.getLogger("diana.test").warning("line %d of many that an operator may want to read", number)
    logs = sorted(path.name for path in tmp_path.iterdir())
    assert logs == ["node.log", "node.log.1", "node.log.2"]
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    assert "line 199 " in (tmp_path / "node.log").read_text()


def test_what_earlier_nodes_said_is_put_aside_once_it_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_log, "MOST_BYTES", 10)
    out = tmp_path / "node.out"
    detached._put_aside(out)
    out.write_text("short")
    detached._put_aside(out)
    assert out.read_text() == "short"
    out.write_text("longer than that")
    detached._put_aside(out)
    assert not out.exists() and (tmp_path / "node.out.1").read_text() == "longer than that"


ASIDE = """
import os
from pathlib import Path
from diana.node.node_log import put_output_aside

def rounds():
    for _ in range(5):
        put_output_aside(Path("node.out"), 1)
    return len(os.listdir("/proc/self/fd"))

print("said", flush=True)
Path("told").write_text(f"{len(os.listdir('/proc/self/fd'))} {rounds()}")
"""


def test_a_file_that_cannot_be_put_aside_costs_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "node.out.1" / "in the way").mkdir(parents=True)
    with (tmp_path / "node.out").open("ab") as out:
        subprocess.run([sys.executable, "-c", ASIDE], stdout=out, cwd=tmp_path, timeout=100, check=True)
    before, after = (tmp_path / "told").read_text().split()
    assert before == after and (tmp_path / "node.out").read_text() == "said\n"
