"""`scenarios/gangs-full.toml`: gangs at sites that are never idle begin while ordinary jobs come and come, and neither
waits beyond the bound (SPEC K5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.sim.experiments.failure import failure
from diana.sim.scenario.scenario import load
from diana.sim.world.runner import simulate

FULL = load(Path(__file__).parents[3] / "scenarios" / "gangs-full.toml")


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(3))
def test_gangs_begin_though_the_sites_are_never_idle_and_nobody_waits_beyond_the_bound(seed: int) -> None:
    report = simulate(FULL, seed)
    assert report.good(), failure(FULL, report)
    # The first ordinary jobs come before the gangs, the last of them when all gangs have ended.
    ordinary = [work for work in FULL.workload if not work.components]
    last_s = min(work.submit_s + (work.repeat - 1) * work.every_s for work in ordinary)
    for work in FULL.workload:
        for at in range(work.repeat if work.components else 0):
            name = work.name if at == 0 else f"{work.name}-{at + 1}"
            ended_s = work.submit_s + at * work.every_s + report.groups[name].makespan_s
            assert ended_s < last_s, f"{name} ended at {ended_s:.0f} s, after the last ordinary jobs came"
