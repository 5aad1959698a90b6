"""One run of a scenario under one of its policies, down to the times of its jobs: what benchmarks and tests of single
policies stand on. Whole comparisons: `compare.py`."""

from __future__ import annotations

from typing import NamedTuple

from diana.sim.central import central
from diana.sim.central.jobs import jobs_of
from diana.sim.report.outcome import JobTimes
from diana.sim.report.report import Report
from diana.sim.scenario.variants import under
from diana.sim.specs.compare_spec import PolicySpec
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.ahead import booted
from diana.sim.world.outcome import outcome_of
from diana.sim.world.runner import run
from diana.sim.world.world import World


class PolicyRun(NamedTuple):
    times: JobTimes
    unfinished: int
    """Jobs not done at the end."""
    report: Report | None
    """None: a central policy ran, which has no engine to check."""

    def good(self) -> bool:
        """True if all jobs were done and, with the engine, no invariant was broken and all expectations met."""
        return not self.unfinished and (self.report is None or self.report.good())


def named(scenario: Scenario, name: str) -> PolicySpec:
    """The policy of that name. KeyError: the scenario has none."""
    return {policy.name: policy for policy in scenario.policies}[name]


def ran(scenario: Scenario, policy: PolicySpec, seed: int, load: float = 1.0) -> PolicyRun:
    """Run the scenario's work under the policy, the same work for every policy under one seed and load."""
    one = under(scenario, policy, load)
    if policy.central:
        jobs = jobs_of(one, seed)
        times, unfinished = central.scheduled(jobs, policy.central, one.limit_s, policy.broker)
        return PolicyRun(times, unfinished, None)
    world = World(one, seed, booted(one, seed))
    report = run(world)
    times = outcome_of(world)
    return PolicyRun(times, sum(s.jobs for s in world.users.in_order()) - len(times.submit_s), report)
