"""Do simulator and real nodes agree? One scenario under several policies on both: the order of their makespans is to
be the same, and each real makespan (median of the runs) within 15 % of the simulated one.

    python -m benchmarks.bench_agreement [--rounds 3] [--on processes|netns] [--scenario FILE] [--json]

Exit code 1 when they do not. Every run founds a grid of its own, so nothing learned in one helps the next.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec

from diana.sim.scenario.scenario import load
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate
from diana.trial.run import Options, run_scenario

SCENARIO = Path(__file__).parents[1] / "scenarios" / "agreement.toml"
OUT = Path(__file__).parent / "out" / "agreement.json"
CLOSE = 0.15
ALIKE = 0.05
"""Simulated makespans that differ by less have no order to keep."""
WITHIN_S = 300.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    policy: str
    simulated_s: float
    real_s: tuple[float, ...]
    simulated_sites: dict[str, int]
    real_sites: dict[str, int]
    """Jobs by site in the first run."""

    @property
    def median_s(self) -> float:
        return median(self.real_s)

    @property
    def off(self) -> float:
        return self.median_s / self.simulated_s - 1.0


def policies(scenario: Scenario) -> dict[str, Scenario]:
    """By name: what the planner makes of it under either cost model, and plans a user might force on it."""
    (work,) = scenario.workload
    sites = [site.name for site in scenario.sites]
    each, rest = divmod(work.jobs, len(sites))
    even = {site: each + (number < rest) for number, site in enumerate(sites)}
    biggest = max(scenario.sites, key=lambda site: (site.slots * scenario.site_settings(site).speed, site.name)).name

    def forced(plan: Mapping[str, int]) -> Scenario:
        return msgspec.structs.replace(scenario, workload=(msgspec.structs.replace(work, forced=dict(plan)),))

    def set_to(**settings: str) -> Scenario:
        return msgspec.structs.replace(scenario, settings={**scenario.settings, **settings})

    return {
        "turnaround": set_to(cost_model="turnaround"),
        "paper": set_to(cost_model="paper"),
        "round robin": forced(even),
        "biggest": forced({biggest: work.jobs}),
        "home": forced({work.site: work.jobs}),
    }


def compared(scenario: Scenario, rounds: int, on: str) -> list[Row]:
    """Rounds in turns, so that a slow moment of this machine hits all policies alike."""
    some = policies(scenario)
    real: dict[str, list[float]] = {name: [] for name in some}
    sites: dict[str, dict[str, int]] = {}
    for number in range(rounds):
        for name, one in some.items():
            ran = run_scenario(one, Options(on=on, within_s=WITHIN_S), _silent)
            assert ran.report.good(), (name, ran.report.unmet, ran.logs)
            (group,) = ran.report.groups.values()
            real[name].append(round(group.makespan_s, 3))
            sites.setdefault(name, group.sites)
            print(f"    round {number + 1}: {name:<12} {group.makespan_s:7.2f} s", file=sys.stderr, flush=True)
    rows = []
    for name, one in some.items():
        (group,) = simulate(one, 0).groups.values()
        rows.append(
            Row(
                policy=name,
                simulated_s=round(group.makespan_s, 3),
                real_s=tuple(real[name]),
                simulated_sites=group.sites,
                real_sites=sites[name],
            )
        )
    return rows


def faults(rows: Sequence[Row]) -> list[str]:
    """Disagreements, a line each."""
    found = [f"{row.policy}: off by {row.off:+.0%}" for row in rows if abs(row.off) > CLOSE]
    ranked = sorted(rows, key=lambda row: (row.simulated_s, row.policy))
    for better, worse in pairwise(ranked):
        if worse.simulated_s > better.simulated_s * (1 + ALIKE) and worse.median_s <= better.median_s:
            found.append(f"{better.policy} before {worse.policy} in the simulator, not on real nodes")
    return found


def _silent(line: str) -> None:
    """Ignore the lines a run tells: they are not what this is about."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--on", choices=("processes", "netns", "compose"), default="processes")
    parser.add_argument("--scenario", type=Path, default=SCENARIO, help="of one workload entry")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = compared(load(args.scenario), args.rounds, args.on)
    report = [{**msgspec.to_builtins(row), "median_s": row.median_s, "off": round(row.off, 4)} for row in rows]
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"on": args.on, "rows": report}, indent=2) + "\n")
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        print(f"{'policy':<12} {'simulated':>10} {'real':>10}  {'off':>6}  jobs by site, simulated | real")
        for row in sorted(rows, key=lambda one: (one.simulated_s, one.policy)):
            where = f"{_shares(row.simulated_sites)} | {_shares(row.real_sites)}"
            print(f"{row.policy:<12} {row.simulated_s:8.2f} s {row.median_s:8.2f} s  {row.off:+6.1%}  {where}")
    wrong = faults(rows)
    for line in wrong:
        print(f"bench_agreement: {line}", file=sys.stderr)
    return 1 if wrong else 0


def _shares(sites: Mapping[str, int]) -> str:
    return " ".join(f"{site} {jobs}" for site, jobs in sorted(sites.items()))


if __name__ == "__main__":
    sys.exit(main())
