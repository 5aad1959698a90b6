"""SPEC D8, U10: two machines of a site, one of which runs containers. Jobs that want one only ever start there, none is
refused, and the guard bars neither the machine nor the site."""

from __future__ import annotations

from typing import ClassVar

import pytest

from diana.engine.engine import Engine
from diana.engine.guard.guard import Guard
from diana.engine.guard.machine_guard import MachineGuard
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.machines.software import Offers
from diana.errors import UsageError
from diana.model.facts import Outcome
from diana.model.job.software import needed
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import simulate
from tests.runs import first_seed

MACHINES = """version = 1
name = "software"
fsync_s = 0.005

[[sites]]
name = "north"
slots = 0
machines = [
    {name = "m1", slots = 3, software = ["containers", "module gcc/12"]},
    {name = "m2", slots = 5},
]

[[sites]]
name = "south"
slots = 4
software = ["module *"]

[[workload]]
name = "boxed"
site = "south"
jobs = 60
work_s = 4.0
spread = 0.5
container = "image"
on_crash = "rerun"

[[workload]]
name = "quick"
site = "north"
jobs = 60
work_s = 0.5
container = "image"
modules = ["gcc/12"]
submit_s = 2.0
on_crash = "rerun"

[[workload]]
name = "wide"
site = "north"
jobs = 10
processors = 3
work_s = 3.0
modules = ["gcc/12"]
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
cut_every_s = 30.0
"""
JOBS = {"boxed": 60, "quick": 60, "wide": 10, "plain": 120}
OFFERED = {
    ("north", "m1"): {"containers", "module gcc/12"},
    ("south", "main"): {"module gcc/12"},
}


class Watched(Engine):
    """Notes what is given to whom, what was refused, and whom the guard held back."""

    given: ClassVar[dict[tuple[str, str], set[str]]] = {}
    refused: ClassVar[list[str]] = []
    barred: ClassVar[list[str]] = []

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        effects = super().handle(event, now)
        for effect in effects:
            if isinstance(effect, fx.Start):
                self.given.setdefault((self.core.site, effect.worker), set()).update(needed(effect.spec))
        if isinstance(event, ev.JobsEnded):
            self.refused.extend(event.subgroup for one in event.facts.outcomes if one == Outcome.NOT_STARTED)
        guard = self.core.book(Guard)
        self.barred.extend(
            [*guard.stopped, *guard.shunned, *(g for g, out in self.core.book(MachineGuard).out.items() if out)]
        )
        return effects


def run(text: str, seed: int) -> None:
    for seen in (Watched.given, Watched.refused, Watched.barred):
        seen.clear()
    report = simulate(sc.parse(text), seed, boot=Boot(Watched))
    assert report.good(), (seed, report.violations)
    assert {name: group.done for name, group in report.groups.items()} == JOBS, seed
    assert not Watched.refused and not Watched.barred, seed
    for where, wanted in Watched.given.items():
        assert wanted <= OFFERED.get(where, set()), (seed, where)


def test_jobs_that_want_a_container_start_only_on_the_machine_that_has_it_and_the_guard_bars_nobody() -> None:
    run(MACHINES, 1)
    assert Watched.given["north", "m1"] == {"containers", "module gcc/12"}
    assert Watched.given["north", "m2"] == set()


@pytest.mark.wide
def test_they_do_so_too_while_machines_go_away_and_nodes_crash() -> None:
    for seed in range(12):
        run(MACHINES + FAULTS, seed)
    first = first_seed(64_000)
    for seed in range(first, first + 3):
        run(MACHINES + FAULTS, seed)


def test_an_engine_that_takes_all_machines_for_alike_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Offers, "suits", lambda *_: True)
    with pytest.raises(AssertionError):
        run(MACHINES, 1)
    assert Watched.refused and Watched.barred


@pytest.mark.parametrize(
    ("was", "wrong", "said"),
    [
        (
            '"containers", "module gcc/12"',
            '"container"',
            "machines 'm1': software: 'container': want 'containers', 'mod",
        ),
        ('["module *"]', '["module a b"]', "sites south: software: 'module a b': want 'containers', 'module NAME'"),
        ('modules = ["gcc/12"]', 'modules = ["$(x)"]', "modules = ['$(x)']: want names as a job file may have them"),
    ],
)
def test_software_that_makes_no_sense_is_refused_in_one_line(was: str, wrong: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        sc.parse(MACHINES.replace(was, wrong))
    assert said in str(refused.value) and "\n" not in str(refused.value)
