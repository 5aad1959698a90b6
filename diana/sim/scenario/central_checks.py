"""The parts of a scenario that no central policy, and no bound, knows anything of."""

from __future__ import annotations

from diana.sim.specs.resources_spec import RESOURCE_KEYS
from diana.sim.specs.scenario_spec import Scenario

_GIVEN = (
    "after",
    "produces",
    "max_parallel",
    "container",
    "modules",
    "requirements",
    "link_requirements",
    "set_requirements",
    "rank",
    *RESOURCE_KEYS,
)
_ORDERS = ("cancel_s", "hold_s", "release_s")


def check_central(scenario: Scenario) -> None:
    """ValueError names the entry, the key and the mend."""
    for work in scenario.workload:
        keys = [key for key in _GIVEN if getattr(work, key)]
        keys += [key for key in _ORDERS if getattr(work, key) >= 0]
        if keys:
            raise ValueError(
                f"workload {work.name}: {keys[0]}: central policies and bounds know no such thing; leave it out, "
                "or do without them"
            )
