"""Verdicts on tasks that told no end, and on gates the node shuts: by gates and by what the batch system shows."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from diana.adapters.batch.array import live
from diana.adapters.batch.array.ending import TaskOutcome
from diana.adapters.batch.array.folder import CANCELLED, GIVEN_UP, LOST
from diana.adapters.batch.array.live import LiveArray, TaskVerdict
from diana.adapters.batch.array.rows import Rows
from diana.adapters.batch.array.script import Dialect
from diana.adapters.batch.asking import Asking
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.lrm.spawner.identity import boot_s
from diana.model.facts import Outcome
from diana.model.indexset import IndexSet

_log = logging.getLogger("diana.batch")


class Judge:
    """Methods block. OSError; `ArraysElsewhere` before a gate is shut that another machine may want open. `name`: the
    cluster's, for the log; `kind`: the batch system's, for errors."""

    def __init__(
        self, rows: Rows, settings: ClusterSettings, asking: Asking, name: str, kind: str, dialect: Dialect
    ) -> None:
        self._rows = rows
        self._settings = settings
        self._asking = asking
        self._name = name
        self._kind = kind
        self._dialect = dialect

    def shut(self, array: LiveArray, tasks: Iterable[int], why: str, error: str = "") -> list[int]:
        """Shut the gates of these tasks; return those that have not begun, and never will. `error`: as
        `ArrayFolder.close_gate` takes it."""
        tasks, folder = list(tasks), self._rows.folder(array.token)
        if tasks:
            # An array that was taken over may be about to start there.
            self._rows.check()
        return [task for task in tasks if folder.close_gate(task, why, error)]

    def shut_before(self, array: LiveArray) -> list[TaskOutcome]:
        """Return rows of tasks still to be submitted whose gates were shut already: this process, or the machine it
        took over from, died before it wrote their ends down."""
        gates = self._rows.folder(array.token).shut(array.to_submit) if array.to_submit else []
        return [self.without_end(array, task) for task in gates]

    def without_end(self, array: LiveArray, task: int) -> TaskOutcome:
        begun = self._rows.folder(array.token).begun(task)
        said = array.said.get(task)
        order = array.order
        too_much = self._rows.folder(array.token).memory.too_much(task, order, self._dialect.too_much)
        outcome, error = live.outcome_without_end(begun, task in array.cancelled, said, self._kind, order, too_much)
        return TaskOutcome(task, outcome, error, begun=begun, peak_bytes=too_much.used_bytes if too_much else 0)

    def lost(self, array: LiveArray) -> list[int]:
        """Return those of the tasks the batch system shows no more that are over; mark for a new submission those
        that never began."""
        folder, over, now_s = self._rows.folder(array.token), list[int](), boot_s()
        there, never = set(folder.ended()), dict[str, list[int]]()
        for task, since_s in sorted(array.missing.items()):
            if task in there:
                continue
            begun, cancelled = folder.begun(task), task in array.cancelled
            verdict = live.conclude(
                begun, cancelled, now_s - since_s, self._settings.settle_s, array.tried.get(task, 0)
            )
            if verdict is TaskVerdict.OVER and begun is not None:
                if not begun.why and array.order.barrier_s:
                    # Where it was at its barrier still, nobody lets it go any more.
                    self.shut(array, [task], CANCELLED if cancelled else LOST)
                over.append(task)
            elif verdict is TaskVerdict.OVER:
                # A task that is said not to have begun never may: a system that shows it no more may find it again.
                never.setdefault(CANCELLED if cancelled else GIVEN_UP, []).append(task)
            elif verdict is TaskVerdict.AGAIN:
                _log.warning("%s: task %d of %s never began; submitted anew", self._name, task, array.order.subgroup)
                array.to_submit.add(task)
                del array.missing[task]
        for why, tasks in never.items():
            over += self.shut(array, tasks, why)
        return sorted(over)

    def never(self, array: LiveArray) -> list[TaskOutcome]:
        """Give up the tasks that the batch system has and will never start."""
        error = f"{self._kind} would never start it: {array.why}"
        tasks = self.shut(array, sorted(array.open.intersection(array.never)), GIVEN_UP, error)
        return [TaskOutcome(task, Outcome.NOT_STARTED, error) for task in tasks]

    def hurry(self, array: LiveArray) -> None:
        """Call off tasks that run, as the batch system says, though they did not begin, or ended long ago: a
        controller that lost its memory may think so for ever. The former are submitted anew, their gates are open;
        the others' places are freed.
        """
        folder, now_s = self._rows.folder(array.token), boot_s()
        unseen = [task for task in array.running if task in array.open and task not in array.begun]
        open_ = {task for task in unseen if folder.begun(task) is None}
        array.begun |= set(unseen) - open_
        over = {task for task in array.running if task in array.ended}
        array.late = {task: array.late.get(task, now_s) for task in open_ - array.to_submit | over}
        # Each wait is longer than the last: a machine may take its time to boot.
        begin_s, tried = self._settings.begin_s, array.tried
        late = {k for k, since_s in array.late.items() if now_s - since_s >= begin_s * 2 ** max(0, tried.get(k, 0) - 1)}
        if not late:
            return
        _log.warning("%s: %d tasks of %s do not run, though it says so", self._name, len(late), array.order.subgroup)
        self._asking.call_off(array.parts, IndexSet.of(late))
        array.to_submit |= late & open_
        for task in late:
            del array.late[task]

    def cancel(self, array: LiveArray) -> None:
        """Cancel what is to be cancelled; repeated at each listing until it shows the tasks no more."""
        array.to_cancel &= {*array.waiting, *(array.open - array.missing.keys())}
        # Tasks withdrawn before it was known that they wait there, or by a process that died since.
        array.to_cancel |= array.ended.intersection(array.waiting)
        if array.to_cancel:
            self._asking.call_off(array.parts, IndexSet.of(array.to_cancel))
