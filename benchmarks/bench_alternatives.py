"""Plans against forced alternatives, and predicted turnaround against achieved, in the simulator (SPEC D1, D6).

The same with real nodes and shaped links: `DIANA_FULL=1 .venv/bin/python -m pytest tests/real -k forced`.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from diana.sim.experiments.alternatives import CaseRow, compare, drawn, errors, stream
from diana.sim.world.runner import simulate

CASES = 10
GROUPS = 20


def alternatives(folder: Path, rounds: int) -> dict[str, float]:
    """Planned against all at home, all at the biggest site and round robin; each round is another seed."""
    began_s = time.perf_counter()
    rows = [compare(drawn(seed, number), seed) for seed in range(rounds) for number in range(CASES)]
    print(f"    {'':<14} {'predicted':>9}" + "".join(f" {name:>18}" for name in rows[0].makespan_s))
    for row in rows:
        print(_line(row), flush=True)
    found = [errors(simulate(stream(seed, GROUPS), seed).groups) for seed in range(rounds)]
    return {
        "cases": len(rows),
        "plan_as_good_as_best": sum(row.good() for row in rows),
        "speedup_over_best_median": median(row.best_alternative_s() / row.makespan_s["planned"] for row in rows),
        "error_groups": sum(len(one.rows) for one in found),
        "error_median": median(one.quantile(0.5) for one in found),
        "error_p75": median(one.quantile(0.75) for one in found),
        "error_p90": median(one.quantile(0.9) for one in found),
        "error_median_worst_seed": max(one.quantile(0.5) for one in found),
        "took_s": time.perf_counter() - began_s,
    }


def _line(row: CaseRow) -> str:
    ends = "".join(f" {s:8.1f} s {row.bytes_moved[name] / 1e6:5.0f} MB" for name, s in row.makespan_s.items())
    return f"    {row.name:<14} {row.predicted_s:7.1f} s{ends}{'' if row.good() else '  behind'}"
