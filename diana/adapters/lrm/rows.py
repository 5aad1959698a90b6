"""Rows of an explicit sweep, read from its blob as they are needed: a table may have a million of them."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import overload

import msgspec

_BLOCK_ROWS = 64
_READ_BYTES = 1 << 20
_decoder = msgspec.json.Decoder(list[str])


class TableRows(Sequence[Sequence[str]]):
    """The rows of a table of known length. Keeps the offset of every 64th row and the block read last.

    OSError when the blob cannot be read, ValueError when it is no table or has no such row.
    """

    def __init__(self, path: Path, count: int) -> None:
        self._path = path
        self._count = count
        self._offsets = array("Q", [0])
        self._scanned_bytes = 0
        self._newlines = 0
        self._complete = False
        self._block = -1
        self._rows: list[list[str]] = []

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, row: int) -> Sequence[str]: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[Sequence[str]]: ...

    def __getitem__(self, row: int | slice) -> Sequence[str] | Sequence[Sequence[str]]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(self._count))]
        if not 0 <= row < self._count:
            raise IndexError(row)
        block, at = divmod(row, _BLOCK_ROWS)
        if block != self._block:
            self._rows = self._load(block)
            self._block = block
        if at >= len(self._rows):
            raise ValueError(f"{self._path.name}: the table has no row {row}")
        return self._rows[at]

    def _load(self, block: int) -> list[list[str]]:
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # One block further, so that this one's end is known.
            while len(self._offsets) <= block + 1 and not self._complete:
                self._scan(fd)
            if block >= len(self._offsets):
                return []
            start = self._offsets[block]
            stop = self._offsets[block + 1] if block + 1 < len(self._offsets) else self._scanned_bytes
            data = os.pread(fd, stop - start, start)
        finally:
            os.close(fd)
        return [_decoder.decode(line) for line in data.splitlines() if line]

    def _scan(self, fd: int) -> None:
        data = os.pread(fd, _READ_BYTES, self._scanned_bytes)
        if not data:
            self._complete = True
        at = data.find(b"\n")
        while at >= 0:
            self._newlines += 1
            if self._newlines % _BLOCK_ROWS == 0:
                self._offsets.append(self._scanned_bytes + at + 1)
            at = data.find(b"\n", at + 1)
        self._scanned_bytes += len(data)
