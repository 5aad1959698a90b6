"""The node's side of the embedded LRM: a connection to the spawner, kept up, and orders and ends translated.

Nothing here blocks the loop: directories are made and outputs collected in worker threads; orders that need neither
go to the socket at once. Ends travel in columns from the spawner into `Facts`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from diana.adapters.lrm import launch, rosters
from diana.adapters.lrm.collect import CollectedBatch, OutputCollector
from diana.adapters.lrm.inputs.placing import COPY_BYTES
from diana.adapters.lrm.kept_folders import KEEP_FAILED_S, KeptFolders
from diana.adapters.lrm.plans import Plans
from diana.adapters.lrm.prepare import PreparedOrder, Preparer, Unready
from diana.adapters.lrm.reports import facts_of, failed_facts
from diana.adapters.lrm.runas.accounts import Accounts
from diana.adapters.lrm.scratch_disk import ScratchDisk
from diana.adapters.lrm.software import NONE, Software
from diana.adapters.lrm.spawner.capped import read_held
from diana.adapters.lrm.spawner.identity import boot_s
from diana.adapters.lrm.spawner.protocol import (
    MOST_PROCESSES,
    VERSION,
    AskLog,
    Ended,
    EndedRuns,
    Forget,
    HeldRuns,
    Hello,
    Kill,
    Lease,
    LetGo,
    LogPlace,
    Message,
    Recall,
    Refused,
    Save,
    SetSlots,
    Shutdown,
    StepsDone,
    Welcome,
    columns,
)
from diana.adapters.lrm.wire import Wire
from diana.adapters.tasks import begin, end, keep_up
from diana.engine.journal.effects import Go, KillRuns, RecallRuns, RenewLease, SaveRuns, Start, TellRoster
from diana.engine.journal.events import AtBarrier, JobsEnded, LrmLost, LrmReady, Run, ScratchSeen, StepsReported
from diana.errors import DianaError
from diana.model.ids import MAIN_MACHINE, SiteId, SubgroupId
from diana.model.job import declared, gang
from diana.model.job.grace import SITE_GRACE_S
from diana.model.job.resources import GPUS, Amounts, amount, of, others
from diana.model.job.software import BARRIER, CHECKPOINT, FOUND, SPARES, made_ready
from diana.model.kept_log import RUNS, UNKNOWN, LiveLog
from diana.model.layout import DataDir
from diana.model.run_columns import Runs
from diana.ports import Emit

_log = logging.getLogger(__name__)
_RETRY_FIRST_S = 0.1
_RETRY_MOST_S = 5.0
_HELLO_WAIT_S = 15.0
_LOG_WAIT_S = 5.0
_ORDER_JOBS = 500
"""Most jobs told to the spawner in one message: with the longest command lines still below a frame."""


def _free_port() -> int:
    """Return a port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


RunKey = tuple[str, int, int, int]


class LocalLrm:
    """`ports.LocalResourceManager` over processes of this machine. Build it and call it in one running loop.

    `clock` gives site time in seconds; `worker` is this machine's name in its site; `term` that of the leader it obeys:
    the spawner keeps the highest on disk and refuses a lower one. Emits LrmReady once connected, LrmLost when the
    spawner is gone (a successor is started), JobsEnded per subgroup and batch.
    """

    def __init__(
        self,
        data: DataDir,
        site: SiteId,
        slots: int,
        emit: Emit,
        clock: Callable[[], float],
        *,
        worker: str = MAIN_MACHINE,
        term: int = 0,
        accounts: Accounts | None = None,
        software: Software = NONE,
        gpus: tuple[str, ...] = (),
        resources: Mapping[str, int] | None = None,
        pins: bool = False,
        max_processes: int = MOST_PROCESSES,
        keep_failed_s: float = KEEP_FAILED_S,
        copy_bytes: int = COPY_BYTES,
        most_grace_s: float = SITE_GRACE_S,
    ) -> None:
        """`gpus`: devices of this machine that jobs are given, as CUDA names them. `resources`: what its operator
        declares besides, name -> how many; whoever orders jobs counts them. `pins`: a job runs on the processors of its
        slots alone. `max_processes`: most of one job. `keep_failed_s`: as `KeptFolders` takes it. `copy_bytes`: most
        bytes of one job's inputs that are copied. `most_grace_s`: as `Preparer` takes it."""
        # Jobs run elsewhere than this process: the paths they are told must be absolute.
        self._data = data = DataDir(data.root.resolve())
        self._site = site
        self._slots = slots
        self._gpus = gpus
        self._declared = declared.sane((resources or {}).items())
        self._pins = pins
        self._max_processes = max_processes
        self._emit = emit
        self._clock = clock
        self._worker = worker
        self._term = self._greeted = term
        self._plans = Plans(data, software)
        self._accounts = accounts or Accounts({})
        self._preparer = Preparer(data, site, self._accounts, copy_bytes, most_grace_s)
        self._folders = KeptFolders(data, keep_failed_s)
        self._collector = OutputCollector(data, site, self._accounts.release, self._folders)
        # One thread, so that orders keep their order; outputs of large batches must not hold them up.
        self._making = ThreadPoolExecutor(1, "lrm-prepare")
        self._collecting = ThreadPoolExecutor(2, "lrm-collect")
        self._waiting: deque[tuple[Start, list[int]] | KillRuns | RecallRuns] = deque()
        self._wire: Wire | None = None
        self._makes_ready = False
        """True while the spawner can run jobs in containers and after modules."""
        self._hands_out = False
        """True while the spawner gives each device to one job at a time."""
        self._holds = False
        """True while the spawner can hold runs at a barrier."""
        self._gives_back = False
        """True while the spawner can be asked to give back runs that it has not begun."""
        self._saves = False
        self._hears_own = False
        """True while the spawner can ask runs to save their state, and start others from it."""
        self._shows_logs = False
        """True while the spawner can be asked where logs are."""
        self._asked: dict[int, asyncio.Future[LogPlace]] = {}
        self._asked_last = 0
        self._session = 0
        self._known: set[RunKey] = set()
        """Runs claimed or about to be: their directories are not made anew."""
        self._failed: dict[RunKey, Unready] = {}
        """Runs that could not be prepared, so were never claimed; kept until forgotten."""
        self._in_collection: set[RunKey] = set()
        self._unsent_kills: list[KillRuns] = []
        self._leases: dict[str, float] = {}
        """Origin -> end of its lease by CLOCK_BOOTTIME; told to every spawner."""
        self._disk = ScratchDisk(self._data.root / "slots")
        self._keeper: asyncio.Task[None] | None = None
        self._first: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @staticmethod
    def launch(data: DataDir) -> None:
        """Have a spawner, started before grpc is imported. Blocks up to 15 s; DianaError says why there is none."""
        launch.ensure(data).close()

    async def connect(self) -> None:
        """Connect: on return the inventory is taken and LrmReady emitted. DianaError, but later attempts go on in
        silence."""
        self._first = asyncio.get_running_loop().create_future()
        self._keeper = keep_up(self._keep_up, "the connection to the spawner")
        await self._first

    async def look_at_disk(self) -> None:
        """Tell how full the disk of the scratch directories is, if that changed by enough; remove directories whose
        time is over."""
        await asyncio.get_running_loop().run_in_executor(self._collecting, self._folders.look)
        free_bytes = await asyncio.to_thread(self._disk.news)
        if free_bytes is not None and self._wire is not None:
            self._emit(ScratchSeen(worker=self._worker, session=self._session, free_bytes=free_bytes))

    async def close(self, *, stop_spawner: bool = False) -> None:
        """Close the connection. The spawner and its jobs live on, unless it has no jobs and `stop_spawner` asks it
        to go."""
        await end(self._keeper)
        await end(*self._tasks)
        if self._wire is not None:
            if stop_spawner:
                self._wire.send(Shutdown())
            wire, self._wire = self._wire, None
            await wire.close()
        self._making.shutdown(wait=False, cancel_futures=True)
        self._collecting.shutdown(wait=False, cancel_futures=True)

    @property
    def connected(self) -> bool:
        """True while connected to the spawner."""
        return self._wire is not None

    def set_slots(self, slots: int) -> None:
        """Change the number of slots. Running jobs keep theirs; LrmReady does not follow."""
        self._slots = slots
        if self._wire is not None:
            self._wire.send(SetSlots(max(1, slots)))

    def use(self, software: Software) -> None:
        """Use this software for jobs that are ordered from now on."""
        self._plans.use(software)

    def offered(self) -> tuple[str, ...]:
        """Return the software that jobs may ask for here (`model/job/software.py`); nothing under a spawner that would
        run them without it."""
        offered = self._plans.offered() if self._makes_ready else ()
        more = ((BARRIER, self._holds), (CHECKPOINT, self._saves), (SPARES, self._hears_own))
        return (*offered, *(name for name, has in more if has), FOUND)

    @property
    def devices(self) -> Amounts:
        """Devices that jobs may ask for here; no GPUs under a spawner that does not hand them out."""
        return of({**dict(self._declared), GPUS: len(self._gpus) if self._hands_out else 0})

    @property
    def gives_back(self) -> bool:
        """True if it gives back runs that it has not begun; a spawner of an older release does not."""
        return self._gives_back

    def set_term(self, term: int) -> None:
        """Obey another leader: the connection is made anew under its term, so that nothing ordered under an older
        one is claimed any more. LrmLost and LrmReady follow, the latter once the spawner has the term on disk."""
        if term == self._term:
            return
        self._term = term
        if self._wire is not None:
            self._wire.abort()

    async def look_at_log(self, run: Run, start: int, most: int) -> LiveLog:
        """Return a stretch of the log of a run that was given to this machine (`capped.read_held`)."""
        place = await self._place_of_log(run)
        if place is None:
            return LiveLog(UNKNOWN, run.attempt, note=f"machine {self._worker} cannot say where its log is just now")
        if place.stand != RUNS:
            note = "" if place.stand != UNKNOWN else "its start is on the way"
            return LiveLog(place.stand, run.attempt, note=note, runs_for_s=place.runs_for_s)
        loop, path = asyncio.get_running_loop(), self._data.logs_root / place.segment
        reading = partial(read_held, path, place.offset, place.size, place.limit, start, most)
        try:
            at, data = await loop.run_in_executor(self._collecting, reading)
        except OSError as fault:
            return LiveLog(UNKNOWN, run.attempt, note=f"its log at machine {self._worker}: {fault.strerror}")
        size = max(place.size, at + len(data))
        return LiveLog(RUNS, run.attempt, at, size, data, limit=place.limit, runs_for_s=place.runs_for_s)

    async def _place_of_log(self, run: Run) -> LogPlace | None:
        if self._wire is None or not self._shows_logs:
            return None
        self._asked_last = number = self._asked_last + 1
        answer: asyncio.Future[LogPlace] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._wire.send(AskLog(number, run.subgroup, run.epoch, run.index, run.attempt))
        try:
            async with asyncio.timeout(_LOG_WAIT_S):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._asked[number]

    # --- orders ----------------------------------------------------------------------------------------

    def start(self, order: Start) -> None:
        if order.session != self._session or order.term != self._term or self._wire is None:
            return
        name, attempts = (order.subgroup, order.epoch), dict(order.attempts)
        indices = list(order.indices)
        fresh = [i for i in indices if (*name, i, attempts.get(i, 1)) not in self._known] if self._known else indices
        if not fresh:
            return
        self._known.update((*name, index, attempts.get(index, 1)) for index in fresh)
        old = not self._makes_ready and made_ready(order.spec)
        if self._waiting or self._accounts.any or self._plans.needs_disk(order) or old:
            self._enqueue_start(order, fresh)
            return
        try:
            renderer = self._plans.renderer(order)
            grace_s = self._preparer.grace_s(order.spec)
            parts = [
                renderer.order(
                    *name,
                    fresh[at : at + _ORDER_JOBS],
                    attempts,
                    directory=order.directory,
                    grace_s=grace_s,
                    lease=order.lease,
                )
                for at in range(0, len(fresh), _ORDER_JOBS)
            ]
        except (ValueError, LookupError):
            # Let the careful way find out which jobs it concerns.
            self._enqueue_start(order, fresh)
            return
        for part in parts:
            part.barrier_s = self._barrier_s(order)
            self._wire.send(part)

    def _barrier_s(self, order: Start) -> float:
        """The order's barrier by CLOCK_BOOTTIME."""
        return boot_s() + order.barrier_s - self._clock() if order.barrier_s else 0.0

    def go(self, order: Go) -> None:
        """Let runs go; those of a spawner that is away are told of again when it is back, if they are held still."""
        if self._wire is not None:
            names, size = order.environment, order.size
            told = [gang.of_rank(names, i % size, size, order.spares, self._roster(order, i)) for i in order.indices]
            self._wire.send(LetGo(order.subgroup, order.epoch, list(order.indices), told))

    def kill(self, order: KillRuns) -> None:
        if self._waiting:
            self._enqueue(order)
        else:
            self._send_kill(order)

    def lease(self, order: RenewLease) -> None:
        until_s = boot_s() + order.until_s - self._clock()
        self._leases[order.origin] = until_s
        if self._wire is not None:
            self._wire.send(Lease(order.origin, until_s))

    def recall(self, order: RecallRuns) -> None:
        """Recall runs, behind the starts before it, which may wait for the disk."""
        if self._waiting:
            self._enqueue(order)
        else:
            self._send_recall(order)

    def save(self, order: SaveRuns) -> None:
        """Ask runs to save their state; those of a spawner that is away are asked when it is back."""
        if self._wire is not None and self._saves:
            bounds = order.indices.bounds
            self._wire.send(Save(order.subgroup, order.epoch, bounds, order.signal, order.wait_s))

    def _roster(self, order: Go | TellRoster, index: int) -> str:
        """Path of the file by which a component is told who computes."""
        return str(self._data.job(order.subgroup, order.epoch, index) / gang.ROSTER_NAME)

    def tell_roster(self, order: TellRoster) -> None:
        """Write the roster where the components look for it at the end of a step."""
        paths = [self._roster(order, index) for index in order.indices]
        text = gang.roster_text(order.number, order.active)
        # By the one thread that makes directories, so that a later word is written later.
        self._spawn_task(self._write_rosters(paths, text))

    async def _write_rosters(self, paths: list[str], text: str) -> None:
        await asyncio.get_running_loop().run_in_executor(self._making, rosters.write, paths, text)

    def forget(self, runs: tuple[Run, ...], worker: str = "") -> None:
        named: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for run in runs:
            key = (run.subgroup, run.epoch, run.index, run.attempt)
            self._known.discard(key)
            if self._failed.pop(key, None) is None:
                named.setdefault((run.subgroup, run.epoch), []).append((run.index, run.attempt))
        if named and self._wire is not None:
            self._wire.send(Forget(columns(named)))

    def _send_kill(self, order: KillRuns) -> None:
        if self._wire is None:
            self._unsent_kills.append(order)
        else:
            self._wire.send(Kill(order.subgroup, order.epoch, order.indices.bounds))

    def _send_recall(self, order: RecallRuns) -> None:
        """Ask the spawner to give runs back; one that is away is asked again when it is ready."""
        if self._wire is not None and self._gives_back:
            self._wire.send(Recall(order.subgroup, order.epoch, order.indices.bounds))

    def _enqueue_start(self, order: Start, indices: list[int]) -> None:
        for at in range(0, len(indices), _ORDER_JOBS):
            self._enqueue((order, indices[at : at + _ORDER_JOBS]))

    def _enqueue(self, item: tuple[Start, list[int]] | KillRuns | RecallRuns) -> None:
        self._waiting.append(item)
        if len(self._waiting) == 1:
            self._spawn_task(self._work_off())

    async def _work_off(self) -> None:
        """Work off the waiting orders. On a fault of ours the rest is dropped with the connection: the engine orders
        it anew, as the next inventory has none of it."""
        try:
            await self._each_waiting()
        except Exception:
            _log.critical("orders could not be worked off; the spawner is greeted anew", exc_info=True)
            self._waiting.clear()
            if self._wire is not None:
                self._wire.abort()

    async def _each_waiting(self) -> None:
        """Work off orders that need the disk, and those that came after them, one by one."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            item = self._waiting[0]
            if isinstance(item, KillRuns):
                self._send_kill(item)
            elif isinstance(item, RecallRuns):
                self._send_recall(item)
            else:
                order, indices = item
                if order.session != self._session or order.term != self._term:
                    self._waiting.popleft()
                    continue
                prepared = await loop.run_in_executor(self._making, self._prepare, order, indices)
                self._hand_on(order, prepared)
            self._waiting.popleft()

    def _prepare(self, order: Start, indices: list[int]) -> PreparedOrder:
        try:
            if made_ready(order.spec) and not self._makes_ready:
                raise ValueError(
                    "it wants a container, modules or MPI, and the spawner of an older release still runs jobs here; "
                    "retry it when these are done and the node was started anew"
                )
            return self._preparer.prepare(order, self._plans.renderer(order), indices)
        except ValueError as fault:
            return self._preparer.refuse(order, indices, str(fault))
        except Exception as fault:
            # Only these jobs are refused: others must not wait for them for ever.
            _log.critical("%s: jobs could not be prepared", order.subgroup, exc_info=True)
            return self._preparer.refuse(order, indices, f"internal error ({fault!r}); see the node's log")

    def _hand_on(self, order: Start, prepared: PreparedOrder) -> None:
        # A run that was not claimed before a new inventory must not be claimed after it: the engine may have
        # started it elsewhere by then.
        if self._wire is None or order.session != self._session or order.term != self._term:
            return
        if prepared.order is not None:
            prepared.order.barrier_s = self._barrier_s(order)
            self._wire.send(prepared.order)
        if prepared.unready:
            for each in prepared.unready:
                self._failed[order.subgroup, order.epoch, each.index, each.attempt] = each
            facts = failed_facts(self._site, prepared.unready, self._clock())
            self._emit(JobsEnded(subgroup=order.subgroup, epoch=order.epoch, facts=facts))

    # --- ends ------------------------------------------------------------------------------------------

    def _on_message(self, wire: Wire, message: Message) -> None:
        match message:
            case Welcome():
                self._on_welcome(wire, message)
            case Ended(batches=batches):
                for batch in batches:
                    if batch.own_directory:
                        self._spawn_task(self._collect(batch))
                    else:
                        self._report(batch, None)
            case HeldRuns(runs=runs):
                self._on_held(runs)
            case StepsDone():
                self._on_steps(message)
            case LogPlace(number=number):
                asked = self._asked.get(number)
                if asked is not None and not asked.done():
                    asked.set_result(message)
            case Refused(reason=reason):
                _log.error("%s: the spawner takes no orders from this node: %s", self._data.spawner, reason)
            case _:
                wire.abort()

    def _on_steps(self, told: StepsDone) -> None:
        ahead_s = self._clock() - boot_s()
        own = told.own or [[] for _ in told.runs]
        for named, steps, paces in zip(told.runs, told.steps, own, strict=True):
            rows = zip(named.indices, named.attempts, steps, strict=True)
            self._emit(
                StepsReported(
                    worker=self._worker,
                    subgroup=SubgroupId(named.subgroup),
                    epoch=named.epoch,
                    steps=tuple((i, a, at_s + ahead_s, done, total) for i, a, (at_s, done, total) in rows),
                    own=tuple(paces),
                )
            )

    def _on_held(self, held: list[Runs]) -> None:
        for named in held:
            subgroup, epoch = SubgroupId(named.subgroup), named.epoch
            runs = tuple(Run(subgroup, epoch, i, a) for i, a in zip(named.indices, named.attempts, strict=True))
            told = AtBarrier(worker=self._worker, subgroup=subgroup, epoch=epoch, runs=runs, port=_free_port())
            self._emit(told)

    def _on_welcome(self, wire: Wire, welcome: Welcome) -> None:
        if self._greeted != self._term:
            # The term rose since this connection's greeting.
            wire.abort()
            return
        if welcome.lost:
            _log.warning("%s", welcome.lost)
        self._wire = wire
        self._makes_ready, self._hands_out = welcome.makes_ready, welcome.hands_out
        self._gives_back, self._holds = welcome.gives_back, welcome.holds
        self._shows_logs = welcome.shows_logs
        self._saves = welcome.saves
        self._hears_own = welcome.hears_own
        self._session += 1
        self._known = {
            (named.subgroup, named.epoch, index, attempt)
            for named in welcome.known
            for index, attempt in zip(named.indices, named.attempts, strict=True)
        }
        known = sorted({*self._known, *self._failed})
        kills, self._unsent_kills = self._unsent_kills, []
        for order in kills:
            self._send_kill(order)
        self._leases = {name: until_s for name, until_s in self._leases.items() if until_s > boot_s()}
        for lease, until_s in self._leases.items():
            wire.send(Lease(lease, until_s))
        size_bytes, free_bytes = self._disk.look()
        devices = self.devices
        self._emit(
            LrmReady(
                worker=self._worker,
                session=self._session,
                slots=self._slots,
                known=tuple(Run(SubgroupId(s), epoch, index, attempt) for s, epoch, index, attempt in known),
                gpus=amount(devices, GPUS),
                all_gpus=amount(devices, GPUS),
                software=None if self._can_all(welcome) else self.offered(),
                recalls=welcome.gives_back,
                scratch_bytes=size_bytes,
                scratch_free_bytes=free_bytes,
                claim_log=welcome.log,
                resources=others(devices),
            )
        )
        if self._first is not None and not self._first.done():
            self._first.set_result(None)

    @staticmethod
    def _can_all(welcome: Welcome) -> bool:
        return welcome.makes_ready and welcome.holds and welcome.saves and welcome.hears_own

    async def _collect(self, batch: EndedRuns) -> None:
        name = (batch.subgroup, batch.epoch)
        keys = {(*name, i, a) for i, a in zip(batch.indices, batch.attempts, strict=True)}
        if not keys.isdisjoint(self._in_collection):
            # Told again while at work on it; it is told again later.
            return
        self._in_collection |= keys
        try:
            loop = asyncio.get_running_loop()
            kept = await loop.run_in_executor(self._collecting, self._collector.collect, batch)
        except OSError as fault:
            # Nothing is said to have ended before its outputs are safe; the spawner tells it again.
            _log.error("%s: outputs could not be kept: %s", batch.subgroup, fault)
        else:
            self._report(batch, kept)
        finally:
            self._in_collection -= keys

    def _report(self, batch: EndedRuns, kept: CollectedBatch | None) -> None:
        facts = facts_of(self._site, batch, kept, self._clock() - boot_s())
        self._emit(JobsEnded(subgroup=SubgroupId(batch.subgroup), epoch=batch.epoch, facts=facts))

    # --- connection ------------------------------------------------------------------------------------

    async def _keep_up(self) -> None:
        """Keep one connection after the other; start a successor where there is no spawner."""
        loop = asyncio.get_running_loop()
        pause_s, anew = _RETRY_FIRST_S, True
        while True:
            try:
                sock = await loop.run_in_executor(self._making, partial(launch.ensure, self._data, anew=anew))
                anew = False
                wire = await Wire.over(sock, self._on_message)
            except Exception as fault:
                if self._first is not None and not self._first.done():
                    self._first.set_exception(fault if isinstance(fault, DianaError) else DianaError(str(fault)))
                _log.error("%s", fault, exc_info=None if isinstance(fault, DianaError | OSError) else fault)
            else:
                began_s = loop.time()
                await self._serve(wire)
                if loop.time() - began_s > _RETRY_MOST_S:
                    pause_s = _RETRY_FIRST_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _RETRY_MOST_S)

    async def _serve(self, wire: Wire) -> None:
        term = self._greeted = self._term
        # A site whose slots are all other machines' still runs its merge commands here.
        program, gpus, most = self._accounts.program, list(self._gpus), self._max_processes
        slots = max(1, self._slots)
        wire.send(Hello(VERSION, term, self._site, slots, self._worker, program, gpus, True, self._pins, most))
        try:
            greeting = asyncio.get_running_loop().call_later(_HELLO_WAIT_S, self._give_up_unless_greeted, wire)
            # Shielded: `close` waits for the same future after this task was cancelled.
            await asyncio.shield(wire.lost)
            greeting.cancel()
        except asyncio.CancelledError:
            if self._wire is not wire:
                wire.abort()
            raise
        if self._wire is wire:
            self._wire = None
            if term == self._term:
                _log.warning("the spawner is gone; another takes over, and what it finds running stays running")
            self._emit(LrmLost(self._worker))

    def _give_up_unless_greeted(self, wire: Wire) -> None:
        if self._wire is not wire:
            wire.abort()

    def _spawn_task(self, work: Coroutine[object, object, None]) -> None:
        task = begin(work, "an order or an end of jobs")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
