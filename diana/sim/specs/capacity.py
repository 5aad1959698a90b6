"""The capacity of the sites that an entry of the workload may run at."""

from __future__ import annotations

import math

from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import WorkSpec


def allowed(work: WorkSpec, scenario: Scenario) -> tuple[SiteSpec, ...]:
    """The sites its jobs may run at."""
    return tuple(site for site in scenario.sites if not work.sites or site.name in work.sites)


def machines(scenario: Scenario, site: SiteSpec) -> tuple[tuple[int, float], ...]:
    """Slots and speed of each machine of a site, its own first."""
    its = scenario.site_settings(site)
    return ((its.slots, its.speed), *((m.slots, m.speed or its.speed) for m in site.machines))


def capacity(work: WorkSpec, scenario: Scenario) -> float:
    """Seconds of work at reference speed that the sites it may run at do in a second."""
    every = (machine for site in allowed(work, scenario) for machine in machines(scenario, site))
    return math.fsum(slots * speed for slots, speed in every)


def largest(work: WorkSpec, scenario: Scenario) -> int:
    """Processors of the largest machine its jobs may run on."""
    return max(slots for site in allowed(work, scenario) for slots, _ in machines(scenario, site))
