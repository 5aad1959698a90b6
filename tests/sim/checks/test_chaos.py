"""PROMISES section 4 in the simulator: whatever network, nodes, disks and sites do, no job is lost or doubled.

`make soak PARTS=wide` runs seeds 50 to 99 (DIANA_FULL=1: 0 to 199).
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from diana.sim.experiments.failure import failure
from diana.sim.faults.swarm import drawn
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import run, simulate
from diana.sim.world.world import World
from tests.runs import first_seed

CHAOS = sc.load(Path(__file__).parents[3] / "scenarios" / "chaos.toml")
GANGS = sc.load(Path(__file__).parents[3] / "scenarios" / "gangs.toml")
LATE = msgspec.structs.replace(CHAOS, settings={**CHAOS.settings, "binding": "late"})
"""The same while jobs wait for their turn."""
SHORT = msgspec.structs.replace(
    CHAOS,
    sites=tuple(msgspec.structs.replace(site, recalls=True) for site in CHAOS.sites),
    workload=tuple(
        work
        if work.inputs or work.components
        else msgspec.structs.replace(work, work_s=0.05, spread=1.0, jobs=15 * work.jobs, moves=())
        for work in CHAOS.workload
    ),
)
"""The same with jobs so short that they are claimed ahead by time."""
FULL = os.environ.get("DIANA_FULL") == "1"
SEEDS = 200 if FULL else 100
FRESH = 8
DATABASES = ("database_lost", "database_old", "backup_restored")
"""After these jobs may stay held or out of reach, and groups may be gone (`diana/sim/checks/aftermath.py`)."""


def check(scenario: Scenario, seeds: range) -> Counter[str]:
    """Run the seeds; fails with seed, options and story. Gives the faults by kind and the jobs by end."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        report = simulate(scenario, seed)
        if not report.good():
            pytest.fail(failure(scenario, report))
        seen.update(report.fault_kinds)
        for group in report.groups.values():
            seen.update(done=group.done, failed=group.failed, cancelled=group.cancelled, held=group.held)
            seen.update(unreachable=group.unreachable, gone=group.jobs if group.state == "gone" else 0)
            assert group.state != "refused", f"seed {seed}: {group.note}"
            ended = group.done + group.failed + group.cancelled + group.held
            if not any(report.fault_kinds.get(kind) for kind in DATABASES):
                assert group.jobs == ended, f"seed {seed}: {group}"
    return seen


@pytest.mark.wide
@pytest.mark.parametrize("first", range(0 if FULL else 50, SEEDS, 50))
def test_no_job_is_lost_or_doubled_under_loss_duplication_delay_cuts_and_crashes(first: int) -> None:
    seeds = range(first, first + 50)
    seen = check(LATE if first % 100 else CHAOS, seeds)
    frequent = ("loss", "duplicate", "delay", "crash", "cut", "clog", "spawner_crash", "machine_crash", "stage_error")
    rare = ("partition", "disk_slow", "disk_full", "disk_error", "clock_jump", "stall", "site_loss", *DATABASES)
    for kind, least in (*((kind, 5) for kind in frequent), *((kind, 1) for kind in rare)):
        assert seen[kind] >= least, f"{kind} struck {seen[kind]} times in seeds {seeds}: these seeds prove little"
    assert seen["gone"] + seen["unreachable"] < 0.1 * seen["done"]
    assert seen.total() >= 50 * 50
    assert all(sum(w.jobs for w in drawn(CHAOS, seed).workload) >= 200 for seed in seeds)


@pytest.mark.wide
def test_no_job_is_lost_or_doubled_in_a_fresh_range_of_seeds() -> None:
    first = first_seed(61_000)
    check(CHAOS, range(first, first + FRESH))
    check(LATE, range(first, first + FRESH))
    check(GANGS, range(first, first + FRESH))
    check(SHORT, range(first, first + FRESH))


@pytest.mark.parametrize("seed", [323, 5137])
def test_gangs_start_whole_or_not_at_all_though_databases_are_put_back(seed: int) -> None:
    """323: an origin gets a journal from before a gang was let go. 5137: a gang breaks after a restore."""
    seen = check(GANGS, range(seed, seed + 1))
    assert sum(seen[kind] for kind in DATABASES) >= 1


def test_a_gang_that_ended_at_home_before_its_group_was_released_is_not_begun_again() -> None:
    check(CHAOS, range(907964, 907965))


@pytest.mark.wide
def test_a_component_that_a_backup_shows_as_running_is_not_begun_again() -> None:
    """Its end came after the copy, and its machine forgot it."""
    assert check(CHAOS, range(908138, 908168))["backup_restored"] >= 3


SMALL = """version = 1
settings = {offer_wait_s = 4.0, resend_most_s = 2.0}
fsync_s = 0.002
report = ["faults"]
sites = [{name = "a", slots = 1}, {name = "b", slots = 2}]
datasets = [{name = "d", site = "b", files = 6, file_bytes = 1000}]
[[workload]]
name = "w"
site = "a"
jobs = 6
work_s = 0.5
submit_s = 2.0
inputs = ["d"]
file_per_job = true
output_bytes = 100
merge = true
"""


@pytest.mark.parametrize("site", ["a", pytest.param("b", marks=pytest.mark.wide)])
def test_a_crash_at_every_single_boundary_loses_and_doubles_nothing(site: str) -> None:
    scenario = sc.parse(SMALL + "[expect]\ndone = 6\n")
    calm = World(scenario, 0, Boot(), crash_at=(site, 0))
    assert run(calm).good()
    boundaries = calm.faults.passed[site]
    assert boundaries > 30
    for boundary in range(1, boundaries + 1):
        world = World(scenario, 0, Boot(), crash_at=(site, boundary))
        report = run(world)
        assert report.fault_kinds == {"crash": 1}
        assert report.good(), f"crash of {site} at boundary {boundary}: {failure(scenario, report)}"


@pytest.mark.wide
@pytest.mark.parametrize("loss", [0.2, 0.5])
def test_a_crash_at_a_boundary_while_messages_are_lost_and_doubled(loss: float) -> None:
    faults = f"[faults]\nuntil_s = 8.0\nheal_s = 300.0\nloss = {loss}\nduplicate = 0.3\ndelay = 0.3\n"
    scenario = sc.parse(SMALL + faults)
    for seed in range(60):
        report = simulate(scenario, seed, crash_at=("ab"[seed % 2], 3 + seed))
        assert report.good(), f"crash_at {3 + seed}: {failure(scenario, report)}"
