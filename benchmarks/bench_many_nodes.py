"""Many real nodes on one machine, each on a host of its own (a network namespace): what an idle node costs (PERFORMANCE
P7), what the VO says on the wire (P9), and how long until all know of a join, a goodbye and a kill.

    python -m benchmarks.bench_many_nodes [--nodes 100] [--settle 60] [--measure 60] [--rounds 1] [--slower 1]
        [--json FILE]

Run by hand as root on a quiet machine: a hundred nodes take minutes to start and about 8 GB of memory. Certificates
are signed here by the first site, as by `diana init --vo-from`; each node is told the addresses of two others.
A machine must have the cores for all of them: where nodes starve, they measure each other. `--slower 3` lets every node
speak and ping three times less often (and be three times as patient), so that a hundred fit on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from diana.model.settings import Settings
from tests.e2e.grid import Grid
from tests.real.crowd import MOST_HOSTS, Crowd, Usage, usage
from tests.real.machines.test_three_machines import Lan, Machine

AT_ONCE = 4
"""Nodes that start at the same time."""
START_S_PER_NODE = 10.0
KNOW_S = 180.0
CHANGE_S = 60.0
MIB = float(1 << 20)


@contextmanager
def crowd(seed: int, hosts: int) -> Iterator[Crowd]:
    """Whatever happens, no process, namespace or folder of it is left."""
    lan = Lan(hosts)
    try:
        grid = Grid()
        try:
            yield Crowd(grid, lan, random.Random(seed))
        finally:
            _close(grid)
    finally:
        lan.close()


def _close(grid: Grid) -> None:
    """Close the grid. Complaints of nodes are shown, and are no reason to throw the figures away."""
    try:
        grid.close()
    except AssertionError as faults:
        print(f"at the end: {faults}", file=sys.stderr)


def measure(args: argparse.Namespace) -> dict[str, float]:
    nodes, settle_s, measure_s, rounds = args.nodes, args.settle, args.measure, args.rounds
    out: dict[str, float] = {"nodes": nodes, "slower": args.slower}
    with crowd(args.seed, nodes + 1) as many:
        many.settings = slowed(args.slower)
        sites = many.add(nodes)
        began_s = time.monotonic()
        many.start(sites, AT_ONCE, START_S_PER_NODE * nodes)
        _tell(out, "started_s", time.monotonic() - began_s)
        _tell(out, "all_know_all_s", many.all_see(sites, ["alive"], KNOW_S, 0.5))
        time.sleep(settle_s)
        for number in range(rounds):
            out["load_before"] = os.getloadavg()[0]
            for key, value in idle(sites, measure_s).items():
                _tell(out, key if rounds == 1 else f"{key}.{number}", value)
        _changes(many, out)
    return out


def slowed(factor: float) -> dict[str, float]:
    """Settings that make a node speak so many times less often than by default."""
    usual = Settings()
    names = ("summary_every_s", "ping_every_s", "suspect_after_s")
    return {name: getattr(usual, name) * factor for name in names} if factor != 1.0 else {}


def idle(sites: list[Machine], measure_s: float) -> dict[str, float]:
    """Per node: the median, and the most of any."""
    before, began_s = [usage(site) for site in sites], time.monotonic()
    time.sleep(measure_s)
    after, took_s = [usage(site) for site in sites], time.monotonic() - began_s

    def rate(of: Callable[[Usage], float]) -> list[float]:
        return [(of(b) - of(a)) / took_s for a, b in zip(before, after, strict=True)]

    figures: dict[str, list[float]] = {
        "rss_mib": [one.rss_bytes / MIB for one in after],
        "pss_mib": [one.pss_bytes / MIB for one in after],
        "spawner_rss_mib": [one.spawner_rss_bytes / MIB for one in after],
        "cpu_percent": [100 * value for value in rate(lambda one: one.cpu_s)],
        "spawner_cpu_percent": [100 * value for value in rate(lambda one: one.spawner_cpu_s)],
        "threads": [float(one.threads) for one in after],
        "descriptors": [float(one.descriptors) for one in after],
        "connections": [float(one.connections) for one in after],
        "streams": [float(one.streams) for one in after],
        "packets_per_s": rate(lambda one: one.packets),
        "bytes_per_s": rate(lambda one: one.traffic_bytes),
    }
    out = {}
    for key, values in figures.items():
        out[key], out[f"{key}_most"] = statistics.median(values), max(values)
    return out


def _changes(many: Crowd, out: dict[str, float]) -> None:
    """One joins, one says goodbye, one is killed."""
    (new,) = many.add()
    many.start([new], 1, CHANGE_S)
    _tell(out, "join_known_s", many.all_see([new], ["alive"], CHANGE_S))
    leaver, victim = list(many.sites.values())[-3:-1]
    began_s = time.monotonic()
    leaver.terminate()
    _tell(out, "goodbye_took_s", time.monotonic() - began_s)
    _tell(out, "leave_known_s", many.all_see([leaver], ["left"], CHANGE_S))
    victim.kill()
    _tell(out, "kill_doubted_s", many.all_see([victim], ["unreachable", "suspect", "lost"], CHANGE_S))
    _tell(out, "kill_known_s", out["kill_doubted_s"] + many.all_see([victim], ["lost"], CHANGE_S))


def _tell(out: dict[str, float], key: str, value: float) -> None:
    out[key] = value
    print(f"    {key:<24} {value:>12,.2f}", flush=True)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--settle", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--measure", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--slower", type=float, default=1.0, metavar="FACTOR")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not 5 <= args.nodes < MOST_HOSTS:
        parser.error(f"--nodes: want 5 to {MOST_HOSTS - 1}")
    if not 1.0 <= args.slower <= 100.0:
        parser.error("--slower: want 1 to 100")
    if os.geteuid() != 0:
        parser.error("run it as root: it makes network namespaces")
    out = measure(args)
    if args.json:
        args.json.write_text(json.dumps(out, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
