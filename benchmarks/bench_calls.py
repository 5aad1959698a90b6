"""One-call jobs a second of `GridExecutor` at one real site, beside the tasks a second of Ray and Dask in the same run.

Ray and Dask come from an environment of their own, which is made once in benchmarks/out/peers (DIANA_PEERS names
another). They promise less: a task is a call in a process that lives on, no journal is written, and what a dead
machine had is run again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from time import perf_counter

from benchmarks.site import BenchSite
from diana.client import GridExecutor

SLOTS = 2
CALLS = 500
FEW = 16
"""Calls that each start an interpreter: some thirty times as slow."""
TINY = 10_000
PEERS = Path(__file__).parent / "out" / "peers"
INSTALL_S = 900
RUN_S = 300
PEER = Path(__file__).with_name("peer_calls.py")


def square(number: int) -> int:
    return number * number


def calls(folder: Path, rounds: int) -> dict[str, float]:
    """Calls a second over two slots: warm, cold, sharing jobs, and as tasks of Ray and Dask."""
    found: dict[str, float] = {}
    with BenchSite(folder / "calls", slots=SLOTS) as site:
        for name, warm, count, chunksize in (
            ("warm_calls_per_s", True, CALLS, 1),
            ("cold_calls_per_s", False, FEW, 1),
            ("shared_calls_per_s", True, TINY, None),
        ):
            with GridExecutor(site.data, python=sys.executable, warm=warm) as executor:
                executor.submit(square, 1).result()
                began = perf_counter()
                values = list(executor.map(square, range(count), chunksize=chunksize))
                found[name] = count / (perf_counter() - began)
            assert values == [number * number for number in range(count)]
    python = peers()
    for peer in ("ray", "dask"):
        command = [python, str(PEER), peer, str(SLOTS), str(CALLS)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
        if ended.returncode:
            print(f"    {peer}: {(ended.stderr.strip().splitlines() or ['said nothing'])[-1]}", file=sys.stderr)
        else:
            found[f"{peer}_tasks_per_s"] = json.loads(ended.stdout.splitlines()[-1])
    return found


def peers() -> str:
    """The Python of the environment that has Ray and Dask."""
    folder = Path(os.environ.get("DIANA_PEERS", PEERS))
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "ray", "distributed"]
        subprocess.run(command, check=True, timeout=INSTALL_S)
    return str(python)
