"""The stager of a node: inputs brought, outputs gathered, datasets and blobs kept, all off the event loop.

A facade over `staging/`: orders become tasks, bounded in number; a subgroup's stage-ins run together, its deletion
after them, orders about one batch of outputs in turn; each ends in one `StageDone` unless it was cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from diana.adapters.file_names import BadName, parts_of
from diana.adapters.staging.catalogue.catalogue import PAGE, Catalogue
from diana.adapters.staging.catalogue.database import CatalogueFault
from diana.adapters.staging.catalogue.holdings import Content, DataReader, LocalData
from diana.adapters.staging.catalogue.inspection import files, rows, verify
from diana.adapters.staging.catalogue.registration import Tell, register
from diana.adapters.staging.catalogue.removal import (
    delete_put_aside,
    drop_group,
    drop_subgroup,
    drop_unused,
    put_outputs_aside,
)
from diana.adapters.staging.catalogue.replicas import Replicas
from diana.adapters.staging.inputs import Inputs, NotHeld
from diana.adapters.staging.lanes import Lanes
from diana.adapters.staging.limits import CHUNK_BYTES, StagingLimits
from diana.adapters.staging.outputs.beside import Beside, Forwarded
from diana.adapters.staging.outputs.delivery import OwnersFolders
from diana.adapters.staging.outputs.outputs import Lacking, OutputGatherer
from diana.adapters.staging.outputs.produced import keep_outputs, register_outputs
from diana.adapters.staging.paths import drop_file, open_file
from diana.adapters.staging.refs import LiveRef, dataset_name, parse_ref
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer.blobs import Blobs
from diana.adapters.staging.transfer.cache import Cache
from diana.adapters.staging.transfer.client import Away, Blocked, ChannelFor, FileFetcher, LocalFault, Observe
from diana.adapters.staging.transfer.pace import Moved, TransferPace
from diana.adapters.staging.transfer.service import DataService, Identify
from diana.adapters.staging.transfer.sources import Refused
from diana.adapters.staging.urls.inputs import UrlInputs, is_url_ref, without_urls
from diana.adapters.staging.urls.owned import OwnersFiles
from diana.adapters.staging.urls.urls import Urls
from diana.adapters.tasks import begin
from diana.engine.journal.effects import Gather, LookUp, RegisterOutputs, StageIn
from diana.engine.journal.events import LookedUp, OutputsInCatalogue, StageDone
from diana.errors import DianaError, UsageError
from diana.model.data import DataFile, RegisteredDataset, VerifyProgress
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.urls import DEFAULT_ALLOWED
from diana.model.kept_log import LiveLog, encode_live
from diana.model.layout import DataDir
from diana.model.views.datasets import Dataset
from diana.ports import Emit

AWAY_S = 2.0
"""Seconds between two looks for a machine that has what is needed."""
SWEEP_EVERY_S = 3600.0
"""Seconds between two looks at what all groups left that are gone, while groups go."""

_log = logging.getLogger("diana.staging")


class _ForGood(UsageError):
    """A refusal by a URL's store or by our operator: asking again would not help."""


class FileStager:
    """`ports.Stager`, plus what the client API needs. Methods belong to the event loop's thread, except
    `put_blob_bytes`, `cut_blob`, `has_blob` and `blob_path`, which block on the disk and may be called from any."""

    def __init__(
        self,
        data: DataDir,
        site: SiteId,
        emit: Emit,
        channel_for: ChannelFor,
        observe: Observe,
        limits: StagingLimits | None = None,
        allowed_urls: Sequence[str] = DEFAULT_ALLOWED,
    ) -> None:
        self._data = data
        self._site = site
        self._emit = emit
        self._limits = limits or StagingLimits()
        self._pool = ThreadPoolExecutor(self._limits.threads, thread_name_prefix="diana-data")
        self._catalogue = Catalogue(data.catalogue)
        self._observe = observe
        self._fetcher = FileFetcher(channel_for, self._observed, self._pool, self._limits)
        self._cache = Cache(data, self._catalogue, self._fetcher, self._pool, self._limits)
        self._replicas = Replicas(data, self._catalogue, self._cache, self._fetcher, self._pool, self._limits)
        self.holdings = LocalData(data, site, self._catalogue, self._replicas)
        self._places = asyncio.Semaphore(self._limits.orders)
        """Places of orders that fetch; one whose files are all here waits for none."""
        self._inputs = Inputs(
            data, site, self.holdings, self._catalogue, self._cache, self._pool, self._replicas, self._places
        )
        self._urls = Urls(site, data.root, self._pool, self._limits, allowed_urls)
        self._paces = [self._fetcher.pace, self._urls.pace]
        self._served: list[TransferPace] = []
        self._url_inputs = UrlInputs(data, self._catalogue, self._cache, self._urls, self._pool, self._places)
        self._outputs = OutputGatherer(data, site, self._fetcher, self._pool, self._limits, self._urls)
        self._blobs = Blobs(data, self._pool, self._limits)
        self._registering = asyncio.Semaphore(1)
        self._stopping = threading.Event()
        self._tickets: dict[int, tuple[asyncio.Task[None], Hashable]] = {}
        self._lanes = Lanes()
        self._dropping = asyncio.Lock()
        self._swept_s = -inf
        self._closing: set[asyncio.Task[None]] = set()
        self._drops: set[asyncio.Task[None]] = set()
        self._looking: set[asyncio.Task[None]] = set()

    def _observed(self, site: SiteId, size_bytes: int, took_s: float) -> None:
        """Pass a measured transfer on, unless it came from the site's other machine: no peer whose link anybody
        plans with."""
        beside = self._outputs.beside
        if beside is None or site != beside.name:
            self._observe(site, size_bytes, took_s)

    def stand_beside(self, beside: Beside) -> None:
        """From now on look on the site's other machine for what is not here."""
        beside.use(self._fetcher)
        self._outputs.beside = beside
        self.holdings.elsewhere = beside.open

    def deliver_by(self, delivery: OwnersFolders) -> None:
        """From now on outputs for folders of users are written by accounts of theirs."""
        self._outputs.delivery = delivery

    def show_running(self, look: Callable[[LiveRef], Awaitable[LiveLog]]) -> None:
        """From now on logs of jobs that run at this site can be read."""
        loop = asyncio.get_running_loop()

        async def shown(ref: LiveRef) -> AsyncIterator[bytes]:
            yield encode_live(await look(ref))

        self.holdings.running = lambda ref: Forwarded(loop, lambda _: shown(ref))

    def show_past(self, tell: Callable[[str, SiteId], AsyncIterator[bytes]]) -> None:
        """From now on other sites can read this site's history; `tell` judges token and site."""
        loop = asyncio.get_running_loop()
        self.holdings.past = lambda ref, site: Forwarded(loop, lambda _: tell(ref.token, site))

    def read_by(self, owners: OwnersFiles) -> None:
        """From now on files of this machine that URLs name are read by accounts of owners. OSError."""
        self._url_inputs.read_by(owners)

    @property
    def delivery(self) -> OwnersFolders | None:
        return self._outputs.delivery

    async def complete(self, group: GroupId, outputs: Callable[[], Iterator[OutputFile]], retried: IndexSet) -> None:
        """Bring all these outputs into the group's own folder on this machine, as far as the other machine has them;
        those of `retried` jobs with this content. Unreachable says what is lacking, and why."""
        await self._outputs.complete(group, outputs, retried)

    def service(self, identify: Identify) -> DataService:
        """The serving side, for the node's gRPC server."""
        service = DataService(self.holdings, self._pool, identify, self._limits)
        self._paces.append(service.pace)
        self._served.append(service.pace)
        return service

    async def close(self) -> None:
        """Stop all orders (no `StageDone` for them), finish deletions, let go of the catalogue. Twice is fine."""
        self._stopping.set()
        for ticket in list(self._tickets):
            self.cancel(ticket)
        self._urls.cancel_looks()
        for tasks in (self._closing, self._drops, self._looking):
            if tasks:
                await asyncio.wait(list(tasks))
        await self._urls.close()
        await asyncio.to_thread(self._pool.shutdown)
        self._catalogue.close()

    # --- port ------------------------------------------------------------------------------------------

    def stage_in(self, order: StageIn) -> None:
        async def work() -> int:
            try:
                moved = await self._url_inputs.stage_in(order)
            except UsageError as fault:
                raise _ForGood(str(fault)) from None
            moved += await self._inputs.stage_in(without_urls(order))
            await in_thread(self._pool, self._cache.trim)
            return moved

        self._begin(order.ticket, order.subgroup, "staging in", work, together=True)

    def gather(self, order: Gather, facts: Facts, replaced: Sequence[OutputFile] = ()) -> None:
        async def work() -> int:
            async with self._places:
                if order.saved:
                    return await self._bring_saved(order, facts)
                return await self._outputs.gather(order, facts, replaced)

        self._begin(order.ticket, order.key, "gathering outputs", work, for_good=(BadName, Blocked))

    async def _bring_saved(self, order: Gather, facts: Facts) -> int:
        """Make blobs of checkpoints, which the group uses from then on; return the bytes that travelled. Told twice,
        nothing changes."""
        group = order.key.group
        await self.use_blobs(group, {file.sha256 for file in facts.outputs})
        lacking = await in_thread(
            self._pool, lambda: [file for file in facts.outputs if not self._blobs.has(file.sha256)]
        )
        if not lacking:
            return 0
        moved = await self._outputs.gather(order, msgspec.structs.replace(facts, outputs=lacking))
        await in_thread(self._pool, self._keep_saved, group, lacking)
        return moved

    def _keep_saved(self, group: GroupId, files: Sequence[OutputFile]) -> None:
        root = self._data.gathered(group)
        for file in files:
            parts = parts_of(file.name)
            with open(open_file(root, parts), "rb") as content:
                self._blobs.keep(file.sha256, content)
            drop_file(root, parts)

    def look_up(self, order: LookUp) -> None:
        async def run() -> None:
            try:
                answer = await self._looked_up(order)
            except Exception as fault:
                # Somebody's quote waits for the answer, whatever became of our disk.
                why = self._why("looking up data", fault)
                answer = LookedUp(ticket=order.ticket, failed=tuple((ref, why) for ref in order.refs))
            self._emit(answer)

        self._look(run())

    async def _looked_up(self, order: LookUp) -> LookedUp:
        refs = tuple(ref for ref in order.refs if not is_url_ref(ref))
        found, unknown = await in_thread(self._pool, self._catalogue.look_up, refs)
        cached = await in_thread(self._pool, self._cached, refs)
        there, failed = await self._urls.look_up([ref for ref in order.refs if is_url_ref(ref)], order.owner)
        return LookedUp(
            ticket=order.ticket, found=(*found, *there), cached=cached, unknown=unknown, failed=tuple(failed)
        )

    def _look(self, work: Coroutine[Any, Any, None]) -> None:
        task = begin(work, "an answer of the catalogue")
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    def _cached(self, refs: Sequence[str]) -> tuple[DataFile, ...]:
        found: dict[DataFile, None] = {}
        for at in range(0, len(refs), PAGE):
            found.update(dict.fromkeys(self._catalogue.cached_files(refs[at : at + PAGE])))
        found.update(dict.fromkeys(self._replicas.held(refs)))
        return tuple(found)

    def register_outputs(self, order: RegisterOutputs, outputs: Callable[[], Iterator[OutputFile]]) -> None:
        async def run() -> None:
            by_us = self.delivery is None and order.to.startswith("/")
            if not by_us and (why := await self._completed(order, outputs)):
                self._emit(OutputsInCatalogue(ticket=order.ticket, dataset=None, error=why))
                return
            self._emit(
                await register_outputs(
                    order if by_us else msgspec.structs.replace(order, to=""),
                    outputs,
                    data=self._data,
                    site=self._site,
                    pool=self._pool,
                    register=partial(self.register, new_version=order.new_version),
                )
            )

        async def answered() -> None:
            try:
                await run()
            except Exception as fault:
                why = self._why("registering outputs", fault)
                self._emit(OutputsInCatalogue(ticket=order.ticket, dataset=None, error=why))

        self._look(answered())

    async def _completed(self, order: RegisterOutputs, outputs: Callable[[], Iterator[OutputFile]]) -> str:
        """Return why not all of them stand here, empty if they do; wait for a machine that is away."""
        retried = IndexSet.union(old for _, old in order.superseded)
        while not self._stopping.is_set():
            try:
                await self.complete(order.group, outputs, retried)
                return ""
            except Away as away:
                _log.info("%s: %s", order.group, away, extra={"group": order.group})
                await asyncio.sleep(AWAY_S)
            except DianaError as fault:
                return str(fault)
        return "the node stops"

    def cancel(self, ticket: int) -> None:
        """Cancel an order: unfinished files vanish; no `StageDone` follows."""
        entry = self._tickets.pop(ticket, None)
        if entry is not None:
            task = entry[0]
            task.cancel()
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def drop_outputs(self, key: FactsKey, facts: Facts, dataset: str = "") -> None:
        def work() -> None:
            if dataset:
                keep_outputs(self._data, self._cache, self._catalogue, key, facts, dataset)
            self._outputs.drop(key, facts)

        self._drop(key, work)

    def drop_subgroup(self, subgroup: SubgroupId) -> None:
        for ticket in [t for t, (_, lane) in self._tickets.items() if lane == subgroup]:
            self.cancel(ticket)

        def work() -> None:
            if drop_subgroup(self._data, self._catalogue, subgroup):
                # Content pinned for it may have been all that kept the cache above its cap.
                self._cache.trim()

        self._drop(subgroup, work)

    def drop_group(self, group: GroupId, *, outputs: bool = False) -> None:
        def work() -> None:
            if outputs:
                put_outputs_aside(self._data, self._catalogue, group)
            drop_group(self._data, self._catalogue, self._blobs, group)
            if outputs:
                delete_put_aside(self._data)
            self._sweep(SWEEP_EVERY_S)

        self._drop(group, work)

    def take_up_drops(self) -> None:
        """Go on with deletions that a kill broke off, and with blobs that were too young to go."""

        def work() -> None:
            self._sweep(0.0)
            delete_put_aside(self._data)

        self._drop("groups that are gone", work)

    def _sweep(self, every_s: float) -> None:
        """Delete blobs that were too young when their group went, unless that was done `every_s` ago."""
        now_s = time.monotonic()
        if now_s - self._swept_s >= every_s:
            self._swept_s = now_s
            drop_unused(self._catalogue, self._blobs)

    # --- for the client API ----------------------------------------------------------------------------

    async def register(
        self, name: str, paths: Sequence[Path], *, new_version: bool = False, tell: Tell | None = None
    ) -> RegisteredDataset:
        """Hash the files (directories with all below them) and put them in the catalogue, durably. The same name
        with the same content is fine; other content is refused unless `new_version`. `tell` is told how far it is now
        and then. UsageError: bad name, missing path, no files, two of one name, links, a name that stands for other
        content."""
        dataset_name(name)
        async with self._registering:
            parallel = max(1, self._limits.threads - 1)
            dataset = await register(
                self._catalogue,
                name,
                paths,
                self._pool,
                parallel,
                stopping=self._stopping,
                new_version=new_version,
                tell=tell,
            )
        self._drop("catalogue", self._catalogue.sweep)
        return dataset

    async def datasets(self, name: str = "", version: int = 0) -> list[Dataset]:
        """Return the datasets that stand here, registered or cached; those of one name or all."""
        return await in_thread(self._pool, rows, self._catalogue, name, version)

    async def registered(self) -> list[RegisteredDataset]:
        """The newest version of every dataset that is registered here, by name."""
        return await in_thread(self._pool, self._catalogue.newest)

    async def dataset_names(self) -> list[str]:
        return await in_thread(self._pool, self._catalogue.names)

    async def newest(self, name: str) -> RegisteredDataset | None:
        return await in_thread(self._pool, self._catalogue.dataset, name)

    async def dataset_files(self, name: str, version: int = 0) -> AsyncIterator[list[DataFile]]:
        """Yield the dataset's files by name, in pages. UsageError for a dataset that is not here."""
        walk = files(self._data, self._catalogue, name, version)
        while page := await in_thread(self._pool, next, walk, None):
            yield page

    async def verify(self, name: str, version: int = 0) -> AsyncIterator[VerifyProgress]:
        """Read all its files again; UsageError when it is not registered here."""
        found = await in_thread(self._pool, self._catalogue.registered, name, version)
        if found is None:
            raise UsageError(f"dataset {name}: not registered at site {self._site}")
        walk = verify(self._catalogue, found, self._site, self._stopping)
        while checked := await in_thread(self._pool, next, walk, None):
            yield checked

    async def remove_dataset(self, name: str, version: int = 0) -> int:
        """Forget that version, or all; return how many there were. The files stay where they lie."""
        gone = await in_thread(self._pool, self._catalogue.remove, name, version)
        self._drop("catalogue", self._catalogue.sweep)
        return gone

    async def write_blob(self, sha256: str, chunks: AsyncIterator[bytes]) -> int:
        """Receive content of that hash; verified and durable on return, which gives its size. UsageError when the
        content has another hash."""
        return await self._blobs.write(sha256, chunks)

    def put_blob_bytes(self, data: bytes) -> str:
        """Keep `data`, durably; return its SHA-256. Blocks."""
        return self._blobs.put(data)

    def cut_blob(self, sha256: str, chunks: int, by_lines: bool) -> list[tuple[str, int]]:
        """As `Blobs.cut`."""
        return self._blobs.cut(sha256, chunks, by_lines)

    def has_blob(self, sha256: str) -> bool:
        return self._blobs.has(sha256)

    def blob_path(self, sha256: str) -> Path:
        """UsageError when the blob is not here."""
        return self._blobs.path(sha256)

    async def use_blobs(self, group: GroupId, hashes: Iterable[str]) -> None:
        """Note, durably, that the group reads these blobs; `drop_group` deletes them when no other group does."""
        await in_thread(self._pool, self._catalogue.use_blobs, group, list(hashes))

    async def read(self, site: SiteId, ref: str, offset: int = 0, length: int = 0) -> AsyncIterator[bytes]:
        """Yield a file, or a stretch of it (length 0: to its end), of this or another site, in chunks of at most 1
        MiB. Unreachable when it cannot be had now, Denied, UsageError."""
        parse_ref(ref)
        if site != self._site:
            async for chunk in self._fetcher.read(site, ref, offset, length):
                yield chunk
            return
        opened: Content = await in_thread(self._pool, self.holdings.open, ref, DataReader("site", self._site))
        with closing(opened):
            stop = min(opened.size_bytes, offset + length) if length else opened.size_bytes
            while offset < stop:
                if isinstance(opened, Forwarded):
                    await opened.bring(offset)
                chunk = await in_thread(self._pool, opened.read, min(CHUNK_BYTES, stop - offset), offset)
                if not chunk:
                    return
                offset += len(chunk)
                yield chunk

    def check_url(self, text: str) -> None:
        """Raise UsageError when this site may not go there, or the text is no URL."""
        self._urls.check(text)

    def set_rate(self, bytes_per_s: int) -> None:
        """Set the rate from now on of each of the three: data fetched, data served, data that goes by URL; 0: no
        limit."""
        for pace in self._paces:
            pace.set(bytes_per_s)

    def moved(self) -> Moved:
        """Return the bytes moved since the node started."""
        sent = sum(pace.taken_bytes for pace in self._served)
        return Moved(self._fetcher.pace.taken_bytes, sent, self._urls.pace.taken_bytes)

    def cached_bytes(self) -> int:
        """Return the bytes of what was fetched and is kept; sums over all of it, which blocks."""
        return self._catalogue.cached_bytes()

    def allow_urls(self, prefixes: Sequence[str]) -> None:
        """Let URLs be read and written from now on only where they begin with one of these."""
        self._urls.allow(prefixes)

    # --- tasks -----------------------------------------------------------------------------------------

    def _begin(
        self,
        ticket: int,
        lane: Hashable,
        doing: str,
        work: Callable[[], Awaitable[int]],
        *,
        together: bool = False,
        for_good: tuple[type[Exception], ...] = (_ForGood,),
    ) -> None:
        """`for_good`: faults that trying again does not mend."""

        async def run() -> None:
            moved, fault_of = 0, StageDone(ticket=ticket, bytes_moved=0)
            async with self._lanes.turn(lane, together=together):
                try:
                    moved = await work()
                except Exception as fault:
                    fault_of = self._failed(ticket, doing, fault, isinstance(fault, for_good))
            if self._tickets.pop(ticket, None) is not None:
                self._emit(msgspec.structs.replace(fault_of, bytes_moved=moved))

        if ticket not in self._tickets:
            self._tickets[ticket] = (asyncio.get_running_loop().create_task(run()), lane)

    def _failed(self, ticket: int, doing: str, fault: Exception, final: bool) -> StageDone:
        lacking = fault if isinstance(fault, Lacking) else None
        return StageDone(
            ticket=ticket,
            bytes_moved=0,
            error=self._why(doing, fault),
            final=final,
            away=fault.machine if isinstance(fault, Away | Lacking) else "",
            lacking=lacking.jobs if lacking else IndexSet(),
            spoilt=fault.ref if isinstance(fault, NotHeld | Refused) else "",
        )

    def _why(self, doing: str, fault: Exception) -> str:
        """Return one line for the fault; a bug of ours goes to the log as well."""
        if isinstance(fault, DianaError):
            where = f" at site {self._site}" if isinstance(fault, LocalFault | CatalogueFault) else ""
            return f"{doing}{where}: {fault}"
        if isinstance(fault, OSError):
            return f"{doing} at site {self._site}: {fault.filename or self._data.root}: {fault.strerror}"
        _log.error("%s", doing, exc_info=fault)
        return f"{doing} at site {self._site}: internal error ({fault!r}); see the node's log"

    def _drop(self, lane: Hashable, work: Callable[[], None]) -> None:
        """Run a deletion in turn: a subgroup's comes after those of its outputs."""

        async def run() -> None:
            async with self._lanes.turn(lane), self._dropping:
                try:
                    await in_thread(self._pool, work)
                except (OSError, DianaError) as fault:
                    _log.warning("%s: could not delete all of it: %s", lane, fault)

        task = begin(run(), f"deleting what {lane} left")
        self._drops.add(task)
        task.add_done_callback(self._drops.discard)
