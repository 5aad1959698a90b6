"""`scenarios/diana-congestion.toml` with and without migration (SPEC D7): it pays, and nothing flaps. Ten seeds and
intervals: `python -m benchmarks.bench_migration`; what came of them stands in docs/migration.md."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from diana.sim.experiments.failure import failure
from diana.sim.report.flows import MigrationReport
from diana.sim.scenario.scenario import load, parse
from diana.sim.scenario.text import written
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate
from tests.sim.test_flows import SMALL

CONGESTION = load(Path(__file__).parents[2] / "scenarios" / "diana-congestion.toml")
SEEDS = range(2)


def by_rule(scenario: Scenario, mode: str, seed: int) -> MigrationReport:
    changed = msgspec.structs.replace(scenario, settings={**scenario.settings, "migration": mode})
    report = simulate(changed, seed)
    assert report.good(), failure(changed, report)
    assert report.migration is not None
    return report.migration


def test_what_waits_is_through_earlier_with_migration() -> None:
    off, default = (by_rule(parse(SMALL), mode, 0) for mode in ("off", "default"))
    assert off.moves == 0 < default.moves
    assert default.turnaround["all"].mean_s < 0.8 * off.turnaround["all"].mean_s


@pytest.mark.wide
@pytest.mark.parametrize("seed", SEEDS)
def test_migration_pays_at_four_fifths_load(seed: int) -> None:
    off, default = (by_rule(CONGESTION, mode, seed) for mode in ("off", "default"))
    assert default.turnaround["all"].mean_s < off.turnaround["all"].mean_s
    assert default.turnaround["all"].p95_s < off.turnaround["all"].p95_s
    assert default.most_exports == 1, "no job moves twice"
    assert sum(1 for flow in default.sites.values() if sum(flow.exported) and sum(flow.imported)) >= 4


def test_the_scenario_can_be_written_down_and_read_again() -> None:
    assert parse(written(CONGESTION)) == CONGESTION
