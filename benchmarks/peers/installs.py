"""Peers by name: found on this machine, or installed from Debian's or Python's packages into places of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PLACE = Path(__file__).parents[2] / "build" / "peers"
PATIENCE_S = 900
"""Seconds for one installation."""
DEBIAN = {
    "xargs": (("xargs",), ("findutils",)),
    "parallel": (("parallel",), ("parallel",)),
    "slurm": (("slurmctld", "slurmd", "sbatch", "munged"), ("slurm-wlm", "slurm-client", "munge")),
}
"""Peer -> (its programs, its packages)."""
PYTHON = {
    "hyperqueue": "hyperqueue",
    "ray": "ray",
    "dask": "distributed",
    "parsl": "parsl",
    "accasim": "accasim",
    "simpy": "simpy",
}
"""Peer -> its package."""
NAMES = (*DEBIAN, *PYTHON)
ALSO = {"accasim": ("setuptools<81",)}
"""Packages that a peer uses and does not name."""


class Peer(NamedTuple):
    name: str
    python: str = ""
    """Interpreter of its environment; empty: it is a program of the machine."""
    version: str = ""
    absent: str = ""
    """Reason why it cannot be run here; empty: it can."""


def peer(name: str, *, install: bool = True) -> Peer:
    """Return the peer, installed where it was not there yet."""
    return _of_debian(name, install) if name in DEBIAN else _of_python(name, install)


def _missing(programs: Iterable[str]) -> list[str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [program for program in programs if shutil.which(program, path=path) is None]


def _of_debian(name: str, install: bool) -> Peer:
    programs, packages = DEBIAN[name]
    if _missing(programs) and install:
        if os.getuid():
            return Peer(name, absent="installing it takes root")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
            why = _run(["apt-get", *words], environment)
            if why:
                return Peer(name, absent=why)
    if lacks := _missing(programs):
        return Peer(name, absent=f"no {lacks[0]} on this machine")
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", packages[0]], capture_output=True, text=True, check=False
    )
    return Peer(name, version=asked.stdout.strip())


def _of_python(name: str, install: bool) -> Peer:
    place = PLACE / name
    python, done = place / "bin" / "python", place / ".installed"
    if not done.exists():
        if not install:
            return Peer(name, absent="not installed; run without --no-install")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        steps = [[sys.executable, "-m", "venv", str(place)], [*pip, PYTHON[name], *ALSO.get(name, ())]]
        for words in steps:
            why = _run(words)
            if why:
                return Peer(name, absent=why)
        done.touch()
    asked = f"import importlib.metadata as m; print(m.version({PYTHON[name]!r}))"
    found = subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=False)
    if name == "hyperqueue" and not (place / "bin" / "hq").exists():
        return Peer(name, absent="its package brings Python bindings and no `hq`")
    return Peer(name, str(python), found.stdout.strip())


def _run(words: list[str], environment: dict[str, str] | None = None) -> str:
    """Return why the command failed, in a line; empty: it did not."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment, stdin=None
        )
    except subprocess.TimeoutExpired:
        return f"{Path(words[0]).name} {words[1]} took more than {PATIENCE_S} s"
    if not done.returncode:
        return ""
    said = (done.stderr or done.stdout).strip().splitlines()
    return f"{Path(words[0]).name}: {said[-1][:160] if said else f'exit code {done.returncode}'}"
