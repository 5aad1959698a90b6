"""Errors of learned models on the programs of `examples/grads`, by real runs (SPEC G2).

    python -m benchmarks.bench_learned [--runs 36] [--seed 1] [--json FILE]

Each program runs so many times, on sizes and numbers of processes that the seed draws. Each run is foretold, before it
begins, by the fit of those before it and the range of their errors, as an origin does it; from the thirteenth on it
counts. Rows: the median error, and the part of the runs whose time lay in the range shown, which is to hold eight of
ten. Seconds are those of the slowest process on its processor, so that other load does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from diana.model.learned import RunFit, RunSample
from diana.model.sketch import Sketch, batch_of
from diana.policy.grads.models import foreseen

PROGRAMS = Path(__file__).parents[1] / "examples" / "grads"
FIRST = 12
"""Runs of each program that are learned from before any counts."""


class Drawn(NamedTuple):
    words: list[str]
    work: float
    """Work as its job file would declare it, in any unit."""
    processes: int


def drawn(program: str, rng: random.Random) -> Drawn:
    match program:
        case "jacobi":
            n, steps = rng.randint(20, 60), rng.randint(50, 150)
            return Drawn([str(n), str(steps), "--every", "1000"], n * n * steps / 1e6, 1)
        case "life":
            n, steps = rng.randint(15, 40), rng.randint(50, 150)
            return Drawn([str(n), str(steps)], n * n * steps / 1e5, 1)
        case "fasta":
            databases, sequences = rng.randint(2, 4), rng.randint(40, 160)
            return Drawn([str(databases), str(sequences)], databases * sequences / 100, rng.randint(1, 3))
        case "lu":
            n = rng.randint(160, 420)
            return Drawn([str(n)], n**3 / 1e7, rng.randint(1, 3))
        case "cactus":
            n, steps = rng.randint(20, 48), rng.randint(40, 120)
            return Drawn([str(n), str(steps)], n**3 * steps / 1e6, rng.randint(1, 3))
        case _:
            particles, steps = rng.randint(100, 400), rng.randint(20, 60)
            return Drawn([str(particles), str(steps)], particles * steps / 1e3, rng.randint(1, 3))


def seconds_of(program: str, run: Drawn) -> float:
    """Run it; return the processor seconds of its slowest process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {name: value for name, value in os.environ.items() if not name.startswith("DIANA_")}
    own |= {"OPENBLAS_NUM_THREADS": "1", "DIANA_GANG_SIZE": str(run.processes), "DIANA_GANG_PORT": str(port)}
    own |= {"DIANA_GANG_HOSTS": ",".join(["127.0.0.1"] * run.processes), "DIANA_GANG_TOKEN": "a secret"}
    with tempfile.TemporaryDirectory() as folder:
        pids = []
        for rank in range(run.processes):
            mine = Path(folder) / str(rank)
            mine.mkdir()
            words = [sys.executable, str(PROGRAMS / f"{program}.py"), *run.words]
            with open(mine / "out", "wb") as out:
                environment = {**own, "DIANA_GANG_RANK": str(rank)}
                pids.append(subprocess.Popen(words, cwd=mine, stdout=out, env=environment).pid)
        used = []
        for pid in pids:
            _, status, usage = os.wait4(pid, 0)
            if status:
                sys.exit(f"{program} {' '.join(run.words)}: exit status {status}")
            used.append(usage.ru_utime + usage.ru_stime)
    return max(used)


def measured(program: str, runs: int, seed: int) -> dict[str, float | str]:
    rng = random.Random(f"{program} {seed}")
    fit, errors, off, held = RunFit(), Sketch(), list[float](), list[bool]()
    for number in range(runs):
        run = drawn(program, rng)
        seconds, x = seconds_of(program, run), run.work / run.processes
        if (terms := fit.terms()) is not None:
            model_s = terms[0] + terms[1] * x
            told = foreseen(model_s, errors.finer_quantiles() if errors.seen else None)
            if number >= FIRST:
                off.append(abs(seconds / told.mean_s - 1))
                held.append(told.low_s <= seconds <= told.high_s)
            errors.add(batch_of([seconds / model_s]))
        fit.add(RunSample(x, 0, seconds, 1))
    return {"program": program, "runs": len(off), "median_error": median(off), "held": sum(held) / len(held)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=36)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for program in ("jacobi", "life", "fasta", "lu", "cactus", "fish"):
        rows.append(measured(program, args.runs, args.seed))
        row = rows[-1]
        print(f"{program:8} {row['runs']} runs: median error {row['median_error']:.1%}, range held {row['held']:.0%}")
    whole = sum(float(row["held"]) * float(row["runs"]) for row in rows) / sum(float(row["runs"]) for row in rows)
    print(f"all: range held {whole:.1%}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
