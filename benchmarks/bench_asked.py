"""Cost and regret of asking few sites where summaries already decide (`diana/policy/allocation/few.py`).

    python -m benchmarks.bench_asked [SCENARIO.toml] [--seeds 2] [--first-seed 1] [--jobs 600] [--sites 25]
        [--groups 200]

Each seed is run twice in turns, with the whole list asked and with few: mean turnaround of jobs, messages and processor
time for a group, and the regret: by how much the mean turnaround is longer with few. Without a scenario it is a grid of
sites of 4 slots and unlike speeds, with groups of one to three jobs of a minute. `--jobs` shortens the log of a
scenario that has one.
"""

from __future__ import annotations

import argparse
import collections
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple
from unittest import mock

from msgspec.structs import replace

from diana.engine.placement import quote_round
from diana.engine.site.context import Context
from diana.model.ids import SiteId
from diana.policy.allocation.few import ToldRoom
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world import runner
from diana.sim.world.world import World

SPEEDS = (1.0, 0.8, 1.25, 0.6, 1.5)


class Run(NamedTuple):
    turnaround_s: float
    groups: int
    messages: int
    quotes: int
    cpu_s: float


def drawn_grid(sites: int, groups: int) -> Scenario:
    rows = "\n".join(f'[[sites]]\nname = "s{n:03}"\nslots = 4\nspeed = {SPEEDS[n % len(SPEEDS)]}' for n in range(sites))
    loads = "\n".join(
        f"""[[workload]]
name = "w{jobs}"
site = "s000"
jobs = {jobs}
repeat = {groups // 3}
work_s = 60.0
spread = 0.6
generate = {{ arrivals = "poisson", load = 0.2, homes = "equal" }}"""
        for jobs in (1, 2, 3)
    )
    return sc.parse(f"""
version = 1
name = "asked"
limit_s = 1e9
{rows}
{loads}
[default_link]
latency_s = 0.02
bytes_per_s = 12.5e6
[[users]]
name = "u@vo"
count = 20
""")


def whole(listed: Sequence[ToldRoom], processors: int, seed: int) -> list[SiteId]:
    return [one.site for one in listed]


def run(scenario: Scenario, seed: int, *, few: bool) -> Run:
    sent: collections.Counter[str] = collections.Counter()
    send = Context.send

    def counted(core: Context, to: SiteId, message: object) -> None:
        sent[type(message).__name__] += 1
        send(core, to, message)  # type: ignore[arg-type]

    with mock.patch.object(Context, "send", counted):
        began_s = time.process_time()
        with mock.patch.object(quote_round, "few", quote_round.few if few else whole):
            world = World(replace(scenario, report=("groups", "network")), seed, Boot())
            report = runner.run(world)
    groups = report.groups.values()
    done = sum(one.done for one in groups)
    return Run(
        sum(one.turnaround_mean_s * one.done for one in groups) / done,
        sum(1 for _ in world.users.in_order()),
        report.network.sent,
        sent["QuoteRequest"],
        time.process_time() - began_s,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--sites", type=int, default=25)
    parser.add_argument("--groups", type=int, default=200)
    options = parser.parse_args()
    scenario = drawn_grid(options.sites, options.groups)
    if options.scenario:
        text = options.scenario.read_text().replace("first = 5000", f"first = {options.jobs}")
        text = text.replace("done = 5000", f"done = {options.jobs}")
        scenario = sc.parse(text, str(options.scenario), options.scenario.parent)
    regrets = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        every, some = run(scenario, seed, few=False), run(scenario, seed, few=True)
        regrets.append(some.turnaround_s / every.turnaround_s - 1)
        for name, one in (("whole list", every), ("few", some)):
            print(
                f"seed {seed} {name:<10} turnaround {one.turnaround_s:,.2f} s, a group: "
                f"{one.quotes / one.groups:.1f} questions, {one.messages / one.groups:.0f} messages, "
                f"{1000 * one.cpu_s / one.groups:.1f} ms",
                flush=True,
            )
        print(f"seed {seed} regret {100 * regrets[-1]:+.2f} %", flush=True)
    print(f"mean regret {100 * mean(regrets):+.2f} %")


if __name__ == "__main__":
    main()
