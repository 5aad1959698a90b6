"""The embedded LRM's twin: slots, a queue of claimed runs, ends told until forgotten.

Like the real spawner it is a process of its own: a crash of its node leaves it and its jobs alone. It can die too
(running jobs end UNKNOWN, unstarted claims are void), and so can the machine (jobs are INTERRUPTED). Where the two
differ in what they tell, the real one is right: `tests/contract/lrm` holds both to one suite.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from diana.engine.journal.effects import Go, KillRuns, RecallRuns, RenewLease, SaveRuns, Start, TellRoster
from diana.engine.journal.events import AtBarrier, JobsEnded, LrmLost, LrmReady, Run, StepsReported
from diana.model.facts import Facts, JobError, Outcome, OutputFile
from diana.model.ids import MAIN_MACHINE, GroupId, SiteId, group_of
from diana.model.job import resources as res
from diana.model.job.checkpoint import EXIT, folder_of
from diana.model.job.grace import GRACE_S
from diana.model.job.software import BARRIER, CHECKPOINT, FOUND, SPARES, made_ready
from diana.model.job.spec import GroupSpec, Resources
from diana.policy.gang.turnaround import factor_of
from diana.ports import Emit
from diana.sim.kernel.clock import Clock
from diana.sim.load.life import LifeOf

IDLE_S = 0.5
"""Seconds after a job for which its slots count as just left."""
REPORT_S = 0.02
"""Ends gathered this long are told together."""
STEP_S, STEPS = 1.0, 1000
"""Seconds between two reports of a job with a contract, and its steps in all."""
SAVE_S = 0.5
"""Seconds that a job takes to write its state."""
AGAIN_S = 0.3
RETELL_S = 30.0
SPAWNER_RESTART_S = 1.0
PORT = 29_500
"""Told as free to gangs; nothing listens in a simulation."""
NOT_FOUND_EXIT, TERM_EXIT, EXIT_UNKNOWN = 127, 143, -1
"""Exit codes of a job that could not be started, of one that was told to stop, and where nobody knows it."""


class Watcher:
    """Sees what the LRM really does; the checkers are one."""

    __slots__ = ()

    def claimed(self, site: SiteId, worker: str, run: Run, need: Resources) -> None: ...

    def void(self, site: SiteId, worker: str, run: Run, need: Resources) -> None:
        """A claimed run now surely never starts."""

    def executed(self, site: SiteId, run: Run, on_crash: str) -> None: ...

    def ended(self, site: SiteId, worker: str, run: Run, need: Resources, outcome: Outcome) -> None: ...


_WHY = {
    Outcome.NOT_STARTED: "it wants what this machine lacks",
    Outcome.UNKNOWN: "its spawner was lost while it ran",
    Outcome.INTERRUPTED: "its machine lost power",
}
"""Errors of ends that are not the job's own; the others speak for themselves."""


def _never() -> bool:
    return False


class Others(NamedTuple):
    """Counts of the jobs that came past diana, so far."""

    started: int
    ended: int
    wait_s: float
    """Waits of those that started, summed."""
    busy_s: float
    """Processor-seconds of those that ended."""


class _Claim:
    __slots__ = (
        "adopted",
        "asked",
        "barrier_s",
        "came_s",
        "due_s",
        "ended_s",
        "exit_code",
        "held",
        "late",
        "lease",
        "merges",
        "number",
        "outcome",
        "outputs",
        "processors",
        "queued",
        "run",
        "saved_s",
        "sites",
        "slower",
        "spec",
        "started_s",
        "told",
        "verdict",
        "whole_s",
    )

    def __init__(
        self, run: Run, spec: GroupSpec, merges: bool = False, lease: str = "", barrier_s: float = 0.0
    ) -> None:
        self.barrier_s, self.held = barrier_s, False
        self.came_s = -1.0
        self.merges = merges
        self.lease = lease
        self.run = run
        self.spec = spec
        self.processors, self.asked = spec.resources.processors, res.devices(res.of_job(spec.resources))
        self.due_s, self.whole_s = -1.0, 0.0
        """When its work is done if the load stays as it is; all of its work at speed 1."""
        self.sites, self.slower = 1, 1.0
        """Sites at which its gang runs, and how many times as long it takes for that."""
        self.saved_s = 0.0
        """Seconds of its work, at speed 1, that its checkpoint spares it."""
        self.started_s = -1.0
        self.ended_s = -1.0
        self.outcome: Outcome | None = None
        self.verdict: Outcome | None = None
        """How it ends, whatever it exits with; None: as it exits."""
        self.adopted = False
        """True if an earlier spawner started it: nobody learns its exit."""
        self.exit_code = 0
        self.outputs: tuple[OutputFile, ...] = ()
        self.queued = self.told = False
        self.number = -1
        """Its number in the batch system, if it is behind one."""
        self.late = False
        """True if its time limit will end it; known behind a batch system."""


class SimLrm:
    """LocalResourceManager of one machine. `attach` gives it an ear, `detach` takes it (the node is down)."""

    others: Others | None = None
    """Jobs that came past diana; None: nobody else has jobs on slots."""
    barriers = True
    """True if it holds jobs until they are let go, as spawners do."""
    own_speed = 0.0
    """Speed that it tells the engine, where that is not the site's."""
    recalls = False
    """True: it gives back runs that it has not begun, as batch systems do."""

    gap_of: Callable[[Run], float] | None = None
    """Seconds for which the slots of a run stay empty after it; None: they do not."""

    wait_of: Callable[[Run], float] | None = None
    """Seconds that a run waits for its begin though it finds free slots, and holds them; None: it begins at once."""

    def __init__(
        self,
        clock: Clock,
        site: SiteId,
        slots: int,
        speed: float,
        life: LifeOf,
        watcher: Watcher,
        again: Callable[[], bool] = _never,
        worker: str = MAIN_MACHINE,
        software: tuple[str, ...] = (),
        has: res.Amounts = (),
    ) -> None:
        """`software`: what jobs may ask for there (`model/job/software.py`). `has`: what there is in whole pieces, each
        one job's at a time."""
        self._worker = worker
        self.software = (*software, BARRIER, CHECKPOINT, SPARES, FOUND) if self.barriers else software
        # Whether a job is too wide shows when its turn comes, since slots change.
        self._offer = res.ResourceOffer(0, dict(has), self.software)
        self.left = dict(has)
        """Devices that no job holds, by name."""
        self._clock = clock
        self._site = site
        self._speed = speed
        self._life = life
        self._watch = watcher
        self._again = again
        """True if a report is told a second time a little later; asked at each one."""
        self._emit: Emit | None = None
        self._ear = 0
        self._session = 0
        self.slots = slots
        self.free = slots
        self._claims: dict[Run, _Claim] = {}
        self._queue: deque[_Claim] = deque()
        self._leases: dict[str, float] = {}
        self._to_tell: list[_Claim] = []
        self._telling = False
        self._retelling = False
        self._alive = True
        self._left_s = -inf
        """Time when a job last left its slots."""
        self._load = 1.0
        """How many times as long jobs take as they would alone."""
        self.executed = 0
        self.busy_s = 0.0

    # --- the node's side -------------------------------------------------------------------------------

    def attach(self, emit: Emit, after_s: float = 0.001) -> None:
        self._emit = emit
        self._ear += 1
        self._clock.after(after_s, self._ready, self._ear)

    def detach(self) -> None:
        self._emit = None
        self._ear += 1

    def _ready(self, ear: int) -> None:
        if self._emit is None or ear != self._ear or not self._alive:
            return
        self._session += 1
        declared = dict(self._offer.most)
        gpus = declared.pop(res.GPUS, 0)
        ready = LrmReady(
            worker=self._worker,
            session=self._session,
            slots=self.slots,
            known=tuple(self._claims),
            gpus=gpus,
            all_gpus=gpus,
            resources=res.of(declared),
            # The node says the software of its own machine by its settings.
            software=None if self._worker == MAIN_MACHINE else self.software,
            recalls=self.recalls,
            speed=self.own_speed,
        )
        self._emit(ready)
        for claim in self._claims.values():
            if claim.outcome is not None:
                self._tell_later(claim)
            elif claim.held and claim.barrier_s:
                self._clock.after(REPORT_S, self._tell_held, claim, ear)

    def start(self, order: Start) -> None:
        if not self._alive or order.session != self._session:
            return
        attempts = dict(order.attempts)
        saved = {job.index: min(progress_s(file.sha256) for file in job.files) for job in order.saved}
        for index in order.indices:
            run = Run(order.subgroup, order.epoch, index, attempts.get(index, 1))
            if run in self._claims:
                continue
            claim = self._claims[run] = _Claim(run, order.spec, bool(order.directory), order.lease, order.barrier_s)
            claim.saved_s = saved.get(index, 0.0)
            self._watch.claimed(self._site, self._worker, run, claim.spec.resources)
            if not res.fits(res.ResourceRequest(0, claim.asked, made_ready(order.spec)), self._offer):
                self._end(claim, Outcome.NOT_STARTED, NOT_FOUND_EXIT)
            else:
                self._enqueue(claim)
        self._fill()

    def go(self, order: Go) -> None:
        for claim in self._open_of(order):
            if claim.held and self._clock.now_s < claim.barrier_s:
                claim.sites = _sites_of(order)
                self._leave(claim)
                self._execute(claim)

    def lease(self, order: RenewLease) -> None:
        """Keep a lease with the claims: a spawner that dies leaves it to its successor."""
        if order.until_s > self._leases.get(order.origin, 0.0):
            self._leases[order.origin] = order.until_s
            self._clock.at(order.until_s, self._lease_over, order.origin, order.until_s)

    def _stands(self, claim: _Claim) -> bool:
        return not claim.lease or self._clock.now_s < self._leases.get(claim.lease, 0.0)

    def _lease_over(self, origin: str, until_s: float) -> None:
        """End what waits under a lease that is over, and tell what runs to stop; it does not heed that."""
        if self._leases.get(origin) != until_s:
            return
        if not self._alive:
            self._clock.after(SPAWNER_RESTART_S, self._lease_over, origin, until_s)
            return
        told = []
        for claim in self._under(origin):
            if claim.started_s < 0:
                self._end(claim, Outcome.LEASE_OVER, 0)
            elif claim.verdict is None:
                claim.verdict = Outcome.LEASE_OVER
                told.append(claim)
        if told:
            self._clock.at(until_s + GRACE_S, self._grace_over, told)
        self._fill()

    def _grace_over(self, told: list[_Claim]) -> None:
        """Kill those that were told to stop and run."""
        if not self._alive:
            self._clock.after(SPAWNER_RESTART_S, self._grace_over, told)
            return
        for claim in told:
            if claim.ended_s < 0:
                self._end(claim, Outcome.LEASE_OVER, TERM_EXIT)
        self._fill()

    def _under(self, origin: str) -> list[_Claim]:
        return [claim for claim in self._claims.values() if claim.lease == origin and claim.ended_s < 0]

    def kill(self, order: KillRuns) -> None:
        for claim in self._open_of(order):
            self._end(claim, Outcome.CANCELLED, TERM_EXIT if claim.started_s >= 0 else 0)
        self._fill()

    def recall(self, order: RecallRuns) -> None:
        for claim in [c for c in self._open_of(order) if c.started_s < 0]:
            self._end(claim, Outcome.UNBEGUN, 0)
        self._fill()

    def save(self, order: SaveRuns) -> None:
        for claim in [c for c in self._open_of(order) if c.started_s >= 0 and not c.adopted]:
            self._clock.after(SAVE_S, self._saved, claim)

    def tell_roster(self, order: TellRoster) -> None:
        """Say nothing: jobs of the simulator compute alike."""

    def _saved(self, claim: _Claim) -> None:
        """Stop a job that wrote its state, unless it ended meanwhile."""
        if claim.outcome is None and claim.spec.checkpoint is not None and self._alive and not claim.adopted:
            self._end_at_checkpoint(claim)
            self._fill()

    def _end_at_checkpoint(self, claim: _Claim) -> None:
        """End a job that saved. What its files hold is its progress."""
        assert claim.spec.checkpoint is not None
        done_s = self._done_s(claim)
        folder = folder_of(claim.run.index, claim.run.attempt)
        names = [f"{folder}/{path}" for path in claim.spec.checkpoint.paths]
        content = f"{round(done_s * 1000):064x}"
        self._end(claim, Outcome.CHECKPOINTED, EXIT)
        claim.outputs = tuple(OutputFile(claim.run.index, name, 1000, content) for name in names)

    def _open_of(self, order: Go | KillRuns | RecallRuns | SaveRuns) -> list[_Claim]:
        """The order's runs here that have no end; none while the spawner is dead."""
        some = [c for c in self._claims.values() if c.outcome is None] if self._alive else []
        key = (order.subgroup, order.epoch)
        return [c for c in some if (c.run.subgroup, c.run.epoch) == key and c.run.index in order.indices]

    def queued(self) -> int:
        return len(self._queue)

    def forget(self, runs: tuple[Run, ...]) -> None:
        for run in runs:
            claim = self._claims.get(run)
            if claim is not None and claim.ended_s >= 0:
                del self._claims[run]

    # --- jobs ------------------------------------------------------------------------------------------

    def _enqueue(self, claim: _Claim) -> None:
        claim.came_s = self._clock.now_s
        self._queue.append(claim)

    def _fill(self) -> None:
        queue = self._queue
        while queue and self._alive:
            claim = queue[0]
            if claim.outcome is not None:
                queue.popleft()
                continue
            if not self._stands(claim):
                queue.popleft()
                self._end(claim, Outcome.LEASE_OVER, 0)
                continue
            if claim.processors > self.slots > 0:
                queue.popleft()
                self._end(claim, Outcome.NOT_STARTED, NOT_FOUND_EXIT)
                continue
            # A merge command belongs to its machine, though all slots be other machines'.
            if claim.processors > self.free and (self.slots or not claim.merges):
                return
            if not res.how_many(self.left, claim.asked):
                return
            queue.popleft()
            if claim.barrier_s:
                self._hold(claim)
            elif self.wait_of is not None and self._is_idle(claim):
                self._wait(claim, self.wait_of(claim.run))
            else:
                self._execute(claim)

    def _is_idle(self, claim: _Claim) -> bool:
        """True if the run finds slots that nobody has just left: what it waits after another is that one's gap."""
        return claim.came_s == self._clock.now_s > self._left_s + IDLE_S

    def _wait(self, claim: _Claim, wait_s: float) -> None:
        self._take(claim)
        claim.held = True
        self._clock.after(wait_s, self._waited, claim)

    def _waited(self, claim: _Claim) -> None:
        if claim.held and claim.outcome is None and self._alive:
            self._leave(claim)
            self._execute(claim)

    def _hold(self, claim: _Claim) -> None:
        self._take(claim)
        claim.held = True
        self._clock.at(max(self._clock.now_s, claim.barrier_s), self._lapse, claim)
        self._clock.after(REPORT_S, self._tell_held, claim, self._ear)

    def _tell_held(self, claim: _Claim, ear: int) -> None:
        if self._emit is not None and ear == self._ear and self._alive and claim.held:
            run = claim.run
            self._emit(AtBarrier(worker=self._worker, subgroup=run.subgroup, epoch=run.epoch, runs=(run,), port=PORT))

    def _lapse(self, claim: _Claim) -> None:
        if claim.held and claim.outcome is None:
            self._leave(claim)
            self._end(claim, Outcome.UNBEGUN, 0)
            self._fill()

    def _leave(self, claim: _Claim) -> None:
        """Give the slots of a held job back: it is let go, or never begins."""
        claim.held = False
        self._give_back(claim)

    def _execute(self, claim: _Claim) -> None:
        self._begin(claim)
        run_s, late = self._fate(claim)
        claim.due_s = self._clock.now_s + run_s
        self._clock.after(run_s, self._over, claim, late)
        self._will_say_steps(claim)

    def load(self, times: float) -> None:
        """Have jobs that run, and those that start from now on, take so many times as long as they would alone."""
        now = self._clock.now_s
        for claim in self._claims.values():
            if claim.outcome is None and claim.due_s > now:
                claim.due_s = now + (claim.due_s - now) * times / self._load
                self._clock.at(claim.due_s, self._over, claim, False)
        self._load = times

    def resize(self, slots: int) -> None:
        """Offer so many slots from now on; fewer than are held are free again as jobs end."""
        self.free += slots - self.slots
        self.slots = slots
        if self._emit is not None:
            self.attach(self._emit)
        self._fill()

    def _done_s(self, claim: _Claim) -> float:
        """Seconds of its work, at speed 1, that a running job has done."""
        return claim.whole_s - max(0.0, claim.due_s - self._clock.now_s) * self._speed / (self._load * claim.slower)

    def _will_say_steps(self, claim: _Claim) -> None:
        if claim.spec.contract is not None:
            self._clock.after(STEP_S, self._say_steps, claim)

    def _say_steps(self, claim: _Claim) -> None:
        if claim.outcome is not None or claim.adopted:
            return
        self._clock.after(STEP_S, self._say_steps, claim)
        if self._emit is not None and self._alive and claim.whole_s > 0:
            run, done = claim.run, int(STEPS * self._done_s(claim) / claim.whole_s)
            steps = ((run.index, run.attempt, self._clock.now_s, float(done), float(STEPS)),)
            self._emit(StepsReported(worker=self._worker, subgroup=run.subgroup, epoch=run.epoch, steps=steps))

    def _begin(self, claim: _Claim) -> None:
        self._take(claim)
        claim.started_s = self._clock.now_s
        self.executed += 1
        self._watch.executed(self._site, claim.run, claim.spec.on_crash)

    def _fate(self, claim: _Claim) -> tuple[float, bool]:
        """Seconds that a job will hold its slots, and whether its time limit is what ends it."""
        life = self._life(claim.run, claim.spec)
        claim.exit_code = life.exit_code
        if life.output_bytes and not life.exit_code:
            name = f"{claim.run.index}.out"
            claim.outputs = (OutputFile(claim.run.index, name, life.output_bytes, f"{claim.run.index:064x}"),)
        claim.whole_s = life.run_s
        claim.slower = factor_of(life.slowdown, claim.sites)
        run_s = max(0.0, life.run_s - claim.saved_s) * (self._load * claim.slower) / self._speed
        limit_s = claim.spec.resources.time_limit_s
        late = 0 < limit_s < run_s
        return (limit_s if late else run_s), late

    def _over(self, claim: _Claim, late: bool) -> None:
        if claim.due_s > self._clock.now_s and not late:
            # A load came meanwhile.
            return
        if claim.outcome is not None:
            self._fill()
            return
        if claim.verdict is not None or late or claim.adopted:
            outcome = claim.verdict or (Outcome.TIMED_OUT if late else Outcome.UNKNOWN)
            self._end(claim, outcome, EXIT_UNKNOWN if claim.adopted else TERM_EXIT if late else claim.exit_code)
        elif claim.exit_code == EXIT and claim.barrier_s and claim.spec.checkpoint is not None:
            # The first of a gang that is asked to save stops all, before they are asked.
            self._end_at_checkpoint(claim)
        else:
            self._end(claim, Outcome.FAILED if claim.exit_code else Outcome.DONE, claim.exit_code)
        self._fill()

    def _end(self, claim: _Claim, outcome: Outcome, exit_code: int) -> None:
        claim.outcome = outcome
        claim.exit_code = exit_code
        claim.ended_s = self._clock.now_s
        if claim.held:
            self._leave(claim)
        if claim.started_s >= 0:
            self._left_s = self._clock.now_s
            gap_s = self.gap_of(claim.run) if self.gap_of is not None else 0.0
            if gap_s > 0:
                self._clock.after(gap_s, self._empty, claim)
            else:
                self._give_back(claim)
            self.busy_s += claim.processors * (claim.ended_s - claim.started_s)
        if outcome is not Outcome.DONE:
            claim.outputs = ()
        self._watch.ended(self._site, self._worker, claim.run, claim.spec.resources, outcome)
        self._tell_later(claim)

    def _empty(self, claim: _Claim) -> None:
        """Have slots be free some time after their job."""
        self._give_back(claim)
        self._fill()

    def _take(self, claim: _Claim) -> None:
        self.free -= claim.processors
        res.take(self.left, claim.asked)

    def _give_back(self, claim: _Claim) -> None:
        self.free += claim.processors
        res.give_back(self.left, claim.asked)

    # --- telling ---------------------------------------------------------------------------------------

    def _tell_later(self, claim: _Claim) -> None:
        if claim.queued:
            return
        claim.queued = True
        self._to_tell.append(claim)
        if not self._telling:
            self._telling = True
            # Gaps that were observed have the report in them.
            self._clock.after(REPORT_S if self.gap_of is None else 0.0, self._tell)

    def _tell(self) -> None:
        self._telling = False
        claims, self._to_tell = self._to_tell, []
        for claim in claims:
            claim.queued = False
        emit = self._emit
        if emit is None or not self._alive:
            return  # `attach` tells them all again
        ear = self._ear
        for subgroup_claims in _by_subgroup(c for c in claims if c.run in self._claims):
            if ear != self._ear:
                return
            report = self._report(subgroup_claims)
            emit(report)
            if self._again():
                self._clock.after(AGAIN_S, self._say, report, ear)
        if not self._retelling and self._claims:
            self._retelling = True
            self._clock.after(RETELL_S, self._retell, ear)

    def _say(self, report: JobsEnded, ear: int) -> None:
        if self._emit is not None and ear == self._ear:
            self._emit(report)

    def _retell(self, ear: int) -> None:
        self._retelling = False
        if ear == self._ear:
            self.retell()

    def retell(self) -> None:
        """Tell once more what was told and is not forgotten."""
        for claim in [c for c in self._claims.values() if c.ended_s >= 0 and c.told]:
            self._tell_later(claim)

    def _report(self, claims: list[_Claim]) -> JobsEnded:
        for claim in claims:
            claim.told = True
        first = claims[0].run
        return JobsEnded(subgroup=first.subgroup, epoch=first.epoch, facts=_facts(self._site, claims))

    # --- faults ----------------------------------------------------------------------------------------

    def crash_spawner(self) -> None:
        """kill -9 of the spawner. A successor answers after SPAWNER_RESTART_S."""
        if not self._alive:
            return
        self._alive = False
        self._void_queue()
        for claim in self._claims.values():
            claim.adopted = claim.adopted or claim.outcome is None
        if self._emit is not None:
            self._emit(LrmLost(self._worker))
        self._clock.after(SPAWNER_RESTART_S, self._successor)

    def crash_machine(self) -> None:
        """Power failure: jobs end INTERRUPTED, also those that wait, for nobody knows whether they had begun. The
        caller stops the node too."""
        self._leases.clear()
        for claim in self._claims.values():
            if claim.ended_s < 0:
                self._end(claim, Outcome.INTERRUPTED, EXIT_UNKNOWN)
        self._queue.clear()

    def _void_queue(self) -> None:
        held = [claim for claim in self._claims.values() if claim.held]
        for claim in (*self._queue, *held):
            if claim.held:
                self._leave(claim)
            if claim.outcome is None:
                del self._claims[claim.run]
                self._watch.void(self._site, self._worker, claim.run, claim.spec.resources)
        self._queue.clear()

    def _successor(self) -> None:
        self._alive = True
        for claim in self._claims.values():
            if claim.ended_s >= 0:
                claim.told = False
        self._ready(self._ear)

    def groups(self) -> set[GroupId]:
        """Groups with runs that are not forgotten."""
        return {group_of(run.subgroup) for run in self._claims}

    def holds(self) -> int:
        """Runs not forgotten."""
        return len(self._claims)


def _sites_of(order: Go) -> int:
    """Return the number of sites at which a gang runs. Simulated machines have no addresses: its components are told
    the names of their sites as hosts."""
    return len(set(dict(order.environment).get("DIANA_GANG_HOSTS", "").split(",")))


def progress_s(content: str) -> float:
    """Return the seconds of work, at speed 1, that a simulated checkpoint of that hash holds."""
    return int(content, 16) / 1000


def _by_subgroup(claims: Iterable[_Claim]) -> Iterable[list[_Claim]]:
    groups: dict[tuple[str, int], list[_Claim]] = {}
    for claim in claims:
        if claim.ended_s >= 0:
            groups.setdefault((claim.run.subgroup, claim.run.epoch), []).append(claim)
    return groups.values()


def _facts(site: SiteId, claims: list[_Claim]) -> Facts:
    whys = [(claim.run, _WHY[claim.outcome]) for claim in claims if claim.outcome in _WHY]
    errors = [JobError(run.index, f"{group_of(run.subgroup)}.{run.index}: {why} (simulated)") for run, why in whys]
    return Facts(
        site=site,
        indices=[c.run.index for c in claims],
        attempts=[c.run.attempt for c in claims],
        outcomes=[int(c.outcome or 0) for c in claims],
        exit_codes=[c.exit_code for c in claims],
        started_s=[c.started_s if c.started_s >= 0 else c.ended_s for c in claims],
        ended_s=[c.ended_s for c in claims],
        cpu_s=[max(0.0, c.ended_s - c.started_s) if c.started_s >= 0 else 0.0 for c in claims],
        max_rss_bytes=[0] * len(claims),
        log_segments=[""] * len(claims),
        log_offsets=[0] * len(claims),
        log_lengths=[0] * len(claims),
        log_truncated=[False] * len(claims),
        outputs=[o for c in claims for o in c.outputs],
        errors=errors,
    )
