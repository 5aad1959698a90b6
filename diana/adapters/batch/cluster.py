"""The node's side of a cluster: a worker of the site like its machines, whose jobs a batch system starts.

Everything that blocks happens in one thread, in turns: orders that came are prepared and written down together, one
look takes in what ended, what is to be submitted leaves in one order per subgroup, and now and then one question tells
what waits. So a turn costs the batch system the same, however many jobs there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import astuple

from diana.adapters.batch import allotment
from diana.adapters.batch.array.ending import Ending, ran_for
from diana.adapters.batch.array.rows import ArraysElsewhere
from diana.adapters.batch.book import Book, Stepped, Told
from diana.adapters.batch.feeding import Feeding
from diana.adapters.batch.holding import ClusterBarrier
from diana.adapters.batch.orders import Orders, together
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems.system import BatchRefused, BatchSystem, BatchUnreachable, ClusterCapacity
from diana.adapters.lrm.collect import OutputCollector
from diana.adapters.lrm.inputs.placing import COPY_BYTES
from diana.adapters.lrm.kept_folders import KEEP_FAILED_S, KeptFolders
from diana.adapters.lrm.plans import Plans
from diana.adapters.lrm.prepare import Preparer, Unready
from diana.adapters.lrm.reports import failed_facts
from diana.adapters.lrm.runas.accounts import Accounts
from diana.adapters.lrm.software import NONE, Software
from diana.adapters.lrm.spawner.identity import boot_s, wall_s
from diana.adapters.subgrid.delivery import LogSegments
from diana.adapters.tasks import begin, end, keep_up
from diana.engine.journal.effects import Go, KillRuns, RecallRuns, RenewLease, SaveRuns, Start, TellRoster
from diana.engine.journal.events import JobsEnded, LrmLost, LrmReady, LrmSized, Run, RunsSeen, StepsReported
from diana.errors import DianaError, StoreFailed
from diana.model.ids import SiteId, SubgroupId
from diana.model.job.grace import SITE_GRACE_S
from diana.model.job.software import BARRIER, CHECKPOINT, FOUND
from diana.model.kept_log import UNKNOWN, LiveLog
from diana.model.layout import DataDir
from diana.ports import Emit

_log = logging.getLogger("diana.batch")
_FIRST_WAIT_S = 5.0
_PATIENCE_S = 30.0
"""Seconds of silence after which a batch system is given no more."""
_REFUSED_FIRST_S, _REFUSED_MOST_S = 60.0, 3600.0
"""First and longest seconds until it is tried anew after having refused what any job needs."""
_CUT_EVERY_S = 30.0
_GATHER_S = 0.05
"""Seconds waited after waking, so that orders of one moment leave together."""

_LATE_SHARE = 0.2

Shape = tuple[int, int, int, int, tuple[str, ...]]
"""Processors, memory in bytes and GPUs that one job may have there; all GPUs; software."""
T = TypeVar("T")


class ClusterLrm:
    """`ports.LocalResourceManager` for one cluster. Build it and call it in one running loop.

    `clock` gives site time in seconds; `term` that of the leader it obeys. Emits LrmReady once the batch system has
    answered, LrmLost when it stopped answering, LrmSized when it has more or fewer slots for us.
    """

    def __init__(
        self,
        data: DataDir,
        site: SiteId,
        name: str,
        settings: ClusterSettings,
        system: BatchSystem,
        emit: Emit,
        clock: Callable[[], float],
        *,
        term: int = 0,
        leader: str = "main",
        software: Software = NONE,
        before: Callable[[], str] = lambda: "",
        keep_failed_s: float = KEEP_FAILED_S,
        copy_bytes: int = COPY_BYTES,
        most_grace_s: float = SITE_GRACE_S,
    ) -> None:
        """`software`: what the site offers; the cluster's settings may say otherwise for it. `before`: the `identity`
        under which it was ready when it was given what the site's journal shows there; empty: nothing is."""
        self._data = data = DataDir(data.root.resolve())
        self.name = name
        self._site = site
        self._settings = settings
        self._system = system
        self._emit = emit
        self._clock = clock
        self._term = term
        self._before = before
        nobody = Accounts({})
        self._software = software
        preparer = Preparer(data, site, nobody, copy_bytes, most_grace_s)
        self._orders = Orders(Plans(data, settings.offers(software)), preparer, name)
        segments = LogSegments(data.logs_root, name, leader=leader)
        collector = OutputCollector(data, site, nobody.release, KeptFolders(data, keep_failed_s))
        self._ending = Ending(site, name, segments, collector, clock)
        self._feeding = Feeding(settings.look_s)
        self._book: Book | None = None
        self._barrier = ClusterBarrier(name, emit, self._check)
        self._session = 0
        self._ready = False
        self._capacity: ClusterCapacity | None = None
        self._trouble = ""
        self._greeted_as: Shape = (0, 0, 0, 0, ())
        self._sized: tuple[int, int] = (0, 0)
        self._told_trouble = ""
        self._late_s = self._told_late_s = 0.0
        self._silent_since_s = 0.0
        self._refused_until_s = self._refused_for_s = 0.0
        self._asked_s = self._cut_s = 0.0
        self._told_seen: dict[tuple[str, int], tuple[tuple[float, int], ...]] = {}
        """Part -> what it was last told to have running there, and for how long."""
        self._known: set[Run] = set()
        self._starts: list[Start] = []
        self._kills: list[KillRuns] = []
        self._recalls: list[RecallRuns] = []
        self._saves: list[SaveRuns] = []
        self._leases: dict[SiteId, float] = {}
        self._forgets: list[Run] = []
        self._failed: dict[Run, Unready] = {}
        """Runs that could not be prepared, so were never given; kept until forgotten."""
        self._thread = ThreadPoolExecutor(1, f"cluster-{name}")
        self._wake = asyncio.Event()
        self._greeted = asyncio.Event()
        """Set once it was ready, or cannot be."""
        self._keeper: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Start. LrmReady is emitted on return, unless the batch system takes longer than a moment; then it follows."""
        self._keeper = keep_up(self._keep_up, f"cluster {self.name}")
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_WAIT_S):
                await self._greeted.wait()

    async def close(self) -> None:
        """Stop. Jobs that run there run on; orders that came before are given to it at the next start."""
        await end(self._keeper)
        if self._book is not None and self._ready:
            with suppress(DianaError, OSError):
                await self._settle_orders(self._book)
        # After what the thread is at.
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close_book)
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._barrier.close()

    def set_term(self, term: int) -> None:
        """Obey another leader from now on: nothing ordered under an older term is given any more."""
        if term != self._term:
            self._term = term
            self._lose("")
            self._wake.set()

    # --- orders ----------------------------------------------------------------------------------------

    def use(self, software: Software) -> None:
        """Use this software for jobs that are ordered from now on."""
        self._software = software
        self._orders.use(self._settings.offers(software))
        # A job may have more or less there than was told.
        self._asked_s = 0.0
        self._wake.set()

    def start(self, order: Start) -> None:
        if order.session != self._session or order.term != self._term or not self._ready:
            return
        self._starts.append(order)
        self._wake.set()

    def kill(self, order: KillRuns) -> None:
        self._barrier.drop(order.subgroup, order.epoch, order.indices)
        self._kills.append(order)
        self._wake.set()

    def go(self, order: Go) -> None:
        begin(self._let_go(order), "a gang that is let go")

    def recall(self, order: RecallRuns) -> None:
        self._barrier.drop(order.subgroup, order.epoch, order.indices)
        self._recalls.append(order)
        self._wake.set()

    def save(self, order: SaveRuns) -> None:
        self._saves.append(order)
        self._wake.set()

    def tell_roster(self, order: TellRoster) -> None:
        """Tell nobody: a cluster does not offer `SPARES`, and is given no gang that has any."""

    def lease(self, order: RenewLease) -> None:
        self._leases[order.origin] = order.until_s
        self._wake.set()

    def forget(self, runs: tuple[Run, ...], worker: str = "") -> None:
        self._forgets += runs
        self._wake.set()

    async def look_at_log(self, run: Run, start: int, most: int) -> LiveLog:
        """Return a stretch of the log of a run that was given to the cluster."""
        book = self._book
        if book is None:
            return LiveLog(UNKNOWN, run.attempt, note=f"cluster {self.name} is not there")
        try:
            return await self._in_thread(lambda: book.look_at_log(run, start, most))
        except OSError as fault:
            return LiveLog(UNKNOWN, run.attempt, note=f"its log at cluster {self.name}: {fault.strerror}")

    # --- turns -----------------------------------------------------------------------------------------

    async def _keep_up(self) -> None:
        while self._book is None:
            before = self._before()
            try:
                self._book = await self._in_thread(lambda b=before: self._open_book(b))  # type: ignore[misc]
            except (ArraysElsewhere, OSError, StoreFailed) as fault:
                # Nothing is known of what it holds; another file system may come, or an operator's word.
                self._lose(_line(fault))
                await asyncio.sleep(self._settings.ask_s)
        if self._ready:
            # After a fault of ours orders may be lost: what is held is told anew.
            self._lose("")
        while True:
            began_s = boot_s()
            try:
                await self._turn(self._book)
            except BatchUnreachable as silence:
                self._silent(str(silence))
            except BatchRefused as refusal:
                await self._refused(self._book, str(refusal))
            except (OSError, StoreFailed, ArraysElsewhere) as fault:
                self._lose(_line(fault))
            # Whatever broke the turn off: what ended in it is on disk.
            self._tell_fresh(self._book)
            await self._rest(self._book, began_s)

    async def _rest(self, book: Book, began_s: float) -> None:
        """Wait until the next look, so that orders that come together leave together; with nothing there, until an
        order."""
        until_s = began_s + self._settings.look_s
        if not book.held() and self._ready:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.ask_s):
                    await self._wake.wait()
            until_s = boot_s() + min(_GATHER_S, self._settings.look_s)
        await asyncio.sleep(max(0.0, until_s - boot_s()))
        self._wake.clear()

    async def _turn(self, book: Book) -> None:
        now_s = boot_s()
        if not self._ready and now_s >= self._refused_until_s:
            await self._in_thread(book.rows.check)
            self._capacity = await self._in_thread(self._system.capacity)
            self._trouble, self._silent_since_s = "", 0.0
            self._greet(book)
        asking = now_s >= self._asked_s + self._settings.ask_s
        await self._take_in(book, asking=asking)
        if asking and self._ready and now_s >= self._refused_until_s:
            self._capacity = await self._in_thread(self._system.capacity)
            self._trouble = ""
            self._late_s = await self._in_thread(lambda: self._expected_late_s(book))
            self._silent_since_s = 0.0
            if self._shape() != self._greeted_as:
                # A job may have more or less there than was told.
                self._greet(book)
        if now_s >= self._cut_s + _CUT_EVERY_S:
            self._cut_s = now_s
            await self._in_thread(book.hold_logs)
        self._size()

    async def _take_in(self, book: Book, *, asking: bool) -> None:
        """Take orders in, and ends out."""
        await self._settle_orders(book)
        if not book.held():
            self._feeding.idle()
        await self._in_thread(book.look)
        self._feeding.ended(self._tell_fresh(book), boot_s())
        if self._ready:
            self._barrier.tell(book.at_barrier(new=True))
            self._tell_steps(await self._in_thread(book.steps))
        await self._submit(book)
        if asking:
            self._asked_s = boot_s()
            await self._in_thread(book.ask)
            self._tell_fresh(book)
            self._tell_seen(book)

    async def _settle_orders(self, book: Book) -> None:
        forgets, self._forgets = self._forgets, []
        if forgets:
            for run in forgets:
                self._known.discard(run)
                self._failed.pop(run, None)
            await self._in_thread(lambda: book.forget(forgets))
        leases, self._leases = self._leases, {}
        for origin, until_s in leases.items():
            await self._in_thread(lambda o=origin, u=until_s: book.lease(o, wall_s() + u - self._clock()))  # type: ignore[misc]
        starts, self._starts = self._starts, []
        for order in together(starts):
            await self._give(book, order)
        kills, self._kills = self._kills, []
        for kill in kills:
            await self._in_thread(lambda k=kill: book.kill(k.subgroup, k.epoch, k.indices))  # type: ignore[misc]
        recalls, self._recalls = self._recalls, []
        for back in recalls:
            await self._in_thread(lambda b=back: book.recall(b.subgroup, b.epoch, b.indices))  # type: ignore[misc]
        saves, self._saves = self._saves, []
        for ask in saves:
            await self._in_thread(lambda a=ask: book.save(a.subgroup, a.epoch, a.indices, a.signal, a.wait_s))  # type: ignore[misc]
        if kills or recalls:
            # Killed and recalled jobs are looked at sooner.
            self._asked_s = min(self._asked_s, boot_s() - self._settings.ask_s + 1.0)

    async def _give(self, book: Book, start: Start) -> None:
        attempts = dict(start.attempts)
        fresh = [
            index
            for index in start.indices
            if Run(start.subgroup, start.epoch, index, attempts.get(index, 1)) not in self._known
        ]
        if not fresh:
            return
        self._known.update(Run(start.subgroup, start.epoch, index, attempts.get(index, 1)) for index in fresh)
        orders, unready = await self._in_thread(lambda: self._orders.of(start, fresh, self._capacity))
        # Known, but of an older session by now: the engine may have given it to others.
        if start.session != self._session or start.term != self._term:
            return
        for order in orders:
            if start.barrier_s:
                order.barrier_s = wall_s() + start.barrier_s - self._clock()
            await self._in_thread(lambda o=order: book.give(o))  # type: ignore[misc]
        if unready:
            for each in unready:
                self._failed[Run(start.subgroup, start.epoch, each.index, each.attempt)] = each
            facts = failed_facts(self._site, unready, self._clock())
            self._emit(JobsEnded(subgroup=start.subgroup, epoch=start.epoch, facts=facts))

    async def _submit(self, book: Book) -> None:
        began_s, before = boot_s(), book.submissions
        if began_s < self._refused_until_s:
            return
        limit = allotment.limit(self._settings, self._capacity)
        refused = await self._in_thread(lambda: list(book.submit(limit)))
        if arrays := book.submissions - before:
            self._feeding.submitted((boot_s() - began_s) / arrays)
            self._refused_for_s = 0.0
        for order, why in refused:
            await self._in_thread(lambda o=order, w=why: book.refuse(o, w))  # type: ignore[misc]

    # --- told to the engine ----------------------------------------------------------------------------

    def _shape(self) -> Shape:
        has = self._capacity
        known = (has.widest, has.memory_bytes, has.gpus, has.all_gpus) if has is not None else (0, 0, 0, 0)
        offer = self._settings.offer(self._software, has.licences if has is not None else ())
        return (*known, (*offer, BARRIER, CHECKPOINT, FOUND))

    def _greet(self, book: Book) -> None:
        self._session += 1
        self._ready = True
        self._told_seen = {}
        self._greeted.set()
        self._starts.clear()
        self._known = book.known() | self._failed.keys()
        self._sized, self._told_late_s, self._told_trouble = self._size_now(), 0.0, self._trouble
        widest, memory_bytes, gpus, all_gpus, software = self._greeted_as = self._shape()
        self._emit(
            LrmReady(
                worker=self.name,
                session=self._session,
                slots=self._sized[0],
                ahead=self._sized[1],
                known=tuple(sorted(self._known, key=astuple)),
                memory_bytes=memory_bytes,
                widest=widest,
                gpus=gpus,
                all_gpus=all_gpus,
                identity=book.identity,
                trouble=self._trouble,
                recalls=True,
                cluster=True,
                software=software,
                scratch_bytes=self._settings.scratch_bytes,
                looks=True,
            )
        )
        book.fresh()
        self._tell(book.told())
        if self._failed:
            self._tell_failed()
        self._barrier.tell(book.at_barrier(new=False), all_=True)

    def _tell_failed(self) -> None:
        by_part: dict[tuple[SubgroupId, int], list[Unready]] = {}
        for run, each in self._failed.items():
            by_part.setdefault((run.subgroup, run.epoch), []).append(each)
        for (subgroup, epoch), some in by_part.items():
            facts = failed_facts(self._site, some, self._clock())
            self._emit(JobsEnded(subgroup=subgroup, epoch=epoch, facts=facts))

    def _tell_fresh(self, book: Book) -> list[float]:
        """Tell the new ends; return how long each of the runs lasted, seconds."""
        told = book.fresh()
        self._tell(told)
        return [ran_s for *_, facts in told for ran_s in ran_for(facts)]

    def _tell(self, told: Iterable[Told]) -> None:
        for subgroup, epoch, facts in told:
            if self._ready:
                self._emit(JobsEnded(subgroup=subgroup, epoch=epoch, facts=facts))

    def _tell_seen(self, book: Book) -> None:
        """Tell what the listing showed to run, where it is other than told before."""
        before, self._told_seen = self._told_seen, {}
        for (subgroup, epoch), counts in book.seen_running().items():
            ages = self._told_seen[subgroup, epoch] = tuple(sorted(counts.items()))
            if self._ready and before.get((subgroup, epoch)) != ages:
                self._emit(RunsSeen(worker=self.name, subgroup=SubgroupId(subgroup), epoch=epoch, ages=ages))

    def _tell_steps(self, told: list[Stepped]) -> None:
        """Tell how far jobs are that report it."""
        now_s, parts = self._clock(), dict[tuple[SubgroupId, int], list[Stepped]]()
        for one in told:
            parts.setdefault((one.run.subgroup, one.run.epoch), []).append(one)
        for (subgroup, epoch), some in parts.items():
            steps = tuple((run.index, run.attempt, now_s - ago_s, done, total) for run, ago_s, done, total in some)
            self._emit(StepsReported(worker=self.name, subgroup=subgroup, epoch=epoch, steps=steps))

    def _size_now(self) -> tuple[int, int]:
        """Return (slots, jobs beyond them), as far as others leave them to us."""
        if self._capacity is None or boot_s() < self._refused_until_s:
            return 0, 0
        return allotment.size(self._settings, self._capacity, self._feeding.depth)

    def _expected_late_s(self, book: Book) -> float:
        """Return the seconds until others leave us a processor. 0 where some are ours: the next jobs follow those
        that run on them, and of their ends the engine knows more than a batch system that knows limits alone.
        Blocks."""
        has = self._capacity
        if has is None or not has.others or has.slots > has.others or book.running():
            return 0.0
        estimate_s = self._system.starts_in_s()
        return book.waits.expected_s(boot_s()) if estimate_s is None else estimate_s

    def _size(self) -> None:
        """Tell the engine the size when it changed, and the expected delay when it changed by enough to matter."""
        size, late_s, told_s = self._size_now(), self._late_s, self._told_late_s
        other = abs(late_s - told_s) > _LATE_SHARE * max(late_s, told_s)
        if self._ready and (other or (*size, self._trouble) != (*self._sized, self._told_trouble)):
            self._sized, self._told_late_s, self._told_trouble = size, late_s, self._trouble
            self._emit(
                LrmSized(
                    worker=self.name,
                    session=self._session,
                    slots=size[0],
                    ahead=size[1],
                    delay_s=late_s,
                    trouble=self._trouble,
                )
            )

    def _silent(self, why: str) -> None:
        """Note a silence; it may be over in a moment, and what is to be submitted waits."""
        now_s = boot_s()
        self._silent_since_s = self._silent_since_s or now_s
        if now_s - self._silent_since_s >= _PATIENCE_S:
            self._lose(f"it does not answer: {why}")

    async def _refused(self, book: Book, why: str) -> None:
        """Note that something every job needs is refused. Orders that were never submitted may go elsewhere, and the
        batch system gets no more before it is tried again: nobody is helped by asking all the time."""
        self._refused_for_s = min(max(_REFUSED_FIRST_S, 2 * self._refused_for_s), _REFUSED_MOST_S)
        self._refused_until_s = boot_s() + self._refused_for_s
        was_ready = self._ready
        self._lose(f"{self._system.kind} refuses: {why}")
        if not was_ready:
            return
        try:
            await self._in_thread(book.take_back)
            self._greet(book)
        except (OSError, StoreFailed, ArraysElsewhere) as fault:
            # Held jobs are told when it is asked again.
            _log.warning("cluster %s: %s", self.name, fault)

    def _lose(self, why: str) -> None:
        new = bool(why) and why != self._trouble
        if new:
            _log.warning("cluster %s: %s", self.name, why)
        self._trouble = why
        self._greeted.set()
        if self._ready or new:
            self._ready = False
            self._emit(LrmLost(self.name, why))

    # --- inside ----------------------------------------------------------------------------------------

    async def _let_go(self, order: Go) -> None:
        try:
            await self._barrier.go(order)
        except (OSError, ArraysElsewhere) as fault:
            # What waits there is told again once it can be reached, and the engine says so again.
            self._lose(_line(fault))

    def _check(self) -> None:
        if self._book is not None:
            self._book.rows.check()

    def _open_book(self, before: str) -> Book:
        return Book(self._data, self._site, self.name, self._settings, self._system, self._ending, before)

    def _close_book(self) -> None:
        if self._book is not None:
            self._book.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _line(fault: Exception) -> str:
    return f"{fault.filename}: {fault.strerror}" if isinstance(fault, OSError) else str(fault)
