"""Short jobs are claimed ahead by time (PERFORMANCE P2): half a second, given back when a slot is held longer."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.dispatch.claimed_ahead import LOOK_S
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.machines.machines import MOST_AHEAD
from diana.model.facts import Outcome
from diana.model.settings import Settings
from diana.model.views.views import Ok
from tests.engine.bench import Grid
from tests.engine.builders import BOB, facts_of, spec
from tests.engine.machines.test_workers import Machines

SLOTS = 2


class Member(Machines):
    """A machine that gives back what it has not begun; its first two open runs have begun. Jobs take `run_s`."""

    def __init__(self, grid: Grid, recalls: bool = True, run_s: float = 0.01) -> None:
        super().__init__(grid["alpha"], m1=SLOTS)
        self.recalls, self.run_s = recalls, run_s
        self.given_back = 0
        self.obeys = True
        self.asked: list[fx.RecallRuns] = []
        self.ready("m1")

    def ready(self, name: str) -> None:
        self.sessions[name] += 1
        self.up.add(name)
        known = tuple(self.held[name])
        told = {"worker": name, "session": self.sessions[name], "slots": SLOTS, "recalls": self.recalls}
        self.handle(ev.LrmReady(known=known, **told))  # type: ignore[arg-type]

    def tell(self, runs: list[ev.Run], outcome: Outcome = Outcome.DONE) -> None:
        now = self.site.grid.now
        facts = facts_of(self.site.name, runs, outcome, now)
        facts = msgspec.structs.replace(facts, started_s=[now - self.run_s] * len(runs))
        self.handle(ev.JobsEnded(subgroup=runs[0].subgroup, epoch=runs[0].epoch, facts=facts, worker="m1"))

    def open_runs(self) -> list[ev.Run]:
        return [run for run, over in self.held["m1"].items() if not over]

    def obey(self) -> None:
        effects = self.site.trace[self.seen :]
        super().obey()
        self.asked += [effect for effect in effects if isinstance(effect, fx.RecallRuns)]
        while self.asked and self.obeys:
            order = self.asked.pop(0)
            waiting = self.open_runs()[SLOTS:]
            same = [run for run in waiting if (run.subgroup, run.epoch) == (order.subgroup, order.epoch)]
            back = [run for run in same if run.index in order.indices]
            self.given_back += len(back)
            if back:
                self.held["m1"].update(dict.fromkeys(back, True))
                self.tell(back, Outcome.UNBEGUN)

    def goes_on(self, turns: int = 12) -> None:
        for _ in range(turns):
            self.site.grid.pass_time(self.run_s)
            self.end("m1", SLOTS)


def working(jobs: int = 5000, *, recalls: bool = True, run_s: float = 0.01, **settings: object) -> Member:
    """A site that has seen some jobs of a group take `run_s`."""
    grid = Grid({"guard_jobs": 0, **settings}, alpha=0)
    member = Member(grid, recalls, run_s)
    member.submit(spec(jobs, work_s=1.0), jobs)
    member.goes_on()
    return member


def test_short_jobs_keep_the_slots_busy_for_half_a_second() -> None:
    """2 slots, jobs of 10 ms, counted as 11 ms: 88 jobs are claimed ahead, refilled by halves."""
    member = working()
    assert 44 <= member.open("m1") - SLOTS <= 88


def test_no_more_is_claimed_of_jobs_that_take_no_time_at_all_than_a_bound() -> None:
    member = working(run_s=0.0)
    assert MOST_AHEAD * SLOTS // 2 <= member.open("m1") <= (MOST_AHEAD + 1) * SLOTS


@pytest.mark.parametrize(
    ("settings", "recalls", "run_s"),
    [({}, False, 0.01), ({"claim_ahead": 3}, True, 0.01), ({}, True, 1.0)],
    ids=["a machine that gives nothing back", "a number that the operator set", "jobs of a second"],
)
def test_otherwise_the_number_counts(settings: dict[str, object], recalls: bool, run_s: float) -> None:
    member = working(recalls=recalls, run_s=run_s, **settings)
    assert member.open("m1") == Settings(slots=SLOTS, **settings).feed()  # type: ignore[arg-type]


def test_a_declared_time_alone_claims_nothing_more() -> None:
    member = Member(Grid({"guard_jobs": 0}, alpha=0))
    member.submit(spec(5000, work_s=0.01), 5000)
    assert member.open("m1") == Settings(slots=SLOTS).feed()


def test_what_waits_behind_a_slot_that_is_held_comes_back_and_is_not_given_again_until_it_is_free() -> None:
    member = working()
    ahead = member.open("m1") - Settings(slots=SLOTS).feed()
    assert ahead > 40
    member.pass_time(0.4 * LOOK_S)
    assert not member.given_back
    member.pass_time(1.5 * LOOK_S)
    assert member.given_back == ahead
    for _ in range(5):
        member.pass_time(LOOK_S)
    assert member.given_back == ahead
    assert member.open("m1") == Settings(slots=SLOTS).feed()
    member.goes_on(2)
    assert member.open("m1") > Settings(slots=SLOTS).feed()


def test_a_priority_that_arrives_late_waits_for_what_was_claimed_and_no_longer() -> None:
    """Bob's job of better priority comes when half a second of Alice's is claimed."""
    member = working()
    claimed = member.open_runs()
    member.submit(spec(1, work_s=1.0), 1, 7, BOB)
    turns, bobs = 0, list[ev.Run]()
    while turns < 200 and not (bobs and member.held["m1"].get(bobs[0], True)):
        member.goes_on(1)
        turns += 1
        bobs = [run for run in member.executed if run not in claimed and run.subgroup != claimed[0].subgroup]
    assert bobs
    assert turns * member.run_s <= 0.6


def test_long_jobs_are_not_claimed_by_the_pace_of_short_ones_that_came_before_them() -> None:
    member = working(jobs=60)
    member.submit(spec(50, work_s=3.0), 50, 8)
    short = {run.subgroup for run in member.executed}
    member.goes_on(40)
    slow = [run for run in member.open_runs() if run.subgroup not in short]
    assert len(slow) == Settings(slots=SLOTS).feed()


def test_a_hold_takes_back_what_was_claimed_and_not_begun() -> None:
    member = working()
    assert isinstance(member.site.hold("alpha-1"), Ok)
    member.obey()
    assert member.open("m1") == SLOTS


def test_every_job_runs_once_though_the_node_restarts_between_claim_and_give_back() -> None:
    member = working(jobs=300)
    member.obeys = False
    member.pass_time(2.0 * LOOK_S)
    assert member.asked, "it was asked, and has not answered"
    member.asked.clear()
    member.site.restart()
    member.obeys = True
    member.ready("m1")
    for _ in range(200):
        member.goes_on(1)
    assert member.site.group("alpha-1").state == "done"
    ran = [run.index for run, over in member.held["m1"].items() if over] + [run.index for run in member.executed]
    assert set(ran) == set(range(300))
    assert len({(run.subgroup, run.index) for run in member.executed}) == 300
    assert len(member.executed) == 300
