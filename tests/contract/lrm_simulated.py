"""The embedded LRM's simulated twin as the conformance suite sees it. Time is the simulator's: waiting for something
runs its callbacks until that has happened, so no test of the twin waits for a clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from diana.engine.journal.events import Event, LrmReady, Run
from diana.model.ids import MAIN_MACHINE, SiteId
from diana.model.job import resources
from diana.model.job.spec import GroupSpec
from diana.sim.kernel.clock import Clock
from diana.sim.load.life import JobLife
from diana.sim.sites.machines import SimMachines
from diana.sim.twins.batch import Discipline
from diana.sim.twins.batch_lrm import BatchLrm
from diana.sim.twins.lrm import SimLrm, Watcher
from tests.contract.lrm_builders import ALPHA, FOREVER, LrmSite, Work

_REPORTS_S = 3.9
"""Seconds that a `work` takes longer if it reports."""
_AT_ONCE = 1e-12


class _Begins(Watcher):
    """The runs that began."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def executed(self, site: SiteId, run: Run, on_crash: str) -> None:
        self.runs.append(run)


class SimulatedSite(LrmSite):
    """A site of one machine in the simulator, which gives back what it has not begun, as the real one does."""

    worker = MAIN_MACHINE
    quiet_s = 300.0
    punctual = True
    total_steps = 1000.0
    forever_s = 1e9
    """How long jobs run that nobody lets go."""

    def __init__(self, root: Path, slots: int = 2, gpus: int = 0) -> None:
        self.root = root
        self.clock = Clock()
        self.events: list[Event] = []
        self._begins = _Begins()
        self._not_works: set[Run] = set()
        self.machine = self._machine(slots, gpus)
        self.machine.recalls = True
        self.lrm = self._site()

    def _machine(self, slots: int, gpus: int) -> SimLrm:
        has = resources.of({resources.GPUS: gpus})
        return SimLrm(self.clock, ALPHA, slots, 1.0, self._life, self._begins, worker=self.worker, has=has)

    def _site(self) -> SimMachines:
        return SimMachines({MAIN_MACHINE: self.machine})

    def _life(self, run: Run, spec: GroupSpec) -> JobLife:
        work = Work.of(spec)
        if work is None:
            self._not_works.add(run)
            return JobLife(_seconds(spec))
        run_s = self.forever_s if work.run_s == FOREVER else float(work.run_s)
        return JobLife(run_s + (_REPORTS_S if work.steps else 0.0), int(work.exit_code))

    # --- what its jobs do, and time --------------------------------------------------------------------

    def marks(self) -> Path:
        return self.root

    def begun(self) -> list[tuple[int, int]]:
        return [(run.index, run.attempt) for run in self._begins.runs if run not in self._not_works]

    def finish(self) -> None:
        self.machine.load(_AT_ONCE)

    def now_s(self) -> float:
        return self.clock.now_s

    async def pass_time(self, seconds: float) -> None:
        self.clock.run_until(self.clock.now_s + seconds)

    async def until(self, happened: Callable[[], bool], within_s: float = 60.0) -> None:
        by_s = self.clock.now_s + within_s
        while not happened():
            assert self.clock.step(), f"nothing is left to happen; events: {self.events}"
            assert self.clock.now_s < by_s, f"did not happen within {within_s} s; events: {self.events}"

    # --- accidents -------------------------------------------------------------------------------------

    async def up(self) -> None:
        await self.node_up()

    async def node_down(self) -> None:
        self.lrm.detach()

    async def node_up(self) -> None:
        before = self.readies()
        self.lrm.attach(self.events.append)
        await self.until(lambda: self.readies() > before)

    async def lose_lrm(self) -> None:
        before = self.readies()
        self.machine.crash_spawner()
        await self.until(lambda: self.readies() > before)

    async def lose_machine(self) -> None:
        await self.node_down()
        self.machine.crash_machine()
        await self.node_up()

    async def down(self) -> None:
        self.lrm.detach()


class SimulatedMember(SimulatedSite):
    """A member machine of a site in the simulator, whose own machine has a slot too."""

    worker = "m1"

    def _site(self) -> SimMachines:
        own = SimLrm(self.clock, ALPHA, 1, 1.0, self._life, self._begins)
        return SimMachines({MAIN_MACHINE: own, self.worker: self.machine})

    def ready(self) -> LrmReady:
        return self._readies()[-1]

    def readies(self) -> int:
        return len(self._readies())

    def _readies(self) -> list[LrmReady]:
        told = [event for event in self.events if isinstance(event, LrmReady)]
        return [event for event in told if event.worker == self.worker]


class SimulatedCluster(SimulatedSite):
    """A site behind a batch system in the simulator. What such a system has begun ends in its time, so that what runs
    `FOREVER` ends by itself, within the patience of the suite."""

    forever_s = 20.0
    quiet_s = 10.0

    def _machine(self, slots: int, gpus: int) -> SimLrm:
        fcfs = Discipline("fcfs")
        return BatchLrm(self.clock, ALPHA, slots, 1.0, self._life, self._begins, discipline=fcfs)

    def finish(self) -> None:
        """Wait for those that run."""
        self.clock.run_until(self.clock.now_s + self.forever_s)


def _seconds(spec: GroupSpec) -> float:
    """How long a program of the machine runs; one that sleeps does so though `finish` makes all quick."""
    match spec.argv:
        case ("/bin/true",):
            return 0.0
        case ("/bin/sleep", seconds):
            return float(seconds) / _AT_ONCE
    raise ValueError(f"the simulator knows no such program: {spec.argv}")
