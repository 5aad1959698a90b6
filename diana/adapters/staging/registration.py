"""Registering a dataset: find the files below the paths an operator names, hash them, hand them to the catalogue.

Finding and hashing overlap; hashing runs on a few data threads, in batches, so that millions of small files cost
no task each.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from diana.adapters.staging.catalogue import LocalFile
from diana.adapters.staging.paths import NotPlain, absolute_parts, open_file
from diana.adapters.staging.refs import BadName, parts_of
from diana.errors import UsageError

_BATCH = 64


class Found(NamedTuple):
    name: str
    root: str


async def hash_files(paths: Sequence[Path], pool: Executor, parallel: int) -> list[LocalFile]:
    """Every regular file of `paths` (files, or directories with all below them), hashed, named relative to the
    directory named; UsageError for a missing path, nothing found, two files of one name, links, devices, bad names."""
    loop = asyncio.get_running_loop()
    walk = find(paths)
    waiting: deque[asyncio.Future[list[LocalFile]]] = deque()
    out: list[LocalFile] = []
    names: set[str] = set()
    try:
        while batch := await loop.run_in_executor(pool, partial(_take, walk)):
            for found in batch:
                if found.name in names:
                    raise UsageError(f"{found.root}/{found.name}: a second file named {found.name}; names must differ")
                names.add(found.name)
            waiting.append(loop.run_in_executor(pool, partial(_hash_batch, batch)))
            if len(waiting) >= parallel:
                out += await waiting.popleft()
        while waiting:
            out += await waiting.popleft()
    finally:
        for future in waiting:
            future.cancel()
    if not out:
        raise UsageError(
            f"{', '.join(map(str, paths)) or 'no path'}: no files; name files or directories that hold some"
        )
    return out


def find(paths: Sequence[Path]) -> Iterator[Found]:
    """Regular files below `paths`, links within a directory refused: what a link names is not ours to promise."""
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


def _below(root: Path) -> Iterator[Found]:
    folders = [root]
    while folders:
        here = folders.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        yield _named(os.path.relpath(entry.path, root), root)
                    else:
                        raise UsageError(
                            f"{entry.path}: a link or special file; a dataset takes regular files only, name its target"
                        )
        except OSError as fault:
            raise UsageError(f"{here}: {fault.strerror}; let the node's account read it") from None


def _named(name: str, root: Path) -> Found:
    try:
        parts_of(name)
    except BadName as bad:
        raise UsageError(f"{str(root)!a}: {bad}") from None
    return Found(name, str(root))


def _take(walk: Iterator[Found]) -> list[Found]:
    return list(islice(walk, _BATCH))


def _hash_batch(batch: list[Found]) -> list[LocalFile]:
    return [_hash_one(found) for found in batch]


def _hash_one(found: Found) -> LocalFile:
    path = f"{found.root}/{found.name}"
    try:
        fd = open_file(Path("/"), absolute_parts(path))
        with open(fd, "rb", buffering=0) as file:
            before = os.fstat(fd)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = os.fstat(fd)
    except NotPlain:
        raise UsageError(f"{path}: became a link or special file while it was read; try again") from None
    except OSError as fault:
        raise UsageError(f"{path}: {fault.strerror}; let the node's account read it") from None
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise UsageError(f"{path}: changed while it was read; register it when it is at rest")
    return LocalFile(found.name, found.root, after.st_size, after.st_mtime_ns, digest)
