"""Twenty congested sites and one idle one (SPEC D7, beyond the paper): it gets no more than it can start within the
gain that justified each move, and it gets something."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.sim.experiments.failure import failure
from diana.sim.scenario.scenario import load
from diana.sim.world.runner import simulate

HERD = load(Path(__file__).parents[3] / "scenarios" / "herd.toml")


def is_filled_and_not_flooded(seed: int) -> None:
    report = simulate(HERD, seed)
    assert report.good(), failure(HERD, report)
    found = report.migration
    assert found is not None
    idle = found.sites["idle"]
    slots = next(site.slots for site in HERD.sites if site.name == "idle")
    assert sum(idle.imported) >= slots, f"seed {seed}: the idle site got {sum(idle.imported)} jobs"
    busiest = max(sum(flow.imported) for name, flow in found.sites.items() if name != "idle")
    assert sum(idle.imported) > busiest, f"seed {seed}: a congested site got {busiest}"
    # A start is late by the travel of a message (milliseconds) at times, and by no more.
    assert "idle" not in found.late_at or found.worst_start < 1.001, (
        f"seed {seed}: {found.late_at}, {found.worst_start}"
    )
    assert not found.started_elsewhere
    # Two slots and a queue of its own: a congested site foretells its starts less well than an idle one.
    late = max(2, 0.05 * found.exported_jobs)
    assert found.started_late <= late, f"seed {seed}: {found.late_at}"
    assert found.most_exports == 1


@pytest.mark.wide
def test_an_idle_site_that_twenty_see_at_once_is_filled_and_not_flooded() -> None:
    is_filled_and_not_flooded(0)


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(1, 8))
def test_so_it_is_whoever_looks_first(seed: int) -> None:
    is_filled_and_not_flooded(seed)
