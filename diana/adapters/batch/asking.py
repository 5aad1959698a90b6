"""Requests of a book to its batch system beside submissions and listings: to call tasks off, and how they ended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from diana.adapters.batch.array.live import LiveArray, SubmittedPart
from diana.adapters.batch.systems.system import BatchRefused, BatchSystem, BatchUnreachable, Seen, Stage
from diana.model.indexset import IndexSet

_log = logging.getLogger("diana.batch")


class Asking:
    """Methods block. `name`: the cluster's, for the log."""

    def __init__(self, system: BatchSystem, name: str) -> None:
        self._system = system
        self._name = name

    def call_off(self, parts: Mapping[str, SubmittedPart], tasks: IndexSet) -> None:
        """Cancel these tasks. Where the batch system refuses, they run on, or wait behind a closed gate: no reason
        to give it no other jobs. Unreachable."""
        for job, part in parts.items():
            if some := tasks & part.tasks:
                try:
                    self._system.cancel(job, some)
                except BatchRefused as refusal:
                    _log.warning("%s: job %s is not cancelled: %s", self._name, job, refusal)

    def call_off_strays(self, seen: Iterable[Seen]) -> None:
        for each in seen:
            if each.stage is not Stage.OVER:
                self.call_off({each.job: SubmittedPart(each.tasks)}, each.tasks)

    def history(self, lost: list[tuple[LiveArray, list[int]]], made_s: Callable[[LiveArray], float]) -> None:
        """Ask how the `lost` tasks ended whose end the listing did not show, and note it in their arrays. `made_s`
        gives the time at which an array's folder was made, by the file system's clock."""
        asked = [array for array, tasks in lost if set(tasks) - array.said.keys()]
        jobs = sorted({job for array in asked for job in array.parts})
        if not jobs:
            return
        since_s = min(map(made_s, asked))
        try:
            found = self._system.past(jobs, since_s)
        except (BatchRefused, BatchUnreachable) as silence:
            _log.info("%s: no history: %s", self._name, silence)
            return
        by_job = {job: array for array, _ in lost for job in array.parts}
        for seen in found:
            if array := by_job.get(seen.job):
                array.said.update((task, seen) for task in seen.tasks if task in array.open)
