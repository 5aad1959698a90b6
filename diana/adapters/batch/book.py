"""All a cluster was given and has not been told to forget: orders in, ends out, and the batch system in between.

Methods block and belong to one thread. They raise what the batch system raises (`system.Refused`, `Unreachable`),
OSError and `errors.StoreFailed` where the disk refuses; after any of these, doing the same again goes on where it was.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from diana.adapters.batch import live
from diana.adapters.batch.ending import Ending, Row
from diana.adapters.batch.folder import CANCELLED, GIVEN_UP, ArrayFolder
from diana.adapters.batch.ledger import Ledger
from diana.adapters.batch.live import LiveArray, Verdict
from diana.adapters.batch.script import Surroundings, cases, script, varies
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.system import Array, BatchSystem, Refused, Seen, Stage, Unreachable
from diana.adapters.batch.waits import Waits
from diana.adapters.durable import replace_durably, sync
from diana.adapters.lrm.spawner.identity import boot_s
from diana.adapters.lrm.spawner.protocol import Order
from diana.engine.events import Run
from diana.model.facts import Facts, Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir

_log = logging.getLogger("diana.batch")

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
    ) -> None:
        self._root = data.root / "clusters" / name
        self._data = data
        self._settings = settings
        self._system = system
        self._ending = ending
        self._around = Surroundings(site=site, cluster=name, dialect=system.dialect, setup=settings.setup)
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.ledger = Ledger(self._root / "ledger.db")
        self.identity = _identity(self._root / "identity")
        self._arrays: dict[int, LiveArray] = {}
        self._told: dict[int, tuple[SubgroupId, int, Facts, set[Run]]] = {}
        """Ends by number, and those of their runs that are not forgotten."""
        self._of_run: dict[Run, int] = {}
        self._fresh: list[Told] = []
        self.waits = Waits()
        self.submissions = 0
        """Arrays the batch system took since this process began."""
        self._begin()

    def close(self) -> None:
        self.ledger.close()

    def _begin(self) -> None:
        for given in self.ledger.arrays():
            array = self._arrays[given.number] = LiveArray(
                given.number, given.token, given.order, given.jobs, given.ended
            )
            if not array.jobs:
                array.doubt = True
                array.to_submit = set(array.open)
            # Their ends are durable; a crash may have left the files.
            with suppress(OSError):
                self._folder(array).clear(array.ended)
        for told in self.ledger.told():
            self._keep(told.number, SubgroupId(told.subgroup), told.epoch, told.facts)

    # --- what is held ----------------------------------------------------------------------------------

    def known(self) -> set[Run]:
        """Every run claimed and not forgotten."""
        return {*self._of_run, *(run for array in self._arrays.values() for run in _runs(array, array.open))}

    def told(self) -> list[Told]:
        """Ends that are not forgotten."""
        return [(subgroup, epoch, facts) for subgroup, epoch, facts, _ in self._told.values()]

    def fresh(self) -> list[Told]:
        """Of these, what is new since the last call; also after a call that raised."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def held(self) -> int:
        """Processors of all that is not over."""
        return sum(len(array.open) * max(1, array.order.processors) for array in self._arrays.values())

    def running(self) -> int:
        """Processors of what the batch system said it has started, when it was last asked."""
        return sum(len(array.running) * max(1, array.order.processors) for array in self._arrays.values())

    # --- orders ----------------------------------------------------------------------------------------

    def give(self, order: Order) -> None:
        """Durable on return; to be submitted."""
        token = f"{self.identity}.{secrets.token_hex(4)}"
        number = self.ledger.give(token, order)
        array = self._arrays[number] = LiveArray(number, token, order)
        array.to_submit = set(array.open)

    def kill(self, subgroup: SubgroupId, epoch: int, indices: IndexSet) -> None:
        """Those that have not begun never will; the others' ends follow."""
        for array in list(self._arrays.values()):
            if (array.order.subgroup, array.order.epoch) != (subgroup, epoch):
                continue
            tasks, folder, rows = array.tasks_of(indices), self._folder(array), list[Row]()
            self._make_folder(array)
            for task in tasks:
                array.cancelled.add(task)
                if task not in array.to_submit:
                    array.to_cancel.add(task)
                if folder.close_gate(task, CANCELLED):
                    rows.append(self._without_end(array, task))
            cancels = set(array.to_cancel)
            self._end(array, rows)
            # What waits there for nothing takes the place of others.
            array.to_cancel = cancels

    def lease(self, origin: str, until_s: float) -> None:
        """`until_s`: by this machine's clock, seconds since 1970."""
        replace_durably(self._root / f"lease.{origin}", b"%d\n" % until_s)

    def forget(self, runs: Iterable[Run]) -> None:
        for run in runs:
            number = self._of_run.pop(run, None)
            if number is not None:
                self._told[number][3].discard(run)
        done = [number for number, told in self._told.items() if not told[3]]
        if done:
            for number in done:
                del self._told[number]
            self.ledger.forget((), done)
        self._drop_finished()

    def _drop_finished(self) -> None:
        """Arrays all of whose ends are told, and of which the batch system shows nothing any more."""
        over = [a for a in self._arrays.values() if not a.open and not a.to_cancel and not a.waiting]
        if over:
            self.ledger.forget([array.number for array in over], ())
            for array in over:
                self.waits.gone(array.number)
                del self._arrays[array.number]
                self._folder(array).remove()

    # --- the batch system ------------------------------------------------------------------------------

    def submit(self) -> Iterator[tuple[Order, str]]:
        """Everything that waits to be submitted. Gives the orders that were refused, and why. Unreachable, and Refused
        where that concerns every job: the rest waits."""
        for array in list(self._arrays.values()):
            if not array.to_submit or array.doubt:
                continue
            folder = self._folder(array)
            self._make_folder(array)
            order = array.order
            asked = Array(
                token=array.token,
                script=str(folder.script),
                tasks=IndexSet.of(array.to_submit),
                processors=max(1, order.processors),
                memory_bytes=order.memory_bytes,
                time_limit_s=order.time_limit_s,
                gpus=order.gpus,
                licences=self._settings.licences_there(order.licences),
                mpi=order.mpi,
            )
            try:
                job = self._system.submit(asked)
            except Unreachable:
                array.doubt = True
                raise
            except Refused as refusal:
                if refusal.every:
                    raise
                yield order, str(refusal)
                continue
            self.submissions += 1
            array.submitted_s = boot_s()
            alone = not any(other.jobs and other.open for other in self._arrays.values())
            self.waits.submitted(array.number, array.submitted_s, alone=alone)
            array.jobs.append(job)
            array.to_submit = set()
            array.tries += 1
            self.ledger.submitted(array.number, array.jobs)

    def take_back(self) -> None:
        """What was never submitted is forgotten, as if it had not been given."""
        for array in list(self._arrays.values()):
            if array.jobs or array.doubt:
                continue
            folder = self._folder(array)
            self._make_folder(array)
            if not all([folder.close_gate(task, GIVEN_UP) for task in sorted(array.open)]):
                self._was_taken(array)
        self.drop_given_up()

    def drop_given_up(self) -> None:
        """Arrays none of whose tasks can ever start: taken back, in an earlier life perhaps."""
        for array in list(self._arrays.values()):
            folder = self._folder(array)
            begun = (folder.begun(task) for task in sorted(array.open))
            if not array.jobs and all(one is not None and one.why == GIVEN_UP for one in begun):
                self.ledger.forget([array.number], ())
                del self._arrays[array.number]
                folder.remove()

    def _was_taken(self, array: LiveArray) -> None:
        """What began was taken once, though nobody could say so."""
        seen = (self._folder(array).begun(task) for task in array.open)
        begun = {one.job for one in seen if one is not None and not one.why}
        if jobs := begun - {*array.jobs, ""}:
            array.jobs += sorted(jobs)
            self.ledger.submitted(array.number, array.jobs)
        if "" in begun and not array.jobs:
            # Its gate is being written: the next listing shows by which job.
            array.doubt = True

    def refuse(self, order: Order, why: str) -> None:
        """Its runs cannot start here, but for those that have begun after all."""
        array = next(a for a in self._arrays.values() if a.order is order)
        folder, refused = self._folder(array), sorted(array.to_submit)
        closed = [task for task in refused if folder.close_gate(task, GIVEN_UP)]
        self._was_taken(array)
        self._end(array, [Row(task, Outcome.NOT_STARTED, why) for task in closed])
        array.to_submit -= set(refused)

    def look(self) -> None:
        """What the scripts told since."""
        for array in list(self._arrays.values()):
            if not array.jobs:
                continue
            folder, rows = self._folder(array), list[Row]()
            for task in folder.ended():
                end = folder.end(task) if task in array.open else None
                if end is not None:
                    outcome, error = live.outcome_of(end, array.order, task in array.cancelled)
                    rows.append(Row(task, outcome, error, end))
            if rows:
                self.waits.began(array.number, boot_s())
            self._end(array, rows)
        self._drop_finished()

    def ask(self) -> None:
        """One listing; what it shows no more and what told no end comes to one."""
        asked_s = boot_s()
        by_token: dict[str, list[Seen]] = {}
        for seen in self._system.listing():
            by_token.setdefault(seen.token, []).append(seen)
        lost: list[tuple[LiveArray, list[int]]] = []
        for array in list(self._arrays.values()):
            before = tuple(array.jobs)
            array.shown(by_token.get(array.token, []), asked_s, boot_s())
            if tuple(array.jobs) != before:
                self.ledger.submitted(array.number, array.jobs)
            if array.running:
                self.waits.began(array.number, boot_s())
            self._give_up(array)
            self._hurry(array)
            if array.missing:
                lost.append((array, self._lost(array)))
            self._cancel(array)
        self._ask_history(lost)
        for array, tasks in lost:
            self._end(array, [self._without_end(array, task) for task in tasks])
        self._cancel_strays(by_token)
        self._drop_finished()

    def cut_logs(self) -> None:
        """Back to what the group may keep: what a job writes on goes on from there."""
        for array in self._arrays.values():
            limit = array.order.log_limit_bytes
            if array.jobs and array.open:
                for path, size_bytes in self._folder(array).logs():
                    if size_bytes > 2 * limit:
                        with suppress(FileNotFoundError):
                            os.truncate(path, limit)

    # --- inside ----------------------------------------------------------------------------------------

    def _lost(self, array: LiveArray) -> list[int]:
        """Of the tasks the batch system shows no more, those that are over; those that never began are to be submitted
        anew."""
        folder, over, now_s = self._folder(array), list[int](), boot_s()
        there = set(folder.ended())
        for task, since_s in sorted(array.missing.items()):
            if task in there:
                continue
            begun, cancelled = folder.begun(task), task in array.cancelled
            verdict = live.conclude(begun, cancelled, now_s - since_s, self._settings.settle_s, array.tries)
            # What is told not to have begun never may: who shows it no more may find it again.
            if verdict is Verdict.OVER and (begun is not None or folder.close_gate(task, GIVEN_UP)):
                over.append(task)
            elif verdict is Verdict.AGAIN:
                _log.warning(
                    "%s: task %d of %s never began; submitted anew", self._root.name, task, array.order.subgroup
                )
                array.to_submit.add(task)
                del array.missing[task]
        return over

    def _give_up(self, array: LiveArray) -> None:
        """Tasks that the batch system has, and will never start."""
        folder, rows = self._folder(array), list[Row]()
        for task in sorted(array.open & set(array.never)):
            if folder.close_gate(task, GIVEN_UP):
                rows.append(Row(task, Outcome.NOT_STARTED, f"{self._system.kind} would never start it: {array.why}"))
        self._end(array, rows)
        # Also what is over in truth and only stands in its list.
        array.to_cancel |= {row.task for row in rows} | array.ended.intersection(array.never)

    def _hurry(self, array: LiveArray) -> None:
        """Tasks that run, the batch system says, and did not begin, or ended long ago: a controller that lost its
        memory may think so for ever. The former are submitted anew, their gates are open; the others' places are freed.
        """
        folder, now_s = self._folder(array), boot_s()
        unseen = [task for task in array.running if task in array.open and task not in array.begun]
        open_ = {task for task in unseen if folder.begun(task) is None}
        array.begun |= set(unseen) - open_
        over = {task for task in array.running if task in array.ended}
        array.late = {task: array.late.get(task, now_s) for task in open_ - array.to_submit | over}
        # Each time it is waited longer: a machine may take its time to boot.
        patience_s = self._settings.begin_s * 2 ** max(0, array.tries - 1)
        late = {task for task, since_s in array.late.items() if now_s - since_s >= patience_s}
        if not late:
            return
        _log.warning(
            "%s: %d tasks of %s do not run, though it says so", self._root.name, len(late), array.order.subgroup
        )
        self._call_off(array.jobs, IndexSet.of(late))
        array.to_submit |= late & open_
        for task in late:
            del array.late[task]

    def _ask_history(self, lost: list[tuple[LiveArray, list[int]]]) -> None:
        """How they ended, where the listing did not say."""
        asked = [array for array, tasks in lost if set(tasks) - array.said.keys()]
        jobs = sorted({job for array in asked for job in array.jobs})
        if not jobs:
            return
        since_s = min(self._folder(array).made_s() for array in asked)
        try:
            found = self._system.past(jobs, since_s)
        except (Refused, Unreachable) as silence:
            _log.info("%s: no history: %s", self._root.name, silence)
            return
        by_job = {job: array for array, _ in lost for job in array.jobs}
        for seen in found:
            if array := by_job.get(seen.job):
                array.said.update((task, seen) for task in seen.tasks if task in array.open)

    def _cancel(self, array: LiveArray) -> None:
        """Told again at each listing until it shows them no more."""
        array.to_cancel &= {*array.waiting, *(array.open - array.missing.keys())}
        if array.to_cancel:
            self._call_off(array.jobs, IndexSet.of(array.to_cancel))

    def _cancel_strays(self, by_token: dict[str, list[Seen]]) -> None:
        """Ours, of arrays that are forgotten: submitted twice, or by a node whose ledger was put back."""
        known = {array.token for array in self._arrays.values()}
        for token, seen in by_token.items():
            if token.startswith(f"{self.identity}.") and token not in known:
                for each in seen:
                    if each.stage is not Stage.OVER:
                        self._call_off([each.job], each.tasks)

    def _call_off(self, jobs: Iterable[str], tasks: IndexSet) -> None:
        """Where it refuses, they run on, or wait behind a closed gate: no reason to give it no other jobs."""
        for job in jobs:
            try:
                self._system.cancel(job, tasks)
            except Refused as refusal:
                _log.warning("%s: job %s is not cancelled: %s", self._root.name, job, refusal)

    def _without_end(self, array: LiveArray, task: int) -> Row:
        begun = self._folder(array).begun(task)
        said = array.said.get(task)
        outcome, error = live.outcome_without_end(begun, task in array.cancelled, said, self._system.kind)
        return Row(task, outcome, error, begun=begun)

    def _end(self, array: LiveArray, rows: list[Row]) -> None:
        """Logs and outputs are kept, then the ends written down, then the files go."""
        if not rows:
            return
        folder = self._folder(array)
        facts = self._ending.facts(array, folder, rows)
        subgroup, epoch = SubgroupId(array.order.subgroup), array.order.epoch
        ended = IndexSet.of({*array.ended, *(row.task for row in rows)})
        number = self.ledger.ended(array.number, ended, subgroup, epoch, facts)
        array.over(row.task for row in rows)
        self._keep(number, subgroup, epoch, facts)
        self._fresh.append((subgroup, epoch, facts))
        folder.clear(row.task for row in rows)

    def _keep(self, number: int, subgroup: SubgroupId, epoch: int, facts: Facts) -> None:
        runs = {Run(subgroup, epoch, i, a) for i, a in zip(facts.indices, facts.attempts, strict=True)}
        self._told[number] = (subgroup, epoch, facts, runs)
        self._of_run.update(dict.fromkeys(runs, number))

    def _folder(self, array: LiveArray) -> ArrayFolder:
        return ArrayFolder(self._root / array.token)

    def _make_folder(self, array: LiveArray) -> None:
        folder = self._folder(array)
        if folder.script.exists():
            return
        order = array.order
        jobs = self._data.job(SubgroupId(order.subgroup), order.epoch, 0).parent
        text = script(order, str(folder.root), str(jobs), self._around)
        folder.make(text, cases(order) if varies(order) else "")


def _runs(array: LiveArray, tasks: Iterable[int]) -> Iterator[Run]:
    order = array.order
    for task in tasks:
        yield Run(SubgroupId(order.subgroup), order.epoch, order.indices[task], array.attempt(task))


def _identity(path: Path) -> str:
    """Names this ledger among all whose arrays one batch system shows."""
    with suppress(FileNotFoundError):
        return path.read_text().strip()
    name = secrets.token_hex(6)
    replace_durably(path, name.encode())
    sync(path.parent)
    return name
