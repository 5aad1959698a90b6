"""The workloads of KOALA's papers by placement policy: K9's figures, means over seeds with the half width of their 95 %
interval (docs/koala-figures.md).

    python -m benchmarks.bench_koala                          all scenarios, 3 seeds: half an hour of one core
    python -m benchmarks.bench_koala --scenario koala-w30 --seeds 10
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from diana.sim.report.gang_figures import GangFigures
from diana.sim.report.intervals import interval
from diana.sim.scenario.scenario import load
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.work_spec import WorkSpec
from diana.sim.world.runner import simulate

SCENARIOS = Path(__file__).parents[1] / "scenarios"
SHOWN = ("ftt_s", "placement_s", "wait_s", "response_s", "clusters", "coallocated", "spread", "pwt_s", "pgt_s")


class Variant(NamedTuple):
    name: str
    placement: str = ""
    replicas: int = 1
    """Sites that have each file."""
    pieces: int = 0
    """Equal components that a flexible job is cut to; 0: as the scenario has it."""


FILES = (Variant("WF", "worst-fit"), Variant("CF", "close-to-files"), Variant("CF, 3 replicas", "close-to-files", 3))
DIVIDED = (
    Variant("WF, 4 equal", "worst-fit", pieces=4),
    Variant("CM, 4 equal", "cluster-min", pieces=4),
    Variant("FCM"),
)
VARIANTS = {
    "koala-w30": FILES,
    "koala-w50": FILES,
    "koala-spread": (*FILES, Variant("WF, 3 replicas", "worst-fit", 3)),
    "koala-unreliable": (Variant("WF"),),
    "koala-w1": DIVIDED,
    "koala-w2": DIVIDED,
    "claims-race": (Variant("fixed"),),
}


def varied(scenario: Scenario, variant: Variant) -> Scenario:
    """Return the scenario as the variant has it: its ordinary jobs, times and sizes stay what they are."""
    return replace(scenario, workload=tuple(_work(work, variant) for work in scenario.workload))


def _work(work: WorkSpec, variant: Variant) -> WorkSpec:
    if not work.components:
        return work
    word, _, size = work.components.partition(" ")
    cut = (
        f"{variant.pieces}x{int(size) // variant.pieces}" if word == "flexible" and variant.pieces else work.components
    )
    data = replace(work.data, replicas=variant.replicas) if work.data is not None else None
    return replace(work, gang_placement=variant.placement, components=cut, data=data)


def figures(scenario: Scenario, variant: Variant, seeds: range) -> Iterator[GangFigures]:
    """Run the seeds. RuntimeError: one of them broke an invariant."""
    for seed in seeds:
        report = simulate(varied(scenario, variant), seed)
        if not report.good() or report.gang_figures is None:
            raise RuntimeError(f"{scenario.name}, {variant.name}, seed {seed}: {report.violations} {report.unmet}")
        yield report.gang_figures


def _cell(some: list[GangFigures], name: str) -> str:
    values = [float(getattr(each, name)) for each in some]
    digits = 0 if name.endswith("_s") else 2
    found = interval(values)
    around = ""
    if found is not None and found.low is not None and found.high is not None:
        around = f" ±{(found.high - found.low) / 2:.{digits}f}"
    return f"{sum(values) / len(values):.{digits}f}{around}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", choices=sorted(VARIANTS))
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    for name in [asked.scenario] if asked.scenario else VARIANTS:
        scenario = load(SCENARIOS / f"{name}.toml")
        print(f"\n{name}:\n\n| | gangs done | {' | '.join(SHOWN)} | placements | broken |")
        print(f"|{' --- |' * (len(SHOWN) + 4)}")
        for variant in VARIANTS[name]:
            some = list(figures(scenario, variant, range(asked.seeds)))
            done = f"{sum(each.done for each in some)} of {sum(each.gangs for each in some)}"
            cells = " | ".join(_cell(some, one) for one in SHOWN)
            rest = f"{_cell(some, 'placements')} | {sum(each.broken for each in some)}"
            print(f"| {variant.name} | {done} | {cells} | {rest} |", flush=True)


if __name__ == "__main__":
    main()
