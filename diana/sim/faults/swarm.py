"""Swarm testing: each seed draws a workload of its own within what the scenario says, as it draws its faults.

A seed that holds, moves and cancels everything at once meets other states than one that only moves; so a seed takes
some of what the scenario offers. The scenario it amounts to can be written down: `concrete` runs just the same.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from diana.sim.kernel import chance
from diana.sim.kernel.faults import drawn_rates
from diana.sim.load.popularity import laid
from diana.sim.specs.chains import together
from diana.sim.specs.scenario_spec import Scenario, SwarmSpec
from diana.sim.specs.site_spec import SiteSpec
from diana.sim.specs.work_spec import MoveSpec, WorkSpec


def drawn(scenario: Scenario, seed: int) -> Scenario:
    """The scenario with this seed's sites, datasets and workload; the same one where nothing is to be drawn."""
    swarm = scenario.swarm
    if swarm == SwarmSpec():
        return laid(scenario, seed)
    rng = chance.stream(seed, "workload")
    chained = {name for names in together(scenario.workload) for name in names}
    sites = tuple(_site(rng, swarm, site) for site in scenario.sites)
    names = [site.name for site in scenario.sites]
    workload = tuple(_work(rng, swarm, work, names, work.name in chained) for work in scenario.workload)
    return laid(replace(scenario, sites=sites, workload=workload, swarm=SwarmSpec()), seed)


def concrete(scenario: Scenario, seed: int) -> Scenario:
    """The scenario that this seed runs, with nothing left to draw but the single faults: the same run under the same
    seed."""
    return replace(drawn(scenario, seed), faults=drawn_rates(scenario.faults, seed))


def told(scenario: Scenario) -> list[str]:
    """Sites and workload that were drawn, a line each."""
    lines = ["slots: " + ", ".join(f"{site.name} {site.slots}" for site in scenario.sites)]
    for work in scenario.workload:
        orders = [
            f"{name} {at_s:g} s"
            for name, at_s in (
                ("hold", work.hold_s),
                ("release", work.release_s),
                ("retry", work.retry_s),
                ("cancel", work.cancel_s),
            )
            if at_s >= 0
        ]
        orders += [f"move {m.first}+{m.jobs or 'all'} to {m.to or 'where it is best'} {m.at_s:g} s" for m in work.moves]
        said = ", ".join(orders) or "nothing"
        lines.append(f"{work.name}: {work.jobs} jobs at {work.site}, {work.submit_s:g} s; then {said}")
    return lines


def _site(rng: Random, swarm: SwarmSpec, site: SiteSpec) -> SiteSpec:
    return replace(site, slots=_fewer(rng, swarm, site.slots))


def _work(rng: Random, swarm: SwarmSpec, work: WorkSpec, sites: list[str], chained: bool) -> WorkSpec:
    """An entry as this seed draws it. Entries that hang together stay where they are, and a trace stays what it is."""
    late_s = round(rng.random() * swarm.times_s, 3)
    if work.trace is not None:
        return replace(work, submit_s=round(work.submit_s + late_s, 3))
    jobs = work.jobs if work.forced or chained else _fewer(rng, swarm, work.jobs)
    home = rng.choice(sites) if swarm.homes and not chained else work.site
    paused = work.hold_s >= 0 and rng.random() >= swarm.drop
    hold_s = _later(rng, swarm, work.hold_s, late_s) if paused else -1.0
    moves = [replace(m, at_s=_later(rng, swarm, m.at_s, late_s)) for m in work.moves if rng.random() >= swarm.drop]
    for _ in range(rng.randrange(swarm.moves + 1)):
        first = rng.randrange(jobs)
        at_s = round(work.submit_s + late_s + rng.random() * max(1.0, 3 * swarm.times_s), 3)
        moves.append(MoveSpec(rng.choice(sites), at_s, first, rng.randrange(1, jobs - first + 1)))
    return replace(
        work,
        jobs=jobs,
        site=home,
        submit_s=round(work.submit_s + late_s, 3),
        hold_s=hold_s,
        release_s=_later(rng, swarm, max(work.release_s, hold_s), late_s) if paused else -1.0,
        retry_s=_kept(rng, swarm, work.retry_s, late_s),
        cancel_s=_kept(rng, swarm, work.cancel_s, late_s),
        # Gangs are not moved to a site, but stopped at checkpoints; they draw as all do.
        moves=tuple(
            sorted(
                (move for move in moves if not (work.components and move.to)),
                key=lambda m: (m.at_s, m.to, m.first, m.jobs),
            )
        ),
    )


def _kept(rng: Random, swarm: SwarmSpec, at_s: float, late_s: float) -> float:
    """An order that is given, or not."""
    return _later(rng, swarm, at_s, late_s) if at_s >= 0 and rng.random() >= swarm.drop else -1.0


def _later(rng: Random, swarm: SwarmSpec, at_s: float, late_s: float) -> float:
    return round(at_s + late_s + rng.random() * swarm.times_s, 3) if at_s >= 0 else at_s


def _fewer(rng: Random, swarm: SwarmSpec, most: int) -> int:
    return max(1, most - int(rng.random() * swarm.fewer * most)) if most else 0
