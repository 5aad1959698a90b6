"""Content that clients upload: received under a private name, verified, durable, then known by its hash."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from diana.adapters.staging.limits import StagingLimits
from diana.adapters.staging.paths import folder, make_private, sync_folder
from diana.adapters.staging.refs import sha256_hex
from diana.adapters.staging.threads import in_thread
from diana.adapters.staging.transfer import cutting
from diana.adapters.staging.transfer.cache import room_bytes
from diana.adapters.staging.transfer.parts import Mismatch, PartFile
from diana.errors import DianaError, UsageError
from diana.model.layout import DataDir

_TOUCH_AFTER_S = 600.0


class Blobs:
    def __init__(self, data: DataDir, pool: Executor, limits: StagingLimits) -> None:
        self._data = data
        self._pool = pool
        self._limits = limits
        self._incoming = data.root / "cache" / "incoming"
        shutil.rmtree(self._incoming, ignore_errors=True)

    def path(self, sha256: str) -> Path:
        """Return the path of a blob that is here; UsageError when it is not."""
        path = self._data.blob(sha256_hex(sha256))
        if not path.is_file():
            raise UsageError(f"blob:{sha256}: not at this site; upload it again")
        return path

    def has(self, sha256: str) -> bool:
        """True if the blob is here. To ask counts as use: it will not be dropped within the next hours."""
        path = self._data.blob(sha256_hex(sha256))
        try:
            if time.time() - path.stat().st_mtime > _TOUCH_AFTER_S:
                os.utime(path)
            return True
        except FileNotFoundError:
            return False

    def put(self, data: bytes) -> str:
        """Keep `data`, durably; return its SHA-256. Blocks on the disk."""
        sha256 = hashlib.sha256(data).hexdigest()
        if not self.has(sha256):
            part = self._part(sha256, len(data))
            try:
                self._write(part, data)
                self._finish(part, sha256)
            finally:
                part.discard()
        return sha256

    def keep(self, sha256: str, content: BinaryIO) -> None:
        """Keep content of that hash, durably; UsageError when it has another. Blocks on the disk."""
        self._keep(sha256, iter(lambda: content.read(1 << 20), b""))

    def _keep(self, sha256: str, content: Iterator[bytes]) -> None:
        if self.has(sha256):
            return
        part = self._part(sha256_hex(sha256), None)
        try:
            for piece in content:
                self._write(part, piece)
            self._finish(part, sha256)
        finally:
            part.discard()

    def cut(self, sha256: str, chunks: int, by_lines: bool) -> list[tuple[str, int]]:
        """Keep the chunks of a blob as blobs, durably; return their hashes and sizes. ValueError: there is too little
        to divide. Blocks on the disk."""
        with self.path(sha256).open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            bounds = cutting.by_lines(file, chunks) if by_lines else cutting.by_bytes(size_bytes, chunks)
            out: list[tuple[str, int]] = []
            for begin, end in pairwise(bounds):
                digest = hashlib.sha256()
                for piece in cutting.pieces(file, begin, end):
                    digest.update(piece)
                self._keep(digest.hexdigest(), cutting.pieces(file, begin, end))
                out.append((digest.hexdigest(), end - begin))
        return out

    async def write(self, sha256: str, chunks: AsyncIterator[bytes]) -> int:
        """Receive content of that hash; return its size. UsageError when it has another, nothing is kept then."""
        part = self._part(sha256_hex(sha256), None)
        try:
            async for chunk in chunks:
                await in_thread(self._pool, self._write, part, chunk)
            size_bytes = part.offset
            await in_thread(self._pool, self._finish, part, sha256)
            return size_bytes
        finally:
            await in_thread(self._pool, part.discard)

    def _part(self, sha256: str, size_bytes: int | None) -> PartFile:
        name = secrets.token_hex(8)
        return PartFile(self._incoming, (name,), tag=name, size_bytes=size_bytes, sha256=sha256, mode=0o444)

    def _write(self, part: PartFile, data: bytes) -> None:
        make_private(self._incoming)
        if len(data) > room_bytes(self._incoming, self._limits):
            raise DianaError(f"{self._data.root}: no room for an upload; free some space at this site")
        try:
            part.write(data)
        except OSError as fault:
            raise DianaError(f"{self._data.root}: an upload cannot be written: {fault.strerror}; make room") from None

    def _finish(self, part: PartFile, sha256: str) -> None:
        """Verify a blob and give it its name, durably; the same blob twice is fine."""
        if not part.offset:
            self._write(part, b"")
        try:
            part.finish()
        except Mismatch:
            raise UsageError(f"blob:{sha256}: the uploaded content has another SHA-256; upload it again") from None
        target = self._data.blob(sha256)
        make_private(target.parent)
        os.rename(self._incoming / part.parts[-1], target)
        with folder(target.parent, ()) as at:
            sync_folder(at)

    def drop(self, sha256: str, unused_s: float) -> bool:
        """Delete a blob unless somebody asked for it within the last `unused_s`; True if it is gone."""
        path = self._data.blob(sha256)
        try:
            if time.time() - path.stat().st_mtime < unused_s:
                return False
            path.unlink()
        except FileNotFoundError:
            pass
        return True
