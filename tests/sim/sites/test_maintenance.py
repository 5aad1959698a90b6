"""SPEC D8: maintenance in whole grids. No job whose time is known runs when its site closes, nothing starts while it is
closed, and none is lost."""

from __future__ import annotations

from typing import ClassVar

import pytest

from diana.engine.dispatch.maintenance import Closing
from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.errors import UsageError
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import simulate

TEXT = """version = 1
name = "maintenance"

[[sites]]
name = "north"
slots = 4
maintenance = [{from_s = 40.0, to_s = 90.0, reason = "new switches"}, {from_s = 130.0, to_s = 150.0}]

[[sites]]
name = "south"
slots = 2
machines = [{name = "m1", slots = 3}]
maintenance = [{from_s = 60.0, to_s = 120.0, machines = ["m1"]}]

[[workload]]
name = "long"
site = "north"
jobs = 30
work_s = 17.0
on_crash = "rerun"

[[workload]]
name = "quick"
site = "north"
jobs = 200
work_s = 0.8
submit_s = 2.0
on_crash = "rerun"

[[workload]]
name = "bound"
site = "south"
sites = ["north"]
jobs = 12
work_s = 11.0
submit_s = 5.0
on_crash = "rerun"

[[workload]]
name = "wide"
site = "south"
jobs = 6
processors = 2
work_s = 9.0
submit_s = 20.0
on_crash = "rerun"
"""
JOBS = {"long": 30, "quick": 200, "bound": 12, "wide": 6}
FAULTS = """
[faults]
draw = true
until_s = 100.0
heal_s = 900.0
loss = 0.05
duplicate = 0.1
delay = 0.1
cut_every_s = 30.0
crash = 0.002
"""
CLOSED = {("north", "main"): ((40.0, 90.0), (130.0, 150.0)), ("south", "m1"): ((60.0, 120.0),)}


class Watched(Engine):
    ran: ClassVar[list[tuple[str, str, float, float]]] = []

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        if isinstance(event, ev.JobsEnded):
            custody = self.core.state.custodies.get((event.subgroup, event.epoch))
            facts = event.facts
            for index, start_s, end_s in zip(facts.indices, facts.started_s, facts.ended_s, strict=True):
                if custody is not None and index in custody.running:
                    self.ran.append((self.core.site, self._where(event, index), start_s, end_s))
        return super().handle(event, now)

    def _where(self, event: ev.JobsEnded, index: int) -> str:
        """The machine; an end may be told twice."""
        held = self.core.totals.runs
        rows = ((name, held.held_by(name)) for name in held.lanes)
        return next(
            (name for name, some in rows if index in some.get((event.subgroup, event.epoch), ())), "told before"
        )


def run(text: str, seed: int) -> list[tuple[str, str, float, float]]:
    Watched.ran = []
    report = simulate(sc.parse(text), seed, boot=Boot(Watched))
    assert report.good(), (seed, report.violations)
    assert {name: group.done for name, group in report.groups.items()} == JOBS, seed
    return Watched.ran


def check(ran: list[tuple[str, str, float, float]], seed: int) -> None:
    for site, machine, start_s, end_s in ran:
        for from_s, to_s in CLOSED.get((site, machine), ()):
            assert end_s <= from_s + 1e-6 or start_s >= to_s - 1e-6, (seed, site, machine, start_s, end_s)


@pytest.mark.parametrize("seed", range(1, 4))
def test_no_job_runs_when_its_site_closes_and_all_are_done(seed: int) -> None:
    ran = run(TEXT, seed)
    check(ran, seed)
    north = [row for row in ran if row[0] == "north"]
    assert any(row[3] <= 40.0 for row in north) and any(row[2] >= 90.0 for row in north)


@pytest.mark.parametrize("seed", range(11, 14))
def test_under_faults_none_is_lost_either(seed: int) -> None:
    check(run(TEXT + FAULTS, seed), seed)


SAVED = """version = 1
name = "saved before windows"

[[sites]]
name = "north"
slots = 3
maintenance = [{from_s = 250.0, to_s = 300.0}, {from_s = 600.0, to_s = 640.0}]

[[workload]]
name = "long"
site = "north"
jobs = 4
work_s = 400.0
checkpoint = true
on_crash = "rerun"
"""


@pytest.mark.parametrize("faults", ["", FAULTS], ids=["", "under faults"])
def test_jobs_longer_than_the_time_between_windows_are_saved_before_each_and_get_on(faults: str) -> None:
    Watched.ran = []
    report = simulate(sc.parse(SAVED + faults.replace("until_s = 100.0", "until_s = 700.0")), 2, boot=Boot(Watched))
    assert report.good(), report.violations
    (group,) = report.groups.values()
    assert group.done == 4
    if not faults:
        for site, machine, start_s, end_s in Watched.ran:
            for from_s, to_s in ((250.0, 300.0), (600.0, 640.0)):
                assert end_s <= from_s or start_s >= to_s, (site, machine, start_s, end_s)
        work_s = sum(end_s - start_s for *_, start_s, end_s in Watched.ran)
        assert min(start_s for *_, start_s, _ in Watched.ran) < 10.0, "they began before a window they had no time for"
        assert work_s < 4 * 400.0 + 10.0 * len(Watched.ran), "nothing was done twice"


@pytest.mark.parametrize("what", ["any_left", "most"])
def test_an_engine_that_overlooks_the_coming_window_is_caught(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Closing, what, lambda *_: None if what == "most" else True)
    if what == "any_left":
        monkeypatch.setattr(Closing, "most", lambda *_: None)
    with pytest.raises(AssertionError):
        for seed in range(1, 4):
            check(run(TEXT, seed), seed)


@pytest.mark.parametrize(
    ("was", "bad", "says"),
    [
        ("to_s = 90.0", "to_s = 30.0", "sites north: maintenance: from_s = 40.0, to_s = 30.0: want 0 to 1e9"),
        ('machines = ["m1"]', 'machines = ["m2"]', "machines: 'm2': want some of main, m1"),
        ("from_s = 40.0", "form_s = 40.0", "form_s"),
    ],
)
def test_a_window_that_cannot_be_is_refused_in_one_line(was: str, bad: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        sc.parse(TEXT.replace(was, bad))
    assert says in str(refused.value) and "\n" not in str(refused.value)
