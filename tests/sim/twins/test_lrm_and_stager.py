"""The twins that outlive a crash of their node."""

from __future__ import annotations

import pytest

from diana.engine.journal.effects import Go, KillRuns, RenewLease, SaveRuns, StageIn, Start
from diana.engine.journal.events import AtBarrier, Event, JobsEnded, LrmLost, LrmReady, Run, StageDone
from diana.model.data import DataFile, Fetch
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import CheckpointSpec, GroupSpec, Resources
from diana.sim.kernel.clock import Clock
from diana.sim.kernel.faults import Faults
from diana.sim.load.life import JobLife
from diana.sim.specs.fault_spec import FaultsSpec
from diana.sim.twins.batch import Discipline
from diana.sim.twins.batch_lrm import BatchLrm
from diana.sim.twins.lrm import SAVE_S, SimLrm, Watcher, progress_s
from diana.sim.twins.network import Network
from diana.sim.twins.pipes import Pipe, Pipes
from diana.sim.twins.stager import SimStager
from diana.sim.twins.transport import SimTransport

SITE = SiteId("a")
SUBGROUP = SubgroupId("a-1/0")


class Bench:
    """One LRM of two slots at speed 2; jobs of 10 s at reference speed, of which it knows 10 s as well."""

    def __init__(self, kind: str, slowdown: tuple[float, ...] = ()) -> None:
        self.clock = Clock()
        self.heard: list[Event] = []

        def life(run: Run, spec: GroupSpec) -> JobLife:
            return JobLife(10.0, run.index == 3, slowdown=slowdown)

        plain = (self.clock, SITE, 2, 2.0, life, Watcher())
        self.lrm = SimLrm(*plain) if kind == "slots" else BatchLrm(*plain, discipline=Discipline(kind))
        self.lrm.attach(self.heard.append)
        self.clock.run_until(1.0)

    def ready(self) -> LrmReady:
        return [e for e in self.heard if isinstance(e, LrmReady)][-1]

    def start(self, indices: str, processors: int = 1, barrier_s: float = 0.0, lease: str = "") -> None:
        spec = GroupSpec(resources=Resources(processors=processors))
        chosen = IndexSet.parse(indices)
        session = self.ready().session
        name = {"subgroup": SUBGROUP, "epoch": 1, "owner": "u@v", "lease": lease}
        self.lrm.start(Start(session=session, spec=spec, indices=chosen, barrier_s=barrier_s, **name))  # type: ignore[arg-type]

    def go(self, indices: str, hosts: str = "a") -> None:
        chosen, told = IndexSet.parse(indices), (("DIANA_GANG_HOSTS", hosts),)
        self.lrm.go(Go(worker="main", subgroup=SUBGROUP, epoch=1, indices=chosen, environment=told, size=2))

    def at_barrier(self) -> list[int]:
        return [run.index for event in self.heard if isinstance(event, AtBarrier) for run in event.runs]

    def ends(self) -> list[tuple[int, Outcome]]:
        told = [e.facts for e in self.heard if isinstance(e, JobsEnded)]
        return [(i, Outcome(o)) for f in told for i, o in zip(f.indices, f.outcomes, strict=True)]


@pytest.fixture(params=["slots", "fcfs", "easy"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(index: int) -> Run:
    return Run(SUBGROUP, 1, index, 1)


def test_an_end_is_told_at_once_where_the_gaps_drawn_have_its_report_in_them() -> None:
    bench, late = Bench("slots"), Bench("slots")
    bench.lrm.gap_of = lambda run: 0.5
    for one in (bench, late):
        one.start("0")
        one.clock.run_until(6.001)  # It began at 1 s.
    assert bench.ends() == [(0, Outcome.DONE)] and late.ends() == []


def test_jobs_run_in_order_as_slots_come_free_and_their_ends_are_told(kind: str) -> None:
    bench = Bench(kind)
    bench.start("0-3")
    bench.clock.run_until(7.0)
    assert bench.ends() == [(0, Outcome.DONE), (1, Outcome.DONE)]
    bench.clock.run_until(12.0)
    assert bench.ends()[2:] == [(2, Outcome.DONE), (3, Outcome.FAILED)]


def test_jobs_hold_their_slots_until_they_are_let_go_and_then_run_as_long_as_any(kind: str) -> None:
    bench = Bench(kind)
    bench.start("0-1", barrier_s=100.0)
    bench.start("2")
    bench.clock.run_until(50.0)
    assert (bench.at_barrier(), bench.ends(), bench.lrm.free) == ([0, 1], [], 0)
    bench.go("0-1")
    bench.clock.run_until(54.0)
    assert not bench.ends()
    bench.clock.run_until(62.0)
    assert bench.ends() == [(0, Outcome.DONE), (1, Outcome.DONE), (2, Outcome.DONE)]
    assert (bench.lrm.free, bench.lrm.executed) == (2, 3)


@pytest.mark.parametrize(("hosts", "ends_s"), [("a,a,a", 15.0), ("a,b,a", 25.0), ("a,b,c", 40.0), ("a,b,c,d", 40.0)])
def test_a_gang_over_several_sites_runs_longer_and_keeps_its_slots_so_long(
    kind: str, hosts: str, ends_s: float
) -> None:
    bench = Bench(kind, slowdown=(1.0, 3.0, 6.0))
    bench.start("0-1", barrier_s=12.0)
    bench.clock.run_until(10.0)
    bench.go("0-1", hosts)
    bench.start("2")
    bench.clock.run_until(ends_s - 0.5)
    assert bench.ends() == [] and bench.lrm.executed == 2
    bench.clock.run_until(ends_s + 5.5)
    assert bench.ends() == [(0, Outcome.DONE), (1, Outcome.DONE), (2, Outcome.DONE)]


def test_jobs_that_nobody_lets_go_or_that_are_killed_leave_the_barrier_and_never_run(kind: str) -> None:
    bench = Bench(kind)
    bench.start("0-1", barrier_s=20.0)
    bench.start("2")
    bench.clock.run_until(10.0)
    bench.lrm.kill(KillRuns(worker="main", subgroup=SUBGROUP, epoch=1, indices=IndexSet.span(1, 2)))
    bench.clock.run_until(40.0)
    bench.go("0-1")
    bench.clock.run_until(60.0)
    assert sorted(set(bench.ends())) == [(0, Outcome.UNBEGUN), (1, Outcome.CANCELLED), (2, Outcome.DONE)]
    assert (bench.lrm.free, bench.lrm.executed) == (2, 1)


def test_what_was_held_is_unknown_to_a_successor(kind: str) -> None:
    bench = Bench(kind)
    bench.start("0-1", barrier_s=100.0)
    bench.clock.run_until(10.0)
    bench.lrm.crash_spawner()
    bench.clock.run_until(20.0)
    assert bench.ready().known == () and bench.lrm.free == 2
    bench.go("0-1")
    bench.start("2-3")
    bench.clock.run_until(30.0)
    assert [index for index, _ in bench.ends()] == [2, 3]


def test_a_run_known_already_is_not_run_again(kind: str) -> None:
    bench = Bench(kind)
    bench.start("0")
    bench.start("0")
    bench.clock.run_until(20.0)
    assert bench.lrm.executed == 1


def test_an_order_of_another_session_is_dropped(kind: str) -> None:
    bench = Bench(kind)
    spec = GroupSpec()
    chosen = IndexSet.span(0, 1)
    bench.lrm.start(Start(session=77, subgroup=SUBGROUP, epoch=1, owner="u@v", spec=spec, indices=chosen))
    assert bench.lrm.holds() == 0


def test_jobs_go_on_without_their_node_and_are_told_to_the_next_one_until_forgotten(kind: str) -> None:
    bench = Bench(kind)
    bench.start("0-2")
    bench.lrm.detach()
    bench.clock.run_until(8.0)
    assert bench.ends() == []
    bench.lrm.attach(bench.heard.append)
    bench.clock.run_until(9.0)
    assert bench.ready().known == (run(0), run(1), run(2))
    assert bench.ends() == [(0, Outcome.DONE), (1, Outcome.DONE)]
    bench.clock.run_until(50.0)
    assert bench.ends().count((0, Outcome.DONE)) == 2
    bench.lrm.forget((run(0), run(1), run(2)))
    assert bench.lrm.holds() == 0


def test_a_killed_run_ends_cancelled_whether_it_started_or_not(kind: str) -> None:
    bench = Bench(kind)
    bench.start("0-3")
    bench.lrm.kill(KillRuns(subgroup=SUBGROUP, epoch=1, indices=IndexSet.parse("1,3")))
    bench.clock.run_until(2.0)
    assert bench.ends() == [(1, Outcome.CANCELLED), (3, Outcome.CANCELLED)]
    bench.clock.run_until(20.0)
    assert bench.ends()[2:] == [(0, Outcome.DONE), (2, Outcome.DONE)]


def test_who_is_told_to_stop_under_a_later_lease_has_the_whole_grace(kind: str) -> None:
    bench = Bench(kind)
    for until_s, index in ((2.0, "0"), (4.0, "1")):
        bench.lrm.lease(RenewLease(origin=SITE, until_s=until_s))
        bench.start(index, lease=SITE)
        bench.clock.run_until(until_s + 1.0)
    bench.clock.run_until(7.5)
    assert bench.ends() == [(0, Outcome.LEASE_OVER)]
    bench.clock.run_until(8.5)
    assert bench.ends() == [(0, Outcome.LEASE_OVER), (1, Outcome.LEASE_OVER)]


def test_a_dead_spawner_leaves_running_jobs_unknown_and_unstarted_claims_void(kind: str) -> None:
    bench = Bench(kind)
    bench.start("0-3")
    bench.lrm.crash_spawner()
    assert isinstance(bench.heard[-1], LrmLost)
    bench.clock.run_until(3.0)
    assert bench.ready().session == 2
    assert bench.ready().known == (run(0), run(1))
    bench.clock.run_until(10.0)
    assert bench.ends() == [(0, Outcome.UNKNOWN), (1, Outcome.UNKNOWN)]
    assert bench.lrm.executed == 2


def test_a_checkpoint_holds_the_work_that_was_done_and_no_more(kind: str) -> None:
    bench = Bench(kind)
    spec, chosen = GroupSpec(checkpoint=CheckpointSpec(paths=("state",))), IndexSet.span(0, 1)
    bench.lrm.start(Start(session=1, subgroup=SUBGROUP, epoch=1, owner="u@v", spec=spec, indices=chosen))
    bench.clock.run_until(3.0)
    bench.lrm.save(SaveRuns(worker="main", subgroup=SUBGROUP, epoch=1, indices=chosen, signal="USR1", wait_s=10.0))
    bench.clock.run_until(4.0)
    (file,) = [file for event in bench.heard if isinstance(event, JobsEnded) for file in event.facts.outputs]
    assert progress_s(file.sha256) == pytest.approx((2.0 + SAVE_S) * 2.0)  # It began at 1 s, at speed 2.


def test_a_power_failure_interrupts_what_ran_and_on_slots_what_waited(kind: str) -> None:
    bench = Bench(kind)
    bench.start("0-3")
    bench.lrm.detach()
    bench.lrm.crash_machine()
    bench.lrm.attach(bench.heard.append)
    bench.clock.run_until(3.0)
    lost = range(4 if kind == "slots" else 2)
    assert bench.ready().known == tuple(map(run, lost))
    assert bench.ends() == [(index, Outcome.INTERRUPTED) for index in lost]
    assert bench.lrm.free == 2


def test_flows_of_a_pipe_share_its_bandwidth_evenly() -> None:
    """Two flows of 1000 and 500 MB over 100 MB/s: the small one ends at 10 s, the other at 15 s."""
    clock = Clock()
    pipe = Pipe(clock, 100e6)
    ends: dict[str, float] = {}
    pipe.move(1_000_000_000, lambda: ends.update(large=clock.now_s))
    pipe.move(500_000_000, lambda: ends.update(small=clock.now_s))
    clock.run_until(100.0)
    assert ends == {"small": pytest.approx(10.0), "large": pytest.approx(15.0)}


def test_a_third_flow_waits_for_one_of_two_streams_and_what_is_given_up_makes_room() -> None:
    clock = Clock()
    pipe = Pipe(clock, 100e6)
    ends: dict[str, float] = {}
    for name, size in (("a", 1_000_000_000), ("b", 1_000_000_000), ("c", 100_000_000)):
        pipe.move(size, lambda name: ends.update({name: clock.now_s}), name)
    clock.run_until(10.0)
    assert ends == {}
    pipe.forget(lambda name: name == "b")
    clock.run_until(100.0)
    assert ends == {"c": pytest.approx(12.0), "a": pytest.approx(16.0)}


class Two:
    """A stager at `a`, 1 MB/s and 20 ms away from `b`, which has everything."""

    def __init__(self) -> None:
        self.clock = Clock()
        faults = Faults(FaultsSpec(), 0)
        network = Network(self.clock, faults, 0.01, 1e6)
        for site in (SITE, SiteId("b")):
            SimTransport(network, site, lambda e: None, lambda: object())  # type: ignore[misc,arg-type,return-value]
        self.stager = SimStager(self.clock, SITE, Pipes(self.clock, network), network, faults)
        self.ended_s: dict[int, float] = {}
        self.moved = 0
        self.stager.attach(self._heard)

    def _heard(self, event: Event) -> None:
        assert isinstance(event, StageDone) and not event.error
        self.ended_s[event.ticket] = self.clock.now_s
        self.moved += event.bytes_moved

    def order(self, ticket: int, subgroup: str, *names: str) -> None:
        files = tuple(Fetch(DataFile(f"dataset:d/{n}", 1_000_000, ""), (SiteId("b"),)) for n in names)
        self.stager.stage_in(StageIn(ticket=ticket, subgroup=SubgroupId(subgroup), files=files))


def test_what_two_subgroups_want_is_fetched_once_and_both_have_it() -> None:
    two = Two()
    two.order(1, "a-1/0", "f0")
    two.order(2, "a-2/0", "f0", "f1")
    two.clock.run_until(60.0)
    assert two.moved == 2_000_000
    assert two.ended_s == {1: pytest.approx(2.02, abs=0.01), 2: pytest.approx(2.02, abs=0.01)}


def test_who_wanted_what_a_cancelled_order_was_fetching_fetches_it_itself() -> None:
    two = Two()
    two.order(1, "a-1/0", "f0")
    two.order(2, "a-2/0", "f0")
    two.clock.run_until(0.5)
    two.stager.cancel(1)
    two.clock.run_until(60.0)
    assert two.ended_s == {2: pytest.approx(1.52, abs=0.01)} and two.moved == 1_000_000


def test_orders_of_one_subgroup_move_together_two_streams_at_a_time() -> None:
    two = Two()
    two.order(1, "a-1/0", "f0")
    two.order(2, "a-1/0", "f1")
    two.order(3, "a-1/0", "f2")
    two.clock.run_until(60.0)
    assert two.ended_s[1] == pytest.approx(2.02, abs=0.01) == two.ended_s[2]
    assert two.ended_s[3] == pytest.approx(3.02, abs=0.01)


def test_a_stager_waits_for_a_source_that_is_down_and_keeps_what_it_fetched() -> None:
    clock = Clock()
    faults = Faults(FaultsSpec(), 0)
    network = Network(clock, faults, 0.01, 1e6)
    up = {SITE: True, SiteId("b"): False}
    for site in up:
        SimTransport(network, site, lambda e: None, lambda site=site: object() if up[site] else None)  # type: ignore[misc,arg-type]
    stager = SimStager(clock, SITE, Pipes(clock, network), network, faults)
    heard: list[Event] = []
    stager.attach(heard.append)
    file = Fetch(DataFile("dataset:d/f0", 2_000_000, ""), (SiteId("b"),))
    stager.stage_in(StageIn(ticket=1, subgroup=SUBGROUP, files=(file,)))
    clock.run_until(10.0)
    assert heard == []
    up[SiteId("b")] = True
    clock.run_until(20.0)
    assert heard == [StageDone(ticket=1, bytes_moved=2_000_000)]
    stager.stage_in(StageIn(ticket=2, subgroup=SUBGROUP, files=(file,)))
    clock.run_until(21.0)
    assert heard[1:] == [StageDone(ticket=2, bytes_moved=0)]
