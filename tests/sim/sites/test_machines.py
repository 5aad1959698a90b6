"""SPEC D8, PROMISES section 4: sites of several machines, which crash, go away, are given up and come back; no job is
lost or doubled."""

from __future__ import annotations

import pytest

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.errors import UsageError
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import simulate
from tests.runs import first_seed
from tests.sim.checks.test_chaos import check

SUBGRIDS = """version = 1
name = "machines"
report = ["faults", "sites"]
fsync_s = 0.005

[settings]
offer_wait_s = 4.0
resend_most_s = 4.0
claim_ahead = 2

[[sites]]
name = "north"
slots = 0
machines = [{name = "m1", slots = 3}, {name = "m2", slots = 2, speed = 2.0}, {name = "m3", slots = 4}]

[[sites]]
name = "south"
slots = 2
machines = [{name = "m1", slots = 4}]

[[workload]]
name = "sweep"
site = "north"
jobs = 60
work_s = 4.0
spread = 0.5
submit_s = 1.0

[[workload]]
name = "again"
site = "south"
jobs = 40
work_s = 3.0
spread = 0.9
on_crash = "rerun"
fail_fraction = 0.1
submit_s = 3.0
retry_s = 45.0

[[workload]]
name = "wide"
site = "north"
jobs = 12
processors = 2
work_s = 5.0
submit_s = 4.0

[[workload]]
name = "merged"
site = "north"
jobs = 20
work_s = 2.0
output_bytes = 1000
merge = true
submit_s = 6.0

[[workload]]
name = "dropped"
site = "north"
jobs = 30
work_s = 9.0
submit_s = 8.0
cancel_s = 14.0

[faults]
draw = true
until_s = 60.0
heal_s = 900.0
loss = 0.2
duplicate = 0.2
delay = 0.2
crash = 0.01
spawner_crash_every_s = 20.0
machine_crash_every_s = 25.0
machine_away_every_s = 8.0
machine_removed_every_s = 20.0
machine_away_s = 15.0
cut_every_s = 20.0
retell = 0.2
"""
CALM = SUBGRIDS[: SUBGRIDS.index("[faults]")]


@pytest.mark.wide
def test_no_job_is_lost_or_doubled_while_machines_crash_go_away_and_are_given_up() -> None:
    seen = check(sc.parse(SUBGRIDS), range(40))
    for kind in ("machine_away", "machine_removed", "machine_crash", "spawner_crash", "crash"):
        assert seen[kind] >= 20, f"{kind} struck {seen[kind]} times: these seeds prove little"


@pytest.mark.wide
def test_no_job_is_lost_or_doubled_by_machines_in_a_fresh_range_of_seeds() -> None:
    first = first_seed(64_000)
    check(sc.parse(SUBGRIDS), range(first, first + 5))


class ConcludesFromSilence(Engine):
    """Jobs of a machine that is away are taken for lost, and started elsewhere."""

    def handle(self, event: ev.Event, now: float) -> list[fx.Effect]:
        if isinstance(event, ev.LrmLost):
            lane = self.core.totals.runs.lane(event.worker)
            empty = ev.LrmReady(worker=event.worker, session=-1, slots=lane.slots, known=())
            return [*super().handle(empty, now), *super().handle(event, now)]
        return super().handle(event, now)


def test_an_engine_that_takes_silence_for_loss_is_caught() -> None:
    for seed in range(10):
        report = simulate(sc.parse(SUBGRIDS), seed, boot=Boot(ConcludesFromSilence))
        if any(violation.rule == "I1" for violation in report.violations):
            return
    pytest.fail("ten seeds did not see a job of a silent machine run twice")


def test_all_machines_of_a_site_work_and_a_site_without_slots_of_its_own_merges_all_the_same() -> None:
    report = simulate(sc.parse(CALM), 1)
    assert report.good()
    groups = report.groups
    assert groups["sweep"].done == 60 and groups["wide"].done == 12 and groups["merged"].done == 20
    assert groups["merged"].state == "done"
    assert report.sites["north"].slots == 9
    assert report.sites["north"].busy_fraction > 0.2


def test_one_machine_or_three_of_the_same_slots_take_the_same_time() -> None:
    one = """version = 1
    [[sites]]
    name = "a"
    slots = 6
    [[workload]]
    name = "w"
    site = "a"
    jobs = 120
    work_s = 5.0
    """
    three = one.replace("slots = 6", 'slots = 2\nmachines = [{name = "b", slots = 2}, {name = "c", slots = 2}]')
    makespans = [simulate(sc.parse(text), 1).groups["w"].makespan_s for text in (one, three)]
    assert makespans[0] == pytest.approx(100.0, rel=0.02)
    assert makespans[1] == pytest.approx(makespans[0], rel=0.02)


@pytest.mark.parametrize(
    ("machines", "said"),
    [
        ('[{name = "main"}]', "'main' stands twice"),
        ('[{name = "b"}, {name = "b"}]', "'b' stands twice"),
        ('[{name = "b", slots = -1}]', "slots = -1"),
        ('[{name = "b", slot = 1}]', "did you mean 'slots'?"),
    ],
)
def test_machines_that_make_no_sense_are_refused_in_one_line(machines: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        sc.parse(f'version = 1\n[[sites]]\nname = "a"\nmachines = {machines}\n')
