"""From what tasks left to the facts of their runs: logs go into segments of the site's own, outputs to where the
site keeps those of its own jobs. All is durable before anybody hears that the jobs ended.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import NamedTuple, get_origin

from msgspec.structs import fields

from diana.adapters.batch.array.folder import ArrayFolder, Begun, TaskEnd
from diana.adapters.batch.array.live import LiveArray
from diana.adapters.lrm.collect import OutputCollector
from diana.adapters.lrm.reports import facts_of
from diana.adapters.lrm.spawner.capped import append_kept
from diana.adapters.lrm.spawner.identity import wall_s
from diana.adapters.lrm.spawner.protocol import EndedRuns, Order
from diana.adapters.subgrid.delivery import LogSegments
from diana.model.facts import Facts, Outcome, was_out_of_memory
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of, job_id
from diana.model.layout import DataDir

EXIT_UNKNOWN = -1
_NOT_STARTED_EXIT = 127


class TaskOutcome(NamedTuple):
    """The end of one task. `end`: as its script told it; None: the script told none."""

    task: int
    outcome: Outcome
    error: str = ""
    end: TaskEnd | None = None
    begun: Begun | None = None
    peak_bytes: int = 0
    """Most memory that it used, where the batch system told it; 0: not known."""


class Ending:
    """Makes facts of ends. `clock` gives site time, seconds."""

    def __init__(
        self, site: SiteId, name: str, segments: LogSegments, collector: OutputCollector, clock: Callable[[], float]
    ) -> None:
        self._site = site
        self._name = name
        self._segments = segments
        self._collector = collector
        self._clock = clock

    def facts(
        self, array: LiveArray, folder: ArrayFolder, rows: list[TaskOutcome], given_from: Sequence[DataDir] = ()
    ) -> Facts:
        """Collect what these tasks left, durable on return, and return their facts. `given_from`: as
        `OutputCollector.collect` takes it. OSError."""
        order = array.order
        group = group_of(SubgroupId(order.subgroup))
        batch = _empty(order)
        now_s = wall_s()
        segment, fd = "", -1
        try:
            for row in rows:
                at = len(batch.indices)
                index = order.indices[row.task]
                batch.indices.append(index)
                batch.attempts.append(array.attempt(row.task))
                batch.outcomes.append(int(row.outcome))
                batch.exit_codes.append(_exit_code(row))
                started_s, ended_s = _times(row, now_s)
                batch.started_s.append(started_s)
                batch.ended_s.append(ended_s)
                batch.cpu_s.append(row.end.cpu_s if row.end else 0.0)
                batch.max_rss_bytes.append(row.end.peak_bytes if row.end else row.peak_bytes)
                if fd < 0 and folder.log(row.task).exists():
                    segment, fd = self._segments.open(group)
                offset, length, cut = _append(folder, row.task, fd, order.log_limit_bytes)
                batch.log_segments.append(segment if length else "")
                batch.log_offsets.append(offset)
                batch.log_lengths.append(length)
                batch.log_truncated.append(cut)
                if row.error:
                    name = job_id(GroupId(group), index)
                    batch.errors.append((at, f"{name} at site {self._site}, cluster {self._name}: {row.error}"))
                if order.collects:
                    batch.collects.append(order.collects[row.task])
            if fd >= 0:
                os.fsync(fd)
        finally:
            if fd >= 0:
                os.close(fd)
        kept = self._collector.collect(batch, given_from) if order.own_directory else None
        return facts_of(self._site, batch, kept, self._clock() - wall_s())


def ran_for(facts: Facts) -> list[float]:
    """Return the seconds that each run lasted, of those that began."""
    rows = zip(facts.started_s, facts.ended_s, facts.outcomes, strict=True)
    return [end_s - start_s for start_s, end_s, how in rows if how != Outcome.UNBEGUN]


def _empty(order: Order) -> EndedRuns:
    columns: dict[str, list[object]] = {field.name: [] for field in fields(EndedRuns) if get_origin(field.type) is list}
    head = {"subgroup": order.subgroup, "epoch": order.epoch, "own_directory": order.own_directory}
    return EndedRuns(**head, **columns)  # type: ignore[arg-type]


def _exit_code(row: TaskOutcome) -> int:
    if row.end is not None:
        return row.end.exit_code
    if was_out_of_memory(row.outcome, f": {row.error}"):
        return 128 + signal.SIGKILL
    return _NOT_STARTED_EXIT if row.outcome is Outcome.NOT_STARTED else EXIT_UNKNOWN


def _times(row: TaskOutcome, now_s: float) -> tuple[float, float]:
    """Return start and end, never later than now: the file system's clock may be ahead."""
    if row.end is not None:
        ended_s = min(row.end.ended_s, now_s)
        return min(row.end.started_s, ended_s), ended_s
    began = row.begun is not None and not row.begun.why
    return (min(row.begun.at_s, now_s) if row.begun is not None and began else now_s), now_s


def _append(folder: ArrayFolder, task: int, fd: int, limit: int) -> tuple[int, int, bool]:
    """Append a task's log to a segment; return (offset, length, True if something of it was left out)."""
    try:
        source = os.open(folder.log(task), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, 0, False
    try:
        offset = os.fstat(fd).st_size
        length, cut = append_kept(source, fd, limit)
        return offset, length, cut
    finally:
        os.close(source)
