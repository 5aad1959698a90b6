"""Resources that operators declare: a scenario names them as site.toml and job files do, and each is one job's at a
time, on the machine that has it."""

from __future__ import annotations

import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal.events import Event, JobsEnded, LrmReady
from diana.errors import UsageError
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec, Resources
from diana.sim.checks.caps import MachineCap
from diana.sim.checks.checkers import Checkers
from diana.sim.kernel.clock import Clock
from diana.sim.load.life import JobLife
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.twins.lrm import SimLrm
from diana.sim.world.runner import simulate

BETA = SiteId("beta")
GRID = """version = 1

[[sites]]
name = "alpha"
slots = 8

[[sites]]
name = "beta"
slots = 8
resources = { fpga = 2 }

[[sites]]
name = "gamma"
slots = 8

[[workload]]
name = "images"
site = "alpha"
jobs = 5
resources = { fpga = 1 }
work_s = 10.0
submit_s = 5.0
"""
MEMBER = GRID.replace(
    "resources = { fpga = 2 }",
    'resources = { tape = 1 }\nmachines = [{ name = "m1", slots = 8, resources = { fpga = 2 } }]',
)


class Machine:
    """A machine of eight slots and two boards in the simulator, which the checkers watch; its jobs run for 10 s."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.heard: list[Event] = []
        self.has = (("fpga", 2), ("gpus", 1))
        self.checkers = Checkers(self.clock, {(BETA, "main"): MachineCap(8, self.has)})
        self.lrm = SimLrm(
            self.clock, BETA, 8, 1.0, lambda run, spec: JobLife(10.0), self.checkers, software=(), has=self.has
        )
        self.lrm.attach(self.heard.append)
        self.clock.run_until(1.0)

    def ready(self) -> LrmReady:
        return next(event for event in self.heard if isinstance(event, LrmReady))

    def start(self, indices: str, asked: Resources) -> None:
        order = fx.Start(
            subgroup=SubgroupId("alpha-1/0"),
            epoch=1,
            owner="u@v",
            session=self.ready().session,
            spec=GroupSpec(resources=asked),
            indices=IndexSet.parse(indices),
        )
        self.lrm.start(order)

    def ends(self) -> dict[int, Outcome]:
        told = [event.facts for event in self.heard if isinstance(event, JobsEnded)]
        return {i: Outcome(o) for facts in told for i, o in zip(facts.indices, facts.outcomes, strict=True)}

    def above(self) -> list[str]:
        """Findings of I7 so far."""
        return [found.text for found in self.checkers.found if found.rule == "I7"]


BOARD = Resources(others=(("fpga", 1),))


@pytest.mark.parametrize("binding", ["early", "late"])
@pytest.mark.parametrize("text", [GRID, MEMBER], ids=["of the site", "of a member"])
def test_jobs_run_only_where_what_they_ask_is_declared_and_no_more_at_once_than_there_are(
    text: str, binding: str
) -> None:
    report = simulate(sc.parse(text.replace("version = 1", f'version = 1\nsettings = {{ binding = "{binding}" }}')), 1)
    assert report.good(), report.violations
    images = report.groups["images"]
    assert (images.done, images.sites) == (5, {"beta": 5})
    assert 30.0 <= images.makespan_s < 40.0, "two at a time, so three one after another"


def test_jobs_that_ask_for_what_nobody_declares_are_refused_by_its_name() -> None:
    report = simulate(sc.parse(GRID.replace("{ fpga = 1 }", "{ tape = 1 }")), 1)
    assert report.good() and report.groups["images"].state == "refused"
    assert "tape" in report.groups["images"].note


def test_a_machine_tells_what_it_declares_beside_its_gpus() -> None:
    told = Machine().ready()
    assert (told.resources, told.gpus, told.all_gpus) == ((("fpga", 2),), 1, 1)


def test_jobs_wait_for_each_thing_they_ask_for() -> None:
    machine = Machine()
    machine.start("0-2", BOARD)
    machine.clock.run_until(5.0)
    assert (machine.lrm.executed, machine.lrm.left) == (2, {"fpga": 0, "gpus": 1})
    machine.clock.run_until(12.0)
    machine.start("3", Resources(gpus=1, others=(("fpga", 1),)))
    machine.start("4", Resources(gpus=1))
    machine.clock.run_until(15.0)
    assert (machine.lrm.executed, machine.lrm.left) == (4, {"fpga": 0, "gpus": 0}), "the GPU is job 3's"
    machine.clock.run_until(60.0)
    assert machine.ends() == dict.fromkeys(range(5), Outcome.DONE)
    assert machine.lrm.left == dict(machine.has)


def test_a_job_that_asks_for_more_than_the_machine_has_never_starts() -> None:
    machine = Machine()
    machine.start("0", Resources(others=(("fpga", 3),)))
    machine.start("1", Resources(others=(("tape", 1),)))
    machine.start("2", BOARD)
    machine.clock.run_until(30.0)
    assert machine.ends() == {0: Outcome.NOT_STARTED, 1: Outcome.NOT_STARTED, 2: Outcome.DONE}


def test_what_was_taken_is_free_again_however_a_job_leaves() -> None:
    machine = Machine()
    machine.start("0-1", BOARD)
    machine.clock.run_until(2.0)
    machine.lrm.kill(fx.KillRuns(worker="main", subgroup=SubgroupId("alpha-1/0"), epoch=1, indices=IndexSet.span(0, 1)))
    assert machine.lrm.left["fpga"] == 1
    machine.lrm.crash_spawner()
    machine.clock.run_until(4.0)
    assert machine.lrm.left["fpga"] == 1, "job 1 lives on"
    machine.lrm.crash_machine()
    assert machine.lrm.left == dict(machine.has)


# --- the checker can fail -------------------------------------------------------------------------------------


def test_a_site_that_gives_a_machine_more_than_it_has_is_found_though_the_machine_lets_the_rest_wait() -> None:
    machine = Machine()
    machine.start("0-1", BOARD)
    assert machine.above() == []
    machine.start("2", BOARD)
    machine.clock.run_until(60.0)
    assert machine.above() == ["main holds jobs of 3 fpga and has 2"]
    machine.start("3-4", BOARD)
    machine.clock.run_until(90.0)
    assert len(machine.above()) == 1, "what has ended is not counted"


def test_a_machine_that_never_takes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diana.model.job.resources.take", lambda *_: None)
    machine = Machine()
    machine.start("0-2", BOARD)
    machine.clock.run_until(60.0)
    assert machine.above() == ["main holds jobs of 3 fpga and has 2", "main runs jobs of 3 fpga and has 2"]


# --- what a file may say --------------------------------------------------------------------------------------

HAS, ASKS = "resources = { fpga = 2 }", "resources = { fpga = 1 }"


@pytest.mark.parametrize(
    ("was", "wrong", "said"),
    [
        (HAS, "resources = { fpga = 0 }", "sites beta: resources.fpga: 0 is out of range; want 1 to 1000000"),
        (HAS, "resources = { fpga = -1 }", "sites beta: resources.fpga: -1 is out of range; want 1 to 1000000"),
        (HAS, f"resources = {{ fpga = {2**63 - 1} }}", "sites beta: resources.fpga: about 2^62 is out of range"),
        (HAS, "resources = { fpga = 0.5 }", "Expected `int`, got `float` - at `$.sites[1].resources"),
        (HAS, "resources = { fpga = 1e30 }", "Expected `int`, got `float` - at `$.sites[1].resources"),
        (HAS, "resources = { fpga = true }", "Expected `int`, got `bool` - at `$.sites[1].resources"),
        (HAS, "resources = { processors = 9 }", "sites beta: resources.processors: has a key of its own"),
        (HAS, "resources = { gpus = 2 }", "sites beta: resources.gpus: has a key of its own"),
        (HAS, "resources = { gpu = 2 }", "sites beta: resources.gpu: too near to another key; did you mean gpus?"),
        (HAS, "resources = { FPGA = 2 }", "sites beta: resources.FPGA: no name of a resource"),
        (HAS, "resource = { fpga = 2 }", "unknown key 'resource' in sites[1]; did you mean 'resources'?"),
        (HAS, HAS + '\nlrm = "easy"', "sites beta: fpga = 2: there are none behind lrm = 'easy'"),
        (
            HAS,
            'machines = [{ name = "m1", resources = { fpga = -2 } }]',
            "sites beta: machines 'm1': resources.fpga: -2 is out of range; want 1 to 1000000",
        ),
        (ASKS, "resources = { fpga = 0 }", "workload images: resources.fpga: 0 is out of range; want 1 to 1000000"),
        (ASKS, "resources = { memory = 4 }", "workload images: resources.memory: has a key of its own"),
        (ASKS, ASKS + '\ncomponents = "2x1"', "workload images: resources: gangs have none of their own"),
        (
            f"jobs = 5\n{ASKS}\nwork_s = 10.0",
            ASKS + '\nhistory = { file = "x" }',
            "workload images: history and resources: the history says that",
        ),
        ("version = 1", 'version = 1\nreport = ["bound"]', "workload images: resources: central policies and bounds"),
    ],
)
def test_a_resource_that_makes_no_sense_is_refused_in_one_line(was: str, wrong: str, said: str) -> None:
    assert GRID.count(was) == 1
    with pytest.raises(UsageError) as refused:
        sc.parse(GRID.replace(was, wrong))
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_scenario_that_is_written_out_keeps_them() -> None:
    scenario = sc.parse(MEMBER)
    assert sc.parse(written(scenario)) == scenario
