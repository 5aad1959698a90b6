"""`scenarios/diana-congestion.toml` with and without migration (SPEC D7): it pays, and nothing flaps. Ten seeds and
intervals: `python -m benchmarks.bench_migration`; what came of them stands in docs/migration.md."""

from __future__ import annotations

import os
import random
from pathlib import Path

import msgspec
import pytest

from diana.sim.experiments.failure import failure
from diana.sim.report.flows import MigrationReport
from diana.sim.scenario.scenario import load, parse
from diana.sim.scenario.text import written
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate
from tests.sim.report.test_flows import SMALL

CONGESTION = load(Path(__file__).parents[3] / "scenarios" / "diana-congestion.toml")
SEEDS = range(2 if os.environ.get("DIANA_FULL") == "1" else 1)


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


def _at_once(seed: int) -> Scenario:
    """One user's groups on sites of one speed, all there at once, whose run times are as declared."""
    rng = random.Random(seed)
    count = rng.randint(3, 6)
    text = 'version = 1\nreport = ["migration", "groups"]\nlimit_s = 20000.0\nusers = [{name = "u@vo"}]\n'
    text += "".join(f'[[sites]]\nname = "s{i}"\nslots = {rng.randint(1, 6)}\n' for i in range(count))
    for number in range(rng.randint(2, 6)):
        home = rng.randrange(count)
        text += f'[[workload]]\nname = "g{number}"\nsite = "s{home}"\nuser = "u@vo"\njobs = {rng.randint(5, 60)}\n'
        text += f"work_s = {rng.choice([1, 3, 10, 30, 60])}.0\nsubmit_s = {5 + 0.1 * rng.random():.2f}\n"
        # Some may run at two sites alone, so that others come free before.
        other = (home + 1) % count
        text += f'sites = ["s{home}", "s{other}"]\n' if rng.random() < 0.5 else ""
    return parse(text)


def _harms_nobody(seed: int) -> int:
    """Check the seed with and without migration; return the number of moves."""
    scenario, longest_s = _at_once(seed), 60.0
    off, on = (
        simulate(msgspec.structs.replace(scenario, settings={"migration": mode, "binding": "early"}), seed)
        for mode in ("off", "default")
    )
    assert off.good() and on.good() and off.migration is not None and on.migration is not None
    jobs = sum(group.jobs for group in off.groups.values())
    sums = [jobs * one.migration.turnaround["all"].mean_s for one in (off, on) if one.migration is not None]
    assert sums[1] <= 1.01 * sums[0] + longest_s, f"seed {seed}: {sums}"
    later = {name: group.makespan_s - off.groups[name].makespan_s for name, group in on.groups.items()}
    assert max(later.values()) <= longest_s + 1.0, f"seed {seed}: {later}"
    return on.migration.moves


@pytest.mark.wide
def test_migration_harms_nobody() -> None:
    """Without later arrivals or wrong forecasts: no sum of turnarounds is greater, and no group ends later by more than
    a job."""
    assert sum(_harms_nobody(seed) for seed in range(4)) > 0


@pytest.mark.wide
def test_migration_harms_nobody_in_more_grids() -> None:
    assert sum(_harms_nobody(seed) for seed in range(100, 120)) > 0
