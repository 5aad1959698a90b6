"""The same jobs for all: a trace of one machine as plain SWF, and the rate of a referee that replays it."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench_trace import synthetic
from diana.sim.load import swf
from diana.sim.load.usable import choose

PROGRAMS = Path(__file__).with_name("referee_programs.py")


class Trace(NamedTuple):
    path: Path
    processors: int
    jobs: int


def trace(folder: Path, given: Path | None, processors: int, first: int) -> Trace:
    """The first usable jobs of a given trace, or a synthetic one, in whole seconds and from 0 on."""
    work = choose(swf.read(given), processors, first)[0] if given else synthetic(first, 0.9)
    path = folder / "jobs.swf"
    lines = [f"; MaxProcs: {processors}"]
    begin_s = work.submit_s[0]
    columns = (work.submit_s - begin_s, work.run_s, work.processors, work.estimate_s)
    for number, row in enumerate(zip(*(c.tolist() for c in columns), strict=True), 1):
        submit_s, run_s, wide, asked_s = (int(value) for value in row)
        lines.append(f"{number} {submit_s} -1 {run_s} {wide} -1 -1 {wide} {asked_s} -1 1 1 1 -1 -1 -1 -1 -1")
    path.write_text("\n".join(lines) + "\n")
    return Trace(path, processors, len(work))


def rate(name: str, python: str | None, of: Trace) -> float | None:
    """Jobs per second of the processor; None: there is no such referee here."""
    if not python:
        return None
    with tempfile.TemporaryDirectory(prefix="diana-referee-") as folder:
        command = [python, str(PROGRAMS), name, str(of.path), str(of.processors), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip()[-2000:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    print(f"{name}: {of.jobs / said['seconds']:,.0f} jobs/s, mean wait {said['mean_wait_s']:,.1f} s", flush=True)
    return float(of.jobs / said["seconds"])
