"""SPEC D8: one site, several machines. Each has its own session; silence says nothing about what a machine runs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.dispatch import capacity
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.journal.state import Machine, SiteState
from diana.engine.machines.machine import EXPECTED_BACK_S
from diana.engine.machines.machines import Workers
from diana.engine.machines.running import GivenRuns
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet
from diana.model.job.resources import ResourceRequest
from diana.model.job.spec import GroupSpec
from diana.model.settings import Settings
from diana.model.trust.principal import Principal
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, OPERATOR, facts_of, spec


class Machines:
    """The machines of one site of the bench, each an honest LRM: a run is held from its claim until it is forgotten."""

    def __init__(self, site: Site, **slots: int) -> None:
        self.site = site
        self.slots = slots
        self.sessions = dict.fromkeys(slots, 0)
        self.up: set[str] = set()
        self.held: dict[str, dict[ev.Run, bool]] = {name: {} for name in slots}
        """Run -> ended."""
        self.executed: list[ev.Run] = []
        self.seen = 0

    def ready(self, name: str) -> None:
        self.sessions[name] += 1
        self.up.add(name)
        event = ev.LrmReady(
            worker=name, session=self.sessions[name], slots=self.slots[name], known=tuple(self.held[name])
        )
        self.handle(event)
        ended = [run for run, over in self.held[name].items() if over]
        for run in ended:
            self.tell([run])

    def lose(self, name: str) -> None:
        self.up.discard(name)
        self.handle(ev.LrmLost(name))

    def fail(self, name: str, count: int) -> int:
        """Fail that many of the runs it holds at once; returns how many there were."""
        some = [run for run, over in self.held[name].items() if not over][:count]
        self.held[name].update(dict.fromkeys(some, True))
        if some:
            self.tell(some, Outcome.FAILED)
        return len(some)

    def end(self, name: str, count: int) -> None:
        """End that many of the runs it holds; told if anybody listens."""
        some = [run for run, over in self.held[name].items() if not over][:count]
        for run in some:
            self.held[name][run] = True
        if name in self.up:
            for run in some:
                self.tell([run])

    def tell(self, runs: list[ev.Run], outcome: Outcome = Outcome.DONE) -> None:
        facts = facts_of(self.site.name, runs, outcome, self.site.grid.now)
        by = next(name for name, held in self.held.items() if runs[0] in held)
        self.handle(ev.JobsEnded(subgroup=runs[0].subgroup, epoch=runs[0].epoch, facts=facts, worker=by))

    def handle(self, event: ev.Event) -> None:
        self.site.handle(event)
        self.obey()

    def pass_time(self, seconds: float) -> None:
        self.site.grid.pass_time(seconds)
        self.obey()

    def obey(self) -> None:
        """Every effect since the last look."""
        effects, self.seen = self.site.trace[self.seen :], len(self.site.trace)
        for effect in effects:
            if isinstance(effect, fx.Start):
                self._claim(effect)
            elif isinstance(effect, fx.KillRuns) and effect.worker in self.up:
                for run in self.held[effect.worker]:
                    if (run.subgroup, run.epoch) == (effect.subgroup, effect.epoch) and run.index in effect.indices:
                        self.held[effect.worker][run] = True
            elif isinstance(effect, fx.ForgetRuns):
                for name in self.up:
                    for run in effect.runs:
                        if self.held[name].get(run):
                            del self.held[name][run]

    def _claim(self, order: fx.Start) -> None:
        if order.worker not in self.up or order.session != self.sessions[order.worker]:
            return
        attempts = dict(order.attempts)
        for index in order.indices:
            run = ev.Run(order.subgroup, order.epoch, index, attempts.get(index, 1))
            assert all(run not in held for held in self.held.values()), f"{run} given twice"
            self.held[order.worker][run] = False
            self.executed.append(run)

    def submit(self, wanted: GroupSpec, jobs: int, number: int = 1, who: Principal = ALICE) -> None:
        self.site.submit(wanted, jobs, number, who=who)
        self.obey()

    def open(self, name: str) -> int:
        return sum(not over for over in self.held[name].values())


def site_of(own: int = 0, **slots: int) -> tuple[Site, Machines]:
    """A site `alpha` of the machines named; its own has `own` slots."""
    # New work may claim all that machines take: what is looked at here is which of them gets it.
    grid = Grid({"guard_jobs": 0}, alpha=own)
    site = grid["alpha"]
    # The bench's own LRM plays `main` and claims by session: here nothing is given to it unless it has slots.
    machines = Machines(site, **slots)
    for name in slots:
        machines.ready(name)
    return site, machines


@pytest.mark.parametrize("liar", ["m1", "main"])
def test_a_machine_is_not_believed_about_jobs_that_are_with_another(liar: str) -> None:
    """It could make results of jobs that it never had; the end that their own machine tells counts."""
    site, machines = site_of(0, m1=2, m2=2)
    machines.submit(spec(2, work_s=50.0), 2)
    machines.submit(spec(2, work_s=50.0), 2, 2)
    theirs = [run for run in machines.held["m2"]]
    assert theirs and not any(site.engine.runs_elsewhere("m2", r.subgroup, r.epoch, [r.index]) for r in theirs)
    for run in theirs:
        assert site.engine.runs_elsewhere(liar, run.subgroup, run.epoch, [run.index])
        facts = facts_of(site.name, [run], Outcome.FAILED, site.grid.now)
        machines.handle(ev.JobsEnded(subgroup=run.subgroup, epoch=run.epoch, facts=facts, worker=liar))
    assert f"machine {liar} tells the ends" in site.warnings[-1]
    machines.pass_time(5.0)
    assert [run for run in machines.held["m2"]] == theirs, "what its own machine has to tell is not forgotten"
    for name in ("m1", "m2"):
        machines.end(name, 9)
    machines.pass_time(5.0)
    for group in site.engine.core.state.groups.values():
        assert len(group.done) == 2 and not group.failed


def test_the_slots_of_a_site_are_those_of_its_machines() -> None:
    site, _ = site_of(2, m1=3, m2=5)
    core = site.engine.core
    assert core.workers.slots() == 10 and capacity.free_slots(core) == 10
    assert core.workers.widest() == 5 and core.workers.lanes(ResourceRequest(2)) == 1 + 1 + 2


def test_each_machine_gets_what_it_has_room_for_and_has_it_in_its_own_session() -> None:
    site, machines = site_of(0, m1=2, m2=4)
    machines.submit(spec(100), 100)
    assert (machines.open("m1"), machines.open("m2")) == (6, 12)
    starts = [e for e in site.trace if isinstance(e, fx.Start)]
    assert {start.worker for start in starts} == {"m1", "m2"}
    assert len(starts) == 2


def test_few_jobs_go_one_by_one_to_where_most_is_free_and_of_equals_to_the_first_by_name() -> None:
    _, machines = site_of(0, m2=4, m1=4, m3=6)
    machines.submit(spec(5), 5)
    assert [machines.open(name) for name in ("m1", "m2", "m3")] == [1, 1, 3]


def test_a_wide_job_goes_to_one_machine_and_what_fits_on_none_is_refused_with_the_widest() -> None:
    """SPEC J3: processors are held by one machine, and asked in vain with the number there is."""
    site, machines = site_of(0, m1=2, m2=3)
    machines.submit(spec(2, processors=3), 2)
    assert machines.open("m2") == 1 and machines.open("m1") == 0
    site.submit(spec(1, processors=4, sites=("alpha",)), 1, 7)
    assert "3 of the 4 processors" in str(site.replies[7])


def test_a_wide_job_that_must_wait_keeps_one_machine_and_the_others_work_on() -> None:
    site, machines = site_of(0, m1=2, m2=2)
    machines.submit(spec(2, work_s=50.0), 2, 1, who=BOB)
    machines.submit(spec(1, processors=2, work_s=10.0), 1, 2)
    machines.submit(spec(40, work_s=500.0), 40, 3, who=BOB)
    # The wide one comes before Bob's forty; it fits nowhere, and is to start on m1.
    assert (machines.open("m1"), machines.open("m2")) == (1, 2)
    machines.end("m1", 1)
    wide = [e for e in site.trace if isinstance(e, fx.Start) and e.spec.resources.processors == 2]
    assert [start.worker for start in wide] == ["m1"]


def test_of_a_machine_that_is_away_nothing_is_concluded_and_nothing_is_given_to_it() -> None:
    site, machines = site_of(0, m1=2, m2=2)
    machines.submit(spec(30), 30)
    held = set(machines.held["m1"])
    machines.lose("m1")
    before = len(site.trace)
    machines.end("m2", 6)
    given = [e for e in site.trace[before:] if isinstance(e, fx.Start)]
    assert given and {start.worker for start in given} == {"m2"}
    assert not site.records(r.RunsVoided)
    assert set(machines.held["m1"]) == held
    machines.ready("m1")
    assert not site.records(r.RunsVoided)
    machines.end("m1", 2)
    machines.pass_time(1.0)
    assert site.group("alpha-1").finished() == 8


def test_an_inventory_speaks_for_its_own_machine_only() -> None:
    site, machines = site_of(0, m1=2, m2=2)
    machines.submit(spec(30), 30)
    lost = set(machines.held["m1"])
    machines.held["m1"].clear()
    machines.ready("m1")
    (void,) = site.records(r.RunsVoided)
    assert isinstance(void, r.RunsVoided)
    assert set(void.indices) == {run.index for run in lost}
    assert {run.attempt for run in machines.held["m1"]} == {2}
    assert {run.attempt for run in machines.held["m2"]} == {1}


def test_after_a_restart_machines_come_one_by_one_and_what_they_run_goes_on() -> None:
    site, machines = site_of(0, m1=2, m2=2)
    machines.submit(spec(30), 30)
    held = {name: set(runs) for name, runs in machines.held.items()}
    machines.up.clear()
    site.boot()
    core = site.engine.core
    assert core.workers.slots() == 4 and core.workers.load() == 12
    for name in ("m2", "m1"):
        machines.ready(name)
    assert not site.records(r.RunsVoided)
    assert {name: set(runs) for name, runs in machines.held.items()} == held
    for _ in range(20):
        machines.end("m1", 2)
        machines.end("m2", 2)
        machines.pass_time(1.0)
    assert len(site.group("alpha-1").done) == 30


def test_a_machine_away_for_long_counts_no_more_until_it_is_back() -> None:
    site, machines = site_of(1, m1=3)
    core = site.engine.core
    machines.lose("m1")
    assert core.workers.slots() == 4
    machines.pass_time(EXPECTED_BACK_S + 1)
    assert core.workers.slots() == 1 and core.workers.widest() == 1
    machines.ready("m1")
    assert core.workers.slots() == 4


def test_what_waits_for_a_silent_machine_says_so() -> None:
    site, machines = site_of(0, m1=1, m2=1)
    machines.submit(spec(20), 20)
    machines.lose("m2")
    machines.pass_time(40.0)
    note = "machine m2 not heard of for 40 s"
    site.handle(ev.Ask(request=50, principal=ALICE, what="group", group=site.group("alpha-1").group))
    assert note in str(site.replies[50])
    site.handle(ev.Ask(request=51, principal=ALICE, what="explain", group=site.group("alpha-1").group))
    assert note in str(site.replies[51])


@pytest.mark.parametrize("on_crash", ["hold", "rerun"])
def test_a_machine_that_is_given_up_interrupts_its_jobs_and_ends_them_should_it_come_back(on_crash: str) -> None:
    site, machines = site_of(0, m1=1, m2=1)
    machines.submit(spec(6, on_crash=on_crash), 6)
    held = set(machines.held["m2"])
    machines.lose("m2")
    machines.handle(ev.MachineRemoved(request=60, principal=OPERATOR, machine="m2"))
    assert site.replies[60].count == len(held) == 3  # type: ignore[attr-defined]
    group = site.group("alpha-1")
    assert len(group.held) == (3 if on_crash == "hold" else 0)
    for _ in range(8):
        machines.end("m1", 3)
        machines.pass_time(1.0)
    assert len(group.done) == (3 if on_crash == "hold" else 6)
    before = len(site.trace)
    machines.ready("m2")
    kills = [e for e in site.trace[before:] if isinstance(e, fx.KillRuns)]
    assert [kill.worker for kill in kills] == ["m2"]
    assert set(kills[0].indices) == {run.index for run in held}
    machines.ready("m2")
    assert not machines.held["m2"]


def test_giving_up_a_machine_survives_a_restart() -> None:
    site, machines = site_of(0, m1=1, m2=1)
    machines.submit(spec(6), 6)
    machines.lose("m2")
    machines.handle(ev.MachineRemoved(request=60, principal=OPERATOR, machine="m2"))
    machines.up.clear()
    site.boot()
    assert site.engine.core.workers.slots() == 1
    assert site.engine.core.workers.load() == 3
    before = len(site.trace)
    machines.ready("m2")
    assert [e.worker for e in site.trace[before:] if isinstance(e, fx.KillRuns)] == ["m2"]


@pytest.mark.parametrize(
    ("who", "name", "said"),
    [
        (ALICE, "m1", "may not remove-machine"),
        (OPERATOR, "m1", "machine m1 is in touch; stop its node first"),
        (OPERATOR, "main", "is the one this node runs on"),
        (OPERATOR, "m22", "no machine m22 at alpha; did you mean m2?"),
        (OPERATOR, "zzz", "known: m1, m2"),
    ],
)
def test_a_machine_that_cannot_be_given_up_is_refused_in_one_line(who: object, name: str, said: str) -> None:
    site, machines = site_of(0, m1=1, m2=1)
    machines.lose("m2")
    machines.handle(ev.MachineRemoved(request=61, principal=who, machine=name))  # type: ignore[arg-type]
    assert said in site.replies[61].text  # type: ignore[attr-defined]
    assert not site.records(r.MachineGone)


def test_orders_carry_the_term_of_their_leader_and_the_own_machine_may_have_any_name() -> None:
    site, _ = site_of(2)
    site.boots += 1
    effects = site.engine.start(Settings(slots=2), boot_nonce="x", db_uuid="db-alpha", machine="left", term=7)
    site.keep(effects)
    machines = Machines(site, left=2)
    machines.ready("left")
    assert site.engine.core.workers.slots() == 2
    machines.submit(spec(4), 4)
    (start,) = [e for e in site.trace if isinstance(e, fx.Start)]
    assert (start.worker, start.term) == ("left", 7)
    assert machines.open("left") == 4


WIDTHS = st.integers(1, 3)
ACTIONS = st.lists(st.sampled_from(["submit", "end", "lose", "ready", "restart", "remove"]), max_size=30)

# --- rules ---------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), min_size=1, max_size=6), st.integers(1, 40), WIDTHS)
def test_jobs_are_shared_out_as_if_each_went_by_itself_to_where_there_is_most_room(
    machines: list[tuple[int, int]], jobs: int, processors: int
) -> None:
    state = SiteState(settings=Settings(slots=0))
    runs = GivenRuns(0)
    workers = Workers(runs, state, 0.0)
    for number, (slots, used) in enumerate(machines):
        name = f"m{number}"
        runs.configure(slots, name)
        if used:
            runs.give(("alpha-1/0", 1), range(100 * number, 100 * number + used), 1, 0.0, name)  # type: ignore[arg-type]
        workers.ready(name, 1, Machine(slots), 0.0)
    assert workers.slots() == sum(slots for slots, _ in machines)
    room = {w.name: [w.lane.slots - w.lane.load, w.counted.room] for w in workers.present()}
    want = {name: 0 for name in room}
    for _ in range(jobs):
        free = [n for n in sorted(room) if room[n][0] >= processors and room[n][1] > 0]
        ahead = [n for n in sorted(room) if processors == 1 and room[n][1] > 0]
        best = min(free or ahead, key=lambda n: (-max(0, room[n][0]), -room[n][1], n), default=None)
        if best is None:
            break
        want[best] += 1
        room[best] = [value - processors for value in room[best]]
    assert workers.share_out(ResourceRequest(processors), jobs, ahead=processors == 1) == {
        name: n for name, n in want.items() if n
    }


@pytest.mark.wide
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_order_of_losses_returns_ends_and_restarts_starts_a_job_twice(data: st.DataObject) -> None:
    """Against what the machines really hold: `Machines` fails when one run is given twice."""
    site, machines = site_of(0, m1=1, m2=2, m3=3)
    number = 0
    for action in data.draw(
        st.lists(st.sampled_from(["submit", "end", "lose", "ready", "restart", "remove"]), max_size=30)
    ):
        name = data.draw(st.sampled_from(sorted(machines.slots)))
        if action == "submit" and number < 4:
            number += 1
            wanted = spec(
                8, processors=data.draw(st.integers(1, 2)), on_crash=data.draw(st.sampled_from(["hold", "rerun"]))
            )
            machines.submit(wanted, 8, number)
        elif action == "end":
            machines.end(name, data.draw(st.integers(1, 4)))
        elif action == "lose":
            machines.lose(name)
        elif action == "ready":
            machines.ready(name)
        elif action == "restart":
            machines.up.clear()
            site.boot()
        elif action == "remove":
            machines.handle(ev.MachineRemoved(request=70, principal=OPERATOR, machine=name))
        site.grid.now += 0.5
        core = site.engine.core
        assert core.workers.load() == sum(
            (len(c.running) - len(core.run_book.ended[key].indices if key in core.run_book.ended else ()))
            * c.spec.resources.processors
            for key, c in core.state.custodies.items()
        )
    for name in machines.slots:
        machines.ready(name)
    for _ in range(60):
        for name in machines.slots:
            machines.end(name, 9)
        machines.pass_time(1.0)
    for group in site.engine.core.state.groups.values():
        assert len(group.done) + len(group.held) == group.jobs
    assert len(machines.executed) == len(set(machines.executed))


def test_which_machine_holds_a_job_is_kept_as_index_sets_and_swept() -> None:
    site, machines = site_of(0, m1=2, m2=2)
    machines.submit(spec(400), 400)
    for _ in range(60):
        machines.end("m1", 3)
        machines.end("m2", 3)
        machines.pass_time(0.1)
    (custody,) = site.engine.core.state.custodies.values()
    assert all(len(mine) <= 2 * 6 + 6 for mine in custody.given.values())
    held = {name: sorted(run.index for run, over in machines.held[name].items() if not over) for name in ("m1", "m2")}
    told = (
        site.engine.core.run_book.ended[custody.key].indices
        if custody.key in site.engine.core.run_book.ended
        else set()
    )
    assert {n: [i for i in some if i not in told] for n, some in custody.by_machine(custody.running).items()} == held
    assert IndexSet.of(custody.running).issubset(IndexSet.union(custody.given.values()))
