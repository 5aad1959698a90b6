"""Three sites in the middle of a simulation, for the tests of single faults."""

from __future__ import annotations

from diana.model.ids import SiteId
from diana.sim.sites.driver import Boot
from diana.sim.sites.site import SimulatedSite
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.world import World

A, B, C = SiteId("a"), SiteId("b"), SiteId("c")


def begun(scenario: Scenario, until_s: float) -> World:
    world = World(scenario, 0, Boot())
    world.begin()
    world.clock.run_until(until_s)
    return world


def at(world: World, site: SiteId) -> SimulatedSite:
    found = world.sites[site]
    assert isinstance(found, SimulatedSite)
    return found
