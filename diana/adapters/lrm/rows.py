"""Rows of an explicit sweep, read from its blob as they are needed: a table may have a million of them."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import overload

import msgspec

from diana.bounds import MOST_ROW_BYTES

_BLOCK_ROWS = 64
_READ_BYTES = 1 << 20
_decoder = msgspec.json.Decoder(list[str])


class TableRows(Sequence[Sequence[str]]):
    """The rows of a table of known length. Keeps the offset of every 64th row and the block read last, unless its rows
    are long. The table is an origin's word: a row is read as far as `MOST_ROW_BYTES`.

    OSError when the blob cannot be read, ValueError when it is no table, has no such row or one that is too long.
    """

    def __init__(self, path: Path, count: int) -> None:
        self._path = path
        self._count = count
        self._offsets = array("Q", [0])
        self._scanned_bytes = 0
        self._newlines = 0
        self._complete = False
        self._begun = 0
        """Offset of the row that the part scanned so far ends in."""
        self._fault = ""
        """Why nothing is read beyond; empty: it may be."""
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
            start, stop = self._span(block)
            if stop - start > _READ_BYTES:
                return self._long(start, stop, at, row)
            self._rows = [_decoder.decode(line) for line in self._lines(start, stop)]
            self._block = block
        if at >= len(self._rows):
            raise self._lacks(row)
        return self._rows[at]

    def _lacks(self, row: int) -> ValueError:
        return ValueError(f"{self._path.name}: the table has no row {row}")

    def _span(self, block: int) -> tuple[int, int]:
        """Return where the block begins and ends; nowhere, where the table has less."""
        with self._path.open("rb", buffering=0) as file:
            # One block further, so that this one's end is known.
            while len(self._offsets) <= block + 1 and not self._complete:
                if self._fault:
                    raise ValueError(self._fault)
                self._scan(file.fileno())
        if block >= len(self._offsets):
            return 0, 0
        return self._offsets[block], (*self._offsets[block + 1 : block + 2], self._scanned_bytes)[0]

    def _lines(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the rows there, of which none is longer than it may be: they were scanned."""
        with self._path.open("rb") as file:
            file.seek(start)
            while start < stop:
                line = file.readline(MOST_ROW_BYTES + 1)
                if not line:
                    return
                start += len(line)
                if line != b"\n":
                    yield line

    def _long(self, start: int, stop: int, at: int, row: int) -> list[str]:
        """Return one row of a block that is too long to be kept."""
        for line in islice(self._lines(start, stop), at, None):
            return _decoder.decode(line)
        raise self._lacks(row)

    def _scan(self, fd: int) -> None:
        data = os.pread(fd, _READ_BYTES, self._scanned_bytes)
        if not data:
            self._complete = True
        at = data.find(b"\n")
        while at >= 0:
            self._check(self._scanned_bytes + at)
            self._newlines += 1
            self._begun = self._scanned_bytes + at + 1
            if self._newlines % _BLOCK_ROWS == 0:
                self._offsets.append(self._begun)
            at = data.find(b"\n", at + 1)
        self._check(self._scanned_bytes + len(data))
        self._scanned_bytes += len(data)

    def _check(self, end: int) -> None:
        if end - self._begun > MOST_ROW_BYTES:
            most = MOST_ROW_BYTES >> 20
            self._fault = f"{self._path.name}: row {self._newlines} of the table has more than {most} MiB"
            raise ValueError(self._fault)
