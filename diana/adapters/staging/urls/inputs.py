"""Staging in files named by URL: each is brought to this site once, kept in its cache, linked for its jobs.

In the cache a URL's content stands under its identity, and what an account read under a name of its own (`owned.py`).
Jobs see the link `url/KEY` below `staged(SUBGROUP)`, KEY from `model/job/urls.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import NamedTuple

import msgspec

from diana.adapters.file_names import BadName
from diana.adapters.staging.catalogue.catalogue import Catalogue
from diana.adapters.staging.paths import folder, link, make_private, sync_folders
from diana.adapters.staging.refs import sha256_hex
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer.cache import Cache
from diana.adapters.staging.transfer.client import LocalFault
from diana.adapters.staging.transfer.parts import PartFile
from diana.adapters.staging.urls.owned import OwnersFiles, OwnNames
from diana.adapters.staging.urls.urls import UrlFile, Urls
from diana.engine.journal.effects import StageIn
from diana.model.data import DataFile
from diana.model.ids import SubgroupId
from diana.model.job.urls import Url, link_name, shown
from diana.model.layout import DataDir

_SCHEME = "url"


class _Wanted(NamedTuple):
    url: Url
    identity: str
    size_bytes: int
    account: str
    """Account that reads it; empty: the node's own."""
    name: str
    """Its name in the cache."""


class UrlInputs:
    """Methods belong to the node's loop."""

    def __init__(
        self,
        data: DataDir,
        catalogue: Catalogue,
        cache: Cache,
        urls: Urls,
        pool: Executor,
        places: asyncio.Semaphore,
    ) -> None:
        """`places`: one is taken while an order fetches from elsewhere."""
        self._data = data
        self._root = data.cached("00").parent.parent
        self._catalogue = catalogue
        self._cache = cache
        self._urls = urls
        self._pool = pool
        self._places = places
        self._coming: dict[str, asyncio.Future[None]] = {}
        self._own_names: OwnNames | None = None

    def read_by(self, owners: OwnersFiles) -> None:
        """From now on have files of this machine read by accounts of owners. OSError."""
        self._own_names = OwnNames(self._data.inputs_secret)
        self._urls.owners = owners

    async def stage_in(self, order: StageIn) -> int:
        """Stage in the order's files that are named by URL, whole, pinned, linked and durable on return; return the
        bytes that travelled. DianaError says what of which URL failed, and where."""
        files = [fetch.file for fetch in order.files if is_url_ref(fetch.file.ref)]
        if not files:
            return 0
        wanted = [self._wanted(file, order.owner) for file in files]
        await in_thread(self._pool, self._cache.pin, sorted({w.name for w in wanted}), order.subgroup)
        moved = await self._bring(wanted)
        await in_thread(self._pool, self._link, wanted, order.subgroup)
        return moved

    def _wanted(self, file: DataFile, owner: str) -> _Wanted:
        if file.size_bytes < 0:
            raise BadName(f"{file.ref}: a size of {file.size_bytes} bytes; want 0 or more")
        # Also of files that are here already: a site whose operator withdrew a permission lets no more jobs read them.
        url, identity = self._urls.check(file.ref.partition(":")[2]), sha256_hex(file.sha256)
        account = self._urls.account(url, owner)
        name = self._own_names.name(account, identity) if account and self._own_names else identity
        return _Wanted(url, identity, file.size_bytes, account, name)

    async def _bring(self, wanted: Sequence[_Wanted]) -> int:
        """Bring these files. Those that others are bringing already are waited for; when they fail they are ours to
        bring."""
        moved = 0
        left = {w.name: w for w in wanted}
        while left := await in_thread(self._pool, self._lacking, left):
            mine = [w for name, w in left.items() if name not in self._coming]
            if mine:
                moved += await self._bring_mine(mine)
            else:
                await asyncio.wait([self._coming[name] for name in left])
        return moved

    def _lacking(self, wanted: dict[str, _Wanted]) -> dict[str, _Wanted]:
        here = [w for w in wanted.values() if self._cache.has(w.name)]
        self._catalogue.keep_cached(((w.name, w.size_bytes) for w in here), time.time())
        return {name: w for name, w in wanted.items() if w not in here}

    async def _bring_mine(self, mine: Sequence[_Wanted]) -> int:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for each in mine:
            self._coming[each.name] = ended
        files = [UrlFile(w.url, w.identity, self._part(w), w.account) for w in mine]
        try:
            what = shown(mine[0].url.text) + (f" and {len(mine) - 1} more" if len(mine) > 1 else "")
            await in_thread(self._pool, self._cache.make_room, sum(w.size_bytes for w in mine), what)
            async with self._places:
                return await self._urls.bring(files)
        except (asyncio.CancelledError, LocalFault):
            # On a full disk an unfinished file is what must go first.
            await in_thread(self._pool, _discard, files)
            raise
        finally:
            for each in mine:
                del self._coming[each.name]
            ended.set_result(None)
            await in_thread(self._pool, self._keep, mine)

    def _part(self, wanted: _Wanted) -> PartFile:
        name = wanted.name
        return PartFile(self._root, (name[:2], name), tag=name, size_bytes=wanted.size_bytes, sha256="", mode=0o444)

    def _keep(self, mine: Sequence[_Wanted]) -> None:
        came = [w for w in mine if self._cache.has(w.name)]
        sync_folders(self._root, {(w.name[:2],) for w in came})
        self._catalogue.keep_cached(((w.name, w.size_bytes) for w in came), time.time())

    def _link(self, wanted: Sequence[_Wanted], subgroup: SubgroupId) -> None:
        root = self._data.staged(subgroup)
        make_private(root)
        with folder(root, (_SCHEME,), create=True) as at:
            for each in wanted:
                link(at, link_name(each.url.text), self._data.cached(each.name))
        sync_folders(root, [(_SCHEME,)])


def is_url_ref(ref: str) -> bool:
    return ref.startswith(f"{_SCHEME}:")


def without_urls(order: StageIn) -> StageIn:
    """Return the order without its files named by URL."""
    rest = tuple(fetch for fetch in order.files if not is_url_ref(fetch.file.ref))
    return order if len(rest) == len(order.files) else msgspec.structs.replace(order, files=rest)


def _discard(files: Sequence[UrlFile]) -> None:
    for file in files:
        file.part.discard()
