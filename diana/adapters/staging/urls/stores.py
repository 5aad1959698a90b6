"""The abilities of a place that URLs name, and the store that is a folder of this machine.

Stores speak of versions: a file's size and the mark by which its server tells one content from the next. All
coroutines of a store run on one loop, which is not the node's.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple, Protocol

from diana.adapters.staging.limits import CHUNK_BYTES
from diana.adapters.staging.paths import absolute_parts, make_folders, open_file, sync_folders
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer.parts import Mismatch, PartFile
from diana.bounds import MOST_COUNT
from diana.model.job.urls import Url

_MODE = 0o644


class StoreFault(Exception):
    """The reason why a store did not do it, without the URL and the site. `passing`: it may do so later."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing


class Changed(StoreFault):
    """A change of the file: it is not the one it was."""

    def __init__(self) -> None:
        super().__init__("changed while it was read; see that nobody writes it, and submit again")


class Version(NamedTuple):
    size_bytes: int
    mark: str
    """ETag, or else the time of the last change as the store tells it; empty: the store tells neither."""


def told_size(size: object) -> int:
    """The size of a file in bytes, as its server told it. StoreFault where no file has it."""
    if type(size) is not int or not 0 <= size <= MOST_COUNT:
        raise StoreFault("the server tells a size that no file has; mend the URL")
    return size


class StoreUpload(NamedTuple):
    """A whole local file on its way to a store."""

    path: Path
    size_bytes: int
    sha256: str


class UrlStore(Protocol):
    """Every method raises StoreFault; OSError where this machine's disk is at fault."""

    async def look(self, url: Url) -> Version: ...

    def read(self, url: Url, version: Version, offset: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes from `offset` on, to the end. Changed when the store has another version by now."""
        ...

    async def write(self, url: Url, upload: StoreUpload) -> int:
        """Write the file whole under its name, or leave that untouched; return the bytes that travelled, 0 when it
        stood there already."""
        ...

    def usable(self) -> bool:
        """True if the next call may find it alive."""
        ...

    async def close(self) -> None: ...


def gone(status: str = "") -> StoreFault:
    return StoreFault("not there" + (f" ({status})" if status else "") + "; mend the URL or put the file there")


def forbidden(status: str = "", account: str = "") -> StoreFault:
    """`account`: the one of this machine that was refused, if it is not the node's own."""
    said = f" ({status})" if status else ""
    if account:
        return StoreFault(f"permission denied for account {account}; it needs the right to read the file")
    return StoreFault(f"permission denied{said}; the node's own account there needs the right, or mend its credentials")


class FileStore:
    """`file:///...`: a file system that this machine mounts. No link below an allowed prefix is followed."""

    def __init__(self, pool: Executor, allowed: Callable[[], Sequence[str]], own: Path) -> None:
        self._pool = pool
        self._allowed = allowed
        self._own = own

    async def look(self, url: Url) -> Version:
        fd = await self._open(url)
        try:
            status = os.fstat(fd)
            return Version(status.st_size, str(status.st_mtime_ns))
        finally:
            os.close(fd)

    async def read(self, url: Url, version: Version, offset: int) -> AsyncGenerator[bytes, None]:
        fd = await self._open(url)
        try:
            status = os.fstat(fd)
            if Version(status.st_size, str(status.st_mtime_ns)) != version:
                raise Changed
            while chunk := await in_thread(self._pool, os.pread, fd, CHUNK_BYTES, offset):
                offset += len(chunk)
                yield chunk
        finally:
            os.close(fd)

    async def write(self, url: Url, upload: StoreUpload) -> int:
        return await in_thread(self._pool, self._write, url, upload)

    def usable(self) -> bool:
        return True

    async def close(self) -> None:
        return

    async def _open(self, url: Url) -> int:
        root, parts = self._below(url)
        try:
            return await in_thread(self._pool, open_file, root, parts)
        except OSError as fault:
            raise told(fault) from None

    def _write(self, url: Url, upload: StoreUpload) -> int:
        root, parts = self._below(url)
        tag = hashlib.sha256(url.text.encode()).hexdigest()[:24]
        part = PartFile(root, parts, tag=tag, size_bytes=upload.size_bytes, sha256=upload.sha256, mode=_MODE)
        try:
            if self._stands(root, parts, upload):
                return 0
            make_folders(root)
            with open(upload.path, "rb", buffering=0) as source:
                part.write(b"")
                while chunk := source.read(CHUNK_BYTES):
                    part.write(chunk)
                part.finish()
            sync_folders(root, [parts[:-1]])
            return upload.size_bytes
        except Mismatch as fault:
            raise StoreFault(str(fault)) from None
        except OSError as fault:
            raise told(fault) from None
        finally:
            part.discard()

    def _stands(self, root: Path, parts: Sequence[str], upload: StoreUpload) -> bool:
        try:
            fd = open_file(root, parts)
        except OSError:
            return False
        with open(fd, "rb", buffering=0) as file:
            same_size = os.fstat(fd).st_size == upload.size_bytes
            return same_size and hashlib.file_digest(file, "sha256").hexdigest() == upload.sha256

    def _below(self, url: Url) -> tuple[Path, tuple[str, ...]]:
        """Return the folder the operator allowed, whose own path may hold links, and the rest of the way."""
        folders = [p.removeprefix("file://").rpartition("/")[0] + "/" for p in self._allowed() if p.startswith("file:")]
        root = max((f for f in folders if url.path.startswith(f)), key=len, default="/")
        return Path(root), parts_outside(url.path, self._own)[len(absolute_parts(root)) :]


def parts_outside(path: str, own: Path) -> tuple[str, ...]:
    """Return the components of a path that leads to no file of the node's data directory. StoreFault."""
    parts = absolute_parts(path)
    if not parts or "." in parts or ".." in parts:
        raise StoreFault("names no file; mend the URL")
    real = os.path.realpath(own)
    if os.path.commonpath((os.path.realpath(path), real)) == real:
        raise StoreFault("lies in the node's data directory; name a file outside")
    return parts


def told(fault: OSError, account: str = "") -> StoreFault:
    """Return what a fault means to whoever named the file. `account`: who met it, if not the node's own."""
    match fault.errno:
        case errno.ENOENT:
            return gone()
        case errno.EACCES | errno.EPERM:
            return forbidden(account=account)
        case errno.ELOOP | errno.EINVAL | errno.EISDIR | errno.ENOTDIR | errno.ENXIO:
            return StoreFault("no regular file, or a link on the way to it; name the file itself")
        case errno.ENOSPC | errno.EDQUOT:
            return StoreFault(f"{fault.strerror}; make room there", passing=True)
    return StoreFault(fault.strerror or type(fault).__name__, passing=True)
