"""Policies compared: every one of them under every load and seed, over all cores; differences paired by seed.

A run is reduced to its figures where it ran: thousands of them need no more memory than their rows. Only runs of the
first seed under the highest load bring a drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from diana.errors import UsageError
from diana.sim.central import central
from diana.sim.central.bounds import of_jobs
from diana.sim.central.jobs import jobs_of
from diana.sim.experiments import fanout, patience
from diana.sim.experiments.fanout import slim
from diana.sim.faults.swarm import drawn
from diana.sim.report import figures as fg
from diana.sim.report.drawing import Drawing, drawing_of
from diana.sim.report.intervals import CONFIDENCE, Interval, interval
from diana.sim.report.outcome_digest import RunOutcome, of_columns
from diana.sim.report.report import Report
from diana.sim.scenario.comparison import ComparisonPlan
from diana.sim.scenario.variants import under
from diana.sim.specs.compare_spec import PolicySpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.ahead import booted
from diana.sim.world.outcome import outcome_of
from diana.sim.world.runner import run as run_world
from diana.sim.world.world import World

Tell = Callable[[int, int], None]
"""Told after each run how many of how many are over."""


class Task(NamedTuple):
    load: float
    seed: int
    policy: PolicySpec
    draw: bool


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    policy: str
    load: float
    seed: int
    good: bool
    """True if it broke no invariant, met what the scenario expects and ended before `limit_s`."""
    digest: str
    """Digest of the run's report; empty for a central policy."""
    figures: fg.Figures
    bound: dict[str, float] = {}
    """Values that no schedule of the same jobs comes below, by the name of the figure; in rows of the baseline. Empty
    where they are not known for such work (`central_jobs`)."""


class ComparedRun(NamedTuple):
    row: RunRow
    report: Report | None
    """Report of the first run, of those that are not good and where the plan keeps them, else None; a central policy
    has none."""
    drawing: Drawing | None
    outcome: RunOutcome | None = None
    """None: it was not asked for."""


class Difference(msgspec.Struct, frozen=True):
    """Difference from the baseline, seed by seed."""

    absolute: Interval
    relative: Interval | None
    """Share of the baseline's value; None where that is 0 in some seed."""


class PolicyTable(msgspec.Struct, frozen=True, kw_only=True):
    runs: int
    figures: dict[str, Interval]
    """Figures over the seeds."""
    differences: dict[str, Difference]
    """Differences from the baseline; empty: it is the baseline."""


class LoadTable(msgspec.Struct, frozen=True, kw_only=True):
    load: float
    policies: dict[str, PolicyTable]
    """Tables by policy, in the order of the scenario."""
    bound: dict[str, Interval]
    """Values that no policy comes below, over the seeds; empty: not known."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The report's key `compare`."""

    baseline: str
    seeds: list[int]
    warm_up: float
    confidence: float
    loads: list[LoadTable]
    runs: list[RunRow]
    """Rows load by load, seed by seed, policy by policy."""


def runs(
    scenario: Scenario, plan: ComparisonPlan, seeds: range, workers: int = 0, tell: Tell | None = None
) -> Iterator[ComparedRun]:
    """Run every policy under every load and seed, in the order of `Comparison.runs`, whatever the number of
    processes."""
    policies = plan.policies
    drawn = (max(plan.loads), seeds[0])
    tasks = [
        Task(load, seed, policy, (load, seed) == drawn) for load in plan.loads for seed in seeds for policy in policies
    ]
    first = tasks[0]
    for number, done in enumerate(fanout.each(partial(_done, scenario, plan, first), tasks, workers), 1):
        if tell is not None:
            tell(number, len(tasks))
        yield done


def _done(scenario: Scenario, plan: ComparisonPlan, first: Task, task: Task) -> ComparedRun:
    if task.policy.central:
        return _central(scenario, plan, task, task.policy.central)
    # Observing costs time; of other runs than the first nobody asks for more than figures.
    watched = ("migration",) if task.draw else ()
    kept = task == first or plan.whole
    reported = scenario.report if kept else _asked(scenario)
    one = replace(under(scenario, task.policy, task.load), report=(*reported, *watched))
    world = World(one, task.seed, booted(one, task.seed))
    report = run_world(world, patience.on_stderr() if task == first else None)
    outcome = outcome_of(world)
    machines = fg.grid(world.scenario)
    drawing = drawing_of(outcome, machines, report.migration) if task.draw else None
    submitted = sum(submission.jobs for submission in world.users.in_order())
    row = RunRow(
        policy=task.policy.name,
        load=task.load,
        seed=task.seed,
        good=report.good(),
        digest=report.digest,
        figures=fg.measured(outcome, machines, plan.warm_up, submitted, report.network.sent),
        bound=_bound(one, plan, task),
    )
    if task != first:
        slim(report)
    return ComparedRun(row, report if kept or not report.good() else None, drawing, _named(report.outcome, task))


def _central(scenario: Scenario, plan: ComparisonPlan, task: Task, policy: central.Policy) -> ComparedRun:
    one = under(scenario, task.policy, task.load)
    jobs = jobs_of(one, task.seed)
    outcome, unfinished = central.scheduled(jobs, policy, one.limit_s, task.policy.broker)
    machines = fg.grid(drawn(one, task.seed))
    row = RunRow(
        policy=task.policy.name,
        load=task.load,
        seed=task.seed,
        good=not unfinished,
        digest="",
        figures=fg.measured(outcome, machines, plan.warm_up, sum(s.jobs for s in jobs.submissions)),
        bound=_bound(one, plan, task),
    )
    drawing = drawing_of(outcome, machines) if task.draw else None
    came = of_columns(outcome, unfinished, task.seed) if _asked(scenario) else None
    return ComparedRun(row, None, drawing, _named(came, task))


def _asked(scenario: Scenario) -> tuple[str, ...]:
    """Keys that every run reports, not the first alone."""
    return tuple(key for key in scenario.report if key == "outcome")


def _named(outcome: RunOutcome | None, task: Task) -> RunOutcome | None:
    return replace(outcome, policy=task.policy.name, load=task.load) if outcome is not None else None


def _bound(scenario: Scenario, plan: ComparisonPlan, task: Task) -> dict[str, float]:
    if plan.whole or task.policy.name != plan.baseline:
        return {}
    try:
        jobs = jobs_of(scenario, task.seed)
    except UsageError:
        return {}
    if not len(jobs.kind):
        return {}
    submit_s = jobs.submit_s[jobs.submission]
    span = fg.trimmed(submit_s, plan.warm_up)
    inside = (submit_s >= span.begin_s) & (submit_s <= span.end_s)
    fastest_s = jobs.work_s * np.array([kind.pace.min() for kind in jobs.kinds])[jobs.kind]
    return {"turnaround_mean_s": float(fastest_s[inside].mean()), "makespan_s": of_jobs(jobs).makespan_s}


def comparison(rows: Sequence[RunRow], plan: ComparisonPlan) -> Comparison:
    """The comparison made of the rows of all runs, wherever they ran. UsageError where a policy lacks a seed that the
    baseline has."""
    return Comparison(
        baseline=plan.baseline,
        seeds=sorted({row.seed for row in rows}),
        warm_up=plan.warm_up,
        confidence=CONFIDENCE,
        loads=[_load(load, [row for row in rows if row.load == load], plan) for load in plan.loads],
        runs=list(rows),
    )


def _load(load: float, rows: Sequence[RunRow], plan: ComparisonPlan) -> LoadTable:
    figures = {policy.name: {r.seed: r.figures for r in rows if r.policy == policy.name} for policy in plan.policies}
    base = figures[plan.baseline]
    for name, its in figures.items():
        if its.keys() != base.keys():
            odd = min(its.keys() ^ base.keys())
            raise UsageError(f"compare: load {load:g}, seed {odd}: not both of {plan.baseline!r} and {name!r} have it")
    tables = {
        name: PolicyTable(
            runs=len(its),
            figures=_over_seeds(its),
            differences={} if name == plan.baseline else _paired(its, base),
        )
        for name, its in figures.items()
    }
    bounds = [row.bound for row in rows if row.policy == plan.baseline]
    known = (
        {name: interval([one[name] for one in bounds]) for name in ("turnaround_mean_s", "makespan_s")}
        if all(bounds)
        else {}
    )
    return LoadTable(load=load, policies=tables, bound={name: one for name, one in known.items() if one is not None})


def _over_seeds(its: dict[int, fg.Figures]) -> dict[str, Interval]:
    """Figures that a policy does not have are left out."""
    columns = {name: [getattr(its[seed], name) for seed in sorted(its)] for name in fg.NAMES}
    found = {name: interval(values) for name, values in columns.items() if None not in values}
    return {name: one for name, one in found.items() if one is not None}


def _paired(its: dict[int, fg.Figures], base: dict[int, fg.Figures]) -> dict[str, Difference]:
    out: dict[str, Difference] = {}
    for name in fg.NAMES:
        pairs = [(getattr(its[seed], name), getattr(base[seed], name)) for seed in sorted(its)]
        if any(None in pair for pair in pairs):
            continue
        absolute = interval([one - other for one, other in pairs])
        shares = [(one - other) / other for one, other in pairs if other]
        relative = interval(shares) if len(shares) == len(pairs) else None
        if absolute is not None:
            out[name] = Difference(absolute, relative)
    return out
