"""P2's lower half: 10,000 `/bin/true` through adapter and spawner, claims durable, against `xargs -P2`, in turns.

Run: python benchmarks/bench_spawner.py [--jobs 10000] [--slots 2] [--ahead 256] [--rounds 3] [--json FILE]

A feeder stands where the engine stands: it keeps `slots + ahead` runs claimed, forgets what has ended and, with
`--commit`, fsyncs a file per batch of ends as the journal does. `xargs` keeps nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from diana.adapters.lrm.local import LocalLrm
from diana.engine.journal.effects import Start
from diana.engine.journal.events import Event, JobsEnded, LrmReady, Run
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec
from diana.model.layout import DataDir

SUBGROUP = SubgroupId("alpha-1/0")


class Feeder:
    def __init__(self, data: DataDir, jobs: int, feed: int, slots: int, *, commit: bool) -> None:
        self.lrm = LocalLrm(data, SiteId("alpha"), slots, self.on_event, time.monotonic)
        self.jobs, self.feed = jobs, feed
        self.next = self.ended = self.done = self.batches = 0
        self.session = 0
        self.over = asyncio.get_running_loop().create_future()
        self.spec = GroupSpec(argv=("/bin/true",))
        self.journal = os.open(data.root / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND) if commit else -1

    def on_event(self, event: Event) -> None:
        if isinstance(event, LrmReady):
            self.session = event.session
        elif isinstance(event, JobsEnded):
            facts = event.facts
            self.batches += 1
            self.ended += len(facts.indices)
            self.done += facts.outcomes.count(Outcome.DONE)
            if self.journal >= 0:
                os.write(self.journal, b"x" * 100 * len(facts.indices))
                os.fdatasync(self.journal)
            self.lrm.forget(tuple(Run(SUBGROUP, 1, index, 1) for index in facts.indices))
            self.refill()
            if self.ended >= self.jobs and not self.over.done():
                self.over.set_result(None)

    def refill(self) -> None:
        stop = min(self.ended + self.feed, self.jobs)
        if stop > self.next:
            indices = IndexSet.span(self.next, stop)
            self.next = stop
            self.lrm.start(
                Start(session=self.session, subgroup=SUBGROUP, epoch=1, owner="u@vo", spec=self.spec, indices=indices)
            )


async def one_round(jobs: int, slots: int, ahead: int, *, commit: bool) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as root:
        data = DataDir(Path(root))
        LocalLrm.launch(data)
        feeder = Feeder(data, jobs, slots + ahead, slots, commit=commit)
        await feeder.lrm.connect()
        began_s = time.perf_counter()
        feeder.refill()
        await feeder.over
        took_s = time.perf_counter() - began_s
        assert feeder.done == jobs, f"{feeder.done} of {jobs} done"
        await feeder.lrm.close(stop_spawner=True)
        return jobs / took_s, feeder.batches


def xargs(jobs: int, slots: int) -> float:
    began_s = time.perf_counter()
    lines = b"x\n" * jobs
    subprocess.run(["xargs", "-n1", f"-P{slots}", "/bin/true"], input=lines, check=True)
    return jobs / (time.perf_counter() - began_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--ahead", type=int, default=256, help="jobs claimed beyond the slots")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commit", action="store_true", help="one fsync per batch of ends, as the journal does")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    ours, theirs, batches = [], [], 0
    for number in range(args.rounds):
        theirs.append(xargs(args.jobs, args.slots))
        rate, batches = asyncio.run(one_round(args.jobs, args.slots, args.ahead, commit=args.commit))
        ours.append(rate)
        print(f"round {number + 1}: xargs {theirs[-1]:.0f}/s, diana {rate:.0f}/s in {batches} batches", flush=True)
    result = {
        "jobs": args.jobs,
        "slots": args.slots,
        "claim_ahead": args.ahead,
        "commit": args.commit,
        "diana_per_s": round(statistics.median(ours)),
        "xargs_per_s": round(statistics.median(theirs)),
        "ratio": round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 3),
        "spread": [round(min(ours)), round(max(ours))],
    }
    print(json.dumps(result))
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
