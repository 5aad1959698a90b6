"""Bounds of the chunks of a file, by bytes or by lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from diana.model.arrays import np
from diana.model.words import counted

_READ = 1 << 20
_NEWLINE = ord("\n")


def by_bytes(size_bytes: int, chunks: int) -> list[int]:
    """Return the offset at which each chunk begins, and the size: chunks differ by a byte at most. ValueError: there
    are fewer bytes than chunks."""
    if size_bytes < chunks:
        raise ValueError(f"has {counted(size_bytes, 'byte')} for {counted(chunks, 'component')}; leave split out")
    return [at * size_bytes // chunks for at in range(chunks + 1)]


def by_lines(file: BinaryIO, chunks: int) -> list[int]:
    """Return the same of chunks of whole lines, which differ by a line at most. ValueError: there are fewer lines than
    chunks."""
    newlines, last = 0, b""
    while some := file.read(_READ):
        newlines, last = newlines + some.count(b"\n"), some[-1:]
    size_bytes = file.tell()
    lines = newlines + (last not in (b"", b"\n"))
    if lines < chunks:
        raise ValueError(f"has {counted(lines, 'line')} for {counted(chunks, 'component')}; leave split out")
    behind = [at * lines // chunks for at in range(1, chunks)]
    out, seen, at = [0], 0, 0
    file.seek(0)
    while len(out) < chunks and (some := file.read(_READ)):
        ends = np.flatnonzero(np.frombuffer(some, np.uint8) == _NEWLINE)
        while len(out) < chunks and behind[len(out) - 1] <= seen + len(ends):
            out.append(at + int(ends[behind[len(out) - 1] - seen - 1]) + 1)
        seen, at = seen + len(ends), at + len(some)
    return [*out, size_bytes]


def pieces(file: BinaryIO, begin: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file from one offset to another."""
    file.seek(begin)
    left = end - begin
    while left > 0 and (some := file.read(min(_READ, left))):
        yield some
        left -= len(some)
