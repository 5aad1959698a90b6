"""Whole datasets of other sites, brought here under their own names and kept until there is no room for them.

One folder per content, however many subgroups read it, and one row in the catalogue. The list of files is fetched first
and once; it, the pins and the look-ups cost per dataset, only the transfer itself costs per file.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import closing, suppress
from pathlib import Path

from diana.adapters.file_names import parts_of
from diana.adapters.staging.catalogue.catalogue import Catalogue
from diana.adapters.staging.catalogue.kept import DatasetReplica
from diana.adapters.staging.catalogue.manifests import ManifestEntry, entries, find
from diana.adapters.staging.catalogue.spoilt import SpoiltMark
from diana.adapters.staging.lanes import Lanes
from diana.adapters.staging.limits import StagingLimits
from diana.adapters.staging.paths import folder, make_private, open_file, sync_folders
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer.cache import Cache
from diana.adapters.staging.transfer.client import FileFetcher, WantedFile
from diana.adapters.staging.transfer.parts import PartFile
from diana.adapters.staging.transfer.sources import Search, bring
from diana.errors import UsageError
from diana.model.data import DataFile, dataset_of
from diana.model.ids import SiteId
from diana.model.layout import DataDir

_PAGE = 2000
"""Files asked for at once."""
LOOKED_AT_S = 600.0


class Replicas:
    def __init__(
        self,
        data: DataDir,
        catalogue: Catalogue,
        cache: Cache,
        fetcher: FileFetcher,
        pool: Executor,
        limits: StagingLimits,
    ) -> None:
        self._data = data
        self._catalogue = catalogue
        self._cache = cache
        self._fetcher = fetcher
        self._pool = pool
        self._limits = limits
        self._looked_at: dict[str, float] = {}
        """Digest of a replica found whole -> time until which it is not looked through again."""
        self._spoilt = SpoiltMark(data)
        self._turns = Lanes()

    async def bring(self, unit: DataFile, sources: tuple[SiteId, ...]) -> int:
        """Bring all files of `unit`, a whole dataset that the caller has pinned, verified and durable below
        `DataDir.replica`; return the bytes that travelled for us. Wanted twice at once it is fetched once.
        Unreachable, LocalFault, UsageError; files that had come stay for the next try, unless this is cancelled."""
        async with self._turns.turn(unit.sha256):
            return await self._bring(unit, sources)

    async def _bring(self, unit: DataFile, sources: tuple[SiteId, ...]) -> int:
        known = await in_thread(self._pool, self._catalogue.replica, unit.sha256)
        name = dataset_of(unit.ref)
        if await in_thread(self._pool, self._spoilt.lately):
            self._looked_at.clear()
        if known and known.complete and time.monotonic() < self._looked_at.get(unit.sha256, 0.0):
            await in_thread(self._pool, self._catalogue.keep_replica, known, time.time())
            return 0
        stored = known.stored_bytes if known else 0

        async def note(stored_bytes: int, *, complete: bool) -> None:
            so_far = DatasetReplica(unit.sha256, name, unit.size_bytes, min(unit.size_bytes, stored_bytes), complete)
            await in_thread(self._pool, self._catalogue.keep_replica, so_far, time.time())

        await in_thread(self._pool, self._cache.make_room, max(0, unit.size_bytes - stored), unit.ref)
        # From the start, and page by page, so that files a kill leaves are known and can be evicted.
        await note(stored, complete=False)
        seen = moved = 0
        try:
            moved += await self._manifest(unit, sources)
            last = ""
            with closing(entries(self._data.manifest(unit.sha256), _PAGE)) as walk:
                while page := await in_thread(self._pool, next, walk, None):
                    last = _check_order(unit, last, page)
                    seen += sum(entry.size_bytes for entry in page)
                    if seen > unit.size_bytes:
                        text = f"its files are larger than the {unit.size_bytes} bytes it was said to have"
                        raise UsageError(f"{unit.ref}: {text}")
                    came, sources = await self._page(unit, page, sources)
                    moved += came
                    if came:
                        await note(max(stored, seen), complete=False)
        except BaseException:
            await asyncio.shield(note(stored + moved, complete=False))
            raise
        if known and known.complete and not moved:
            self._looked_at[unit.sha256] = time.monotonic() + LOOKED_AT_S
        await note(unit.size_bytes, complete=True)
        return moved

    async def _manifest(self, unit: DataFile, sources: Sequence[SiteId]) -> int:
        path = self._data.manifest(unit.sha256)
        await in_thread(self._pool, self._prepare, unit.sha256)
        if path.is_file():
            return 0
        part = PartFile(
            path.parent,
            (path.name,),
            tag=unit.sha256,
            size_bytes=None,
            most_bytes=max(0, min(self._limits.manifest_bytes, self._cache.room_bytes())),
            sha256=unit.sha256,
            mode=0o444,
        )
        wanted = WantedFile(f"manifest:{unit.sha256}", part)
        moved = await bring(
            self._fetcher, [Search(wanted, tuple(sources), f"{unit.ref} (list of its files)")], self._limits
        )
        await in_thread(self._pool, sync_folders, path.parent, [()])
        return moved

    def _prepare(self, digest: str) -> None:
        make_private(self._data.replica(digest))

    async def _page(
        self, unit: DataFile, page: list[ManifestEntry], sources: tuple[SiteId, ...]
    ) -> tuple[int, tuple[SiteId, ...]]:
        """Bring those of these files that are missing. Return the bytes that travelled, and the sources, with those
        that did not answer last."""
        searches = await in_thread(self._pool, self._lacking, unit, page, sources)
        if not searches:
            return 0, sources
        try:
            moved = await bring(self._fetcher, searches, self._limits)
        except asyncio.CancelledError:
            await asyncio.shield(in_thread(self._pool, _discard, searches))
            raise
        at = searches[-1].at
        folders = {search.wanted.part.parts[:-1] for search in searches}
        await in_thread(self._pool, sync_folders, self._data.replica(unit.sha256), folders)
        return moved, sources[at:] + sources[:at]

    def _lacking(self, unit: DataFile, page: list[ManifestEntry], sources: tuple[SiteId, ...]) -> list[Search]:
        """Return searches for files neither in the folder nor, under their hash, anywhere else in this site's store."""
        root = self._data.replica(unit.sha256)
        out: list[Search] = []
        for entry in page:
            parts = parts_of(entry.name)
            if self._has(root, parts, entry) or self._linked(root, parts, entry):
                continue
            tag = hashlib.sha256(entry.name.encode()).hexdigest()[:24]
            part = PartFile(root, parts, tag=tag, size_bytes=entry.size_bytes, sha256=entry.sha256, mode=0o444)
            out.append(Search(WantedFile(f"{unit.ref}/{entry.name}", part), sources))
        return out

    def _has(self, root: Path, parts: Sequence[str], entry: ManifestEntry) -> bool:
        """True if the folder has the file: it was verified before it got its name."""
        try:
            with folder(root, parts[:-1]) as at:
                return os.stat(parts[-1], dir_fd=at, follow_symlinks=False).st_size == entry.size_bytes
        except OSError:
            return False

    def _linked(self, root: Path, parts: Sequence[str], entry: ManifestEntry) -> bool:
        for path in (self._data.cached(entry.sha256), self._data.blob(entry.sha256)):
            # Whatever hinders a link (a file system's own limits, too), the file is fetched then.
            with suppress(OSError):
                if os.stat(path, follow_symlinks=False).st_size == entry.size_bytes:
                    with folder(root, parts[:-1], create=True) as at:
                        os.link(path, parts[-1], dst_dir_fd=at, follow_symlinks=False)
                    return True
        return False

    # --- what is here ---------------------------------------------------------------------------------

    def held(self, refs: Sequence[str]) -> list[DataFile]:
        """Return those of these datasets or files that stand here as or within a whole replica; in a data thread.
        One reference may stand for several contents."""
        by_name: dict[str, list[DatasetReplica]] = {}
        for replica in self._catalogue.replicas(dataset_of(ref) for ref in refs if ref.startswith("dataset:")):
            by_name.setdefault(replica.name, []).append(replica)
        out: list[DataFile] = []
        if by_name:
            for ref in refs:
                file = ref.partition("/")[2]
                for replica in by_name.get(dataset_of(ref), ()):
                    if not file:
                        out.append(DataFile(ref, replica.size_bytes, replica.digest))
                    elif entry := self._entry(replica, file):
                        out.append(DataFile(ref, entry.size_bytes, entry.sha256))
        return out

    def path_of(self, dataset: str, file: str, sha256: str) -> tuple[Path, str] | None:
        """Return the path of a file with that content within a replica of that dataset, and the digest of that
        replica, to be pinned; in a data thread."""
        for replica in self._catalogue.replicas([dataset]):
            entry = self._entry(replica, file)
            if entry and entry.sha256 == sha256:
                return self._data.replica(replica.digest) / file, replica.digest
        return None

    def open(self, dataset: str, file: str, sha256: str) -> int | None:
        """Open the file for reading; return its descriptor."""
        found = self.path_of(dataset, file, sha256)
        return open_file(self._data.replica(found[1]), parts_of(file)) if found else None

    def _entry(self, replica: DatasetReplica, file: str) -> ManifestEntry | None:
        with suppress(FileNotFoundError):
            return find(self._data.manifest(replica.digest), file)
        return None


def _check_order(unit: DataFile, last: str, page: list[ManifestEntry]) -> str:
    for entry in page:
        if entry.name <= last:
            raise UsageError(f"{unit.ref}/{entry.name}: listed twice or out of order; register the dataset again")
        last = entry.name
    return last


def _discard(searches: Sequence[Search]) -> None:
    for search in searches:
        search.wanted.part.discard()
