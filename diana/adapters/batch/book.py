"""The book of a cluster: all it was given and has not been told to forget. Orders come in, ends go out, and the batch
system stands in between.

Methods block and belong to one thread. They raise what the batch system raises (`BatchRefused`, `BatchUnreachable`),
OSError and `errors.StoreFailed` where the disk refuses; after any of these, doing the same again goes on where it
was.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from diana.adapters.batch.array import live
from diana.adapters.batch.array.barrier import Barrier, hold_s
from diana.adapters.batch.array.ending import Ending, TaskOutcome
from diana.adapters.batch.array.folder import CANCELLED, GIVEN_UP, RECALLED, ArrayFolder, sweep
from diana.adapters.batch.array.judging import Judge
from diana.adapters.batch.array.live import LiveArray, SubmittedPart
from diana.adapters.batch.array.rows import open_rows
from diana.adapters.batch.array.script import Surroundings, longer_grace_s
from diana.adapters.batch.asking import Asking
from diana.adapters.batch.ledger import Ledger, closing_on_fault
from diana.adapters.batch.portions import NO_LIMIT, Limit, portion
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import Array, BatchRefused, BatchSystem, BatchUnreachable, Seen
from diana.adapters.batch.waits import QueueWaits
from diana.adapters.durable import replace_durably, sync
from diana.adapters.lrm import own_program
from diana.adapters.lrm.spawner.capped import hold_file, read_held
from diana.adapters.lrm.spawner.identity import boot_s, wall_s
from diana.adapters.lrm.spawner.identity import machine as machine_identity
from diana.adapters.lrm.spawner.protocol import Order
from diana.engine.journal.events import Run
from diana.model.facts import Facts, Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.kept_log import ENDED, OWN_FILES, RUNS, UNKNOWN, WAITS, LiveLog
from diana.model.layout import DataDir

MOST_AGE_S = 64.0
"""Seconds after which nobody asks for how long a job was seen to run."""

_log = logging.getLogger("diana.batch")


class HeldRun(NamedTuple):
    """A run at the barrier. `host`, `port`: as its task told them."""

    run: Run
    host: str
    port: int
    barrier: Barrier
    task: int


class Stepped(NamedTuple):
    """A run's report."""

    run: Run
    ago_s: float
    done: float
    total: float


Told = tuple[SubgroupId, int, Facts]
"""Ends of runs of a subgroup and epoch."""


class Book:
    def __init__(
        self,
        data: DataDir,
        site: SiteId,
        name: str,
        settings: ClusterSettings,
        system: BatchSystem,
        ending: Ending,
        before: str = "",
    ) -> None:
        """`before`: as `Rows` takes it. `ArraysElsewhere`, also from other methods: another machine feeds
        the cluster."""
        self._root = data.root / "clusters" / name
        self._data = data
        self._settings = settings
        self._system = system
        self._asking = Asking(system, name)
        self._asked_s = 0.0
        self._ending = ending
        self._around = Surroundings(
            site=site,
            cluster=name,
            dialect=system.dialect,
            setup=settings.setup,
            data=os.path.abspath(data.root),
            boot_id=machine_identity().boot_id,
            path=own_program.folder(),
            address=settings.address,
        )
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A ledger whose folder a power cut takes away knows nothing of the jobs it gave.
        for folder in (self._root.parent, data.root):
            sync(folder)
        self.ledger = Ledger(self._root / "ledger.db")
        with closing_on_fault(self.ledger):
            self.rows = open_rows(data, settings, self.ledger, self._around, before)
        self._judge = Judge(self.rows, settings, self._asking, name, system.kind, system.dialect)
        self.identity = self.rows.identity
        if self.rows.taken_over:
            _log.info("cluster %s: took over %d arrays", name, self.rows.taken_over)
        self._arrays: dict[int, LiveArray] = {}
        self._told: dict[int, tuple[SubgroupId, int, Facts, set[Run]]] = {}
        """Ends by number, each with those of its runs that are not forgotten."""
        self._of_run: dict[Run, int] = {}
        self._task_of: dict[Run, tuple[LiveArray, int]] = {}
        self._fresh: list[Told] = []
        self._held: dict[Run, HeldRun] = {}
        self._fresh_held: list[HeldRun] = []
        self.waits = QueueWaits()
        self.submissions = 0
        """Arrays the batch system took since this process began."""
        with closing_on_fault(self.ledger):
            self._begin()

    def close(self) -> None:
        self.ledger.close()

    def _begin(self) -> None:
        for root in (self._root, self.rows.row()):
            sweep(root)
        for given in self.ledger.arrays():
            array = self._arrays[given.number] = LiveArray(
                given.number, given.token, given.order, given.parts, given.ended
            )
            array.to_submit = array.unsubmitted()
            array.doubt = bool(array.to_submit)
        self._unmade = list(self._arrays)
        for told in self.ledger.told():
            self._keep(told.number, SubgroupId(told.subgroup), told.epoch, told.facts)
        for array in self._arrays.values():
            self._follow(array, array.ended)
            # A crash may have left the files.
            if known := array.ended - array.told:
                folder = self._folder(array)
                with suppress(OSError):
                    folder.clear(known.difference(folder.over()))
            self._end(array, self._judge.shut_before(array))

    # --- what is held ----------------------------------------------------------------------------------

    def known(self) -> set[Run]:
        """Return every run claimed and not forgotten."""
        return {*self._of_run, *(run for array in self._arrays.values() for run in array.runs(array.open))}

    def told(self) -> list[Told]:
        """Return the ends that are not forgotten."""
        return [(subgroup, epoch, facts) for subgroup, epoch, facts, _ in self._told.values()]

    def fresh(self) -> list[Told]:
        """Return the ends that are new since the last call; also after a call that raised."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def at_barrier(self, *, new: bool) -> list[HeldRun]:
        """Return the runs that wait to be let go, as of the last look; `new`: only those not returned so before."""
        fresh, self._fresh_held = self._fresh_held, []
        return fresh if new else list(self._held.values())

    def held(self) -> int:
        """Return the processors of all that is not over."""
        return sum(len(array.open) * array.processors for array in self._arrays.values())

    def running(self) -> int:
        """Return the processors of tasks that the batch system said it has started, when it was last asked."""
        return sum(len(array.running) * array.processors for array in self._arrays.values())

    # --- orders ----------------------------------------------------------------------------------------

    def give(self, order: Order) -> None:
        """Take an order, durable on return; it is submitted later."""
        token = self.rows.new_token()
        number = self.ledger.give(token, order)
        self.rows.taken()
        array = self._arrays[number] = LiveArray(number, token, order)
        array.to_submit = set(array.open)
        self._unmade.append(number)
        self._make_folder(array)

    def kill(self, subgroup: SubgroupId, epoch: int, indices: IndexSet) -> None:
        """Kill these jobs: those that have not begun never will; the others' ends follow."""
        for array in self._of(subgroup, epoch):
            tasks = array.tasks_of(indices)
            array.cancelled.update(tasks)
            array.to_cancel.update(task for task in tasks if task not in array.to_submit)
            self._withdraw(array, tasks, CANCELLED)

    def recall(self, subgroup: SubgroupId, epoch: int, indices: IndexSet) -> None:
        """Recall these jobs: those that have not begun never will, and end UNBEGUN; nothing happens to the others."""
        for array in self._of(subgroup, epoch):
            self._withdraw(array, array.tasks_of(indices), RECALLED)

    def save(self, subgroup: SubgroupId, epoch: int, indices: IndexSet, signal: str, wait_s: float) -> None:
        """Ask those of these jobs that have begun to save their state and stop. Elsewhere."""
        self.rows.check()
        for array in self._of(subgroup, epoch) if indices else ():
            folder = self._folder(array)
            for task in array.tasks_of(indices) if array.order.saves else ():
                begun = folder.begun(task)
                if begun is not None and not begun.why:
                    folder.saving.ask(task, signal, wait_s)

    def steps(self) -> list[Stepped]:
        """Return the reports of running tasks that are new since the last call."""
        found: list[Stepped] = []
        for array in self._arrays.values():
            if not (array.order.reports and array.parts and array.open):
                continue
            saving = self._folder(array).saving
            for task in array.open.intersection(saving.reported()):
                news = saving.steps(task, array.reported.get(task, b""))
                if news is not None:
                    array.reported[task], steps = news
                    (run,) = array.runs([task])
                    found.append(Stepped(run, *steps))
        return found

    def _of(self, subgroup: SubgroupId, epoch: int) -> list[LiveArray]:
        key = (subgroup, epoch)
        return [array for array in self._arrays.values() if (array.order.subgroup, array.order.epoch) == key]

    def _withdraw(self, array: LiveArray, tasks: list[int], why: str) -> None:
        """End those of these tasks that have not begun; they never will."""
        self._make_folder(array)
        closed = self._judge.shut(array, tasks, why)
        cancels = array.to_cancel.union(task for task in closed if task not in array.to_submit)
        self._end(array, [self._judge.without_end(array, task) for task in closed])
        # A task that waits there for nothing takes the place of others.
        array.to_cancel = cancels

    def lease(self, origin: str, until_s: float) -> None:
        """Renew the origin's lease. `until_s`: by this machine's clock, seconds since 1970."""
        self.rows.check()
        for row in {self.rows.row(), *(self._folder(array).root.parent for array in self._arrays.values())}:
            replace_durably(row / f"lease.{origin}", b"%d\n" % until_s)

    def forget(self, runs: Iterable[Run]) -> None:
        """Forget these runs. Elsewhere: the machine that took over may not know their ends yet, and has them from
        here."""
        self.rows.check()
        numbers, known = dict[int, set[Run]](), dict[LiveArray, dict[int, Run]]()
        for run in runs:
            if run in self._of_run:
                numbers.setdefault(self._of_run[run], set()).add(run)
            if run in self._task_of:
                array, task = self._task_of[run]
                known.setdefault(array, {})[task] = run
        # First on the disk: what it refuses is still to be forgotten.
        if done := [number for number, some in numbers.items() if self._told[number][3] <= some]:
            self.ledger.forget((), done)
        for array, tasks in known.items():
            if array.number in self._arrays:
                self._folder(array).clear(tasks)
            array.told -= tasks.keys()
            for run in tasks.values():
                del self._task_of[run]
        for number, some in numbers.items():
            self._told[number][3].difference_update(some)
            for run in some:
                del self._of_run[run]
        for number in done:
            del self._told[number]
        self._drop_finished()

    def _drop_finished(self) -> None:
        """Drop arrays all of whose ends the site knows, and of which the batch system shows nothing any more."""
        over = [a for a in self._arrays.values() if not (a.open or a.told or a.to_cancel or a.waiting)]
        if over:
            self.ledger.forget([array.number for array in over], ())
            for array in over:
                self.rows.drop(array.token)
                self.waits.gone(array.number)
                del self._arrays[array.number]

    # --- the batch system ------------------------------------------------------------------------------

    def submit(self, limit: Limit = NO_LIMIT) -> Iterator[tuple[Order, str]]:
        """Submit the tasks that wait for it, as far as the limit lets them. Yields the orders that were refused, and
        why. Unreachable, and Refused where the refusal concerns every job: the rest waits."""
        taken = self._at_once() if limit.processors else 0
        for array in list(self._arrays.values()):
            if not array.to_submit or array.doubt:
                continue
            if 0 < limit.processors < array.processors:
                # It was given when more might be ours.
                self._withdraw(array, sorted(array.to_submit), RECALLED)
                array.to_submit.clear()
                continue
            count, at_once = portion(limit, len(array.to_submit), array.processors, taken, self.held())
            if not count:
                # A wide one would wait for ever behind narrow ones that come later.
                return
            part = SubmittedPart(IndexSet.of(sorted(array.to_submit)[:count]), at_once)
            folder = self._folder(array)
            self._make_folder(array)
            order = array.order
            asked = Array(
                token=array.token,
                script=str(folder.script),
                tasks=part.tasks,
                processors=array.processors,
                memory_bytes=order.memory_bytes,
                time_limit_s=_limit_s(order),
                gpus=order.gpus,
                at_once=at_once,
                licences=self._settings.licences_there(order.licences),
                mpi=order.mpi,
            )
            try:
                job = self._system.submit(asked)
            except BatchUnreachable:
                array.doubt = True
                raise
            except BatchRefused as refusal:
                if refusal.every:
                    raise
                yield order, str(refusal)
                continue
            self.submissions += 1
            array.submitted_s = boot_s()
            alone = not any(other.parts and other.open for other in self._arrays.values())
            self.waits.submitted(array.number, array.submitted_s, alone=alone)
            array.submitted(job, part)
            taken += array.processors * (at_once or count)
            self.ledger.submitted(array.number, array.parts)

    def _at_once(self) -> int:
        """Return the processors that may be ours at once by what was submitted."""
        return sum(array.at_once() * array.processors for array in self._arrays.values())

    def take_back(self) -> None:
        """End UNBEGUN all that was never submitted."""
        for array in list(self._arrays.values()):
            if not array.doubt:
                self._withdraw(array, sorted(array.to_submit & array.unsubmitted()), RECALLED)
                self._was_taken(array)

    def _was_taken(self, array: LiveArray) -> None:
        """Note the submissions of tasks that began: each was taken once, though nobody could say so."""
        seen = (self._folder(array).begun(task) for task in array.open)
        begun = {one.job for one in seen if one is not None and not one.why}
        if jobs := begun - {*array.parts, ""}:
            array.parts |= {job: array.whole() for job in sorted(jobs)}
            self.ledger.submitted(array.number, array.parts)
        if "" in begun and not array.parts:
            # Its gate is being written: the next listing shows by which job.
            array.doubt = True

    def refuse(self, order: Order, why: str) -> None:
        """End the runs of an order that cannot start here, but for those that have begun after all."""
        array = next(a for a in self._arrays.values() if a.order is order)
        refused = sorted(array.to_submit)
        closed = self._judge.shut(array, refused, GIVEN_UP, why)
        self._was_taken(array)
        self._end(array, [TaskOutcome(task, Outcome.NOT_STARTED, why) for task in closed])
        array.to_submit -= set(refused)

    def look(self) -> None:
        """Take in the ends that scripts told since the last look."""
        for array in list(self._arrays.values()):
            if not array.parts or not array.open:
                continue
            folder, rows = self._folder(array), list[TaskOutcome]()
            for task in folder.ended():
                end = folder.end(task) if task in array.open else None
                if end is not None:
                    outcome, error = live.outcome_of(end, array.order, task in array.cancelled)
                    rows.append(TaskOutcome(task, outcome, error, end))
            if rows:
                self.waits.began(array.number, boot_s())
            self._end(array, rows)
            if array.order.barrier_s:
                self._look_at_barrier(array, folder)
        self._drop_finished()

    def _look_at_barrier(self, array: LiveArray, folder: ArrayFolder) -> None:
        found = {held.task: held for held in folder.barrier.held() if held.task in array.open}
        for task in array.held - found.keys():
            for run in array.runs([task]):
                self._held.pop(run, None)
        for task in sorted(found.keys() - array.held):
            (run,) = array.runs([task])
            self._held[run] = one = HeldRun(run, found[task].host, found[task].port, folder.barrier, task)
            self._fresh_held.append(one)
        array.held = set(found)
        array.decided = folder.barrier.decided()

    def ask(self) -> None:
        """Ask for one listing, and end the tasks that it shows no more and that told no end."""
        self._asked_s = asked_s = boot_s()
        by_token: dict[str, list[Seen]] = {}
        for seen in self._system.listing():
            by_token.setdefault(seen.token, []).append(seen)
        lost: list[tuple[LiveArray, list[int]]] = []
        for array in list(self._arrays.values()):
            before = dict(array.parts)
            array.shown(by_token.get(array.token, []), asked_s, boot_s())
            if array.parts != before:
                self.ledger.submitted(array.number, array.parts)
            if array.running:
                self.waits.began(array.number, boot_s())
            never = self._judge.never(array)
            self._end(array, never)
            # Also tasks that are over in truth and only stand in its list.
            array.to_cancel |= {row.task for row in never} | array.ended.intersection(array.never)
            self._judge.hurry(array)
            if array.missing:
                lost.append((array, self._judge.lost(array)))
            self._judge.cancel(array)
        self._asking.history(lost, lambda array: self._folder(array).made_s())
        for array, tasks in lost:
            self._end(array, [self._judge.without_end(array, task) for task in tasks])
        known = {array.token for array in self._arrays.values()}
        for token, seen_of in by_token.items():
            # Tasks of arrays that are forgotten: submitted twice, or by a node whose ledger was put back.
            if token not in known and self.rows.ours(token):
                self._asking.call_off_strays(seen_of)
        self._drop_finished()

    def seen_running(self) -> dict[tuple[str, int], Counter[float]]:
        """Return by part how many runs the last listing showed, by the seconds since the first that showed them: whole
        ones, and no more than matter to anybody."""
        out: dict[tuple[str, int], Counter[float]] = {}
        for array in self._arrays.values():
            if array.running_since:
                ages = out.setdefault((array.order.subgroup, array.order.epoch), Counter())
                ages.update(
                    min(float(int(self._asked_s - since_s)), MOST_AGE_S) for since_s in array.running_since.values()
                )
        return out

    def hold_logs(self) -> None:
        """Give back the room of logs beyond what the group may keep; jobs write on."""
        for array in self._arrays.values():
            limit = array.order.log_limit_bytes
            if array.parts and array.open:
                for path, size_bytes in self._folder(array).logs():
                    if size_bytes > 2 * limit:
                        with suppress(FileNotFoundError):
                            hold_file(path, limit)

    def look_at_log(self, run: Run, start: int, most: int) -> LiveLog:
        """Return a stretch of the log of a run that was given to the cluster. OSError."""
        for array in self._of(run.subgroup, run.epoch):
            task = array.task_of(run.index)
            if task is None or array.attempt(task) != run.attempt:
                continue
            folder = self._folder(array)
            begun = folder.begun(task)
            if begun is None:
                return LiveLog(WAITS, run.attempt)
            if begun.why:
                return LiveLog(ENDED, run.attempt)
            ran_s = max(0.0, wall_s() - begun.at_s)
            try:
                size = folder.log(task).stat().st_size
                limit = array.order.log_limit_bytes
                at, data = read_held(folder.log(task), 0, size, limit, start, most)
            except FileNotFoundError:
                stand = OWN_FILES if array.order.stdouts and array.order.stderrs else RUNS
                return LiveLog(stand, run.attempt, runs_for_s=ran_s)
            size = max(size, at + len(data))
            return LiveLog(RUNS, run.attempt, at, size, data, limit=limit, runs_for_s=ran_s)
        return LiveLog(ENDED if run in self._of_run else UNKNOWN, run.attempt)

    # --- inside ----------------------------------------------------------------------------------------

    def _end(self, array: LiveArray, rows: list[TaskOutcome]) -> None:
        """Keep logs, outputs, and the gates of tasks that never began; then write the ends down. The files stay
        until the site knows the ends, for a machine that may have to take over. Elsewhere: one has taken over."""
        if not rows:
            return
        # The machine that took over collects what they left: if two move files, each may miss a part.
        self.rows.check()
        folder = self._folder(array)
        if any(row.end is None or row.outcome is Outcome.UNBEGUN for row in rows):
            # Whoever hears that a task never began gives it to others: no power failure may open its gate.
            folder.keep_gates()
        facts = self._ending.facts(array, folder, rows, self.rows.given_from(array.token))
        subgroup, epoch = SubgroupId(array.order.subgroup), array.order.epoch
        ended = IndexSet.of({*array.ended, *(row.task for row in rows)})
        number = self.ledger.ended(array.number, ended, subgroup, epoch, facts)
        array.over(row.task for row in rows)
        self._keep(number, subgroup, epoch, facts)
        self._fresh.append((subgroup, epoch, facts))
        self._follow(array, [row.task for row in rows])

    def _follow(self, array: LiveArray, tasks: Collection[int]) -> None:
        """Follow these tasks until their runs are forgotten."""
        for run, task in zip(array.runs(tasks), tasks, strict=True):
            if run in self._of_run:
                array.told.add(task)
                self._task_of[run] = (array, task)

    def _keep(self, number: int, subgroup: SubgroupId, epoch: int, facts: Facts) -> None:
        runs = {Run(subgroup, epoch, i, a) for i, a in zip(facts.indices, facts.attempts, strict=True)}
        self._told[number] = (subgroup, epoch, facts, runs)
        self._of_run.update(dict.fromkeys(runs, number))

    def _folder(self, array: LiveArray) -> ArrayFolder:
        return self.rows.folder(array.token)

    def _make_folder(self, array: LiveArray) -> None:
        """Make the folder, and before it those of arrays given before: a row has no gaps."""
        for number in [number for number in self._unmade if number <= array.number]:
            if each := self._arrays.get(number):
                self.rows.publish(each.token, each.order)
            self._unmade.remove(number)


def _limit_s(order: Order) -> float:
    """Return the time limit of tasks: the batch system counts from when it starts the script, the script from when the
    command begins."""
    if not order.time_limit_s:
        return 0.0
    return order.time_limit_s + hold_s(order) + longer_grace_s(order.grace_s)
