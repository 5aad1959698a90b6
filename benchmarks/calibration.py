"""Calibration: the bare speed of this machine, measured in the same run as the figures, so that these can be read as
ratios."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np


def timed(step: Callable[[], object], rounds: int) -> float:
    """Median seconds of one step."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        step()
        taken.append(time.perf_counter() - began)
    return median(taken)


def calibration(folder: Path) -> dict[str, float]:
    fd = os.open(folder / "fsync", os.O_WRONLY | os.O_CREAT, 0o600)
    values = np.arange(1_000_000, dtype=np.float64)

    def fsync() -> None:
        os.write(fd, b"x" * 512)
        os.fsync(fd)

    try:
        return {
            "python_pass_ms": 1000 * timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 9),
            "fsync_ms": 1000 * timed(fsync, 50),
            "numpy_million_ms": 1000 * timed(lambda: float(np.sqrt(values).sum()), 9),
        }
    finally:
        os.close(fd)


def xargs_jobs_per_s(jobs: int) -> float:
    """`/bin/true` twice at a time, without any queue: the baseline of P2."""
    numbers = "\n".join(map(str, range(jobs)))
    began = time.perf_counter()
    subprocess.run(["xargs", "-P2", "-n1", "/bin/true"], input=numbers, text=True, check=True)
    return jobs / (time.perf_counter() - began)
