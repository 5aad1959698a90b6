"""Reading and writing by URL: what this site's operator allows, bounded in number and rate, asked again where that
makes sense, and never partly there.

The libraries that know the stores are imported when a URL of their kind is first met, and run on a loop of their own.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from diana.adapters.staging.limits import StagingLimits
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer.pace import TransferPace
from diana.adapters.staging.transfer.parts import Mismatch, PartFile
from diana.adapters.staging.urls.flow import check_still, finish, put, side_by_side, worth_writing
from diana.adapters.staging.urls.owned import OwnedStore, OwnersFiles
from diana.adapters.staging.urls.side_loop import SideLoop
from diana.adapters.staging.urls.stores import Changed, FileStore, StoreFault, StoreUpload, UrlStore, Version
from diana.errors import DianaError, Unreachable, UsageError
from diana.model.data import DataFile
from diana.model.ids import SiteId
from diana.model.job.urls import DEFAULT_ALLOWED, Url, check_file_url, is_allowed, shown

T = TypeVar("T")

_SLOWEST_BYTES_PER_S = 32 << 10
"""Least bytes per second of an upload; a slower one is given up."""
_LOOKS = 2
"""Tries of a look-up, which somebody waits for."""


class UrlFile:
    """One file to bring: its URL, its identity when it was placed, its part file here, and the account that reads it;
    empty: the node's own."""

    def __init__(self, url: Url, identity: str, part: PartFile, account: str = "") -> None:
        self.url = url
        self.identity = identity
        self.part = part
        self.account = account


class Urls:
    """Methods belong to the node's loop."""

    def __init__(
        self,
        site: SiteId,
        own: Path,
        pool: Executor,
        limits: StagingLimits,
        allowed: Sequence[str] = DEFAULT_ALLOWED,
    ) -> None:
        """`own`: the node's data directory, closed to `file://`. `allowed`: prefixes, see `model/job/urls.py`."""
        self._site = site
        self._own = own
        self._pool = pool
        self._limits = limits
        self._allowed = tuple(allowed)
        self._side = SideLoop("diana-urls")
        self._stores: dict[str, UrlStore] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._all = asyncio.Semaphore(limits.url_streams)
        self._per_host: dict[str, asyncio.Semaphore] = {}
        self.pace = TransferPace(limits.rate_bytes_per_s)
        self.owners: OwnersFiles | None = None
        """Reads files of this machine as accounts of owners; None: the node's own account reads them."""
        self._looks: set[asyncio.Future[DataFile | tuple[str, str]]] = set()

    def allow(self, prefixes: Sequence[str]) -> None:
        """Allow only these prefixes from now on."""
        self._allowed = tuple(prefixes)

    def check(self, text: str) -> Url:
        """Return the URL if this site may go to it. UsageError says why not, and what the operator can do."""
        try:
            url = check_file_url(text)
            self._permit(url)
        except (ValueError, StoreFault) as fault:
            raise UsageError(f"{fault}" if isinstance(fault, ValueError) else self._line(text, fault)) from None
        return url

    def account(self, url: Url, owner: str) -> str:
        """Return the account that reads the URL for jobs of this owner; empty: the node's own. UsageError says why
        there is none."""
        if self.owners is None or url.scheme != "file":
            return ""
        try:
            return self.owners.account_of(owner)
        except StoreFault as fault:
            raise UsageError(self._line(url.text, fault)) from None

    async def describe(self, text: str, owner: str = "") -> DataFile:
        """Describe the content at a URL now, for jobs of `owner`: its size, and in place of a content hash its identity
        (`identity_of`), under the ref `url:URL`. UsageError, Unreachable."""
        url = self.check(text)
        return await self._side.run(self._describe, url, self.account(url, owner))

    async def look_up(self, refs: Sequence[str], owner: str) -> tuple[list[DataFile], list[tuple[str, str]]]:
        """Look up `url:` refs; return (files found, (ref, reason) of those not found), each in the order of `refs`."""

        async def one(ref: str) -> DataFile | tuple[str, str]:
            try:
                return await self.describe(ref.partition(":")[2], owner)
            except DianaError as fault:
                return ref, str(fault)

        tasks = [asyncio.ensure_future(one(ref)) for ref in dict.fromkeys(refs)]
        self._looks.update(tasks)
        try:
            answers = await asyncio.gather(*tasks)
        finally:
            self._looks.difference_update(tasks)
        found = [answer for answer in answers if isinstance(answer, DataFile)]
        return found, [answer for answer in answers if not isinstance(answer, DataFile)]

    def cancel_looks(self) -> None:
        """End all of `look_up` that is under way, with CancelledError."""
        for task in self._looks:
            task.cancel()

    async def bring(self, files: Sequence[UrlFile]) -> int:
        """Bring all of them under their final names; return the bytes that travelled. The first error ends it:
        UsageError (gone, denied, changed), Unreachable, LocalFault (our disk). Unfinished files then wait, closed,
        to be taken up by the next try; of the file that failed for good nothing stays."""
        return await self._side.run(self._bring_all, files) if files else 0

    async def write(self, base: str, files: Sequence[tuple[str, StoreUpload]]) -> int:
        """Write each file as `base/NAME`, whole; return the bytes that travelled. The same again changes nothing.
        Errors as in `bring`; files that had arrived stay."""
        wanted = [(self.check(f"{base.rstrip('/')}/{name}"), upload) for name, upload in files]
        return await self._side.run(self._write_all, wanted) if wanted else 0

    async def close(self) -> None:
        """Close the stores. No other method may be under way or follow."""
        if self._side.started:
            await self._side.run(self._close_stores)
            await self._side.stop()

    # --- on the side loop ------------------------------------------------------------------------------

    async def _describe(self, url: Url, account: str) -> DataFile:
        version = await self._patiently(url, self._looking(url, account), tries=_LOOKS)
        return DataFile(f"url:{url.text}", version.size_bytes, identity_of(url, version))

    def _looking(self, url: Url, account: str) -> Callable[[], Awaitable[Version]]:
        async def look() -> Version:
            async with self._using(url, account) as store, asyncio.timeout(self._limits.stall_s):
                return await store.look(url)

        return look

    async def _bring_all(self, files: Sequence[UrlFile]) -> int:
        return sum(await side_by_side([partial(self._bring, file) for file in files]))

    async def _write_all(self, files: Sequence[tuple[Url, StoreUpload]]) -> int:
        async def write(url: Url, upload: StoreUpload) -> int:
            async def once() -> int:
                await in_thread(self._pool, check_still, upload)
                most_s = self._limits.stall_s + upload.size_bytes / _SLOWEST_BYTES_PER_S
                await self.pace.take(upload.size_bytes)
                async with self._using(url) as store, asyncio.timeout(most_s):
                    return await store.write(url, upload)

            return await self._patiently(url, once)

        return sum(await side_by_side([partial(write, url, upload) for url, upload in files]))

    async def _bring(self, file: UrlFile) -> int:
        part = file.part
        began = 0

        async def once() -> int:
            nonlocal began
            await in_thread(self._pool, part.prepare)
            before = part.offset
            try:
                await self._read(file)
            finally:
                await in_thread(self._pool, part.close)
                began += part.offset - before
            return began

        try:
            return await self._patiently(file.url, once, progress=lambda: part.offset)
        except UsageError:
            await in_thread(self._pool, part.discard)
            raise

    async def _read(self, file: UrlFile) -> None:
        """Try once, from where the part ends, to its final name."""
        url, part, stall_s = file.url, file.part, self._limits.stall_s
        async with self._using(url, file.account) as store:
            async with asyncio.timeout(stall_s):
                version = await store.look(url)
            if identity_of(url, version) != file.identity:
                raise Changed
            if part.offset < version.size_bytes:
                await self._read_on(store, file, version)
            if part.offset < version.size_bytes:
                raise StoreFault(f"broke off after {part.offset} of {version.size_bytes} bytes", passing=True)
            async with asyncio.timeout(stall_s):
                if await store.look(url) != version:
                    raise Changed
        await in_thread(self._pool, finish, part, url)

    async def _read_on(self, store: UrlStore, file: UrlFile, version: Version) -> None:
        coming = store.read(file.url, version, file.part.offset)
        async with aclosing(worth_writing(coming, self._limits.stall_s)) as chunks:
            async for chunk in chunks:
                await self.pace.take(len(chunk))
                await in_thread(self._pool, put, file.part, chunk, file.url)

    async def _patiently(
        self,
        url: Url,
        once: Callable[[], Awaitable[T]],
        *,
        tries: int = 0,
        progress: Callable[[], int] | None = None,
    ) -> T:
        """Try until it succeeds or cannot; `tries` 0: while the limits' patience lasts since the last progress."""
        last_news_s, pause_s, furthest, tried = time.monotonic(), self._limits.retry_first_s, 0, 0
        while True:
            tried += 1
            try:
                return await once()
            except Mismatch as fault:
                raise UsageError(self._line(url.text, fault)) from None
            except StoreFault as fault:
                if not fault.passing:
                    raise UsageError(self._line(url.text, fault)) from None
                trouble: Exception = fault
            except TimeoutError:
                trouble = StoreFault("the server fell silent; try again later")
            if progress is not None and progress() > furthest:
                furthest, last_news_s, pause_s = progress(), time.monotonic(), self._limits.retry_first_s
            if tried == tries or time.monotonic() - last_news_s >= self._limits.patience_s:
                raise Unreachable(self._line(url.text, trouble))
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, self._limits.retry_most_s)

    @asynccontextmanager
    async def _using(self, url: Url, account: str = "") -> AsyncIterator[UrlStore]:
        """Yield the URL's store, while there is room for one more stream. Each account has room of its own: its jobs
        can stop whatever runs as it."""
        place = _place(url) + account
        gate = self._per_host.setdefault(place, asyncio.Semaphore(self._limits.url_streams_per_host))
        async with gate, self._all:
            if account and self.owners is not None:
                yield OwnedStore(self.owners, account, self._own)
            else:
                yield await self._store(url)

    async def _store(self, url: Url) -> UrlStore:
        key = _place(url) if url.scheme == "sftp" else url.scheme
        async with self._opening.setdefault(key, asyncio.Lock()):
            store = self._stores.get(key)
            if store is not None and not store.usable():
                await self._stores.pop(key).close()
                store = None
            if store is None:
                try:
                    store = await in_thread(self._pool, self._open, url, asyncio.get_running_loop())
                except ImportError as fault:
                    raise StoreFault(
                        f"this node cannot do {url.scheme} ({fault.name} is missing); pip install 'diana-grid[urls]'"
                    ) from None
                self._stores[key] = store
            return store

    def _open(self, url: Url, loop: asyncio.AbstractEventLoop) -> UrlStore:
        """Open a store, in a data thread: imports take their time."""
        match url.scheme:
            case "s3":
                from diana.adapters.staging.urls.s3 import S3Store

                return S3Store(self._limits.stall_s)
            case "sftp":
                from diana.adapters.staging.urls.sftp import SftpStore

                return SftpStore(url, self._limits.stall_s, loop)
            case "file":
                return FileStore(self._pool, lambda: self._allowed, self._own)
        from diana.adapters.staging.urls.http import HttpStore

        return HttpStore(self._limits.stall_s, self._permit)

    async def _close_stores(self) -> None:
        for store in self._stores.values():
            await store.close()
        self._stores.clear()

    def _permit(self, url: Url) -> None:
        if not is_allowed(url, self._allowed):
            prefix = f"{url.scheme}://{url.host}/" if url.host else f"file://{url.path.rpartition('/')[0]}/"
            raise StoreFault(f'not allowed here; its operator may add "{prefix}" to staging.urls in site.toml')

    def _line(self, text: str, fault: Exception) -> str:
        return f"{shown(text)} at site {self._site}: {fault}"


def identity_of(url: Url, version: Version) -> str:
    """Return 64 hex digits that stand for one content of the URL, as far as its store tells; no hash of the content."""
    return hashlib.sha256(f"{url.text} {version.size_bytes} {version.mark}".encode()).hexdigest()


def _place(url: Url) -> str:
    return f"{url.scheme}://{url.host}:{url.port}"
