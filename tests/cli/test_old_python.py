"""A Python that is too old is told so in one line, whichever door it came in by."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.old_python import python

ROOT = Path(__file__).parents[2]
NAMES = [f"3.{minor}" for minor in range(6, 11)]


def told(old: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [old, *words], env=environment, cwd="/", capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_python_that_is_too_old_is_told_in_one_line_by_every_door(name: str, tmp_path: Path) -> None:
    old = python(name)
    script = tmp_path / "diana"
    script.write_text("import sys\nfrom diana.cli.main import main\nsys.exit(main())\n")
    for words in (["-m", "diana", "status"], ["-m", "diana.cli"], [str(script), "--version"]):
        done = told(old, *words)
        assert done.returncode == 2 and not done.stdout, done
        assert done.stderr == f"diana: diana wants Python 3.11 or newer; {old} is {name}\n"
    done = told(old, "-c", "import diana.client")
    assert done.stderr.splitlines()[-1].startswith("ImportError: diana wants Python 3.11 or newer; "), done


@pytest.mark.parametrize("name", NAMES[-1:])
def test_make_with_a_python_that_is_too_old_is_one_line(name: str, tmp_path: Path) -> None:
    old = python(name)
    for file in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / file, tmp_path)
    (tmp_path / "tests").mkdir()
    done = subprocess.run(
        ["make", "--silent", f"PYTHON={old}", "setup"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[0] == f"diana: {old} is no Python >= 3.11 with venv; say make PYTHON=/path/to/one"
    assert done.returncode == 2 and not (tmp_path / ".venv").exists()


def test_python_m_diana_is_the_command() -> None:
    done = told(sys.executable, "-m", "diana", "--version")
    assert done.returncode == 0 and done.stdout.startswith("diana ")
