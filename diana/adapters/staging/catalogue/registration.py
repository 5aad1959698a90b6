"""Registering a dataset: find the files below the paths an operator names, hash them, hand them to the catalogue.

Finding, hashing and storing overlap; hashing runs on a few data threads, in batches, so that millions of small files
cost no task each, and no more than a page of them is ever in memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from diana.adapters.file_names import BadName, parts_of
from diana.adapters.staging.catalogue.catalogue import PAGE, Building, Catalogue, LocalFile
from diana.adapters.staging.paths import NotPlain, absolute_parts, open_file
from diana.errors import Unreachable, UsageError
from diana.model.data import RegisteredDataset

_BATCH = 64
_READ_BYTES = 1 << 20
_SORTED = 50_000


class FoundFile(NamedTuple):
    name: str
    root: str


class RegistrationStopped(Unreachable):
    """The end of the node; hashes computed so far are kept."""


Tell = Callable[[int, int], None]
"""Callback for progress: files and bytes hashed and stored so far."""


async def register(
    catalogue: Catalogue,
    name: str,
    paths: Sequence[Path],
    pool: Executor,
    parallel: int,
    *,
    stopping: threading.Event,
    new_version: bool = False,
    tell: Tell | None = None,
) -> RegisteredDataset:
    """Register every regular file of `paths` (files, or directories with all below them), hashed, named relative to the
    directory named. UsageError for a missing path, nothing found, two files of one name, links, devices, bad names, a
    name that stands for other content. Stopped soon after `stopping` is set, however large the files.

    A file hashed before this broke off (a kill, an unreadable file) is not read again while size and time of change
    are the same.
    """
    run = asyncio.get_running_loop().run_in_executor
    building = await run(pool, catalogue.begin, name, time.time())
    walk = find(paths)
    waiting: deque[asyncio.Future[list[LocalFile]]] = deque()
    ready: list[LocalFile] = []
    files = size_bytes = 0

    async def settle(most: int) -> None:
        nonlocal ready, files, size_bytes
        while len(waiting) > most:
            hashed = await waiting.popleft()
            ready += hashed
            files += len(hashed)
            size_bytes += sum(f.size_bytes for f in hashed)
        if len(ready) >= PAGE or not most:
            await run(pool, catalogue.put, building, ready)
            ready = []
            if tell:
                tell(files, size_bytes)

    try:
        while batch := await run(pool, _take, walk):
            waiting.append(run(pool, _hash_batch, catalogue, building, batch, stopping))
            await settle(parallel)
        await settle(0)
    finally:
        for future in waiting:
            future.cancel()
    if not files:
        raise UsageError(
            f"{', '.join(map(str, paths)) or 'no path'}: no files; name files or directories that hold some"
        )
    finish = partial(
        catalogue.finish, building, folder=_whole_folder(paths), new_version=new_version, wall_s=time.time()
    )
    return await run(pool, finish)


def _whole_folder(paths: Sequence[Path]) -> str:
    """Return the one directory all files lie below; empty when they were put together."""
    real = os.path.realpath(paths[0]) if len(paths) == 1 else ""
    return real if real and os.path.isdir(real) else ""


def find(paths: Sequence[Path]) -> Iterator[FoundFile]:
    """Yield regular files below `paths`. Links within a directory are refused: their targets are not ours to
    promise."""
    for path in paths:
        try:
            real = Path(os.path.realpath(path, strict=True))
            mode = real.stat().st_mode
        except (OSError, ValueError) as fault:
            reason = fault.strerror if isinstance(fault, OSError) else "bad path"
            raise UsageError(f"{path}: {reason}; name an existing file or directory of this site") from None
        if stat.S_ISREG(mode):
            yield _named(real.name, real.parent)
        elif stat.S_ISDIR(mode):
            yield from _below(real)
        else:
            raise UsageError(f"{path}: neither a regular file nor a directory")


def _below(root: Path) -> Iterator[FoundFile]:
    """Yield files nearly in order of name, so that rows are added where the last ones went; a directory of millions
    of files is never held as a whole."""
    folders = [root]
    while folders:
        here = folders.pop()
        try:
            with os.scandir(here) as entries:
                while some := sorted(islice(entries, _SORTED), key=lambda entry: entry.name):
                    folders += [Path(e.path) for e in reversed(some) if e.is_dir(follow_symlinks=False)]
                    for entry in some:
                        if entry.is_file(follow_symlinks=False):
                            yield _named(os.path.relpath(entry.path, root), root)
                        elif not entry.is_dir(follow_symlinks=False):
                            raise UsageError(
                                f"{entry.path}: a link or special file; a dataset takes regular files only,"
                                " name its target"
                            )
        except OSError as fault:
            raise UsageError(f"{here}: {fault.strerror}; let the node's account read it") from None


def _named(name: str, root: Path) -> FoundFile:
    try:
        parts_of(name)
    except BadName as bad:
        raise UsageError(f"{str(root)!a}: {bad}") from None
    return FoundFile(name, str(root))


def _take(walk: Iterator[FoundFile]) -> list[FoundFile]:
    return list(islice(walk, _BATCH))


def _hash_batch(
    catalogue: Catalogue, building: Building, batch: list[FoundFile], stopping: threading.Event
) -> list[LocalFile]:
    before = catalogue.hashed_before(building, [found.name for found in batch])
    return [_as_before(found, before.get(found.name)) or hash_one(found, stopping) for found in batch]


def _as_before(found: FoundFile, before: LocalFile | None) -> LocalFile | None:
    if before is None or before.root != found.root:
        return None
    try:
        status = os.lstat(before.path)
    except OSError:
        return None
    same = stat.S_ISREG(status.st_mode) and (status.st_size, status.st_mtime_ns) == (before.size_bytes, before.mtime_ns)
    return before if same else None


def hash_one(found: FoundFile, stopping: threading.Event) -> LocalFile:
    """Hash one file. UsageError, Stopped."""
    path = f"{found.root}/{found.name}"
    try:
        fd = open_file(Path("/"), absolute_parts(path))
        with open(fd, "rb", buffering=0) as file:
            before = os.fstat(fd)
            digest = _sha256(file, path, stopping)
            after = os.fstat(fd)
    except NotPlain:
        raise UsageError(f"{path}: became a link or special file while it was read; try again") from None
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}; let the node's account read it") from None
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise UsageError(f"{path}: changed while it was read; register it when it is at rest")
    return LocalFile(found.name, found.root, after.st_size, after.st_mtime_ns, digest)


def _sha256(file: io.RawIOBase, path: str, stopping: threading.Event) -> str:
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_READ_BYTES))
    while count := file.readinto(buffer):
        if stopping.is_set():
            raise RegistrationStopped(f"{path}: the node stops while it is read; start it and tell it again")
        digest.update(buffer[:count])
    return digest.hexdigest()
