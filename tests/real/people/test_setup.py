"""A first `make demo` in a bare clone, under the oldest Python here that the README allows, packages fetched as pip
does on this machine (a minute on two idle processors)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
# What a virtual environment comes with by itself, and diana.
BESIDE_THE_LOCK = {"pip", "setuptools", "diana-grid"}
VERSION = "import sys; print(*sys.version_info[:3], sep='.')"
INSTALLED = "import importlib.metadata as m; print(*{f'{d.name} {d.version}' for d in m.distributions()}, sep='\\n')"


def said(python: str | Path, code: str) -> str:
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def oldest_python() -> tuple[str, str]:
    """Its path and version: Debian's own 3.11 where it is one that can make environments, else that of these tests."""
    makes = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))"
    found = [getattr(sys, "_base_executable", sys.executable), *Path("/usr/bin").glob("python3.1[1-9]")]
    able = [str(path) for path in found if not subprocess.run([path, "-c", makes], capture_output=True).returncode]
    versions = {path: said(path, VERSION) for path in able}
    return min(versions.items(), key=lambda one: [int(part) for part in one[1].split(".")])


def bare_clone(folder: Path) -> Path:
    """The files of this tree that git knows, as they stand here."""
    known = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, known.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def make(clone: Path, *words: str) -> str:
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "DIANA_DATA", "MAKEFLAGS", "MAKELEVEL")
    environment = {name: text for name, text in os.environ.items() if name not in ours}
    done = subprocess.run(
        ["make", *words], cwd=clone, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, f"make {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def pinned() -> set[str]:
    """Name and version of each line of the lock that is for this machine."""
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith(" ")]
    pins = [Requirement(line.rstrip("\\")) for line in lines]
    return {
        f"{canonical(pin.name)} {str(pin.specifier)[2:]}" for pin in pins if not pin.marker or pin.marker.evaluate()
    }


def canonical(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


@pytest.mark.timeout(580)
def test_make_demo_works_in_a_bare_clone_under_the_oldest_python_with_what_it_needs_and_no_more(tmp_path: Path) -> None:
    path, version = oldest_python()
    clone = bare_clone(tmp_path / "diana")
    told = make(clone, "demo", f"PYTHON={path}", "DEMO=--sites 2 --jobs 6")
    assert "6 of 6 jobs done" in told and (clone / "demo-out" / "histogram.png").stat().st_size > 1000

    programs = clone / ".venv" / "bin"
    assert said(programs / "python", VERSION) == version
    answer = subprocess.run([programs / "diana", "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.startswith("diana ")
    there = dict(line.split() for line in said(programs / "python", INSTALLED).splitlines())
    beside = {f"{canonical(name)} {release}" for name, release in there.items() if name not in BESIDE_THE_LOCK}
    assert beside == pinned()

    assert "setting up" not in make(clone, "setup", f"PYTHON={path}"), "once is enough"
