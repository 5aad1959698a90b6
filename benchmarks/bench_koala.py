"""The workloads of KOALA's papers by placement policy: K9's figures, means over seeds with the half width of their 95 %
interval (docs/koala-figures.md).

    python -m benchmarks.bench_koala                          all scenarios, 3 seeds: half an hour of one core
    python -m benchmarks.bench_koala --scenario koala-w30 --seeds 10
    python -m benchmarks.bench_koala --scenario koala-w2 --slowdown 1,1.2,1.4      gangs that communicate

Of gangs that communicate the differences from the first row follow, seed by seed.
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
from diana.sim.specs.gang_spec import CommunicationSpec
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
    slowdown: tuple[float, ...] = ()
    """Factors over 1, 2, 3, ... sites; none: as the scenario has them."""


FILES = (Variant("WF", "worst-fit"), Variant("CF", "close-to-files"), Variant("CF, 3 replicas", "close-to-files", 3))
DIVIDED = (
    Variant("WF, 4 equal", "worst-fit", pieces=4),
    Variant("CM, 4 equal", "cluster-min", pieces=4),
    Variant("FCM"),
)
SWEPT = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
"""Slowdowns of a job that runs at several sites."""
ALONE = Variant("one site", "worst-fit")
"""A total that it places is one component."""
SLOWED = (
    ALONE,
    *(
        Variant(f"{name}, {factor:g}", policy, slowdown=(1.0, factor))
        for name, policy in (("FCM", "flexible-min"), ("turnaround", "turnaround"))
        for factor in SWEPT
    ),
)
PAIRED = ("response_s", "wait_s", "execution_s")
VARIANTS = {
    "koala-w30": FILES,
    "koala-w50": FILES,
    "koala-spread": (*FILES, Variant("WF, 3 replicas", "worst-fit", 3)),
    "koala-unreliable": (Variant("WF"),),
    "koala-w1": DIVIDED,
    "koala-w2": DIVIDED,
    "koala-slowdown": SLOWED,
    "claims-race": (Variant("fixed"),),
}


def varied(scenario: Scenario, variant: Variant) -> Scenario:
    """Return the scenario as the variant has it: its ordinary jobs, times and sizes stay what they are."""
    costs = CommunicationSpec(slowdown=variant.slowdown) if variant.slowdown else scenario.communication
    workload = tuple(_work(work, variant) for work in scenario.workload)
    return replace(scenario, workload=workload, communication=costs)


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


def _values(some: list[GangFigures], name: str) -> list[float]:
    return [float(getattr(each, name)) for each in some]


def _cell(values: list[float], name: str) -> str:
    digits = 0 if name.endswith("_s") else 2
    found = interval(values)
    around = ""
    if found is not None and found.low is not None and found.high is not None:
        around = f" ±{(found.high - found.low) / 2:.{digits}f}"
    return f"{sum(values) / len(values):.{digits}f}{around}"


def differences(some: list[GangFigures], base: list[GangFigures], name: str) -> list[float]:
    """Return how much larger a figure is than that of the base, seed by seed."""
    return [one - other for one, other in zip(_values(some, name), _values(base, name), strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", choices=sorted(VARIANTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--slowdown", default="", help="factors over 1, 2, 3.. sites, instead of the scenario's")
    asked = parser.parse_args()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    slowdown = tuple(map(float, asked.slowdown.split(","))) if asked.slowdown else ()
    for name in [asked.scenario] if asked.scenario else VARIANTS:
        scenario = load(SCENARIOS / f"{name}.toml")
        columns = (*SHOWN[:3], "execution_s", *SHOWN[3:]) if scenario.communication.slowdown or slowdown else SHOWN
        print(f"\n{name}:\n\n| | gangs done | {' | '.join(columns)} | placements | broken |")
        print(f"|{' --- |' * (len(columns) + 4)}")
        found: dict[str, list[GangFigures]] = {}
        for variant in VARIANTS[name]:
            its = variant._replace(slowdown=slowdown) if slowdown else variant
            some = found[variant.name] = list(figures(scenario, its, seeds))
            done = f"{sum(each.done for each in some)} of {sum(each.gangs for each in some)}"
            cells = " | ".join(_cell(_values(some, one), one) for one in columns)
            rest = f"{_cell(_values(some, 'placements'), 'placements')} | {sum(each.broken for each in some)}"
            print(f"| {variant.name} | {done} | {cells} | {rest} |", flush=True)
        if len(columns) > len(SHOWN):
            base, *others = found
            print(f"\n| less {base} | {' | '.join(PAIRED)} |\n|{' --- |' * (len(PAIRED) + 1)}")
            for other in others:
                cells = " | ".join(_cell(differences(found[other], found[base], one), one) for one in PAIRED)
                print(f"| {other} | {cells} |")


if __name__ == "__main__":
    main()
