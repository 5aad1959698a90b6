"""Logs that keep their head and tail: a file is held below its limit while a job writes to it, and closed up once
nobody does.

While the job writes, the middle becomes a hole of the file: no byte moves, so nothing that the job writes meanwhile
is lost or put in another order. A file system without holes has its logs cut back to the head now and then instead.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from diana.model.kept_log import MARK_BYTES, gap_in, head_bytes, mark, marked

_PUNCH_HOLE_KEEP_SIZE = 3
MOST_SPARSE_BYTES = 1 << 40
"""Size from which a log is cut back also where holes can be made: file systems have a largest file."""
_CHUNK_BYTES = 1 << 20
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def hold(fd: int, offset: int, limit: int) -> None:
    """Give back the room of the middle of a log that begins at `offset` and is still written to. OSError."""
    size = os.fstat(fd).st_size - offset
    gap = gap_in(size, limit)
    if gap is None:
        return
    if size < MOST_SPARSE_BYTES and not _fallocate(fd, _PUNCH_HOLE_KEEP_SIZE, offset + gap.start, gap.stop - gap.start):
        return
    if size > 2 * limit + MARK_BYTES:
        before, line = _marked(fd, offset, limit)
        os.ftruncate(fd, offset + gap.start)
        os.write(fd, mark(before + size - gap.start - line, limit))


def hold_file(path: Path, limit: int) -> None:
    """Do the same for a file that is one log. OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        hold(fd, 0, limit)
    finally:
        os.close(fd)


def close_up(fd: int, offset: int, limit: int) -> tuple[int, bool]:
    """Close up a log that begins at `offset`, is the last of its file and is written no more. Return its length, and
    True if something was left out. OSError."""
    size = max(0, os.fstat(fd).st_size - offset)
    gap = gap_in(size, limit)
    before, line = _marked(fd, offset, limit) if size > head_bytes(limit) else (0, 0)
    if gap is None:
        return size, bool(line)
    # Descriptors that append write at the end, whatever place they are told.
    own = os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        to = offset + gap.start
        to += os.pwrite(own, mark(before + gap.stop - gap.start - line, limit), to)
        at = offset + gap.stop
        while chunk := os.pread(own, _CHUNK_BYTES, at):
            at += len(chunk)
            to += os.pwrite(own, chunk, to)
        os.ftruncate(own, to)
    finally:
        os.close(own)
    return to - offset, True


def append_kept(source: int, fd: int, limit: int) -> tuple[int, bool]:
    """Append to `fd` what is kept of the log that `source` is; return its length and True if something was left out.
    OSError."""
    size = os.fstat(source).st_size
    gap = gap_in(size, limit)
    before, line = _marked(source, 0, limit) if size > head_bytes(limit) else (0, 0)
    if gap is None:
        return _copy(source, 0, size, fd), bool(line)
    length = _copy(source, 0, gap.start, fd)
    text = mark(before + gap.stop - gap.start - line, limit)
    length += os.write(fd, text)
    return length + _copy(source, gap.stop, size, fd), True


def read_held(path: Path, offset: int, size: int, limit: int, start: int, most: int) -> tuple[int, bytes]:
    """Read at most `most` bytes of a log of `size` bytes that may still be written to, from the byte `start` of it or,
    if that is negative, so many before its end: of these the ones behind what is left out, if anything is. Return where
    they begin: behind what is left out, if it is that. OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        while True:
            at, stop = _stretch(size, limit, start if start >= 0 else _before_end(size, limit, -start), most)
            data = os.pread(fd, stop - at, offset + at)
            grown = max(size, os.fstat(fd).st_size - offset)
            gap = gap_in(grown, limit)
            if gap is None or at + len(data) <= gap.start or at >= gap.stop:
                return at, data
            # It became part of the hole while it was read.
            size = grown
    finally:
        os.close(fd)


def _before_end(size: int, limit: int, length: int) -> int:
    """Return where the last `length` bytes begin that are kept together."""
    gap = gap_in(size, limit)
    return max(0, size - length, gap.stop if gap is not None else 0)


def _stretch(size: int, limit: int, start: int, most: int) -> tuple[int, int]:
    gap = gap_in(size, limit)
    if start > size:
        # It was cut back since.
        start = min(head_bytes(limit), size)
    if gap is None or start >= gap.stop:
        return start, min(size, start + most)
    if start < gap.start:
        return start, min(gap.start, start + most)
    return gap.stop, min(size, gap.stop + most)


def _copy(source: int, at: int, stop: int, fd: int) -> int:
    length = 0
    while at < stop and (chunk := os.pread(source, min(stop - at, _CHUNK_BYTES), at)):
        at += len(chunk)
        while chunk:
            done = os.write(fd, chunk)
            length += done
            chunk = chunk[done:]
    return length


def _marked(fd: int, offset: int, limit: int) -> tuple[int, int]:
    """Read the line that was left where a log was cut back. Any descriptor will do."""
    own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return marked(os.pread(own, MARK_BYTES, offset + head_bytes(limit)))
    finally:
        os.close(own)
