"""PROMISES section 2 "Standby" and section 4 (row D8) in the simulator: RootGrids that die, stop or lose their disk.

`make test` runs a few seeds of scenarios/standby.toml, DIANA_FULL=1 a thousand.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from diana.errors import UsageError
from diana.replica.machine import Replica
from diana.sim.experiments.failure import failure
from diana.sim.report.report import Report
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import run, simulate
from diana.sim.world.world import World
from tests.runs import first_seed

STANDBY = sc.load(Path(__file__).parents[3] / "scenarios" / "standby.toml")
EARLY = msgspec.structs.replace(STANDBY, settings={**STANDBY.settings, "binding": "early"})
"""More is handed over at once, and so more can be lost."""
FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(7200)] if FULL else []

SMALL = """version = 1
fsync_s = 0.002
report = ["standby", "faults"]
sites = [{name = "a", slots = 4, standby = true, witness = "b"}, {name = "b", slots = 1}]
[[workload]]
name = "w"
site = "a"
jobs = 60
work_s = 2.0
sites = ["a"]
submit_s = 4.0
[expect]
done = 60
"""


def check(seeds: range) -> tuple[Counter[str], list[float]]:
    seen: Counter[str] = Counter()
    took_s: list[float] = []
    for seed in seeds:
        report = simulate(STANDBY, seed)
        if not report.good():
            pytest.fail(failure(STANDBY, report))
        seen.update(report.fault_kinds)
        took_s += report.takeovers_s
    return seen, took_s


@pytest.mark.wide
def test_nothing_is_lost_or_doubled_however_replicas_die_stop_and_lose_disks() -> None:
    seen, took_s = check(range(1000 if FULL else 3))
    for kind in ("leader_kill", "leader_stop", "replica_cut"):
        assert seen[kind] >= 3, f"{kind} struck {seen[kind]} times: these seeds prove little"
    assert took_s and max(took_s) < 20


@pytest.mark.wide
def test_nothing_is_lost_or_doubled_in_fresh_seeds() -> None:
    first = first_seed(62_000)
    check(range(first, first + 2))


def struck(befall: str, stop_s: float = 0.0, boot: Boot | None = None) -> tuple[World, Report]:
    """A small group, and what befalls the leader in the middle of it."""
    scenario = sc.parse(SMALL)
    world = World(scenario, 1, boot or Boot())
    pair = world.pairs[0]

    def strike() -> None:
        leader = pair.serving
        assert leader is not None, "it leads by now"
        if befall == "kill":
            leader.fall("killed")
            world.clock.after(60.0, leader.begin)
        elif befall == "disk":
            leader.lose_disk(pair.empty_store())
            world.clock.after(60.0, leader.begin)
        else:
            leader.pause()
            world.clock.after(stop_s, leader.resume)

    world.clock.at(15.0, strike)
    return world, run(world)


@pytest.mark.parametrize("befall", ["kill", "disk"])
def test_a_leader_lost_during_a_group_is_taken_over_from(befall: str) -> None:
    world, report = struck(befall)
    assert report.good(), failure(world.scenario, report)
    assert world.pairs[0].serving is world.pairs[0].halves["standby"]
    assert 6.0 < max(report.takeovers_s) < 10.0


@pytest.mark.parametrize(("stop_s", "leader"), [(5.0, "main"), (30.0, "standby"), (120.0, "standby")])
def test_a_stopped_leader_is_taken_over_from_when_it_stops_for_long(stop_s: float, leader: str) -> None:
    world, report = struck("stop", stop_s)
    assert report.good(), failure(world.scenario, report)
    serving = world.pairs[0].serving
    assert serving is not None and serving.machine == leader


class NoLease(Replica):
    def _leased(self, now: float) -> bool:
        return not self.both or self._counts_on(self.peer_seen)


class AloneUnasked(Replica):
    def _recorded(self) -> bool:
        return False


class OwnDiskIsEnough(Replica):
    def _durable(self) -> int:
        return self.fsynced


@pytest.mark.wide
@pytest.mark.parametrize(
    ("mutant", "first"),
    [(NoLease, 0), (AloneUnasked, 0), pytest.param(OwnDiskIsEnough, 13, marks=pytest.mark.wide)],
)
def test_the_judges_see_a_machine_that_breaks_a_sentence(mutant: type[Replica], first: int) -> None:
    """`first`: where looking is quick; any range of sixty has some."""
    for seed in range(first, first + 60):
        if run(World(EARLY, seed, Boot(replica=mutant))).violations:
            return
    pytest.fail(f"{mutant.__name__} did no harm in 60 seeds")


@pytest.mark.wide
def test_the_same_seed_is_the_same_run() -> None:
    assert simulate(STANDBY, 2).digest == simulate(STANDBY, 2).digest


def test_an_unknown_witness_is_refused_with_the_sites_there_are() -> None:
    with pytest.raises(UsageError, match="witness"):
        sc.parse(SMALL.replace('witness = "b"', 'witness = "a"'))
