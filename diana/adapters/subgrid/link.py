"""The RootGrid's end of one stream from a member machine: orders out, in the order they were given.

Orders whose jobs read files wait for a thread that finds out which; later orders wait with them. A link that has
ended takes no orders: the engine gives them anew when the machine is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor

from diana.adapters.subgrid import protocol
from diana.adapters.subgrid.inputs import Grants, InputBook
from diana.adapters.subgrid.protocol import FromRoot
from diana.engine.journal import columns
from diana.engine.journal.effects import Go, KillRuns, RecallRuns, SaveRuns, Start, TellRoster
from diana.engine.journal.events import JobsEnded, Run
from diana.model.data import DataFile
from diana.model.facts import JobError, Outcome
from diana.model.ids import SiteId, SubgroupId, group_of, job_id
from diana.model.indexset import IndexSet
from diana.model.job.resources import (
    ResourceOffer,
    ResourceRequest,
    capabilities_in,
    lacking,
    of_job,
    of_machine_sized,
)
from diana.model.job.software import BARRIER, CHECKPOINT, FOUND, SPARES, made_ready
from diana.model.job.spec import GroupSpec, encode_spec
from diana.model.kept_log import MOST_SHOWN_BYTES, UNKNOWN, LiveLog
from diana.ports import Emit

WAITING_BYTES = 64 << 20
"""Most bytes told and not yet taken by the stream: a machine that takes nothing is let go."""
_INDICES_PER_ORDER = 500
_SAVED_PER_ORDER = 25
"""The same where some go on from checkpoints, each of which may name many files."""
_LOG_WAIT_S = 10.0

_log = logging.getLogger("diana.subgrid")


class MemberLink:
    """Belongs to the loop. `number` tells the streams of all machines apart."""

    def __init__(
        self,
        machine: str,
        number: int,
        site: SiteId,
        book: InputBook,
        pool: Executor,
        emit: Emit,
        clock: Callable[[], float],
        term: int,
    ) -> None:
        self.term = term
        """Term under which it was greeted; under another it takes no orders."""
        self.machine = machine
        self.number = number
        self.identity = ""
        """Identity of its data directory."""
        self.may_lead = False
        self.host = ""
        """Address of the machine; empty: the site's own."""
        self.grants = Grants()
        self.session = 0
        """Session as the engine knows it; 0: no inventory told yet."""
        self.their_session = 0
        self.heard_s = clock()
        self.slowed = False
        """True once it said more than is read at once, which was told of."""
        self.busy = 0.0
        self.load_sent_s = -1.0
        """Time at which the last `Load` was sent, by the machine's clock."""
        self.delivering: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()
        self._site = site
        self._book = book
        self._pool = pool
        self._emit = emit
        self._clock = clock
        self.offer = ResourceOffer(0)
        """Latest word on the most that one job may have there."""
        self.recalls = False
        """True if it gives back runs that it has not begun."""
        self.shows_logs = False
        """True if it can be asked for logs of jobs that run there."""
        self._asked: dict[int, asyncio.Future[LiveLog]] = {}
        self._asked_last = 0
        self._told: dict[SubgroupId, set[str]] = {}
        """Subgroups it had orders of, with the refs of the files it was told."""
        self._specs: dict[SubgroupId, GroupSpec] = {}
        self._out: deque[bytes] = deque()
        self._out_bytes = 0
        self._news = asyncio.Event()
        self._waiting: deque[tuple[Start, list[int]] | KillRuns | RecallRuns | SaveRuns] = deque()
        self._working: asyncio.Task[None] | None = None

    # --- orders ----------------------------------------------------------------------------------------

    def start(self, order: Start) -> None:
        if order.session != self.session or self.ended.is_set():
            return
        if order.term != self.term:
            self.end()
            return
        indices = list(order.indices)
        saves = (CHECKPOINT,) if order.spec.checkpoint is not None else ()
        spares = (SPARES,) if order.spec.spares else ()
        found = (FOUND,) if order.spec.outputs.finds else ()
        needs = (*made_ready(order.spec), *((BARRIER,) if order.barrier_s else ()), *saves, *spares, *found)
        has = order.spec.resources
        request = ResourceRequest(has.processors, of_machine_sized(of_job(has)), capabilities_in(needs))
        for lack in lacking(request, self.offer):
            self._refuse(order, indices, f"machine {self.machine} {lack.why}", Outcome.NOT_STARTED)
            return
        if not self._waiting and not self._book.has_inputs(order):
            self._send_order(order, order.indices, [])
            return
        count = _SAVED_PER_ORDER if order.saved else _INDICES_PER_ORDER
        for at in range(0, len(indices), count):
            self._enqueue((order, indices[at : at + count]))

    def kill(self, order: KillRuns) -> None:
        if self._waiting:
            self._enqueue(order)
        else:
            self._send_kill(order)

    def recall(self, order: RecallRuns) -> None:
        if self._waiting:
            self._enqueue(order)
        else:
            self._send_recall(order)

    def save(self, order: SaveRuns) -> None:
        if self._waiting:
            self._enqueue(order)
        else:
            self._send_save(order)

    def go(self, order: Go) -> None:
        told, some = list(order.environment), order.indices.bounds
        self.send(protocol.LetGo(self.term, order.subgroup, order.epoch, some, told, order.size, order.spares))

    def tell_roster(self, order: TellRoster) -> None:
        if SPARES in self.offer.capabilities:
            some = order.indices.bounds
            self.send(protocol.RosterTold(self.term, order.subgroup, order.epoch, some, order.number, order.active))

    def forget(self, runs: list[Run]) -> None:
        for part in protocol.in_parts(runs):
            self.send(protocol.Forget(protocol.columns(part)))

    def drop(self, subgroup: SubgroupId) -> None:
        self.grants.drop(subgroup)
        self._specs.pop(subgroup, None)
        if self._told.pop(subgroup, None) is not None:
            self.send(protocol.Drop([subgroup]))

    def _enqueue(self, item: tuple[Start, list[int]] | KillRuns | RecallRuns | SaveRuns) -> None:
        self._waiting.append(item)
        if self._working is None:
            self._working = asyncio.create_task(self._work_off())

    async def _work_off(self) -> None:
        try:
            await self._each_waiting()
        except Exception:
            # Attached anew, the machine tells what it has, and the engine orders the rest again.
            _log.critical("machine %s: orders could not be worked off; its stream ends", self.machine, exc_info=True)
            self._working = None
            self.end()

    async def _each_waiting(self) -> None:
        while self._waiting:
            item = self._waiting[0]
            if isinstance(item, KillRuns):
                self._send_kill(item)
            elif isinstance(item, RecallRuns):
                self._send_recall(item)
            elif isinstance(item, SaveRuns):
                self._send_save(item)
            else:
                await self._look_and_send(*item)
            self._waiting.popleft()
        self._working = None

    async def _look_and_send(self, order: Start, indices: list[int]) -> None:
        if order.session != self.session:
            return
        files: list[DataFile] = []
        if self._book.has_inputs(order):
            try:
                loop = asyncio.get_running_loop()
                files = await loop.run_in_executor(self._pool, self._book.files_of, order, indices)
            except (ValueError, LookupError, OSError) as fault:
                self._refuse(order, indices, str(fault))
                return
            except Exception as fault:
                _log.critical("%s: inputs could not be found out", order.subgroup, exc_info=True)
                self._refuse(order, indices, f"internal error ({fault!r}); see the node's log")
                return
        # The machine may have told a new inventory meanwhile.
        if order.session == self.session:
            self._send_files(order, files)
            self._send_order(order, IndexSet.of(indices), [file.ref for file in files])

    def _send_files(self, order: Start, files: list[DataFile]) -> None:
        told = self._told.setdefault(order.subgroup, set())
        new = [file for file in files if file.ref not in told]
        self.grants.give(order.subgroup, new)
        for at in range(0, len(new), protocol.FILES_PER_MESSAGE):
            self.send(protocol.Files(order.subgroup, new[at : at + protocol.FILES_PER_MESSAGE]))
        told.update(file.ref for file in new)

    def _send_order(self, order: Start, indices: IndexSet, refs: list[str]) -> None:
        self._told.setdefault(order.subgroup, set())
        spec = self._specs.get(order.subgroup)
        if spec is not order.spec and spec != order.spec:
            self._specs[order.subgroup] = order.spec
            self.send(protocol.Spec(order.subgroup, encode_spec(order.spec)))
        self.send(
            protocol.Order(
                session=self.their_session,
                term=order.term,
                subgroup=order.subgroup,
                epoch=order.epoch,
                owner=order.owner,
                bounds=indices.bounds,
                attempts=[(i, attempt) for i, attempt in order.attempts if i in indices],
                refs=refs,
                lease=order.lease,
                hold_s=max(0.0, order.barrier_s - self._clock()) if order.barrier_s else -1.0,
                saved=[job for job in order.saved if job.index in indices],
            )
        )

    def _send_kill(self, order: KillRuns) -> None:
        self.send(protocol.Kill(self.term, order.subgroup, order.epoch, order.indices.bounds))

    def _send_recall(self, order: RecallRuns) -> None:
        if self.recalls:
            self.send(protocol.Recall(self.term, order.subgroup, order.epoch, order.indices.bounds))

    def _send_save(self, order: SaveRuns) -> None:
        if CHECKPOINT in self.offer.capabilities:
            some = order.indices.bounds
            self.send(protocol.AskToSave(self.term, order.subgroup, order.epoch, some, order.signal, order.wait_s))

    def _refuse(self, order: Start, indices: list[int], why: str, outcome: Outcome = Outcome.STAGING_FAILED) -> None:
        """End jobs that nobody can start; the machine never hears of them."""
        attempts = dict(order.attempts)
        errors = [
            JobError(index, f"{job_id(group_of(order.subgroup), index)} at site {self._site}: {why}")
            for index in indices
        ]
        count = len(indices)
        facts = columns.never_ran(
            self._site,
            indices,
            [attempts.get(index, 1) for index in indices],
            [int(outcome)] * count,
            0,
            errors,
            self._clock(),
        )
        self._emit(JobsEnded(subgroup=order.subgroup, epoch=order.epoch, facts=facts))

    # --- logs ------------------------------------------------------------------------------------------

    async def look_at_log(self, run: Run, start: int, most: int) -> LiveLog:
        """Return a stretch of the log of a run that was given to the machine."""
        if not self.shows_logs:
            return LiveLog(UNKNOWN, run.attempt, note=f"machine {self.machine} does not show logs of running jobs")
        self._asked_last = number = self._asked_last + 1
        answer: asyncio.Future[LiveLog] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self.send(protocol.ShowLog(number, run.subgroup, run.epoch, run.index, run.attempt, start, most))
        try:
            async with asyncio.timeout(_LOG_WAIT_S):
                return await answer
        except TimeoutError:
            return LiveLog(UNKNOWN, run.attempt, note=f"machine {self.machine} does not answer just now")
        finally:
            del self._asked[number]

    def shown(self, number: int, log: LiveLog) -> None:
        asked = self._asked.get(number)
        if asked is not None and not asked.done() and len(log.data) <= MOST_SHOWN_BYTES:
            asked.set_result(log)

    # --- stream ----------------------------------------------------------------------------------------

    def send(self, message: FromRoot) -> None:
        if self.ended.is_set():
            return
        encoded = protocol.encode_one(message)
        self._out.append(encoded)
        self._out_bytes += len(encoded)
        if self._out_bytes > WAITING_BYTES:
            self.end()
        self._news.set()

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the frames to be written, until the link ends."""
        while not self.ended.is_set():
            if not self._out:
                self._news.clear()
                await self._news.wait()
                continue
            some: list[bytes] = []
            size = 0
            while self._out and size < protocol.MOST_FRAME_BYTES:
                some.append(self._out.popleft())
                size += len(some[-1])
            self._out_bytes -= size
            yield protocol.pack(some)

    def end(self) -> None:
        """End the link. Idempotent. No order goes out any more, no batch comes in."""
        self.ended.set()
        self._news.set()
        self._out.clear()
        if self._working is not None:
            self._working.cancel()
            self._working = None
        if self.delivering is not None:
            self.delivering.cancel()
