"""The records of a journal, out of the writes to its file and its log: when each was written, and when it was safe.

After each transaction the database is put together from its pages, as SQLite would find it, and asked for the rows
that are new. Format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import sqlite3
import struct
from dataclasses import dataclass

from tests.real.durable.disk import Disk, Inode

_FRAME = struct.Struct(">6I")
_HEAD = 32


@dataclass(slots=True)
class Row:
    """A row that one transaction added. `log`, `writes`: it is safe once so many writes of that file are."""

    values: tuple[object, ...]
    log: Inode
    writes: int
    safe: tuple[float, int] | None = None


class Database:
    """Follows one database of a disk. `query`: its new rows, given the values of `after` of the last one."""

    def __init__(self, disk: Disk, path: str, query: str) -> None:
        self.path = path
        self.rows: list[Row] = []
        self._disk = disk
        self._query = query
        self._pages: dict[int, bytes] = {}
        self._log: Inode | None = None
        self._seen = 0
        self._bytes = bytearray()
        self._salts = b""
        self._at = _HEAD
        self._last = 0
        self._waiting: list[Row] = []
        self._file: tuple[Inode | None, int, bytes] = (None, 0, b"")

    def look(self, moment: tuple[float, int]) -> list[Row]:
        """Whatever is new since the last look."""
        log = self._disk.at(self.path + "-wal")
        if log is None:
            return []
        if log is not self._log:
            self._log, self._seen, self._bytes, self._at = log, 0, bytearray(log.before), _HEAD
            self._salts = bytes(self._bytes[16:24])
        fresh: list[Row] = []
        for at, data in log.writes[self._seen :]:
            self._seen += 1
            if data is None:
                del self._bytes[at:]
                continue
            self._bytes.extend(bytes(max(0, at - len(self._bytes))))
            self._bytes[at : at + len(data)] = data
            if at < _HEAD and bytes(self._bytes[16:24]) != self._salts:
                self._salts, self._at = bytes(self._bytes[16:24]), _HEAD
            fresh += self._frames(log)
        self._waiting += fresh
        self.rows += fresh
        for row in self._waiting:
            if (
                row.log.synced >= row.writes
                and self._disk.has_name(self.path)
                and self._disk.has_name(self._wal_name(row))
            ):
                row.safe = moment
        self._waiting = [row for row in self._waiting if row.safe is None]
        return fresh

    def _wal_name(self, row: Row) -> str:
        return self.path + "-wal" if self._disk.at(self.path + "-wal") is row.log else self.path

    def _frames(self, log: Inode) -> list[Row]:
        size = int.from_bytes(self._bytes[8:12], "big") or 4096
        fresh: list[Row] = []
        while len(self._bytes) >= self._at + _FRAME.size + size:
            page, commit, *_ = _FRAME.unpack_from(self._bytes, self._at)
            if bytes(self._bytes[self._at + 8 : self._at + 16]) != self._salts or not page:
                break
            # Its head is written before its page: the page counts when the write after that has come.
            start = self._at + _FRAME.size
            if not self._written(log, start, size):
                break
            self._pages[page] = bytes(self._bytes[start : start + size])
            self._at += _FRAME.size + size
            if commit:
                fresh += self._asked(log, commit)
        return fresh

    def _written(self, log: Inode, start: int, size: int) -> bool:
        at, data = log.writes[self._seen - 1]
        return data is not None and at + len(data) >= start + size

    def _asked(self, log: Inode, pages: int) -> list[Row]:
        file = self._disk.at(self.path)
        if file is not None and self._file[:2] != (file, len(file.writes)):
            self._file = file, len(file.writes), file.content()
        whole = bytearray(self._file[2])
        size = int.from_bytes(self._bytes[8:12], "big")
        whole.extend(bytes(max(0, pages * size - len(whole))))
        for number, page in self._pages.items():
            if number <= pages:
                whole[(number - 1) * size : number * size] = page
        del whole[pages * size :]
        # Not in WAL mode: there is no log beside a database in memory.
        whole[18:20] = b"\x01\x01"
        with sqlite3.connect(":memory:") as db:
            db.deserialize(bytes(whole))
            try:
                found = db.execute(self._query, (self._last,)).fetchall()
            except sqlite3.OperationalError:
                # Its tables are not made yet.
                return []
        db.close()
        if found:
            self._last = max(int(row[0]) for row in found)
        return [Row(tuple(row), log, self._seen) for row in found]
