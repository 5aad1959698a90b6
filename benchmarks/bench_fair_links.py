"""Cost of max-min fair sharing: processor time per flow of the flow network, from 10 to 10,000 flows at once.

    python -m benchmarks.bench_fair_links [--flows 10,100,1000,10000] [--sites 100] [--routers 30] [--seed 1]
        [--json FILE]

Sites hang on a ring of routers with chords; flows go between drawn pairs of sites. All are there at the start; each
that ends is followed by another over a drawn pair, as many again, so that rates are computed at every end.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from random import Random

from diana.model.ids import SiteId
from diana.sim.kernel.clock import Clock
from diana.sim.scenario.topology import Topology
from diana.sim.specs.link_spec import LinkSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.twins.flow_network import FlowNetwork


def measure(flows: int, sites: int, routers: int, seed: int) -> dict[str, float]:
    rng = Random(seed)
    hubs = [f"r{n}" for n in range(routers)]
    links = [LinkSpec((hubs[n], hubs[(n + 1) % routers]), 0.005, 1.25e9) for n in range(routers)]
    links += [LinkSpec((hubs[n], hubs[n - routers // 2]), 0.01, 1.25e9) for n in range(0, routers // 2, 3)]
    links += [LinkSpec((f"s{n}", hubs[n % routers]), 0.001, rng.choice((1.25e7, 1.25e8))) for n in range(sites)]
    names = [f"s{n}" for n in range(sites)]
    topology = Topology(Scenario(1, tuple(SiteSpec(name) for name in names), links=tuple(links), routers=tuple(hubs)))
    clock = Clock()
    network = FlowNetwork(clock, topology.bytes_per_s)
    left, ended = flows, 0

    def begin() -> None:
        source, to = rng.sample(names, 2)
        path = topology.path(SiteId(source), SiteId(to))
        assert path is not None
        network.start(path, rng.uniform(1e6, 1e9), end)

    def end() -> None:
        nonlocal left, ended
        ended += 1
        if left:
            left -= 1
            begin()

    began = time.process_time()
    for _ in range(flows):
        begin()
    while clock.step():
        pass
    took_s = time.process_time() - began
    return {"flows": flows, "ended": ended, "solved": network.solved, "us_per_flow": 1e6 * took_s / ended}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flows", default="10,100,1000,10000")
    parser.add_argument("--sites", type=int, default=100)
    parser.add_argument("--routers", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for flows in map(int, args.flows.split(",")):
        rows.append(measure(flows, args.sites, args.routers, args.seed))
        print("  ".join(f"{key}={value:.6g}" for key, value in rows[-1].items()), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
