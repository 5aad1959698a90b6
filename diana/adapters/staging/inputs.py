"""Staging in: every file of an order at hand for a subgroup's jobs, from here, from the cache or from another site.

Jobs see links below `staged(SUBGROUP)`: `dataset/NAME/FILE` and `blob/SHA256`. A whole dataset is one link to its
folder where all of that folder is the dataset; else each of its files is one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from diana.adapters.file_names import BadName, parts_of
from diana.adapters.staging.catalogue.catalogue import Catalogue
from diana.adapters.staging.catalogue.holdings import LocalData
from diana.adapters.staging.catalogue.replicas import Replicas
from diana.adapters.staging.catalogue.wholes import Wholes
from diana.adapters.staging.paths import folder, link, make_private, sync_folders
from diana.adapters.staging.refs import BlobRef, DatasetRef, WholeRef, parse_ref, sha256_hex
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer.cache import Cache, Missing
from diana.engine.journal.effects import StageIn
from diana.errors import DianaError, UsageError
from diana.model.data import Fetch
from diana.model.ids import SiteId, SubgroupId
from diana.model.layout import DataDir


class _Input(NamedTuple):
    ref: str
    parts: tuple[str, ...]
    """Path of the link, below the subgroup's folder."""
    sha256: str
    size_bytes: int
    sources: tuple[SiteId, ...]


class _Found(NamedTuple):
    own: dict[str, Path]
    """Ref -> path of this site's own copy."""
    missing: dict[str, Missing]
    """Hash -> content to fetch."""


class NotHeld(UsageError):
    """A file that only this site could have is not here."""

    def __init__(self, text: str, ref: str) -> None:
        super().__init__(text)
        self.ref = ref


class Inputs:
    def __init__(
        self,
        data: DataDir,
        site: SiteId,
        holdings: LocalData,
        catalogue: Catalogue,
        cache: Cache,
        pool: Executor,
        replicas: Replicas,
        places: asyncio.Semaphore,
    ) -> None:
        """`places`: one is taken while an order fetches from elsewhere."""
        self._data = data
        self._site = site
        self._holdings = holdings
        self._catalogue = catalogue
        self._cache = cache
        self._pool = pool
        self._replicas = replicas
        self._places = places
        self._whole = Wholes(data, site, holdings, catalogue, pool)

    async def stage_in(self, order: StageIn) -> int:
        """Stage the order's files in, verified, pinned, linked and durable on return; return the bytes that
        travelled. DianaError says what of which file failed, and where."""
        wanted = [_input(fetch) for fetch in order.files if not isinstance(parse_ref(fetch.file.ref), WholeRef)]
        found = await in_thread(self._pool, self._find, wanted, order.subgroup)
        moved = 0
        if found.missing:
            async with self._places:
                moved = await self._cache.bring(list(found.missing.values()))
        for fetch in order.files:
            if isinstance(parse_ref(fetch.file.ref), WholeRef):
                moved += await self._stage_whole(fetch, order.subgroup)
        await in_thread(self._pool, self._link, wanted, found, order.subgroup)
        return moved

    async def _stage_whole(self, fetch: Fetch, subgroup: SubgroupId) -> int:
        unit = fetch.file
        sha256_hex(unit.sha256)
        if unit.size_bytes < 0:
            raise BadName(f"{unit.ref}: a size of {unit.size_bytes} bytes; want 0 or more")
        root = self._data.staged(subgroup)
        await in_thread(self._pool, make_private, root)
        own, trouble = await in_thread(self._pool, self._whole.own, unit)
        if own is not None:
            await in_thread(self._pool, self._whole.link_own, own, unit, root)
            return 0
        await in_thread(self._pool, self._cache.pin, [unit.sha256], subgroup)
        others = tuple(s for s in fetch.sources if s != self._site)
        here = await in_thread(self._pool, self._catalogue.replica, unit.sha256)
        if not others and not (here and here.complete):
            raise UsageError(trouble or f"{unit.ref}: not at site {self._site}, and no other site has it")
        if here and here.complete:
            moved = await self._replicas.bring(unit, others)
        else:
            async with self._places:
                moved = await self._replicas.bring(unit, others)
        await in_thread(self._pool, self._whole.link_replica, unit, root)
        return moved

    def _find(self, wanted: Sequence[_Input], subgroup: SubgroupId) -> _Found:
        self._cache.pin(sorted({w.sha256 for w in wanted}), subgroup)
        found = _Found({}, {})
        hits: list[tuple[str, int]] = []
        refs: list[tuple[str, str]] = []
        for each in wanted:
            path, trouble = self._own(each, subgroup)
            if path is not None:
                found.own[each.ref] = path
                if path == self._data.cached(each.sha256):
                    hits.append((each.sha256, each.size_bytes))
                    if not each.ref.startswith("blob:"):
                        refs.append((each.ref, each.sha256))
            elif others := tuple(s for s in each.sources if s != self._site):
                found.missing.setdefault(each.sha256, Missing(each.ref, each.sha256, each.size_bytes, others))
            else:
                # The catalogue's word on this content, if any, is wrong: the next look-up is not to find it here.
                self._catalogue.forget_cached([each.sha256])
                # Uploads come with a submission alone.
                mend = "; submit the job file again, which uploads it" if each.ref.startswith("blob:") else ""
                why = trouble or f"{each.ref}: not at site {self._site}, and no other site has it{mend}"
                raise NotHeld(why, each.ref)
        self._catalogue.keep_cached(hits, time.time(), refs)
        return found

    def _own(self, each: _Input, subgroup: SubgroupId) -> tuple[Path | None, str]:
        """Return our own copy, or why there is none."""
        try:
            path = self._holdings.local_path(each.ref, each.sha256)
            return path or self._in_replica(each, subgroup), ""
        except DianaError as refusal:
            return None, str(refusal)
        except OSError as fault:
            return None, f"{each.ref}: {fault.strerror} at site {self._site}"

    def _in_replica(self, each: _Input, subgroup: SubgroupId) -> Path | None:
        """Return the file within a dataset that was brought here as a whole, which then stays."""
        ref = parse_ref(each.ref)
        if not isinstance(ref, DatasetRef):
            return None
        found = self._replicas.path_of(ref.dataset, ref.file, each.sha256)
        if found is None:
            return None
        self._cache.pin([found[1]], subgroup)
        return found[0] if found[0].is_file() else None

    def _link(self, wanted: Sequence[_Input], found: _Found, subgroup: SubgroupId) -> None:
        root = self._data.staged(subgroup)
        make_private(root)
        ordered = sorted(wanted, key=lambda each: each.parts)
        folders: set[tuple[str, ...]] = set()
        for parent, inside in groupby(ordered, key=lambda each: each.parts[:-1]):
            if len(parent) > 1 and root.joinpath(*parent[:2]).is_symlink():
                continue
            folders.add(parent)
            with folder(root, parent, create=True) as at:
                for each in inside:
                    link(at, each.parts[-1], found.own.get(each.ref) or self._data.cached(each.sha256))
        sync_folders(root, folders)


def _input(fetch: Fetch) -> _Input:
    """Check a file that an order names; BadName if it is neither a dataset's file nor a blob."""
    file = fetch.file
    ref = parse_ref(file.ref)
    if file.size_bytes < 0:
        raise BadName(f"{file.ref}: a size of {file.size_bytes} bytes; want 0 or more")
    match ref:
        case DatasetRef(dataset, name, version):
            parts = ("dataset", f"{dataset}@{version}" if version else dataset, *parts_of(name))
            return _Input(file.ref, parts, sha256_hex(file.sha256), file.size_bytes, fetch.sources)
        case BlobRef(sha256) if file.sha256 in ("", sha256):
            return _Input(file.ref, ("blob", sha256), sha256, file.size_bytes, fetch.sources)
    raise BadName(f"{file.ref[:120]!a}: want dataset:NAME/FILE or blob:SHA256 with its own hash as an input")
