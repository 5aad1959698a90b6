"""Jobs per second of the simulator, with every decision made by the engine the node runs (PERFORMANCE P5, P9).

    python -m benchmarks.bench_replay [site grid jobs sites] [--jobs 2000] [--trace FILE.swf --processors P]
        [--accasim PYTHON] [--simpy PYTHON] [--rounds 3] [--largest 100000] [--most-sites 1000] [--json FILE]

site   one site, a group per job of a trace (given or synthetic), beside AccaSim and SimPy on the same jobs in turns.
grid   100 sites that hand over to each other: what is submitted at a quarter of them is more than they can do.
jobs   growth with the jobs at one site: groups of 1 and of 100.
sites  growth with the sites at the same work per site: cost and messages per job (Figure 11's claim), memory.

Referees are optional: PYTHON is an interpreter that has the package; without one it is printed as absent. Times are of
the processor, each measurement in a process of its own, so that memory is its own too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import replay_referees
from benchmarks.replay_cases import CASES

Row = dict[str, float | str]


def measured(case: str, **what: Any) -> Row:
    """One case in a process of its own; `seconds` are of its processor."""
    command = [sys.executable, "-m", "benchmarks.replay_cases", case, json.dumps(what)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{case} {what}: {done.stderr.strip()[-2000:]}")
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def show(row: Row) -> Row:
    words = (f"{key}={value:,.6g}" if isinstance(value, float) else f"{key}={value}" for key, value in row.items())
    print("  ".join(words), flush=True)
    return row


def site(options: argparse.Namespace) -> list[Row]:
    """In turns, the same jobs; medians and the ratio of each round's pair."""
    with tempfile.TemporaryDirectory(prefix="diana-replay-") as folder:
        trace = replay_referees.trace(Path(folder), options.trace, options.processors, options.jobs)
        ours: list[float] = []
        theirs: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            ours.append(float(show(measured("site", trace=str(trace.path), processors=trace.processors))["jobs_per_s"]))
            for name, python in (("accasim", options.accasim), ("simpy", options.simpy)):
                rate = replay_referees.rate(name, python, trace)
                if rate is not None:
                    theirs.setdefault(name, []).append(rate)
    rows: list[Row] = [{"case": "site", "jobs": trace.jobs, "jobs_per_s": median(ours)}]
    for name in ("accasim", "simpy"):
        found = theirs.get(name)
        if found is None:
            rows.append({"case": name, "jobs_per_s": "absent"})
        else:
            ratio = median(a / b for a, b in zip(ours, found, strict=True))
            rows.append({"case": name, "jobs_per_s": median(found), "ours_over_theirs": ratio})
    return [show(row) for row in rows]


def grid(options: argparse.Namespace) -> list[Row]:
    """Sites of 20 slots and groups of 100, where the sites' talk is most of the cost; sites of 1,000 and groups of
    10,000, where the jobs are."""
    small = measured("grid", sites=100, slots=20, groups=max(10, options.jobs // 20), jobs=100)
    large = measured("grid", sites=100, slots=1_000, groups=max(10, options.jobs // 66), jobs=10_000)
    return [show(small), show(large)]


def jobs(options: argparse.Namespace) -> list[Row]:
    rows = []
    for size, some in ((1, (1_000, 10_000, 100_000)), (100, (1_000, 10_000, 100_000, 1_000_000))):
        rows += [show(measured("jobs", jobs=n, size=size)) for n in some if n <= options.largest * size]
    return rows


def sites(options: argparse.Namespace) -> list[Row]:
    return [show(measured("sites", sites=n)) for n in (10, 100, 1_000, 10_000) if n <= options.most_sites]


PARTS: dict[str, Callable[[argparse.Namespace], list[Row]]] = {"site": site, "grid": grid, "jobs": jobs, "sites": sites}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--jobs", type=int, default=2000, help="of the trace, the first so many usable ones")
    parser.add_argument("--trace", type=Path, help="in SWF; else a synthetic one")
    parser.add_argument("--processors", type=int, default=128)
    parser.add_argument("--accasim", help="an interpreter that has it")
    parser.add_argument("--simpy", help="an interpreter that has it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--largest", type=int, default=10_000, help="groups, in the growth with jobs")
    parser.add_argument("--most-sites", type=int, default=1_000, help="in the growth with sites")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(PARTS)}")
    assert CASES.keys() >= PARTS.keys()
    found = {name: PARTS[name](options) for name in options.parts or PARTS}
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
