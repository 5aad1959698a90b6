"""Swarm testing: workload and faults come from one seed, within what the scenario says, and are printed."""

from __future__ import annotations

import pickle
import sys
from io import StringIO
from pathlib import Path

import pytest

from diana.errors import UsageError
from diana.sim.experiments import fanout
from diana.sim.experiments.failure import failure
from diana.sim.faults import swarm
from diana.sim.main import run as run_file
from diana.sim.scenario import scenario as sc
from diana.sim.specs.scenario_spec import SwarmSpec
from diana.sim.world.runner import simulate

CHAOS = sc.load(Path(__file__).parents[3] / "scenarios" / "chaos.toml")
SMALL = """version = 1
report = ["faults"]
sites = [{name = "a", slots = 2}, {name = "b", slots = 2}]
[[workload]]
name = "w"
site = "a"
jobs = 10
submit_s = 2.0
hold_s = 3.0
release_s = 6.0
moves = [{to = "b", at_s = 4.0}]
[faults]
draw = true
off = 0.3
until_s = 10.0
loss = 0.2
crash = 0.01
[swarm]
fewer = 0.5
times_s = 2.0
drop = 0.5
moves = 1
homes = true
"""


def test_a_hold_whose_release_is_drawn_needs_none_of_its_own() -> None:
    assert simulate(sc.parse(SMALL.replace("release_s = 6.0\n", "")), 1).good()


def test_each_seed_draws_within_the_scenario_and_at_least_two_hundred_jobs() -> None:
    seen = set()
    for seed in range(60):
        drawn = swarm.drawn(CHAOS, seed)
        assert sum(work.jobs for work in drawn.workload) >= 200
        for work, most in zip(drawn.workload, CHAOS.workload, strict=True):
            assert most.jobs * 0.75 <= work.jobs <= most.jobs
            assert most.submit_s <= work.submit_s <= most.submit_s + CHAOS.swarm.times_s
            assert work.hold_s < 0 or work.release_s >= work.hold_s
            assert len(work.moves) <= len(most.moves) + CHAOS.swarm.moves
            assert all(move.first + move.jobs <= max(work.jobs, most.jobs) for move in work.moves)
        for site, most_site in zip(drawn.sites, CHAOS.sites, strict=True):
            assert 1 <= site.slots <= most_site.slots
        seen.add(tuple((work.site, work.hold_s >= 0, work.cancel_s >= 0, len(work.moves)) for work in drawn.workload))
    assert len(seen) > 50


def test_a_scenario_without_a_swarm_is_the_same_for_every_seed() -> None:
    scenario = sc.parse(SMALL.partition("[swarm]")[0])
    assert all(swarm.drawn(scenario, seed) is scenario for seed in range(5))


def test_what_a_seed_amounts_to_can_be_written_down_and_runs_the_same() -> None:
    scenario = sc.parse(SMALL)
    for seed in range(4):
        concrete = swarm.concrete(scenario, seed)
        assert concrete.swarm == SwarmSpec() and not concrete.faults.draw
        assert simulate(concrete, seed).digest == simulate(scenario, seed).digest


def test_a_failure_prints_all_that_was_drawn() -> None:
    scenario = sc.parse(SMALL + "[expect]\nfaults = 1000000\n")
    text = failure(scenario, simulate(scenario, 3))
    assert "drawn: slots: a " in text and "drawn: w: " in text
    assert "loss=" in text and "off=0.3" in text and "stall_every_s=0" in text


def test_a_scenario_sent_to_another_process_is_run_alike_to_the_byte() -> None:
    scenario = sc.parse(SMALL)
    assert simulate(pickle.loads(pickle.dumps(scenario)), 21).digest == simulate(scenario, 21).digest


@pytest.mark.parametrize(("loaded", "how"), [(True, "spawn"), (False, "fork")])
def test_a_process_in_which_grpc_runs_is_not_forked(loaded: bool, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if loaded:
        monkeypatch.setitem(sys.modules, "grpc", sys)
    else:
        monkeypatch.delitem(sys.modules, "grpc", raising=False)
    assert fanout._processes().get_start_method() == how


@pytest.mark.wide
def test_seeds_in_several_processes_give_what_one_process_gives(tmp_path: Path) -> None:
    one, three = (list(fanout.reports(sc.parse(SMALL), range(20, 33), workers)) for workers in (1, 3))
    assert [report.seed for report in three] == list(range(20, 33))
    assert one == three
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    said = []
    for workers in (1, 2):
        out = StringIO()
        assert run_file(path, 9, 4, True, out, workers) == 0
        said.append(out.getvalue())
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("[swarm]\nfewer = 1.5\n", "fewer = 1.5"),
        ("[swarm]\nfewr = 0.5\n", "did you mean 'fewer'"),
        ("[swarm]\nfewer = 0.5\n[expect]\ndone = 10\n", "leave one out"),
        ("[faults]\noff = 2.0\n", "off = 2.0"),
        ("[faults]\nstall_s = -1.0\n", "stall_s = -1.0"),
    ],
)
def test_wrong_keys_are_refused_in_one_line(wrong: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        sc.parse(SMALL.partition("[faults]")[0] + wrong)
    assert said in str(caught.value) and "\n" not in str(caught.value)
