"""The cost of inputs: copies of a job's own against links, and against no inputs at all, in turns.

Run: python benchmarks/bench_inputs.py [--jobs 1000] [--inputs 10] [--readers 100] [--large-mib 2048] [--rounds 3]

Two cases. Many small inputs: each job gets so many files of 1 KiB. One large input: a file that is beyond the bound of
copies, read whole by each of the readers; beside it the same with the bound raised, so that each reader has a copy.
All through adapter and spawner; jobs per second from the first order to the last end, outputs none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from diana.adapters.lrm.inputs.placing import COPY_BYTES
from diana.adapters.lrm.local import LocalLrm
from diana.engine.journal.effects import Start
from diana.engine.journal.events import Event, JobsEnded, LrmReady, Run
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import Axis, GroupSpec, InputFile, Sweep
from diana.model.layout import DataDir

SUBGROUP = SubgroupId("alpha-1/0")
SLOTS, AHEAD = 2, 64
SWEEP = Sweep(axes=(Axis(name="n", stop=1_000_000),))


class Feeder:
    """Stands where the engine stands: keeps slots and a few more claimed."""

    def __init__(self, data: DataDir, spec: GroupSpec, jobs: int, copy_bytes: int) -> None:
        self.lrm = LocalLrm(data, SiteId("alpha"), SLOTS, self.on_event, time.monotonic, copy_bytes=copy_bytes)
        self.spec, self.jobs = spec, jobs
        self.next = self.ended = self.done = self.session = 0
        self.over = asyncio.get_running_loop().create_future()

    def on_event(self, event: Event) -> None:
        if isinstance(event, LrmReady):
            self.session = event.session
        elif isinstance(event, JobsEnded):
            facts = event.facts
            self.ended += len(facts.indices)
            self.done += facts.outcomes.count(Outcome.DONE)
            self.lrm.forget(tuple(Run(SUBGROUP, 1, index, 1) for index in facts.indices))
            self.refill()
            if self.ended >= self.jobs and not self.over.done():
                self.over.set_result(None)

    def refill(self) -> None:
        stop = min(self.ended + SLOTS + AHEAD, self.jobs)
        if stop > self.next:
            indices = IndexSet.span(self.next, stop)
            self.next = stop
            start = Start(
                session=self.session, subgroup=SUBGROUP, epoch=1, owner="u@vo", spec=self.spec, indices=indices
            )
            self.lrm.start(start)


async def run(root: Path, spec: GroupSpec, jobs: int, copy_bytes: int = COPY_BYTES) -> float:
    """Return jobs per second."""
    data = DataDir(root)
    LocalLrm.launch(data)
    feeder = Feeder(data, spec, jobs, copy_bytes)
    await feeder.lrm.connect()
    began_s = time.perf_counter()
    feeder.refill()
    await feeder.over
    took_s = time.perf_counter() - began_s
    assert feeder.done == jobs, f"{feeder.done} of {jobs} done"
    await feeder.lrm.close(stop_spawner=True)
    return jobs / took_s


def staged(root: Path, name: str, source: Path) -> str:
    link = DataDir(root).staged(SUBGROUP) / "dataset" / "in" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(source)
    return f"dataset:in/{name}"


def small(kind: str, jobs: int, inputs: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "data")
        files = []
        for number in range(inputs):
            source = Path(folder, f"i{number}")
            source.write_bytes(bytes(1024))
            files.append(InputFile(source=staged(root, f"i{number}", source), path=f"i{number}", link=kind == "link"))
        spec = GroupSpec(
            argv=("/bin/true",), own_directory=True, sweep=SWEEP, inputs=() if kind == "none" else tuple(files)
        )
        return asyncio.run(run(root, spec, jobs))


def large(kind: str, readers: int, size_bytes: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        root, source = Path(folder, "data"), Path(folder, "large")
        with open(source, "wb") as file:
            for _ in range(size_bytes >> 20):
                file.write(bytes(1 << 20))
        given = InputFile(source=staged(root, "large", source), path="large")
        bare = kind == "none"
        argv = ("/bin/cp", str(source) if bare else "large", "/dev/null")
        spec = GroupSpec(argv=argv, own_directory=True, sweep=SWEEP, inputs=() if bare else (given,))
        return asyncio.run(run(root, spec, readers, 1 << 60 if kind == "copy" else COPY_BYTES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--inputs", type=int, default=10, help="small inputs of each job")
    parser.add_argument("--readers", type=int, default=100, help="jobs that read the large input")
    parser.add_argument("--large-mib", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", action="store_true", help="copy the large input for each reader as well")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rates: dict[str, list[float]] = {}
    for _ in range(args.rounds):
        for kind in ("none", "link", "copy"):
            rates.setdefault(f"small_{kind}_per_s", []).append(small(kind, args.jobs, args.inputs))
        for kind in ("none", "link", "copy") if args.copies else ("none", "link"):
            rates.setdefault(f"large_{kind}_per_s", []).append(large(kind, args.readers, args.large_mib << 20))
        print({name: round(each[-1], 1) for name, each in rates.items()}, flush=True)
    result: dict[str, float] = {name: round(statistics.median(each), 2) for name, each in rates.items()}
    for name in [name for name in rates if "_none_" not in name]:
        base = f"{name.partition('_')[0]}_none_per_s"
        pairs = zip(rates[name], rates[base], strict=True)
        result[name.replace("_per_s", "_to_none")] = round(statistics.median(a / b for a, b in pairs), 3)
    pairs = zip(rates["small_copy_per_s"], rates["small_link_per_s"], strict=True)
    result["small_copy_to_link"] = round(statistics.median(a / b for a, b in pairs), 3)
    print(json.dumps(result))
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
