"""The site's store of fetched content: by hash, verified before it has a name, pinned while jobs need it.

The same content wanted twice at once is fetched once. Content that nobody pins is evicted, least recently used first.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Executor
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from diana.adapters.file_names import PART_PREFIX
from diana.adapters.staging.catalogue.catalogue import Catalogue
from diana.adapters.staging.limits import StagingLimits
from diana.adapters.staging.paths import make_private, sync_folders
from diana.adapters.staging.refs import is_sha256
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer.client import FileFetcher, LocalFault, WantedFile
from diana.adapters.staging.transfer.parts import PartFile
from diana.adapters.staging.transfer.sources import Search, bring
from diana.adapters.staging.trees import remove_tree
from diana.errors import Unreachable
from diana.model.ids import SiteId, SubgroupId
from diana.model.layout import DataDir

_DEFAULT_CACHE_BYTES = 10 << 30
_EVICT_BATCH = 256
_RESERVE_SHARE = 0.05
_PART_KEPT_S = 86400.0
_SWEEP_EVERY_S = 6 * 3600.0
_ADOPTED_AT_ONCE = 1024
GONE_PREFIX = "gone-"


class Missing(NamedTuple):
    """Content to fetch: its reference elsewhere, and the sites that have it, best first."""

    ref: str
    sha256: str
    size_bytes: int
    sources: tuple[SiteId, ...]


class Cache:
    def __init__(
        self,
        data: DataDir,
        catalogue: Catalogue,
        fetcher: FileFetcher,
        pool: Executor,
        limits: StagingLimits,
    ) -> None:
        self._data = data
        self._root = data.cached("00").parent.parent
        self._catalogue = catalogue
        self._fetcher = fetcher
        self._pool = pool
        self._limits = limits
        self._coming: dict[str, asyncio.Future[None]] = {}
        self._sweep_again_s = 0.0
        self._evicting = threading.Lock()
        """Lock: a pin and the eviction of the same file must not cross."""

    def pin(self, hashes: Sequence[str], subgroup: SubgroupId) -> None:
        """Pin content, in a data thread: if it is in the cache, it stays there until the subgroup is unpinned."""
        with self._evicting:
            self._catalogue.pin(hashes, subgroup)

    async def bring(self, missing: Sequence[Missing]) -> int:
        """Have all of these in the cache, durable; return the bytes that travelled for us. Unreachable, LocalFault."""
        moved = 0
        left = {m.sha256: m for m in missing}
        while left:
            others = [self._coming[sha] for sha in left if sha in self._coming]
            mine = [m for sha, m in left.items() if sha not in self._coming]
            if mine:
                moved += await self._bring_mine(mine)
            elif others:
                await asyncio.wait(others)
            left = {sha: m for sha, m in left.items() if not await in_thread(self._pool, self.has, sha)}
        return moved

    def has(self, sha256: str) -> bool:
        return self._data.cached(sha256).is_file()

    async def _bring_mine(self, mine: Sequence[Missing]) -> int:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for each in mine:
            self._coming[each.sha256] = ended
        searches = [Search(WantedFile(m.ref, self._part(m)), m.sources) for m in mine]
        try:
            need_bytes = sum(m.size_bytes for m in mine)
            await in_thread(self._pool, self.make_room, need_bytes, f"{mine[0].ref}: {len(mine)} files")
            moved = await bring(self._fetcher, searches, self._limits)
            await in_thread(self._pool, self._keep, mine)
            return moved
        except Unreachable:
            await in_thread(self._pool, self._keep, mine)
            raise
        except BaseException:
            await in_thread(self._pool, self._give_up, mine, searches)
            raise
        finally:
            for each in mine:
                del self._coming[each.sha256]
            ended.set_result(None)

    def _part(self, missing: Missing) -> PartFile:
        sha = missing.sha256
        return PartFile(self._root, (sha[:2], sha), tag=sha, size_bytes=missing.size_bytes, sha256=sha, mode=0o444)

    def make_room(self, need_bytes: int, what: str) -> None:
        """Make room, in a data thread, before anything is fetched. LocalFault when so much cannot be had."""
        make_private(self._root)
        self._sweep()
        if (short_bytes := need_bytes - self.room_bytes()) > 0:
            self.evict(short_bytes)
        if need_bytes > (room_bytes := self.room_bytes()):
            raise LocalFault(
                f"{what}: {need_bytes} bytes are wanted, {self._root} has room for {max(room_bytes, 0)};"
                " free some space"
            )

    def room_bytes(self) -> int:
        """Free space beyond the reserve; may be negative."""
        return room_bytes(self._data.root if not self._root.exists() else self._root, self._limits)

    def _keep(self, mine: Sequence[Missing]) -> None:
        """Note those that came. Unfinished parts stay for a later order, until `_sweep`."""
        came = [m for m in mine if self.has(m.sha256)]
        sync_folders(self._root, {(m.sha256[:2],) for m in came})
        refs = [(m.ref, m.sha256) for m in came if not m.ref.startswith("blob:")]
        self._catalogue.keep_cached(((m.sha256, m.size_bytes) for m in came), time.time(), refs)

    def _give_up(self, mine: Sequence[Missing], searches: Sequence[Search]) -> None:
        for search in searches:
            search.wanted.part.discard()
        self._keep(mine)

    def _sweep(self) -> None:
        """Delete leftovers of a kill, or of somebody who never came back; at the first order and every few hours."""
        first, now_s = not self._sweep_again_s, time.monotonic()
        if now_s < self._sweep_again_s:
            return
        self._sweep_again_s = now_s + _SWEEP_EVERY_S
        for pattern in (f"??/{PART_PREFIX}*", f"sets/??/{PART_PREFIX}*"):
            for part in self._root.glob(pattern):
                with suppress(FileNotFoundError):
                    if time.time() - part.stat().st_mtime > _PART_KEPT_S:
                        part.unlink()
        if first:
            for gone in (self._root / "sets").glob(f"{GONE_PREFIX}*"):
                remove_tree(gone)
            self._adopt()

    def _adopt(self) -> None:
        """Note files that came whole just before a kill: without a row they would never be evicted."""
        with closing(_files_below(self._root)) as found:
            while some := list(islice(found, _ADOPTED_AT_ONCE)):
                self._catalogue.adopt_cached(some, time.time())

    def trim(self) -> None:
        """Evict what exceeds the cap, in a data thread."""
        cap_bytes = self._limits.cache_bytes or min(_DEFAULT_CACHE_BYTES, max(self.room_bytes(), 0) // 2)
        if (over_bytes := self._catalogue.cached_bytes() - cap_bytes) > 0:
            self.evict(over_bytes)

    def evict(self, want_bytes: int) -> int:
        """Delete unpinned content, least recently used first, until so much is free; return the bytes freed."""
        freed = 0
        trees: list[Path] = []
        while freed < want_bytes:
            with self._evicting:
                batch = self._catalogue.evictable(_EVICT_BATCH)
                gone = []
                for each in batch:
                    if freed >= want_bytes:
                        break
                    gone.append(each.sha256)
                    with suppress(FileNotFoundError):
                        if each.whole:
                            trees.append(put_aside(self._data, each.sha256))
                        else:
                            os.unlink(self._data.cached(each.sha256))
                        freed += each.size_bytes
                self._catalogue.forget_cached(gone)
            for tree in trees:
                remove_tree(tree)
            trees.clear()
            if not batch:
                break
        return freed


def put_aside(data: DataDir, digest: str) -> Path:
    """Move a replica of a whole dataset out of sight at once, however many files there are to delete."""
    data.manifest(digest).unlink(missing_ok=True)
    tree = data.replica(digest)
    aside = tree.parent.parent / f"{GONE_PREFIX}{digest}-{secrets.token_hex(4)}"
    os.rename(tree, aside)
    return aside


def _files_below(root: Path) -> Generator[tuple[str, int], None, None]:
    """Yield (name, size) of the files that stand in the cache under a hash."""
    for folder in sorted(root.glob("??")):
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_sha256(entry.name) and entry.is_file(follow_symlinks=False):
                    yield entry.name, entry.stat(follow_symlinks=False).st_size


def room_bytes(path: str | os.PathLike[str], limits: StagingLimits) -> int:
    """Bytes that may still be written on the file system of `path`."""
    disk = os.statvfs(path)
    reserve = min(limits.reserve_bytes, int(disk.f_blocks * disk.f_frsize * _RESERVE_SHARE))
    return disk.f_bavail * disk.f_frsize - reserve
