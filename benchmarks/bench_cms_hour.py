"""The CMS case for a bounded time on real nodes (SPEC D12): a thousand users, ten thousand submissions a day, a
thousand jobs at once, turnaround from a fraction of a second on, groups that read several datasets.

    python -m benchmarks.bench_cms_hour [--minutes 60] [--users 1000] [--slots 1000] [--sites 3] [--seed 1]
        [--json FILE]

Run by hand. Sites are processes of this machine, jobs are `sleep`: what is measured is the scheduler. Users call with
credentials of their own over TLS. Work is drawn so that nine tenths of the slots are busy; the longest job is a tenth
of the whole time. At the end all jobs must be done, each started once. Prints latencies, waits and what nodes cost.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.site import cpu_s, resident_bytes
from diana.client import Client
from diana.errors import DianaError
from diana.node.config.setup import init_user
from tests.e2e.grid import Grid, Site

SUBMISSIONS_PER_S = 10_000 / 86_400
BUSY = 0.9
DATASETS = 60
MOST_READ = 50
DRAIN_S = 900.0


class Submitted(NamedTuple):
    group: str
    user: int
    jobs: int
    run_s: float
    latency_s: float
    at_s: float


class Hour:
    """One run: the grid, its users and what they did."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.chance = random.Random(args.seed)
        self.grid = Grid()
        self.starts = self.grid.root / "starts"
        self.starts.touch()
        self.submitted: list[Submitted] = []
        self.refused: list[str] = []
        self.most_running = 0

    def begin(self) -> None:
        left = self.args.slots
        for at in range(self.args.sites):
            share = left if at == self.args.sites - 1 else int(self.args.slots / self.args.sites)
            self.grid.add(f"s{at}", share)
            left -= share
        self.grid.join()
        self.grid.start()
        self.sites = list(self.grid.sites.values())
        self.users = self.grid.root / "users"
        self.users.mkdir()
        for number in range(self.args.users):
            init_user(self.sites[0].data, f"u{number}", self.users / f"u{number}")
        for number in range(DATASETS):
            site = self.sites[number % len(self.sites)]
            (self.grid.root / f"d{number}").write_bytes(os.urandom(10_000))
            with site.client() as client:
                client.add_dataset(f"d{number}", [self.grid.root / f"d{number}"])

    def draw(self) -> dict[str, object]:
        """Draw one submission: sizes and run times are spread over decades, their mean product fills the slots."""
        whole_s = self.args.minutes * 60.0
        longest_s = whole_s / 10.0
        mean_work_s = BUSY * self.args.slots / SUBMISSIONS_PER_S
        run_s = min(longest_s, self.chance.lognormvariate(2.5, 1.8) + 0.2)
        jobs = max(1, min(2_000, round(mean_work_s * self.chance.expovariate(1.0) / run_s)))
        read = self.chance.sample(range(DATASETS), self.chance.choice((0, 0, 1, 3, MOST_READ)))
        script = 'echo "$DIANA_GROUP $DIANA_INDEX $DIANA_ATTEMPT" >> "$STARTS"; exec sleep "$0"'
        return {
            "group": {
                "command": ["sh", "-c", script, f"{run_s:.2f}"],
                "environment": {"STARTS": str(self.starts)},
            },
            "sweep": {"array": f"0-{jobs - 1}"},
            "resources": {"work": round(run_s, 2)},
            "inputs": [{"url": f"dataset:d{number}"} for number in read],
        }

    def submit(self, user: int, job: dict[str, object], at_s: float) -> Submitted:
        begun = time.perf_counter()
        with Client(credential=self.users / f"u{user}") as client:
            made = client.submit(job)
        took_s = time.perf_counter() - begun
        run_s = float(str(job["resources"]["work"]))  # type: ignore[index]
        return Submitted(made.group, user, made.jobs, run_s, took_s, at_s)

    def run(self) -> None:
        whole_s = self.args.minutes * 60.0
        begun = time.monotonic()
        due = 0.0
        with ThreadPoolExecutor(8) as pool:
            under_way: list[Future[Submitted]] = []
            while (now := time.monotonic() - begun) < whole_s:
                if now >= due:
                    due += self.chance.expovariate(SUBMISSIONS_PER_S)
                    user = self.chance.randrange(self.args.users)
                    under_way.append(pool.submit(self.submit, user, self.draw(), now))
                time.sleep(min(1.0, max(0.0, due - now)))
                self.most_running = max(self.most_running, _sleeping(self.grid.mark))
            for one in under_way:
                try:
                    self.submitted.append(one.result())
                except DianaError as refusal:
                    self.refused.append(str(refusal))

    def figures(self) -> dict[str, object]:
        until_s = time.monotonic() + DRAIN_S
        with self.sites[0].client() as client:
            states = {}
            for one in self.submitted:
                states[one.group] = client.wait(one.group, timeout_s=max(1.0, until_s - time.monotonic()))
            done = sum(state.done for state in states.values())
            wanted = sum(one.jobs for one in self.submitted)
        lines = self.starts.read_text().splitlines()
        lost = wanted - len({tuple(line.split()[:2]) for line in lines})
        doubled = len(lines) - len({tuple(line.split()[:2]) for line in lines})
        latencies = sorted(one.latency_s for one in self.submitted)
        turnaround = sorted(states[one.group].last_end_s for one in self.submitted if states[one.group].last_end_s > 0)
        waits = sorted(states[one.group].first_start_s for one in self.submitted)
        return {
            "minutes": self.args.minutes,
            "users": len({one.user for one in self.submitted}),
            "submissions": len(self.submitted),
            "refused": len(self.refused),
            "jobs": wanted,
            "done": done,
            "never_started": lost,
            "started_twice": doubled,
            "most_at_once": self.most_running,
            "submit_p50_s": _at(latencies, 0.5),
            "submit_p99_s": _at(latencies, 0.99),
            "first_start_p50_s": _at(waits, 0.5),
            "first_start_p95_s": _at(waits, 0.95),
            "turnaround_min_s": turnaround[0] if turnaround else 0.0,
            "turnaround_p50_s": _at(turnaround, 0.5),
            "turnaround_max_s": turnaround[-1] if turnaround else 0.0,
            "nodes": {site.name: _cost(site) for site in self.sites},
        }


def _cost(site: Site) -> dict[str, float]:
    assert site.process is not None
    pid = site.process.pid
    return {"cpu_s": round(cpu_s(pid), 1), "memory_mib": round(resident_bytes(pid) / (1 << 20), 1)}


def _at(some: list[float], share: float) -> float:
    return some[min(len(some) - 1, int(share * len(some)))] if some else 0.0


def _sleeping(mark: str) -> int:
    """Count the jobs that run: processes called sleep whose variables name this grid."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "comm").read_text() == "sleep\n":
                    found += mark.encode() in (entry / "environ").read_bytes()
            except OSError:
                continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=1000)
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    hour = Hour(parser.parse_args())
    try:
        hour.begin()
        hour.run()
        found = hour.figures()
    finally:
        try:
            hour.grid.close()
        except AssertionError as faults:
            print(f"at the end: {faults}", file=sys.stderr)
    for key, value in found.items():
        print(f"{key:<20} {value}")
    print(f"{'load':<20} {statistics.fmean(os.getloadavg()):.1f}")
    if hour.args.json:
        hour.args.json.write_text(json.dumps(found, indent=2))
    return 0 if found["never_started"] == found["started_twice"] == 0 and found["done"] == found["jobs"] else 1


if __name__ == "__main__":
    sys.exit(main())
