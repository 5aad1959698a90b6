"""Interpreters that are too old for diana, where this machine has some."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def python(name: str) -> str:
    """The path of a Python of this version, on PATH or as pyenv keeps them; the test is skipped where there is none."""
    kept = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob(f"{name}.*/bin/python3"))
    on_path = shutil.which(f"python{name}")
    for path in [*map(str, kept), *([on_path] if on_path else [])]:
        asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(asked, capture_output=True, text=True).stdout.strip() == name:
            return path
    pytest.skip(f"there is no Python {name} here")
