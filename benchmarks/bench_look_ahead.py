"""Does it pay to roll placements forward before one is chosen (`look_ahead` of a scenario)?

    python -m benchmarks.bench_look_ahead [SCENARIO.toml ...] [--seeds 4] [--first-seed 846300] [--rolls 4] [--load 0.8]
        [--repeat 0.3] [--binding late]

Each seed is run twice, with and without; `--repeat` shortens each entry of the workload to that share of its groups.
Regret is by how much the mean turnaround of jobs exceeds that of the best of three schedulers that see everything at no
cost (first start, min-min, sufferage) under the same work. Rows that are told while it runs are of one seed each.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from diana.sim.experiments.by_policy import ran
from diana.sim.report.intervals import Interval, interval
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.variants import under
from diana.sim.sites.driver import Boot
from diana.sim.specs.compare_spec import PolicySpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.ahead import Looker
from diana.sim.world.outcome import outcome_of
from diana.sim.world.runner import run
from diana.sim.world.world import World

ALL_SEEING = ("first-start", "min-min", "sufferage")
SCENARIOS = ("scenarios/policies.toml", "scenarios/unlike.toml")


class Pair(NamedTuple):
    """One seed. Turnarounds are means over jobs."""

    without_s: float
    with_s: float
    best_s: float
    """The best of those that see everything."""
    looks: int
    changed: int
    """Groups that were placed otherwise than planned."""
    events: int
    cpu_s: float
    """Processor time of all looks."""

    def gain(self) -> float:
        return 1.0 - self.with_s / self.without_s

    def regrets_s(self) -> tuple[float, float]:
        return self.without_s - self.best_s, self.with_s - self.best_s


class TimedLooker(Looker):
    cpu_s = 0.0

    def __call__(self, lookout):  # type: ignore[no-untyped-def]
        began_s = time.process_time()
        found = super().__call__(lookout)
        self.cpu_s += time.process_time() - began_s
        return found


def shortened(scenario: Scenario, share: float) -> Scenario:
    work = tuple(replace(one, repeat=max(1, round(one.repeat * share))) for one in scenario.workload)
    return replace(scenario, workload=work)


def turnaround_s(scenario: Scenario, seed: int, boot: Boot) -> float:
    world = World(scenario, seed, boot)
    report = run(world)
    assert report.good(), (scenario.name, seed, report.violations, report.unmet)
    times = outcome_of(world)
    return float((times.end_s - times.submit_s).mean())


def pair(scenario: Scenario, seed: int, rolls: int, load: float, binding: str) -> Pair:
    plain = under(scenario, PolicySpec("diana", settings={"binding": binding}), load)
    looker = TimedLooker(rolls, seed)
    without_s, with_s = turnaround_s(plain, seed, Boot()), turnaround_s(plain, seed, Boot(look_ahead=looker))
    best_s = []
    for name in ALL_SEEING:
        times = ran(scenario, PolicySpec(name, central=name), seed, load).times
        best_s.append(float((times.end_s - times.submit_s).mean()))
    return Pair(without_s, with_s, min(best_s), looker.looks, looker.changed, looker.events, looker.cpu_s)


def shown(found: Interval | None, factor: float = 100.0, unit: str = " %") -> str:
    assert found is not None
    between = (
        "" if found.low is None or found.high is None else f" ({factor * found.low:+.1f} to {factor * found.high:+.1f})"
    )
    return f"{factor * found.mean:+.1f}{unit}{between}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=846300)
    parser.add_argument("--rolls", type=int, default=4)
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--repeat", type=float, default=0.3)
    parser.add_argument("--binding", choices=("late", "early"), default="late")
    options = parser.parse_args()
    for name in options.scenarios:
        scenario = shortened(sc.load(Path(name)), options.repeat)
        pairs = []
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            one = pair(scenario, seed, options.rolls, options.load, options.binding)
            pairs.append(one)
            print(
                f"{name} {options.binding} seed {seed}: {one.without_s:.1f} s without, {one.with_s:.1f} s with, best "
                f"that sees all {one.best_s:.1f} s; {one.changed} of {one.looks} otherwise, a look takes "
                f"{1000 * one.cpu_s / max(1, one.looks):.0f} ms and {one.events / max(1, one.looks):,.0f} events",
                flush=True,
            )
        before, after = (sum(one.regrets_s()[k] for one in pairs) / len(pairs) for k in (0, 1))
        print(
            f"{name} {options.binding}: mean turnaround less by {shown(interval([one.gain() for one in pairs]))}; "
            f"regret {before:.1f} s without, {after:.1f} s with: less by {100 * (1 - after / before):.1f} %, "
            f"{shown(interval([a - b for a, b in (one.regrets_s() for one in pairs)]), 1.0, ' s')}",
            flush=True,
        )


if __name__ == "__main__":
    main()
