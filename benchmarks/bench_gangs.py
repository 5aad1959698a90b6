"""The cost of a component against an ordinary hand-over, side by side (SPEC K5).

    python -m benchmarks.bench_gangs [--rounds 5] [--jobs 200]

Engines alone, without anything around them: messages of the hand-over per job, and processor time of all three sites
together, from submission to acknowledged results. Ordinary groups have two jobs, each of which may run at one of two
sites; gangs have two components at the same two.
"""

from __future__ import annotations

import argparse
import gc
import time
from statistics import median
from typing import NamedTuple

from diana.engine.messages import messages as ms
from tests.engine.bench import Grid, Post
from tests.engine.builders import spec
from tests.engine.handover.test_gangs import gang

_ASIDE = (ms.QuoteRequest, ms.Quote, ms.Summary, ms.Gossip, ms.Progress)


class Cost(NamedTuple):
    messages: float
    """Per job, or component."""
    ms: float
    """Processor milliseconds per job, or component."""


def cost(jobs: int, *, gangs: bool) -> Cost:
    grid, sent = Grid({"max_subgroup": 1, "migration": "off"}, alpha=0, beta=jobs, gamma=jobs), 0

    def fate(_: Grid, __: int, post: Post) -> str:
        nonlocal sent
        sent += not isinstance(post[2], _ASIDE)
        return "deliver"

    grid.fate = fate
    gc.collect()
    began_s = time.process_time()
    for number in range(jobs // 2):
        wanted = gang("1x1@beta+1x1@gamma") if gangs else spec(2, sites=("beta", "gamma"))
        grid["alpha"].submit(wanted, 2, 10 + number)
    grid.finish()
    taken_s = time.process_time() - began_s
    return Cost(sent / jobs, 1000 * taken_s / jobs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=200)
    args = parser.parse_args()
    pairs = [(cost(args.jobs, gangs=False), cost(args.jobs, gangs=True)) for _ in range(args.rounds)]
    ratios = sorted(gang.ms / plain.ms for plain, gang in pairs)
    print(f"messages a job        ordinary {pairs[0][0].messages:5.1f}   component {pairs[0][1].messages:5.1f}")
    plain_ms, gang_ms = (median(pair[side].ms for pair in pairs) for side in (0, 1))
    print(f"processor ms a job    ordinary {plain_ms:5.2f}   component {gang_ms:5.2f}")
    print(f"ratio                 {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} in {args.rounds} rounds)")


if __name__ == "__main__":
    main()
