"""Gathering: the output files of one batch of finished jobs, from the executing site into the group's folder.

Each appears there complete or not at all; told twice, nothing changes. The folder may be the user's own.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

import msgspec

from diana.adapters.staging.cache import room_bytes
from diana.adapters.staging.client import Fetcher, LocalFault, Wanted
from diana.adapters.staging.limits import CHUNK_BYTES, StagingLimits
from diana.adapters.staging.parts import Mismatch, PartFile
from diana.adapters.staging.paths import drop_file, folder, make_folders, open_plain, sync_folders
from diana.adapters.staging.refs import output_ref, parts_of, sha256_hex
from diana.adapters.staging.sources import Search, bring
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.uploads import upload
from diana.adapters.staging.urls import Urls
from diana.engine.effects import Gather
from diana.errors import Unreachable, UsageError
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.model.urls import is_url

_MODE = 0o644


class Outputs:
    def __init__(
        self, data: DataDir, site: SiteId, fetcher: Fetcher, pool: Executor, limits: StagingLimits, urls: Urls
    ) -> None:
        self._data = data
        self._site = site
        self._fetcher = fetcher
        self._pool = pool
        self._limits = limits
        self._urls = urls

    async def gather(self, order: Gather, facts: Facts) -> int:
        """All outputs of the batch in place and durable; gives the bytes that travelled. DianaError names file and
        site; what had arrived whole stays, everything unfinished is gone."""
        if not is_url(order.to):
            return await self._gather(order, facts)
        moved = await self._gather(msgspec.structs.replace(order, to=""), facts)
        return moved + await upload(self._urls, order, facts, self._data.gathered(order.key.group))

    async def _gather(self, order: Gather, facts: Facts) -> int:
        if order.to and not Path(order.to).is_absolute():
            raise UsageError(f"output folder {order.to}: want an absolute path")
        root = Path(order.to) if order.to else self._data.gathered(order.key.group)
        outputs = _checked([o for o in facts.outputs if o.index not in order.skip])
        if order.source == self._site:
            await in_thread(self._pool, self._move_all, order.key, outputs, root)
            return 0
        searches = await in_thread(self._pool, self._searches, order, outputs, root)
        try:
            moved = await bring(self._fetcher, searches, self._limits)
        except BaseException:
            await in_thread(self._pool, _discard, searches)
            raise
        await in_thread(self._pool, _settle, root, outputs)
        return moved

    def _searches(self, order: Gather, outputs: Sequence[OutputFile], root: Path) -> list[Search]:
        """What is not yet there, in a folder that has room for it."""
        _make_folder(root)
        lacking = [o for o in outputs if not _stands(root, o)]
        need_bytes = sum(o.size_bytes for o in lacking)
        if need_bytes > (free_bytes := room_bytes(root, self._limits)):
            raise LocalFault(f"{root}: {need_bytes} bytes of outputs, room for {max(free_bytes, 0)}; free some space")
        return [
            Search(
                Wanted(output_ref(order.key.subgroup, order.key.epoch, o.name), _part(order.key, o, root)),
                (order.source,),
            )
            for o in lacking
        ]

    def _move_all(self, key: FactsKey, outputs: Sequence[OutputFile], root: Path) -> None:
        _make_folder(root)
        for output in outputs:
            try:
                self._move(key, output, root)
            except Mismatch as fault:
                raise UsageError(f"output {output.name} at site {self._site}: {fault}") from None
            except OSError as fault:
                raise LocalFault(
                    f"output {output.name}: cannot be put below {root}: {fault.strerror};"
                    " make room there or give the node the right"
                ) from None
        _settle(root, outputs)

    def _move(self, key: FactsKey, output: OutputFile, root: Path) -> None:
        """Rename where that is possible, else copy. A file with other links could change later: copied."""
        parts = parts_of(output.name)
        try:
            with folder(self._data.collected(key.subgroup, key.epoch), parts[:-1]) as source:
                fd = open_plain(source, parts[-1])
                try:
                    status = os.fstat(fd)
                    if status.st_size != output.size_bytes:
                        raise Mismatch(f"has {status.st_size} bytes, not the {output.size_bytes} it had when collected")
                    if status.st_nlink != 1 or not _renamed(source, fd, root, parts):
                        _copy(fd, _part(key, output, root))
                finally:
                    os.close(fd)
        except FileNotFoundError:
            if not _stands(root, output):
                raise Unreachable(
                    f"output {output.name}: neither collected at site {self._site} nor below {root}"
                ) from None

    def drop(self, key: FactsKey, facts: Facts) -> None:
        """In a data thread: the origin has them, delete our copies. Done before is fine."""
        for output in _checked(facts.outputs):
            drop_file(self._data.collected(key.subgroup, key.epoch), parts_of(output.name))


def _checked(outputs: Sequence[OutputFile]) -> list[OutputFile]:
    """BadName for names and hashes nobody may use; the same name twice keeps the last."""
    for output in outputs:
        parts_of(output.name)
        sha256_hex(output.sha256)
    return list({output.name: output for output in outputs}.values())


def _part(key: FactsKey, output: OutputFile, root: Path) -> PartFile:
    tag = hashlib.sha256(f"{key.subgroup} {key.epoch} {key.batch} {output.name}".encode()).hexdigest()[:24]
    return PartFile(
        root, parts_of(output.name), tag=tag, size_bytes=output.size_bytes, sha256=output.sha256, mode=_MODE
    )


def _make_folder(root: Path) -> None:
    try:
        make_folders(root)
    except OSError as fault:
        raise LocalFault(f"output folder {root}: {fault.strerror}; name one the node's account may write") from None


def _stands(root: Path, output: OutputFile) -> bool:
    """Whether the file is there already with this content."""
    parts = parts_of(output.name)
    try:
        with folder(root, parts[:-1]) as at:
            fd = open_plain(at, parts[-1])
    except OSError:
        return False
    with open(fd, "rb", buffering=0) as file:
        if os.fstat(fd).st_size != output.size_bytes:
            return False
        return hashlib.file_digest(file, "sha256").hexdigest() == output.sha256


def _renamed(source: int, fd: int, root: Path, parts: Sequence[str]) -> bool:
    """False when the folders lie on different file systems."""
    os.fchmod(fd, _MODE)
    with folder(root, parts[:-1], create=True) as at:
        try:
            os.rename(parts[-1], parts[-1], src_dir_fd=source, dst_dir_fd=at)
        except OSError as fault:
            if fault.errno != errno.EXDEV:
                raise
            return False
    return True


def _copy(fd: int, part: PartFile) -> None:
    try:
        part.write(b"")
        while chunk := os.read(fd, CHUNK_BYTES):
            part.write(chunk)
        part.finish()
    finally:
        part.discard()


def _settle(root: Path, outputs: Sequence[OutputFile]) -> None:
    try:
        sync_folders(root, {parts_of(o.name)[:-1] for o in outputs})
    except OSError as fault:
        raise LocalFault(f"output folder {root}: {fault.strerror}; outputs may not be durable there") from None


def _discard(searches: Sequence[Search]) -> None:
    for search in searches:
        search.wanted.part.discard()
