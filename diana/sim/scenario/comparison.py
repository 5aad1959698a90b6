"""The comparison that a scenario asks for: its checks, and its defaults filled in."""

from __future__ import annotations

import msgspec

from diana.sim.specs.compare_spec import BrokerSpec, PolicySpec
from diana.sim.specs.names import known, unique
from diana.sim.specs.scenario_spec import Scenario

AS_WRITTEN = "as written"
"""The policy of a scenario that names none: its own settings."""


class ComparisonPlan(msgspec.Struct, frozen=True):
    """A comparison, its defaults filled in."""

    policies: tuple[PolicySpec, ...]
    loads: tuple[float, ...]
    seeds: int
    warm_up: float
    baseline: str
    whole: bool = False
    """True: each run's report is kept."""


AS_IT_IS = ComparisonPlan((PolicySpec(AS_WRITTEN),), (1.0,), 1, 0.0, AS_WRITTEN, whole=True)
"""A scenario by itself, under one seed, untrimmed."""


def plan(scenario: Scenario) -> ComparisonPlan:
    """The comparison that `scenario.compare` asks for; without one `AS_IT_IS`."""
    spec = scenario.compare
    if spec is None:
        return AS_IT_IS
    every = {policy.name: policy for policy in scenario.policies}
    chosen = tuple(every[name] for name in spec.policies or every)
    return ComparisonPlan(chosen, spec.loads, spec.seeds, spec.warm_up, spec.baseline or chosen[0].name)


def check_compare(scenario: Scenario) -> None:
    """ValueError names the key, the value and the mend; what settings say is left to whoever reads them."""
    names = unique([policy.name for policy in scenario.policies], "policies")
    if "" in names:
        raise ValueError("policies: one has an empty name; name it")
    for policy in scenario.policies:
        if policy.central and policy.settings:
            raise ValueError(
                f"policies {policy.name}: central = {policy.central!r} has no settings; leave one of the two out"
            )
        broker = policy.broker
        if policy.central != "egee" and broker != BrokerSpec():
            raise ValueError(f"policies {policy.name}: broker: only central = 'egee' has one; leave one of the two out")
        if not (0 <= broker.job_s <= 3600 and 0.001 <= broker.refresh_s <= 1e6):
            raise ValueError(
                f"policies {policy.name}: broker: job_s = {broker.job_s:g}, refresh_s = {broker.refresh_s:g}: want 0 "
                "to 3600, and 0.001 to 1e6"
            )
    spec = scenario.compare
    if spec is None:
        if "compare" in scenario.report:
            raise ValueError("report: 'compare' wants a [compare] table, with [[policies]]; add one")
        return
    if not names:
        raise ValueError("compare: no [[policies]] to compare; name at least one")
    for name in unique(spec.policies, "compare: policies"):
        known(name, names, "compare: policies")
    if spec.baseline:
        known(spec.baseline, spec.policies or names, "compare: baseline")
    if not (spec.loads and all(0 < load <= 1000 for load in spec.loads)) or len(set(spec.loads)) < len(spec.loads):
        raise ValueError(f"compare: loads = {list(spec.loads)}: want different factors above 0, to 1000")
    if not (1 <= spec.seeds <= 100_000 and 0 <= spec.warm_up < 0.5):
        raise ValueError(
            f"compare: seeds = {spec.seeds}, warm_up = {spec.warm_up:g}: want 1 to 100000, and 0 to below 0.5"
        )
