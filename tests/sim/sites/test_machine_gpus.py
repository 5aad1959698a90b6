"""SPEC D8: jobs that want GPUs on machines of a site that have few. No machine ever holds jobs of more than it has
(I7), and none of them stands idle while a job waits that could start there."""

from __future__ import annotations

from typing import ClassVar

import pytest

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.machines.machines import Workers
from diana.errors import UsageError
from diana.model.facts import Outcome
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import simulate
from tests.runs import first_seed

MACHINES = """version = 1
name = "gpus"
fsync_s = 0.005

[[sites]]
name = "north"
slots = 2
gpus = 1
machines = [
    {name = "m1", slots = 4, gpus = 2},
    {name = "m2", slots = 5},
]

[[sites]]
name = "south"
slots = 4

[[workload]]
name = "one"
site = "south"
jobs = 60
gpus = 1
work_s = 4.0
spread = 0.5
on_crash = "rerun"

[[workload]]
name = "quick"
site = "north"
jobs = 60
gpus = 1
work_s = 0.5
submit_s = 2.0
on_crash = "rerun"

[[workload]]
name = "both"
site = "north"
jobs = 10
gpus = 2
processors = 2
work_s = 3.0
submit_s = 3.0
on_crash = "rerun"

[[workload]]
name = "plain"
site = "north"
jobs = 120
work_s = 3.0
spread = 0.5
submit_s = 1.0
on_crash = "rerun"
"""
FAULTS = """
[faults]
draw = true
until_s = 60.0
heal_s = 900.0
loss = 0.1
duplicate = 0.1
delay = 0.1
crash = 0.005
machine_away_every_s = 10.0
machine_away_s = 8.0
spawner_crash_every_s = 20.0
cut_every_s = 30.0
"""
JOBS = {"one": 60, "quick": 60, "both": 10, "plain": 120}
HAS = {("north", "main"): 1, ("north", "m1"): 2}


class Watched(Engine):
    """Notes where jobs with GPUs were given, what was refused, and machines that idle beside a job that waits."""

    given: ClassVar[set[tuple[str, str]]] = set()
    refused: ClassVar[list[str]] = []
    idle: ClassVar[list[tuple[float, str, str]]] = []
    used: ClassVar[dict[tuple[str, str], int]] = {}

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        core, site = self.core, str(self.core.site)
        for effect in effects:
            if isinstance(effect, fx.Start) and effect.spec.resources.gpus:
                self.given.add((site, effect.worker))
        if isinstance(event, ev.JobsEnded):
            self.refused.extend(event.subgroup for one in event.facts.outcomes if one == Outcome.NOT_STARTED)
        waiting = [core.state.custodies[entry.key] for entry in core.queues.entries.values() if entry.ready]
        # A wide job keeps machines for itself, of which others are not told here.
        single = all(c.spec.resources.processors == 1 for c in waiting)
        for (where, name), gpus in HAS.items():
            worker = core.workers.find(name) if where == site else None
            if worker is None or worker.session is None:
                continue
            lane = worker.lane
            self.used[where, name] = max(self.used.get((where, name), 0), lane.held["gpus"])
            free = lane.slots > lane.load and lane.held["gpus"] < gpus
            if free and single and any(c.runnable and c.spec.resources.gpus == 1 for c in waiting):
                self.idle.append((now, where, name))
        return effects


def run(text: str, seed: int) -> None:
    for seen in (Watched.given, Watched.refused, Watched.idle, Watched.used):
        seen.clear()
    report = simulate(sc.parse(text), seed, boot=Boot(Watched))
    assert report.good(), (seed, report.violations)
    assert {name: group.done for name, group in report.groups.items()} == JOBS, seed
    assert not Watched.refused and not Watched.idle, (seed, Watched.refused[:3], Watched.idle[:3])
    assert Watched.given == set(HAS), seed


def test_all_gpus_are_used_by_no_more_jobs_than_there_are_of_them() -> None:
    run(MACHINES, 1)
    assert Watched.used == HAS


@pytest.mark.wide
def test_they_are_so_too_while_machines_go_away_and_nodes_and_spawners_crash() -> None:
    for seed in range(8):
        run(MACHINES + FAULTS, seed)
    first = first_seed(64_000)
    for seed in range(first, first + 3):
        run(MACHINES + FAULTS, seed)


@pytest.mark.wide
def test_an_engine_that_does_not_count_them_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workers, "free_of", lambda *_: 1 << 30)
    with pytest.raises(AssertionError, match=r"I7.*holds jobs of \d gpus and has \d"):
        run(MACHINES, 1)


def test_an_engine_that_gives_one_less_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Workers.free_of
    monkeypatch.setattr(
        Workers, "free_of", lambda self, worker, name: counted(self, worker, name) - (worker.name == "m1")
    )
    with pytest.raises(AssertionError):
        run(MACHINES.replace("gpus = 2\nprocessors", "processors"), 1)
    assert Watched.idle


@pytest.mark.parametrize(
    ("was", "wrong", "said"),
    [
        ("gpus = 2}", "gpus = -2}", "sites north: machines 'm1': gpus = -2: want 0 to 256"),
        (
            "slots = 2\ngpus = 1\n",
            'slots = 2\ngpus = 1\nlrm = "easy"\n',
            "there are none behind lrm = 'easy'",
        ),
        ("gpus = 1\nwork_s", "gpus = -1\nwork_s", "workload one: gpus = -1: want 0 to 1e+06"),
    ],
)
def test_gpus_that_make_no_sense_are_refused_in_one_line(was: str, wrong: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        sc.parse(MACHINES.replace(was, wrong, 1))
    assert said in str(refused.value) and "\n" not in str(refused.value)
