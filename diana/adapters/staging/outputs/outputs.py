"""Gathering: the output files of one batch of finished jobs, from the executing site into the group's folder.

Each appears there complete or not at all; told twice, nothing changes. The folder may be the user's own.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path

import msgspec

from diana.adapters.file_names import PART_PREFIX, BadName, parts_of
from diana.adapters.staging.limits import CHUNK_BYTES, StagingLimits
from diana.adapters.staging.outputs.beside import Beside
from diana.adapters.staging.outputs.delivery import OwnersFolders, deliver, folder_of
from diana.adapters.staging.paths import Root, Unlinked, drop_file, folder, make_folders, open_plain, sync_folders
from diana.adapters.staging.refs import output_ref, sha256_hex
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer.cache import room_bytes
from diana.adapters.staging.transfer.client import Away, FileFetcher, LocalFault, WantedFile, local_fault
from diana.adapters.staging.transfer.parts import Mismatch, PartFile
from diana.adapters.staging.transfer.sources import Search, Silent, bring
from diana.adapters.staging.urls.uploads import upload
from diana.adapters.staging.urls.urls import Urls
from diana.engine.journal.effects import Gather
from diana.errors import Unreachable, UsageError
from diana.model.facts import Facts, FactsKey, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.urls import is_url
from diana.model.layout import DataDir

_MODE = 0o644


class Lacking(Unreachable):
    """Outputs of `jobs` are nowhere on this machine, and the site's other one cannot give them now."""

    def __init__(self, fault: Unreachable, machine: str, outputs: Sequence[OutputFile]) -> None:
        super().__init__(str(fault))
        self.machine = machine if isinstance(fault, Away) else ""
        """Machine where they lie, if it is away; else empty."""
        self.jobs = IndexSet.of({output.index for output in outputs})


class OutputGatherer:
    def __init__(
        self, data: DataDir, site: SiteId, fetcher: FileFetcher, pool: Executor, limits: StagingLimits, urls: Urls
    ) -> None:
        self._data = data
        self._site = site
        self._fetcher = fetcher
        self._pool = pool
        self._limits = limits
        self._urls = urls
        self.beside: Beside | None = None
        """The site's other machine, which may have outputs that a leader before this one collected or gathered."""
        self.delivery: OwnersFolders | None = None
        """Writes as accounts of owners; None: all is written by the node's own account."""

    async def gather(self, order: Gather, facts: Facts, replaced: Sequence[OutputFile] = ()) -> int:
        """Put all outputs of the batch in place, durably; return the bytes that travelled. Those `replaced` that are
        not among them go, if they are as they were gathered. DianaError names file and site; files that had arrived
        whole stay, everything unfinished is gone."""
        if replaced:
            names = {output.name for output in facts.outputs}
            gone = [output for output in _checked(replaced) if output.name not in names]
            plain = self.delivery is None and not is_url(order.to)
            for to in dict.fromkeys(("", order.to if plain else "")):
                await in_thread(self._pool, _remove, self._root(to, order.key.group), gone)
        if self.delivery is not None and (to := folder_of(order.to)):
            moved = await self._gather(msgspec.structs.replace(order, to=""), facts)
            outputs, group = _checked([o for o in facts.outputs if o.index not in order.skip]), order.key.group
            await in_thread(self._pool, deliver, self.delivery, group, to, outputs, self._data.gathered(group))
            return moved
        if not is_url(order.to):
            return await self._gather(order, facts)
        moved = await self._gather(msgspec.structs.replace(order, to=""), facts)
        return moved + await upload(self._urls, order, facts, self._data.gathered(order.key.group))

    async def _gather(self, order: Gather, facts: Facts) -> int:
        root = self._root(order.to, order.key.group)
        outputs = _checked([o for o in facts.outputs if o.index not in order.skip])
        if order.source == self._site:
            lacking = await in_thread(self._pool, self._move_all, order.key, outputs, root)
            not_here = {output.name for output in lacking}
            await in_thread(self._pool, _settle, root, [output for output in outputs if output.name not in not_here])
            return await self._from_beside(order.key, lacking, root) if lacking else 0
        searches = await in_thread(self._pool, self._searches, order, outputs, root)
        try:
            moved = await bring(self._fetcher, searches, self._limits)
        except BaseException:
            await in_thread(self._pool, _discard, searches)
            raise
        await in_thread(self._pool, _settle, root, outputs)
        return moved

    def _root(self, to: str, group: GroupId) -> Root:
        if to and not Path(to).is_absolute():
            raise BadName(f"output folder {to}: want an absolute path")
        return Unlinked.outside(to, self._data.root) if to else self._data.gathered(group)

    def _searches(self, order: Gather, outputs: Sequence[OutputFile], root: Root) -> list[Search]:
        """Return searches for the outputs that are not yet there, in a folder that has room for them."""
        _make_folder(root)
        lacking = [o for o in outputs if not stands(root, o)]
        self._make_room(root, lacking)
        return [
            Search(
                WantedFile(output_ref(order.key.subgroup, order.key.epoch, o.name), _part(order.key, o, root)),
                (order.source,),
            )
            for o in lacking
        ]

    def _make_room(self, root: Root, lacking: Sequence[OutputFile]) -> None:
        """Make the folder and check that it has room; LocalFault if not."""
        _make_folder(root)
        need_bytes = sum(o.size_bytes for o in lacking)
        if need_bytes > (free_bytes := room_bytes(str(root), self._limits)):
            raise LocalFault(f"{root}: {need_bytes} bytes of outputs, room for {max(free_bytes, 0)}; free some space")

    async def _from_beside(self, key: FactsKey, lacking: Sequence[OutputFile], root: Root) -> int:
        """Copy outputs that this site collected while its other machine led. Lacking names the jobs whose outputs
        nobody can bring now."""
        name, beside = lacking[0].name, self.beside
        if beside is None:
            raise Unreachable(f"output {name}: neither collected at site {self._site} nor below {root}")
        try:
            return await self._bring_beside(
                beside, root, lacking, lambda o: (output_ref(key.subgroup, key.epoch, o.name), _part(key, o, root))
            )
        except Unreachable as fault:
            raise Lacking(beside.trouble(f"output {name}") or fault, beside.machine, lacking) from None

    async def complete(self, group: GroupId, outputs: Callable[[], Iterator[OutputFile]], retried: IndexSet) -> None:
        """Copy here the outputs that stand in the group's own folder only on the other machine; of `retried` jobs
        also those that stand here with another content. Unreachable; Away where the machine is to be waited for."""
        beside = self.beside
        if beside is None:
            return
        root, key = self._data.gathered(group), FactsKey(group, SubgroupId(group), 0, 0)
        lacking = await in_thread(
            self._pool,
            lambda: [o for o in _checked(list(outputs())) if not stands(root, o, closely=o.index in retried)],
        )
        if not lacking:
            return
        try:
            await self._bring_beside(
                beside, root, lacking, lambda o: (f"gathered:{group}/{o.name}", _part(key, o, root))
            )
        except Unreachable as fault:
            # It may have died, or come back, since it was asked first.
            said = Away(str(fault), beside.machine) if isinstance(fault, Silent) else fault
            raise beside.trouble(f"output {lacking[0].name}") or said from None

    async def _bring_beside(
        self,
        beside: Beside,
        root: Root,
        lacking: Sequence[OutputFile],
        how: Callable[[OutputFile], tuple[str, PartFile]],
    ) -> int:
        if trouble := beside.trouble(f"output {lacking[0].name}"):
            raise trouble
        searches = [Search(WantedFile(*how(o)), (beside.name,), name=f"output {o.name}") for o in lacking]
        await in_thread(self._pool, self._make_room, root, lacking)
        try:
            moved = await bring(self._fetcher, searches, self._limits)
        except BaseException:
            await in_thread(self._pool, _discard, searches)
            raise
        await in_thread(self._pool, _settle, root, lacking)
        return moved

    def _move_all(self, key: FactsKey, outputs: Sequence[OutputFile], root: Root) -> list[OutputFile]:
        """Move the outputs; return those that are nowhere on this machine."""
        _make_folder(root)
        lacking = []
        for output in outputs:
            try:
                if not self._move(key, output, root):
                    lacking.append(output)
            except Mismatch as fault:
                raise UsageError(f"output {output.name} at site {self._site}: {fault}") from None
            except OSError as fault:
                raise local_fault(
                    f"output {output.name}: cannot be put below {root}: {fault.strerror};"
                    " make room there or give the node the right",
                    fault,
                ) from None
        return lacking

    def _move(self, key: FactsKey, output: OutputFile, root: Root) -> bool:
        """Rename where that is possible, else copy. A file that another machine of the site may look for before it
        knows of the move keeps its first name until it is dropped. False: it is neither there nor here."""
        parts = parts_of(output.name)
        try:
            with folder(self._data.collected(key.subgroup, key.epoch), parts[:-1]) as source:
                fd = open_plain(source, parts[-1])
                try:
                    status = os.fstat(fd)
                    if status.st_size != output.size_bytes:
                        raise Mismatch(f"has {status.st_size} bytes, not the {output.size_bytes} it had when collected")
                    put = _renamed if self.beside is None else _linked
                    if not put(source, fd, root, parts):
                        _copy(fd, _part(key, output, root))
                finally:
                    os.close(fd)
        except FileNotFoundError:
            return stands(root, output)
        return True

    def drop(self, key: FactsKey, facts: Facts) -> None:
        """Delete our copies, in a data thread: the origin has them. Done before is fine."""
        for output in _checked(facts.outputs):
            drop_file(self._data.collected(key.subgroup, key.epoch), parts_of(output.name))


def _checked(outputs: Sequence[OutputFile]) -> list[OutputFile]:
    """Return the outputs; BadName for names and hashes nobody may use. The same name twice keeps the last."""
    for output in outputs:
        parts_of(output.name)
        sha256_hex(output.sha256)
    return list({output.name: output for output in outputs}.values())


def _part(key: FactsKey, output: OutputFile, root: Root) -> PartFile:
    tag = hashlib.sha256(f"{key.subgroup} {key.epoch} {key.batch} {output.name}".encode()).hexdigest()[:24]
    return PartFile(
        root, parts_of(output.name), tag=tag, size_bytes=output.size_bytes, sha256=output.sha256, mode=_MODE
    )


def _make_folder(root: Root) -> None:
    try:
        make_folders(root)
    except OSError as fault:
        text = f"output folder {root}: {fault.strerror}; name one the node's account may write"
        raise local_fault(text, fault) from None


def stands(root: Root, output: OutputFile, *, closely: bool = True) -> bool:
    """True if the file is there already with this content. Not `closely`: with this size, which is enough where
    nothing else ever came under the name, for a file is checked as it comes. Blocks."""
    parts = parts_of(output.name)
    try:
        with folder(root, parts[:-1]) as at:
            fd = open_plain(at, parts[-1])
    except OSError:
        return False
    with open(fd, "rb", buffering=0) as file:
        if os.fstat(fd).st_size != output.size_bytes:
            return False
        return not closely or hashlib.file_digest(file, "sha256").hexdigest() == output.sha256


def _remove(root: Root, outputs: Sequence[OutputFile]) -> None:
    """Remove those that stand as they came. Of a folder of the user's, what has changed since is the user's."""
    for output in outputs:
        if stands(root, output):
            parts = parts_of(output.name)
            with suppress(OSError), folder(root, parts[:-1]) as at:
                os.unlink(parts[-1], dir_fd=at)


def _linked(source: int, fd: int, root: Root, parts: Sequence[str]) -> bool:
    """Give the file a second name. False when that cannot be, or it has further names, by which it could change
    later."""
    name, mine = parts[-1], os.fstat(fd)
    with folder(root, parts[:-1], create=True) as at:
        with suppress(FileNotFoundError):
            there = os.stat(name, dir_fd=at, follow_symlinks=False)
            if (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino):
                return mine.st_nlink == 2
        if mine.st_nlink != 1:
            return False
        os.fchmod(fd, _MODE)
        spare = f"{PART_PREFIX}{hashlib.sha256(name.encode()).hexdigest()[:24]}"
        with suppress(FileNotFoundError):
            os.unlink(spare, dir_fd=at)
        try:
            os.link(name, spare, src_dir_fd=source, dst_dir_fd=at, follow_symlinks=False)
        except OSError as fault:
            if fault.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                raise
            return False
        os.rename(spare, name, src_dir_fd=at, dst_dir_fd=at)
    return True


def _renamed(source: int, fd: int, root: Root, parts: Sequence[str]) -> bool:
    """Move the file. False when the folders lie on different file systems, or the file has further names, by which
    it could change later."""
    if os.fstat(fd).st_nlink != 1:
        return False
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


def _settle(root: Root, outputs: Sequence[OutputFile]) -> None:
    try:
        sync_folders(root, {parts_of(o.name)[:-1] for o in outputs})
    except OSError as fault:
        text = f"output folder {root}: {fault.strerror}; outputs may not be durable there"
        raise local_fault(text, fault) from None


def _discard(searches: Sequence[Search]) -> None:
    for search in searches:
        search.wanted.part.discard()
