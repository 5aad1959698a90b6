"""A history of many jobs: written, read and replayed (time, size, memory), beside the growth from a tenth of it.

    python -m benchmarks.bench_history [--jobs 1000000] [--per-group 1000] [--replay 20000]

Rows are made here, as a node tells them; the node's own part is the reading of its store. A replay runs the engine for
each job, so that a tenth or less of the jobs tells what all would take.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from pathlib import Path

from diana.model.ids import GroupId, SiteId
from diana.model.views.past import PastGroup, PastRows, PastSite
from diana.sim.load import past
from diana.sim.past.merging import load
from diana.sim.past.recording import KnownSite, Recorder
from diana.sim.past.replay import replayed

START_S = 1_800_000_000.0
SLOTS = 200


def written(folder: Path, jobs: int, per_group: int) -> float:
    """Seconds to write it."""
    rng = random.Random(7)
    site = PastSite(site=SiteId("alpha"), slots=SLOTS, speed=1.0)
    sites = [KnownSite("alpha", SLOTS, 1.0), KnownSite("beta", SLOTS, 1.0)]
    began_s = time.perf_counter()
    with Recorder(folder, site, sites, "lab") as recorder:
        for number in range(jobs // per_group):
            at_s = START_S + number * per_group * 30.0 / (2 * SLOTS)
            group = PastGroup(
                group=GroupId(f"alpha-{number + 1}"),
                owner=f"user{number % 20}@lab",
                jobs=per_group,
                submitted_wall_s=at_s,
                submitted_s=at_s,
                final=True,
                processors=1,
                work_s=30.0,
            )
            recorder.group(group)
            for half, name in enumerate(("alpha", "beta")):
                indices = tuple(range(half, per_group, 2))
                starts = tuple(at_s + rng.uniform(0, 30) for _ in indices)
                recorder.rows(
                    PastRows(
                        site=SiteId(name),
                        indices=indices,
                        attempts=(1,) * len(indices),
                        outcomes=("DONE",) * len(indices),
                        started_s=starts,
                        ended_s=tuple(start + rng.uniform(10, 50) for start in starts),
                        cpu_s=(29.0,) * len(indices),
                        max_rss_bytes=(20 << 20,) * len(indices),
                        output_bytes=(0,) * len(indices),
                    )
                )
        recorder.close((), (), {}, {})
    return time.perf_counter() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--per-group", type=int, default=1000)
    parser.add_argument("--replay", type=int, default=20_000, help="jobs of the history that is replayed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="diana-bench-") as root:
        for jobs in (args.jobs // 10, args.jobs):
            folder = Path(root) / str(jobs)
            wrote_s = written(folder, jobs, args.per_group)
            file = folder / "alpha.swf.gz"
            began_s = time.perf_counter()
            history = past.read(str(file))
            read_s = time.perf_counter() - began_s
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            print(
                f"{jobs:>9,} jobs, {len(history.groups):,} groups: written in {wrote_s:.1f} s, "
                f"{file.stat().st_size / 1e6:.1f} MB, read in {read_s:.1f} s, peak memory so far {peak} MiB",
                flush=True,
            )
        folder = Path(root) / "replayed"
        written(folder, args.replay, args.per_group)
        began_s = time.perf_counter()
        ((run,),) = replayed([load(folder)], range(1), workers=1)
        took_s = time.perf_counter() - began_s
        print(
            f"{args.replay:>9,} jobs replayed in {took_s:.1f} s ({1e6 * took_s / args.replay:.0f} us a job), "
            f"{run.unfinished} groups unfinished"
        )


if __name__ == "__main__":
    main()
