"""Was the plan any good? Cases drawn from a seed, each run as planned and as somebody without a planner would do it.

A case is a scenario with one group: five sites of unlike size and speed, unlike links, and data at one or several of
them. Its alternatives are the same scenario with a plan that is forced (SPEC D6).
"""

from __future__ import annotations

from random import Random
from statistics import quantiles
from typing import Literal

import msgspec

from diana.sim.kernel import chance
from diana.sim.report.report import GroupReport
from diana.sim.specs.data_spec import DatasetSpec
from diana.sim.specs.demand_spec import UserSpec
from diana.sim.specs.link_spec import LinkSpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import WorkSpec
from diana.sim.world.runner import simulate

Kind = Literal["data", "compute", "mixed"]
KINDS: tuple[Kind, ...] = ("data", "compute", "mixed")
GROUP = "group"
NAMES = ("site1", "site2", "site3", "site4", "site5")
BEGIN_S = 5.0
CLOSE = 1.05
"""A plan that ends within this of the best alternative is as good as it."""


class CaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """One case."""

    name: str
    plan: str
    parts: dict[str, int]
    predicted_s: float
    makespan_s: dict[str, float]
    """Makespan by plan: planned, then each alternative."""
    bytes_moved: dict[str, int]

    def best_alternative_s(self) -> float:
        return min(seconds for name, seconds in self.makespan_s.items() if name != "planned")

    def good(self) -> bool:
        return self.makespan_s["planned"] <= CLOSE * self.best_alternative_s()


def drawn(seed: int, number: int) -> Scenario:
    """Case `number` of a seed; the kinds come in turns."""
    rng = chance.stream(seed, f"case {number}")
    kind = KINDS[number % len(KINDS)]
    sites, links = _grid(rng)
    jobs = rng.randrange(120, 240)
    datasets = _datasets(rng, kind, jobs)
    return Scenario(
        version=1,
        name=f"{kind} {number}",
        sites=sites,
        links=links,
        datasets=datasets,
        users=(UserSpec("physicist@cms"),),
        workload=(_work(rng, kind, jobs, GROUP, datasets, BEGIN_S),),
        report=("groups", "plans"),
    )


def stream(seed: int, groups: int = 20) -> Scenario:
    """Groups of all kinds on one grid, each with data of its own: some come when the grid is idle, some while others
    run."""
    rng = chance.stream(seed, "groups")
    sites, links = _grid(rng)
    datasets: list[DatasetSpec] = []
    workload: list[WorkSpec] = []
    at_s = BEGIN_S
    for number in range(groups):
        kind, jobs = KINDS[number % len(KINDS)], rng.randrange(60, 160)
        own = _datasets(rng, kind, jobs, f"-{number}")
        datasets += own
        workload.append(_work(rng, kind, jobs, f"{kind} {number}", own, at_s))
        # Every other one comes soon after, while the one before still runs.
        at_s += rng.uniform(5.0, 40.0) if number % 2 == 0 else 900.0
    return Scenario(
        version=1,
        name="groups of all kinds",
        sites=sites,
        links=links,
        datasets=tuple(datasets),
        users=(UserSpec("physicist@cms"),),
        workload=tuple(workload),
        report=("groups", "plans"),
    )


def _grid(rng: Random) -> tuple[tuple[SiteSpec, ...], tuple[LinkSpec, ...]]:
    sites = tuple(SiteSpec(n, slots=rng.randrange(4, 41), speed=rng.choice((0.5, 1.0, 1.5, 2.0))) for n in NAMES)
    links = tuple(
        LinkSpec((a, b), latency_s=rng.uniform(0.001, 0.05), bytes_per_s=rng.choice((2e6, 5e6, 10e6, 25e6, 60e6)))
        for k, a in enumerate(NAMES)
        for b in NAMES[k + 1 :]
    )
    return sites, links


def _datasets(rng: Random, kind: Kind, jobs: int, suffix: str = "") -> tuple[DatasetSpec, ...]:
    """A file per job, at one to three sites; some are held twice."""
    low, high = {"data": (30e6, 80e6), "compute": (1e4, 3e5), "mixed": (5e6, 15e6)}[kind]
    count = rng.randrange(1, 4)
    cuts = sorted(rng.sample(range(1, jobs), count - 1))
    out = []
    for k, (start, stop) in enumerate(zip((0, *cuts), (*cuts, jobs), strict=True)):
        holders = rng.sample(NAMES, 2 if rng.random() < 0.3 else 1)
        size = round(rng.uniform(low, high))
        out.append(DatasetSpec(f"runs{suffix}-{k}", holders[0], stop - start, size, tuple(holders[1:])))
    return tuple(out)


def _work(
    rng: Random, kind: Kind, jobs: int, name: str, datasets: tuple[DatasetSpec, ...], submit_s: float
) -> WorkSpec:
    low, high = {"data": (1.0, 5.0), "compute": (40.0, 120.0), "mixed": (8.0, 30.0)}[kind]
    return WorkSpec(
        name,
        rng.choice(NAMES),
        jobs,
        work_s=round(rng.uniform(low, high), 1),
        spread=0.1,
        inputs=tuple(d.name for d in datasets),
        file_per_job=True,
        submit_s=submit_s,
    )


def alternatives(scenario: Scenario) -> dict[str, dict[str, int]]:
    """Plans that one would make without a planner, site -> jobs, by name."""
    work = scenario.workload[0]
    biggest = max(scenario.sites, key=lambda s: (s.slots * s.speed, s.name))
    each, rest = divmod(work.jobs, len(scenario.sites))
    return {
        "home": {work.site: work.jobs},
        "biggest": {biggest.name: work.jobs},
        "round robin": {s.name: each + (k < rest) for k, s in enumerate(scenario.sites) if each + (k < rest)},
    }


def forced(scenario: Scenario, plan: dict[str, int]) -> Scenario:
    """The same case with that plan."""
    work = msgspec.structs.replace(scenario.workload[0], forced=plan)
    return msgspec.structs.replace(scenario, workload=(work,))


def compare(scenario: Scenario, seed: int) -> CaseRow:
    """Run a case of one group as planned and with each alternative, bound at once: what is compared are the plans.
    AssertionError when a run broke."""
    scenario = msgspec.structs.replace(scenario, settings={**scenario.settings, "binding": "early"})
    makespans: dict[str, float] = {}
    moved: dict[str, int] = {}
    plans = {"planned": scenario, **{name: forced(scenario, plan) for name, plan in alternatives(scenario).items()}}
    for name, one in plans.items():
        report = simulate(one, seed)
        assert report.good(), (scenario.name, name, report.violations, report.unmet)
        group = report.groups[scenario.workload[0].name]
        makespans[name], moved[name] = group.makespan_s, group.bytes_moved
        if name == "planned":
            plan, predicted_s = report.plans[0], group.predicted_s
    return CaseRow(
        name=scenario.name,
        plan=plan.plan,
        parts=plan.parts,
        predicted_s=predicted_s,
        makespan_s=makespans,
        bytes_moved=moved,
    )


class PredictionErrors(msgspec.Struct, frozen=True):
    """|predicted - achieved| / achieved of turnarounds, rising."""

    rows: tuple[tuple[float, str, float, float], ...]
    """(error, group, predicted_s, achieved_s)"""

    def quantile(self, share: float) -> float:
        """The error that `share` of the groups stay within."""
        cuts = quantiles([row[0] for row in self.rows], n=100, method="inclusive")
        return cuts[min(98, max(0, round(100 * share) - 1))]


def errors(groups: dict[str, GroupReport]) -> PredictionErrors:
    """Errors of the groups that ended as they were placed first."""
    rows = [
        (abs(g.predicted_s - g.makespan_s) / g.makespan_s, name, g.predicted_s, g.makespan_s)
        for name, g in groups.items()
        if g.predicted_s and g.makespan_s
    ]
    return PredictionErrors(tuple(sorted(rows)))
