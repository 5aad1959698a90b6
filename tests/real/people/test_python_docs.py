"""docs/python.md is true: every snippet runs, in order, against two real sites; and so does the example."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diana.node.config.setup import init_user
from tests.e2e.grid import REPO, Grid

pytestmark = pytest.mark.e2e
SNIPPETS = re.findall(r"^```python\n(.*?)^```", (REPO / "docs" / "python.md").read_text(), re.MULTILINE | re.DOTALL)
SAYS = (
    "done\n",
    "2870\n",
    "rank 1 of 2\n",
    "beta site.slots > 999999 False 2 site.slots >= 2\n",
    "done\n",
    "6\n[0.0, 1.0, 2.0, 3.0, 4.0]\n499500.0\n",
    "[55, 6765, 832040]\n",
    "ZeroDivisionError",
    "done\n",
)
"""Text of each snippet's output."""


def run(program: list[str], folder: Path, data: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(REPO), "DIANA_DATA": str(data)}
    ran = subprocess.run(
        [sys.executable, *program], cwd=folder, env=environment, text=True, capture_output=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_every_snippet_and_the_example_run_as_they_stand(
    grid: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where `python3.N` of the job is looked for.
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    alpha, _ = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    grid.start()
    init_user(alpha.data, "ann", tmp_path / "ann-credential")
    shutil.copytree(REPO / "examples", tmp_path / "examples")
    assert len(SNIPPETS) == len(SAYS)
    for number, (snippet, says) in enumerate(zip(SNIPPETS, SAYS, strict=True)):
        (tmp_path / f"snippet{number}.py").write_text(snippet)
        printed = run([f"snippet{number}.py"], tmp_path, alpha.data)
        assert says in printed, (snippet, printed)
    assert re.fullmatch(
        r"pi is about 3\.14\d\d, after 10,000,000 darts\n", run(["examples/pi.py"], tmp_path, alpha.data)
    )
