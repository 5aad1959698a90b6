"""An array as the node follows it, and conclusions from what the batch system shows of it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType

import msgspec

from diana.adapters.batch.array import memory
from diana.adapters.batch.array.barrier import LATE
from diana.adapters.batch.array.folder import CANCELLED, LOST, RECALLED, Begun, TaskEnd
from diana.adapters.batch.array.memory import EndedForMemory
from diana.adapters.batch.systems.system import Fate, Seen, Stage
from diana.adapters.lrm.spawner.protocol import UNREADY, Order
from diana.engine.journal.events import Run
from diana.model.facts import Outcome, out_of_memory
from diana.model.ids import SubgroupId
from diana.model.indexset import IndexSet

MOST_TRIES = 3
"""Times that a task which is over without having begun is submitted."""
TICKS_S = 0.1
"""Seconds by which a file system's times may show a run too short: they go by the ticks of a clock."""


class SubmittedPart(msgspec.Struct, frozen=True, array_like=True):
    """The content of one submission: these tasks, of which `at_once` may run together (0: all)."""

    tasks: IndexSet
    at_once: int = 0


class TaskVerdict(Enum):
    """The verdict on a task that the batch system shows no more, though it told no end."""

    WAIT = 1
    """Wait: its end may be on its way."""
    AGAIN = 2
    """Submit it anew: it never began."""
    OVER = 3


class LiveArray:
    """`open`: tasks whose end is not known. Task k is the run of `order.indices[k]`."""

    __slots__ = (
        "begun",
        "cancelled",
        "decided",
        "doubt",
        "ended",
        "held",
        "late",
        "missing",
        "never",
        "number",
        "open",
        "order",
        "parts",
        "reported",
        "running",
        "running_since",
        "said",
        "submitted_s",
        "to_cancel",
        "to_submit",
        "token",
        "told",
        "tried",
        "waiting",
        "why",
    )

    def __init__(
        self,
        number: int,
        token: str,
        order: Order,
        parts: Mapping[str, SubmittedPart] = MappingProxyType({}),
        ended: IndexSet | None = None,
    ) -> None:
        self.number = number
        self.token = token
        self.order = order
        self.parts = dict(parts)
        """Submissions by the ids the batch system gave them, the newest last."""
        self.ended = set(ended or ())
        self.open = set(range(len(order.indices))) - self.ended
        self.told: set[int] = set()
        """Ended tasks whose ends the engine has not said to forget."""
        self.held: set[int] = set()
        """Tasks that were seen to wait at their barrier, and not to leave it."""
        self.decided: set[int] = set()
        """Tasks that were at a barrier and are let go, or never will be."""
        self.waiting: IndexSet = IndexSet()
        """Tasks the batch system has not started, as far as it showed."""
        self.running: IndexSet = IndexSet()
        """Tasks it says it has started."""
        self.running_since: dict[int, float] = {}
        """Open ones among them, and since which listing."""
        self.begun: set[int] = set()
        """Running tasks whose gate was seen."""
        self.late: dict[int, float] = {}
        """Tasks said to run whose gate was not seen, and since when."""
        self.to_submit: set[int] = set()
        self.doubt = False
        """True while only the batch system can show whether the array was submitted."""
        self.cancelled: set[int] = set()
        self.to_cancel: set[int] = set()
        """Cancelled tasks of which the batch system is still to be told."""
        self.missing: dict[int, float] = {}
        """Tasks it shows no more, and since when."""
        self.never = IndexSet()
        """Tasks that wait for something that will never come."""
        self.submitted_s = 0.0
        self.reported: dict[int, bytes] = {}
        """The last report of each open task, as it wrote it."""
        self.tried: dict[int, int] = {}
        """Number of times this process submitted each open task."""
        self.why = ""
        """The batch system's last word on why tasks wait."""
        self.said: dict[int, Seen] = {}
        """The batch system's word on how open tasks ended."""

    def attempt(self, task: int) -> int:
        return self.order.attempts[task] if self.order.attempts else 1

    @property
    def processors(self) -> int:
        """The processors of one task."""
        return max(1, self.order.processors)

    def whole(self) -> SubmittedPart:
        return SubmittedPart(IndexSet.span(0, len(self.order.indices)))

    def submitted(self, job: str, part: SubmittedPart) -> None:
        """Note that the batch system took a part."""
        self.parts[job] = part
        for task in part.tasks:
            self.to_submit.discard(task)
            self.tried[task] = self.tried.get(task, 0) + 1

    def unsubmitted(self) -> set[int]:
        """Return the open tasks that no submission is known of."""
        return self.open.difference(*(part.tasks for part in self.parts.values()))

    def at_once(self) -> int:
        """Return the number of tasks that may run together, as they were submitted; also tasks of which it is in
        doubt whether they were."""
        found = len(self.to_submit) if self.doubt else 0
        left = self.open - self.to_submit
        for part in reversed(self.parts.values()):
            mine = left.intersection(part.tasks)
            left -= mine
            found += min(len(mine), part.at_once or len(mine))
        return found

    def runs(self, tasks: Iterable[int]) -> Iterator[Run]:
        order = self.order
        for task in tasks:
            yield Run(SubgroupId(order.subgroup), order.epoch, order.indices[task], self.attempt(task))

    def tasks_of(self, indices: IndexSet) -> list[int]:
        """Return the open tasks that run one of these."""
        return [task for task in sorted(self.open) if self.order.indices[task] in indices]

    def task_of(self, index: int) -> int | None:
        """Return the open task that runs this."""
        task = bisect_left(self.order.indices, index)
        return task if self.order.indices[task : task + 1] == [index] and task in self.open else None

    def over(self, tasks: Iterable[int]) -> None:
        for task in tasks:
            self.open.discard(task)
            self.ended.add(task)
            self.missing.pop(task, None)
            self.late.pop(task, None)
            self.begun.discard(task)
            self.held.discard(task)
            self.running_since.pop(task, None)
            self.said.pop(task, None)
            self.to_cancel.discard(task)
            self.to_submit.discard(task)
            self.tried.pop(task, None)
            self.reported.pop(task, None)

    def shown(self, seen: list[Seen], asked_s: float, now_s: float) -> None:
        """Take in a listing asked for at `asked_s`. `seen`: its entries of this array."""
        alive = IndexSet.union(each.tasks for each in seen if each.stage is not Stage.OVER)
        self.waiting = IndexSet.union(each.tasks for each in seen if each.stage is Stage.WAITING)
        self.running = IndexSet.union(each.tasks for each in seen if each.stage is Stage.RUNNING)
        # A task on its way to the barrier runs already by the listing, and has begun nothing.
        began = self.open & self.decided if self.order.barrier_s else self.open
        self.running_since = {k: self.running_since.get(k, asked_s) for k in self.running if k in began}
        self.never = IndexSet.union(each.tasks for each in seen if each.never)
        self.why = next((each.why for each in seen if each.stage is Stage.WAITING and each.why), "")
        found: dict[str, list[IndexSet]] = {}
        for each in seen:
            if news := each.tasks - self.parts.get(each.job, SubmittedPart(IndexSet())).tasks:
                # Taken after all, though nobody could say so, or submitted by the machine before this one.
                found.setdefault(each.job, []).append(news)
                self.to_submit -= set(news)
            if each.stage is Stage.OVER and each.why:
                self.said.update((task, each) for task in each.tasks if task in self.open)
        for job, news_of in found.items():
            known = self.parts.get(job, SubmittedPart(IndexSet()))
            self.parts[job] = SubmittedPart(IndexSet.union((known.tasks, *news_of)), known.at_once)
        if self.doubt:
            self.doubt = False
            return
        if self.submitted_s >= asked_s:
            return
        gone = [task for task in self.open - self.to_submit if task not in alive]
        self.missing = {task: self.missing.get(task, now_s) for task in gone}


def conclude(begun: Begun | None, cancelled: bool, missing_s: float, settle_s: float, tries: int) -> TaskVerdict:
    """Judge a task that the batch system has shown no more for `missing_s`."""
    if begun is not None and begun.why:
        return TaskVerdict.OVER
    if cancelled:
        return TaskVerdict.OVER
    if missing_s < settle_s:
        return TaskVerdict.WAIT
    return TaskVerdict.AGAIN if begun is None and tries < MOST_TRIES else TaskVerdict.OVER


def outcome_of(end: TaskEnd, order: Order, cancelled: bool) -> tuple[Outcome, str]:
    """Return how an attempt ended whose script told its end; with an error where the end is none of the command's
    own."""
    if end.flag == "l":
        return Outcome.LEASE_OVER, ""
    if end.flag == "b":
        return (Outcome.CANCELLED if cancelled else Outcome.UNBEGUN), ""
    if end.flag == "w":
        return Outcome.NOT_STARTED, (
            f"its working folder is not on {end.machine}; keep the node's data directory on a file system that the "
            "cluster's machines share"
        )
    if end.flag == "s":
        return Outcome.NOT_STARTED, f"no scratch directory could be made on {end.machine}; see TMPDIR and /tmp there"
    if end.flag == "u":
        return Outcome.NOT_STARTED, f"on {end.machine}: {UNREADY}"
    if end.flag == "n":
        return Outcome.NOT_STARTED, f"the command was not found on {end.machine}; install it there or give its path"
    if end.exit_code == 0:
        return Outcome.DONE, ""
    if cancelled:
        return Outcome.CANCELLED, ""
    if end.flag == memory.FLAG:
        return Outcome.FAILED, ran_out(order, end.peak_bytes)
    if end.flag == "c":
        return Outcome.CHECKPOINTED, ""
    ran_s = end.ended_s - end.started_s
    if order.time_limit_s and end.exit_code in (124, 137) and ran_s >= order.time_limit_s - TICKS_S:
        return Outcome.TIMED_OUT, ""
    return Outcome.FAILED, ""


def ran_out(order: Order, used_bytes: int) -> str:
    """Return the error of a task of the order that was ended for its memory, without the job's name before it."""
    return out_of_memory(order.group, used_bytes, order.memory_bytes).removeprefix(f"{order.group}: ")


_OF_FATE = {Fate.TIME_LIMIT: Outcome.TIMED_OUT, Fate.LIMIT: Outcome.FAILED, Fate.MACHINE_LOST: Outcome.INTERRUPTED}


def outcome_without_end(
    begun: Begun | None,
    cancelled: bool,
    seen: Seen | None,
    kind: str,
    order: Order,
    too_much: EndedForMemory | None = None,
) -> tuple[Outcome, str]:
    """Return how an attempt ended whose script told no end. `seen`, `too_much`: what the batch system says of it."""
    if cancelled or (begun is not None and begun.why == CANCELLED):
        return Outcome.CANCELLED, ""
    if begun is not None and begun.why in (RECALLED, LATE):
        return Outcome.UNBEGUN, ""
    if begun is not None and begun.error:
        return Outcome.NOT_STARTED, begun.error
    why = seen.why if seen is not None else ""
    said = f" ({why})" if why else ""
    if begun is not None and begun.why == LOST:
        return Outcome.UNBEGUN, f"{kind} ended it on {begun.machine} before its gang was let go{said}"
    if begun is None or begun.why:
        return Outcome.NOT_STARTED, (
            f"{kind} ended it {MOST_TRIES} times before it began{said}; see that the cluster's machines have the "
            "node's data directory, and the cluster's log"
        )
    if too_much is not None or (seen is not None and seen.fate is Fate.MEMORY):
        return Outcome.FAILED, ran_out(order, too_much.used_bytes if too_much is not None else 0)
    if seen is not None and seen.fate is not None:
        done = "lost" if seen.fate is Fate.MACHINE_LOST else "ended"
        return _OF_FATE[seen.fate], f"{kind} {done} it on {begun.machine}: {why}"
    return Outcome.UNKNOWN, (
        f"it began on {begun.machine} and told no end{said}; look at its log, then rerun or give up the job"
    )
