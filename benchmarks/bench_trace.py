"""Jobs per second of one batch system over synthetic jobs, FCFS and EASY, and how it grows.

    python -m benchmarks.bench_trace [--sizes 10000,100000,1000000] [--load 0.9]

The replay alone, without reading a file. Times are of the processor, so that being put aside does not count.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from diana.sim.experiments.replay import replay
from diana.sim.load.usable import Work
from diana.sim.twins.batch import Discipline

PROCESSORS = 128


def synthetic(jobs: int, load: float, seed: int = 0) -> Work:
    """Poisson arrivals, lognormal run times, widths of powers of two; requests up to five times too long."""
    chance = np.random.RandomState(seed)
    run_s = np.ceil(chance.lognormal(6.0, 1.5, jobs))
    width = 2 ** chance.randint(0, 7, jobs)
    gap_s = float((run_s * width).mean()) / (PROCESSORS * load)
    submit_s = np.floor(np.cumsum(chance.exponential(gap_s, jobs)))
    return Work(submit_s, run_s, width.astype(np.int64), np.ceil(run_s * chance.uniform(1, 5, jobs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--load", type=float, default=0.9)
    args = parser.parse_args()
    for discipline in Discipline:
        for jobs in map(int, args.sizes.split(",")):
            work = synthetic(jobs, args.load)
            begin_s = time.process_time()
            waits_s = replay(work, PROCESSORS, discipline) - work.submit_s
            spent_s = time.process_time() - begin_s
            print(
                f"{discipline.value:<5} {jobs:>9,} jobs  load {args.load:g}  {spent_s:7.2f} s  "
                f"{jobs / spent_s:>9,.0f} jobs/s  mean wait {waits_s.mean():,.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
