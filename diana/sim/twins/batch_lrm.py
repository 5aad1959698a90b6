"""A site behind a batch system: the same port and the same promises as `SimLrm`, and a queue that is not diana's alone.

The jobs it is given stand in one queue with those of others (`load/background.py`), FCFS or EASY (`batch.py`). Its node
is told what the real one could see: the ends of its own jobs, and how many processors others hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from diana.model.facts import Outcome
from diana.model.ids import SiteId
from diana.model.job.components import MOST_FACTORS
from diana.sim.kernel.clock import Clock
from diana.sim.load.background import Other
from diana.sim.load.life import LifeOf
from diana.sim.twins.batch import BatchMachine, Discipline
from diana.sim.twins.lrm import Others, SimLrm, Watcher, _Claim, _never


class BatchLrm(SimLrm):
    """`free` and `busy_s` are of diana's jobs alone, as with slots. A power failure ends what others have running as
    well; what they have waiting waits on, since a batch system keeps its queue on disk."""

    recalls = True

    def __init__(
        self,
        clock: Clock,
        site: SiteId,
        slots: int,
        speed: float,
        life: LifeOf,
        watcher: Watcher,
        again: Callable[[], bool] = _never,
        *,
        discipline: Discipline,
        others: Iterator[Other] | None = None,
        software: tuple[str, ...] = (),
    ) -> None:
        super().__init__(clock, site, slots, speed, life, watcher, again, software=software)
        self._batch = BatchMachine(slots, discipline)
        self._numbers = 0
        self._waits: dict[int, _Claim] = {}
        self._runs: dict[int, _Claim] = {}
        self._leaving: list[int] = []
        """Jobs that are over already and not yet withdrawn."""
        self._filling = False
        self._armed_s = math.inf
        """Latest time at which the batch system is looked at next."""
        self._coming = others or iter(())
        self._strangers: dict[int, Other] = {}
        self._stranger_began_s: dict[int, float] = {}
        self.others: Others = Others(0, 0, 0.0, 0.0)
        self._next_comes()

    def queued(self) -> int:
        return len(self._waits)

    # --- diana's jobs ------------------------------------------------------------------------------------

    def _enqueue(self, claim: _Claim) -> None:
        if claim.processors > self.slots:
            self._end(claim, Outcome.NOT_STARTED, 0)
            return
        if claim.barrier_s:
            # At how many sites its gang runs shows when it is let go; it runs no longer than at most of them.
            claim.sites = MOST_FACTORS
        run_s, claim.late = self._fate(claim)
        asked = claim.spec.resources
        estimate_s = asked.time_limit_s or asked.work_s / self._speed or run_s
        if claim.barrier_s:
            # How long it waits for others shows when it begins, or leaves; no longer than this.
            most_s = max(0.0, claim.barrier_s - self._clock.now_s)
            run_s, estimate_s = run_s + most_s, estimate_s + most_s
        claim.number = self._number()
        self._waits[claim.number] = claim
        self._batch.submit(claim.number, claim.processors, run_s, estimate_s)

    def _end(self, claim: _Claim, outcome: Outcome, exit_code: int) -> None:
        number = claim.number
        if self._waits.pop(number, None) is not None or self._runs.pop(number, None) is not None:
            self._leaving.append(number)
        super()._end(claim, outcome, exit_code)

    def _done_s(self, claim: _Claim) -> float:
        return min(claim.whole_s, claim.saved_s + (self._clock.now_s - claim.started_s) * self._speed / claim.slower)

    def _void_queue(self) -> None:
        held = {number: claim for number, claim in self._runs.items() if claim.held}
        for number, claim in (*self._waits.items(), *held.items()):
            if claim.held:
                self._leave(claim)
                del self._runs[number]
            del self._claims[claim.run]
            self._watch.void(self._site, self._worker, claim.run, claim.spec.resources)
            self._leaving.append(number)
        self._waits.clear()

    def crash_spawner(self) -> None:
        super().crash_spawner()
        self._fill()

    def crash_machine(self) -> None:
        self._void_queue()
        super().crash_machine()
        self._leaving += self._stranger_began_s
        for number in list(self._stranger_began_s):
            self._stranger_ended(number)
        self._fill()

    # --- those of others ---------------------------------------------------------------------------------

    def _next_comes(self) -> None:
        job = next(self._coming, None)
        if job is not None:
            self._clock.at(job.submit_s, self._stranger_comes, job)

    def _stranger_comes(self, job: Other) -> None:
        number = self._number()
        self._strangers[number] = job
        self._batch.submit(number, job.processors, job.run_s, job.estimate_s)
        self._next_comes()
        self._fill()

    def _stranger_begins(self, number: int) -> None:
        now_s, so_far = self._clock.now_s, self.others
        self._stranger_began_s[number] = now_s
        wait_s = so_far.wait_s + now_s - self._strangers[number].submit_s
        self.others = so_far._replace(started=so_far.started + 1, wait_s=wait_s)

    def _stranger_ended(self, number: int) -> None:
        ran_s = self._clock.now_s - self._stranger_began_s.pop(number)
        so_far, width = self.others, self._strangers.pop(number).processors
        self.others = so_far._replace(ended=so_far.ended + 1, busy_s=so_far.busy_s + width * ran_s)

    # --- the queue ---------------------------------------------------------------------------------------

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _fill(self) -> None:
        """Let the batch system do what is due; again when it started a job that may not start."""
        if self._filling:
            return
        self._filling = True
        while True:
            if self._leaving:
                self._batch.withdraw(self._leaving)
                self._leaving = []
            told = self._batch.advance(self._clock.now_s)
            for number in told.ended:
                self._over_in_batch(number)
            for number in told.started:
                self._begins_in_batch(number)
            if not self._leaving:
                break
        self._filling = False
        next_s = self._batch.next_s()
        if next_s < self._armed_s:
            self._armed_s = next_s
            self._clock.at(next_s, self._due)

    def _due(self) -> None:
        self._armed_s = math.inf
        self._fill()

    def _over_in_batch(self, number: int) -> None:
        claim = self._runs.pop(number, None)
        if claim is not None:
            self._over(claim, claim.late)
        else:
            self._stranger_ended(number)

    def _begins_in_batch(self, number: int) -> None:
        claim = self._waits.pop(number, None)
        if claim is None:
            self._stranger_begins(number)
        elif self._stands(claim):
            self._runs[number] = claim
            if claim.barrier_s:
                self._hold(claim)
            else:
                self._begin(claim)
                self._will_say_steps(claim)
        else:
            self._leaving.append(number)
            self._end(claim, Outcome.LEASE_OVER, 0)
