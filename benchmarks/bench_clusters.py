"""A bulk group of no-ops through Slurm beside `sbatch --array` alone, in turns, on one cluster made here.

    python -m benchmarks.bench_clusters [--jobs 2000] [--rounds 3] [--cpus 8] [--json FILE]

`ratio` is jobs per second of the group, from the command until its result is known, over those of the array, from
`sbatch` until `squeue` shows it no more. `calls_per_min` are the requests slurmctld answered that were not its own
machines', by its own count (`sdiag`), per minute of the group's run; `--sizes` runs groups of several sizes for these
alone. Needs root and the packages slurm-wlm, slurm-client and munge.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from diana.adapters.batch.settings import ClusterSettings
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.clusters.slurm_site import SlurmSite
from tests.e2e.grid import Grid, Site

_NO_OP = ["/bin/true"]
_LEAST_ARRAY = 1001
_CALLS = re.compile(
    r"^\s*(REQUEST_(?:SUBMIT_BATCH_JOB|JOB_INFO\w*|NODE_INFO\w*|PARTITION_INFO\w*|BUILD_INFO\w*|KILL_JOB\w*|"
    r"STATS_INFO\w*))\s*\(\s*\d+\)\s*count:(\d+)",
    re.MULTILINE,
)


def calls(slurm: SlurmSite) -> int:
    """Count the users' calls to slurmctld since it began, this question left out."""
    found = _CALLS.findall(slurm.run("sdiag"))
    return sum(int(count) for name, count in found if "STATS_INFO" not in name)


def array_s(slurm: SlurmSite, folder: Path, jobs: int) -> float:
    """Seconds of the bare array."""
    script = folder / "no-op.sh"
    script.write_text(f"#!/bin/sh\n{_NO_OP[0]}\n")
    began_s = time.monotonic()
    options = ("--parsable", "--output=/dev/null", "--error=/dev/null", f"--array=0-{jobs - 1}")
    job = slurm.run("sbatch", *options, str(script)).strip()
    while slurm.run("squeue", "-h", "-j", job, "-o", "%F", check=False).strip():
        time.sleep(0.2)
    return time.monotonic() - began_s


def group_s(site: Site, slurm: SlurmSite, jobs: int) -> tuple[float, float]:
    """Seconds of the bulk group, and calls per minute of it."""
    before, began_s = calls(slurm), time.monotonic()
    with site.client() as client:
        group = client.submit({"group": {"command": _NO_OP}, "sweep": {"array": f"0-{jobs - 1}"}}).group
        client.wait(group, timeout_s=3600.0)
        took_s = time.monotonic() - began_s
        done = client.status([group])[0]
    assert done.done == jobs, done
    return took_s, 60.0 * (calls(slurm) - before) / took_s


def node(grid: Grid, slurm: SlurmSite) -> Site:
    """As a site file says that names the cluster and nothing else."""
    site = grid.add("alpha", 0)
    settings = ClusterSettings(kind="slurm", config=str(slurm.config))
    write_config(
        site.paths.config,
        replace(load_config(site.paths.config), clusters={"slurm": settings}, root_jobs=True),
    )
    grid.start()
    return site


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpus", type=int, default=8)
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="of groups whose calls are counted")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, float]] = []
    sizes: list[dict[str, float]] = []
    # A controller that was told to end may still write its state.
    with tempfile.TemporaryDirectory(prefix="diana-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        slurm = SlurmSite(folder / "slurm", "bench", args.cpus, max(_LEAST_ARRAY, args.jobs + 1))
        grid = Grid()
        try:
            slurm.up()
            site = node(grid, slurm)
            group_s(site, slurm, 10)
            for _ in range(args.rounds):
                bare_s = array_s(slurm, folder, args.jobs)
                took_s, per_min = group_s(site, slurm, args.jobs)
                rows.append(
                    {
                        "array_per_s": args.jobs / bare_s,
                        "group_per_s": args.jobs / took_s,
                        "ratio": bare_s / took_s,
                        "calls_per_min": per_min,
                    }
                )
                print("  ".join(f"{key} {value:.2f}" for key, value in rows[-1].items()), flush=True)
            for size in args.sizes:
                took_s, per_min = group_s(site, slurm, size)
                sizes.append({"jobs": size, "took_s": took_s, "calls_per_min": per_min})
                print("  ".join(f"{key} {value:.1f}" for key, value in sizes[-1].items()), flush=True)
        finally:
            grid.close()
            slurm.down()
    if rows:
        medians = {key: median(row[key] for row in rows) for key in rows[0]}
        print("median  " + "  ".join(f"{key} {value:.2f}" for key, value in medians.items()))
    if args.json:
        args.json.write_text(json.dumps({"jobs": args.jobs, "rounds": rows, "sizes": sizes}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
