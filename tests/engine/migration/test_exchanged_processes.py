"""A running gang with spares: its origin exchanges a slow component for one that stands by (SPEC G6)."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.handover.steps import OwnPace
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.messages import messages as ms
from diana.engine.messages.exchange import GangRoster
from diana.model.facts import Outcome
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, SubgroupId
from diana.model.job.components import components_of
from diana.model.job.gang import COMPONENT, first_active
from diana.model.job.spec import Axis, GroupSpec, Sweep
from diana.model.views import views
from tests.engine.bench import Grid, Site
from tests.engine.builders import OPERATOR, spec

SITES = ("alpha", "beta", "gamma", "delta")
STEPS = 200.0


class Program:
    """A gang of three and a spare, one component at each site, whose processes agree on a roster at the end of each
    step, as `examples/grads/ranks.py` does. alpha is the origin."""

    def __init__(self, **more: object) -> None:
        self.grid = Grid(**dict.fromkeys(SITES, 1))
        asked = components_of("+".join(f"1x1@{site}" for site in SITES))
        axes = (Axis(name="job", start=0, stop=1), Axis(name=COMPONENT, start=0, stop=4))
        self.spec: GroupSpec = msgspec.structs.replace(
            spec(1, **more), components=asked, sweep=Sweep(axes=axes), spares=1
        )
        answer = self.grid["alpha"].submit(self.spec, 4)
        assert isinstance(answer, fx.GroupAccepted), answer
        self.name = answer.group
        assert sum(len(site.gone) for site in self.grid.sites.values()) == 4, "all were let go"
        self.own_s = [0.1] * 4
        """Seconds of each rank's own part of a step."""
        self.files: dict[int, tuple[int, tuple[int, ...]]] = {}
        """Rank -> the roster that its site wrote last."""
        self.roster, self.active = 0, first_active(self.spec)
        self.done = 0.0
        self.reach = set(range(4))
        """Ranks whose files are read."""

    def site(self, rank: int) -> Site:
        return self.grid[SITES[rank]]

    def hear(self) -> None:
        """The sites write what they were told since."""
        for rank in range(4):
            for effect in self.site(rank).trace:
                if isinstance(effect, fx.TellRoster):
                    assert list(effect.indices) == [rank]
                    self.files[rank] = (effect.number, effect.active)
            self.site(rank).trace.clear()

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self.grid.pass_time(1.0)
            self.hear()
            self.done += 1
            number, active = max(self.files.get(rank, (0, ())) for rank in self.reach)
            if number > self.roster:
                self.roster, self.active = number, active
            for rank in range(4):
                self.report(rank)
            self.grid.settle()

    def report(self, rank: int) -> None:
        (run,) = self.site(rank).gone
        told = ((run.index, run.attempt, self.grid.now, self.done, STEPS),)
        own = ((self.own_s[rank], self.roster),)
        self.site(rank).handle(
            ev.StepsReported(worker=MAIN_MACHINE, subgroup=run.subgroup, epoch=run.epoch, steps=told, own=own)
        )

    def exchanges(self) -> list[r.ProcessExchanged]:
        return [one for one in self.grid["alpha"].records(r.ProcessExchanged) if isinstance(one, r.ProcessExchanged)]

    def words(self) -> list[str]:
        alpha = self.grid["alpha"]
        alpha.handle(ev.Ask(request=7, principal=OPERATOR, what="explain", group=GroupId(self.name)))
        self.grid.settle()
        told = alpha.replies.pop(7)
        assert isinstance(told, views.Explanation)
        return list(told.exchanges)


def hold(program: Program, *kinds: type) -> None:
    program.grid.fate = lambda g, _, post: "lose" if isinstance(post[2], kinds) else "deliver"


def test_a_slow_component_is_exchanged_once_and_the_user_is_told_why() -> None:
    program = Program()
    program.step(8)
    assert not program.exchanges() and "no exchange would pay" in program.words()[0]
    program.own_s[1] = 0.9
    program.step(20)
    (one,) = program.exchanges()
    assert (one.number, one.slow, one.spare, one.active) == (1, 1, 3, (0, 3, 2))
    assert (program.roster, program.active) == (1, (0, 3, 2))
    assert "rank 1 at beta takes" in one.reason and "the spare rank 3 at delta" in one.reason
    (line, _) = program.words()
    assert line == f"gang 0: {one.reason}"
    status = program.grid["alpha"].ask("group", program.name)
    assert isinstance(status, views.GroupView) and "1 process was exchanged for a spare" in status.note
    program.grid.finish()
    assert program.grid["alpha"].group(program.name).state == "done"
    assert set(program.grid.claims().values()) == {1}, "nothing was started a second time"


def test_a_short_load_and_the_end_of_a_run_are_no_reason() -> None:
    program = Program()
    program.step(8)
    program.own_s[1] = 0.9
    program.step(1)
    program.own_s[1] = 0.1
    program.step(10)
    assert not program.exchanges()
    program.done = STEPS - 4
    program.own_s[1] = 0.6
    program.step(4)
    assert not program.exchanges()


def test_an_origin_that_crashes_before_its_word_leaves_says_it_after_its_restart_and_decides_nothing_anew() -> None:
    program = Program()
    program.step(5)
    hold(program, GangRoster)
    # The component at home would be told without a message.
    program.reach.discard(0)
    program.own_s[2] = 0.9
    program.step(8)
    (one,) = program.exchanges()
    assert program.roster == 0, "no word came through"
    program.grid.fate = None
    program.grid["alpha"].restart()
    program.grid.settle()
    program.step(10)
    assert program.exchanges() == [one]
    assert (program.roster, program.active) == (1, (0, 1, 3))
    program.grid.finish()
    assert program.grid["alpha"].group(program.name).state == "done"


def test_a_decision_is_durable_before_the_word_leaves() -> None:
    program = Program()
    program.step(5)
    program.own_s[1] = 0.9
    seen: list[int] = []

    def fate(grid: Grid, _: int, post: tuple[SiteId, SiteId, ms.Message]) -> str:
        if isinstance(post[2], GangRoster):
            seen.append(len(program.exchanges()))
        return "deliver"

    program.grid.fate = fate
    program.step(8)
    assert seen and min(seen) == 1


def test_a_word_that_reaches_one_component_is_that_of_all_and_is_said_until_they_compute_by_it() -> None:
    program = Program()
    program.step(5)
    program.own_s[1] = 0.9
    program.reach = {2}
    lost = {SiteId("beta"), SiteId("delta"), SiteId("alpha")}
    program.grid.fate = lambda g, _, post: "lose" if isinstance(post[2], GangRoster) and post[1] in lost else "deliver"
    program.step(12)
    assert (program.roster, program.active) == (1, (0, 3, 2))
    assert len(program.exchanges()) == 1


def test_doubled_late_and_older_words_change_nothing() -> None:
    program = Program()
    program.step(5)
    program.own_s[1] = 0.9
    program.grid.fate = lambda g, _, post: "twice" if isinstance(post[2], GangRoster) else "deliver"
    program.step(12)
    program.own_s[3] = 2.0
    program.own_s[1] = 0.1
    program.step(12)
    assert [(one.number, one.active) for one in program.exchanges()] == [(1, (0, 3, 2)), (2, (0, 1, 2))]
    (part,) = program.grid["beta"].engine.core.state.custodies.values()
    program.grid["beta"].trace.clear()
    late = GangRoster(subgroup=part.subgroup, epoch=part.epoch, number=1, active=(0, 3, 2))
    program.grid.post(SiteId("alpha"), SiteId("beta"), late)
    program.grid.settle()
    assert not [one for one in program.grid["beta"].trace if isinstance(one, fx.TellRoster)]
    program.step(3)
    assert program.active == (0, 1, 2)


@pytest.mark.parametrize(
    ("sender", "change"),
    [
        ("gamma", {}),
        ("alpha", {"active": (0, 0, 2)}),
        ("alpha", {"active": (0, 1, 4)}),
        ("alpha", {"active": (0, 1)}),
        ("alpha", {"number": 0}),
        ("alpha", {"number": 10**12}),
        ("alpha", {"epoch": 99}),
        ("alpha", {"subgroup": SubgroupId("alpha-77/0")}),
    ],
    ids=[
        "a stranger's",
        "two in one place",
        "no such rank",
        "too few",
        "no number",
        "beyond all",
        "epoch",
        "other gang",
    ],
)
def test_a_forged_word_is_told_to_no_component(sender: str, change: dict[str, object]) -> None:
    program = Program()
    program.step(2)
    (part,) = program.grid["beta"].engine.core.state.custodies.values()
    word = GangRoster(subgroup=part.subgroup, epoch=part.epoch, number=5, active=(0, 3, 2))
    program.grid["beta"].trace.clear()
    program.grid.post(SiteId(sender), SiteId("beta"), msgspec.structs.replace(word, **change))
    program.grid.settle()
    assert not [one for one in program.grid["beta"].trace if isinstance(one, fx.TellRoster)]


def test_a_gang_without_spares_is_told_nothing_and_its_reports_are_not_kept() -> None:
    grid = Grid(alpha=1, beta=1)
    axes = (Axis(name="job", start=0, stop=1), Axis(name=COMPONENT, start=0, stop=2))
    plain = msgspec.structs.replace(spec(1), components=components_of("1x1@alpha+1x1@beta"), sweep=Sweep(axes=axes))
    answer = grid["alpha"].submit(plain, 2)
    assert isinstance(answer, fx.GroupAccepted)
    (part,) = grid["beta"].engine.core.state.custodies.values()
    (run,) = grid["beta"].gone
    for at in range(5):
        grid.pass_time(1.0)
        told = ((run.index, run.attempt, grid.now, float(at), 9.0),)
        grid["beta"].handle(
            ev.StepsReported(worker=MAIN_MACHINE, subgroup=run.subgroup, epoch=run.epoch, steps=told, own=((1.0, 0),))
        )
    grid["beta"].trace.clear()
    grid.post(
        SiteId("alpha"), SiteId("beta"), GangRoster(subgroup=part.subgroup, epoch=part.epoch, number=1, active=(0,))
    )
    grid.settle()
    assert not [one for one in grid["beta"].trace if isinstance(one, fx.TellRoster)]
    assert not any(told.steps for told in grid["alpha"].engine.core.view.progress.values())


def test_a_component_tells_its_own_site_alone_and_one_that_tells_nonsense_is_exchanged_for_nothing() -> None:
    program = Program()
    program.step(3)
    program.own_s = [float("nan"), -1.0, float("inf"), 0.0]
    program.step(8)
    assert not program.exchanges()
    (run,) = program.grid["beta"].gone
    told = ((run.index, run.attempt, program.grid.now, 5.0, STEPS),)
    for worker in ("elsewhere", MAIN_MACHINE):
        event = ev.StepsReported(worker=worker, subgroup=run.subgroup, epoch=99, steps=told, own=((9.0, 0),))
        program.grid["beta"].handle(event)
    program.own_s = [0.1, 0.1, 0.1, 0.1]
    program.step(8)
    assert not program.exchanges()


def test_what_a_component_took_by_another_roster_says_nothing_of_this_one() -> None:
    pace = OwnPace()
    for seconds in (0.9, 0.9, 0.9):
        pace.take(seconds, 0)
    assert pace.pace() == pytest.approx((0.9, 0.9))
    pace.take(0.1, 1)
    pace.take(0.1, 1)
    assert pace.pace() == (0.0, 0.0), "too few of this roster"
    pace.take(0.4, 1)
    assert pace.pace() == pytest.approx((0.4, 0.2))


def test_seconds_whose_sum_no_message_could_carry_are_not_believed() -> None:
    pace = OwnPace()
    for _ in range(3):
        pace.take(1e308, 0)
    assert pace.pace() == (0.0, 0.0)


def test_a_gang_that_is_begun_again_computes_by_its_first_roster() -> None:
    program = Program(retries=1)
    program.step(5)
    program.own_s[1] = 0.9
    program.step(12)
    assert program.grid["alpha"].group(program.name).rosters[0].number == 1
    program.grid["gamma"].end(outcome=Outcome.FAILED)
    for _ in range(3):
        program.grid.settle()
        for site in program.grid.sites.values():
            site.obey_kills()
    program.grid.pass_time(60.0)
    assert {run.attempt for site in program.grid.sites.values() for run in site.running if run in site.gone} == {2}
    assert not program.grid["alpha"].group(program.name).rosters


@pytest.mark.parametrize("spares", [-1, 3, 4])
def test_a_site_takes_no_gang_in_which_more_stand_by_than_compute(spares: int) -> None:
    grid = Grid(**dict.fromkeys(SITES, 1))
    axes = (Axis(name="job", start=0, stop=1), Axis(name=COMPONENT, start=0, stop=4))
    asked = components_of("+".join(f"1x1@{site}" for site in SITES))
    wanted = msgspec.structs.replace(spec(1), components=asked, sweep=Sweep(axes=axes), spares=spares)
    grid["alpha"].submit(wanted, 4)
    grid.pass_time(5.0)
    assert not any(site.gone or site.held for site in grid.sites.values())
