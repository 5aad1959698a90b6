"""Brings the inputs of a group's merge command here: on one machine of a pair, the parts that the other gathered while
it led. A merge does not run over parts that are missing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from diana.adapters.staging.outputs.outputs import stands
from diana.adapters.staging.stager import AWAY_S, FileStager
from diana.adapters.staging.transfer.client import Away
from diana.adapters.tasks import begin, end
from diana.engine.journal import columns
from diana.engine.journal.effects import GATHERED, KillRuns, Start
from diana.engine.journal.events import JobsEnded
from diana.errors import DianaError
from diana.model.facts import JobError, Outcome, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId, group_of, job_id
from diana.model.indexset import IndexSet
from diana.node.loop.release import Passage
from diana.ports import Emit

_log = logging.getLogger("diana.node")


class Merging:
    """`outputs` gives those that count of a group, and blocks on the disk; `retried` its jobs that were tried again,
    which may have left others under their names."""

    def __init__(
        self,
        site: SiteId,
        stager: FileStager,
        outputs: Callable[[GroupId], Iterator[OutputFile]],
        emit: Emit,
        now_s: Callable[[], float],
        retried: Callable[[GroupId], IndexSet],
    ) -> None:
        self._site = site
        self._stager = stager
        self._outputs = outputs
        self._emit = emit
        self._now_s = now_s
        self._retried = retried
        self._waiting: dict[tuple[SubgroupId, int], tuple[Start, asyncio.Task[None]]] = {}

    def begin(self, order: Start, start: Callable[[], None], passage: Passage | None) -> None:
        """`start` it when all its inputs stand here; while a machine that has some is away, it waits. It fails for what
        cannot be had. The same order again, of another session, takes the place of the first."""
        key = (order.subgroup, order.epoch)
        if key in self._waiting:
            self._waiting.pop(key)[1].cancel()
        task = begin(self._run(order, start, passage), f"the merge of {group_of(order.subgroup)}")
        self._waiting[key] = (order, task)
        task.add_done_callback(partial(self._ended, key))

    def kill(self, order: KillRuns) -> bool:
        """End that merge if it was not started yet; True if there was one."""
        waiting = self._waiting.get((order.subgroup, order.epoch))
        if waiting is None or waiting[1].done():
            # Started in this very turn, it is the LRM's to end.
            return False
        if not waiting[1].cancelling():
            waiting[1].cancel()
            self._emit(self._never_ran(waiting[0], Outcome.CANCELLED, ""))
        return True

    async def stop(self) -> None:
        await end(*(task for _, task in self._waiting.values()))

    def _ended(self, key: tuple[SubgroupId, int], task: asyncio.Task[None]) -> None:
        if key in self._waiting and self._waiting[key][1] is task:
            del self._waiting[key]

    async def _run(self, order: Start, start: Callable[[], None], passage: Passage | None) -> None:
        try:
            await self._inputs(group_of(order.subgroup), order.directory)
            if passage is not None:
                await passage()
            start()
        except (DianaError, OSError) as fault:
            self._emit(self._never_ran(order, Outcome.STAGING_FAILED, str(fault)))
        except Exception as fault:
            why = f"internal error ({fault!r}); see the node's log"
            self._emit(self._never_ran(order, Outcome.STAGING_FAILED, why))
            raise

    async def _inputs(self, group: GroupId, directory: str) -> None:
        """Bring the inputs until all stand here."""
        while True:
            try:
                await self._complete(group, directory)
                return
            except Away as away:
                _log.info("the merge of %s waits: %s", group, away, extra={"group": group})
                await asyncio.sleep(AWAY_S)

    async def _complete(self, group: GroupId, directory: str) -> None:
        retried = self._retried(group)
        if directory == GATHERED:
            await self._stager.complete(group, lambda: self._outputs(group), retried)
            return
        folder = Path(directory)
        lacking = await asyncio.to_thread(
            lambda: next((o for o in self._outputs(group) if not stands(folder, o, closely=o.index in retried)), None)
        )
        if lacking is not None:
            raise DianaError(
                f"output {lacking.name} is not in {folder} on this machine as it was gathered; "
                "copy it here from the one that led when it came, and retry"
            )

    def _never_ran(self, order: Start, outcome: Outcome, why: str) -> JobsEnded:
        indices, attempts = list(order.indices), dict(order.attempts)
        facts = columns.never_ran(
            self._site,
            indices,
            [attempts.get(index, 1) for index in indices],
            [int(outcome)] * len(indices),
            0,
            [JobError(index, f"{job_id(group_of(order.subgroup), index)}: {why}") for index in indices if why],
            self._now_s(),
        )
        return JobsEnded(subgroup=order.subgroup, epoch=order.epoch, facts=facts)
