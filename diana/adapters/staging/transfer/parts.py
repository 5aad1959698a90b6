"""Writing a file that is not complete yet: beside its final name, hashed as it grows, visible only when proven.

Kept across restarts, so that a broken transfer goes on where it stopped. Methods block: use them from a data thread.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from contextlib import suppress

from diana.adapters.file_names import PART_PREFIX
from diana.adapters.staging.paths import Root, folder, open_plain
from diana.errors import DianaError

_HASH_CHUNK = 1 << 20


class Mismatch(DianaError):
    """A difference between the content that came and the one that was promised."""


class PartFile:
    """`root/parts` in the making: `.diana-part-TAG` in the same folder until `finish`.

    The caller sees to it that one tag has one writer. `mode` is that of the finished file. `size_bytes` None:
    unknown; `most_bytes` then bounds it, and only a bounded file is taken up again. `sha256` empty: nobody knows it,
    and the caller verifies otherwise.
    """

    def __init__(
        self,
        root: Root,
        parts: Sequence[str],
        *,
        tag: str,
        size_bytes: int | None,
        sha256: str,
        mode: int,
        most_bytes: int | None = None,
    ) -> None:
        self.root = root
        self.parts = tuple(parts)
        self.size_bytes = size_bytes
        self.offset = 0
        """Bytes written so far."""
        self.sha256 = sha256
        self._most_bytes = size_bytes if size_bytes is not None else most_bytes
        self._mode = mode
        self._spare = PART_PREFIX + tag
        self._hash = hashlib.sha256()
        self._at = -1
        self._fd = -1

    def prepare(self) -> None:
        """Take up what an earlier try has left; `offset` then says where to go on. Holds no descriptor otherwise."""
        if self._fd >= 0:
            return
        hashed_bytes, self.offset = self.offset, 0
        try:
            with folder(self.root, self.parts[:-1]) as at:
                self._at = os.dup(at)
            if not self._found(hashed_bytes):
                self.close()
        except FileNotFoundError:
            self.close()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with folder(self.root, self.parts[:-1], create=True) as at:
            self._at = os.dup(at)
        try:
            self._fresh()
        except BaseException:
            self.close()
            raise

    def _found(self, hashed_bytes: int) -> bool:
        """Take up what an earlier try has left, if it is certainly ours; read it again unless we hashed just that
        much."""
        try:
            status = os.stat(self._spare, dir_fd=self._at, follow_symlinks=False)
        except FileNotFoundError:
            return False
        plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == os.geteuid()
        if not plain or self._most_bytes is None or status.st_size > self._most_bytes:
            os.unlink(self._spare, dir_fd=self._at)
            return False
        if status.st_size != hashed_bytes:
            self._rehash()
        self.offset = status.st_size
        self._fd = os.open(self._spare, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._at)
        return True

    def _rehash(self) -> None:
        self._hash = hashlib.sha256()
        reading = open_plain(self._at, self._spare)
        try:
            while chunk := os.read(reading, _HASH_CHUNK):
                self._hash.update(chunk)
        finally:
            os.close(reading)

    def _fresh(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._spare, dir_fd=self._at)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self._spare, flags, 0o600, dir_fd=self._at)
        self._hash = hashlib.sha256()
        self.offset = 0

    def write(self, data: bytes) -> None:
        """Append bytes. Mismatch when more come than were promised; OSError when the disk refuses."""
        if self._fd < 0:
            self._open()
        if self._most_bytes is not None and self.offset + len(data) > self._most_bytes:
            raise Mismatch(f"more than the promised {self._most_bytes} bytes came")
        view = memoryview(data)
        while view:
            written = os.write(self._fd, view)
            self._hash.update(view[:written])
            self.offset += written
            view = view[written:]

    def finish(self) -> None:
        """Verify, make durable, give it its name. The folder's own durability is the caller's (`sync_folders`)."""
        if self.size_bytes is not None and self.offset != self.size_bytes:
            raise Mismatch(f"{self.offset} bytes came, {self.size_bytes} were promised")
        if self.sha256 and self._hash.hexdigest() != self.sha256:
            raise Mismatch("checksum differs from the one promised")
        os.fchmod(self._fd, self._mode)
        os.fsync(self._fd)
        os.rename(self._spare, self.parts[-1], src_dir_fd=self._at, dst_dir_fd=self._at)
        self.close()

    def discard(self) -> None:
        """Delete the part. Its final name is not touched."""
        if self._at < 0:
            with suppress(OSError), folder(self.root, self.parts[:-1]) as at:
                os.unlink(self._spare, dir_fd=at)
        else:
            with suppress(FileNotFoundError):
                os.unlink(self._spare, dir_fd=self._at)
        self.close()
        self.offset = 0

    def close(self) -> None:
        """Keep the part for a later try."""
        for fd in (self._fd, self._at):
            if fd >= 0:
                os.close(fd)
        self._fd = self._at = -1
