"""The ledger of a cluster: what it was given, and what was told of it, until the engine says forget. Durable before
the batch system hears of it, and before the engine does. One row per array and per batch of ends, never one per job.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from diana.adapters.batch.array.live import SubmittedPart
from diana.adapters.durable import fold_log
from diana.adapters.lrm.spawner.protocol import Order
from diana.errors import StoreFailed, StoreNewer, of_newer
from diana.model.facts import Facts
from diana.model.indexset import IndexSet

SCHEMA = 2
_TABLES = """
CREATE TABLE arrays (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    token TEXT NOT NULL,
    jobs TEXT NOT NULL DEFAULT '',
    ended BLOB NOT NULL,
    work BLOB NOT NULL,
    parts BLOB NOT NULL DEFAULT x'90'
);
CREATE TABLE told (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    subgroup TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    facts BLOB NOT NULL
);
"""

_SINCE_1 = "ALTER TABLE arrays ADD COLUMN parts BLOB NOT NULL DEFAULT x'90';"

_order = msgspec.msgpack.Decoder(Order)
_facts = msgspec.msgpack.Decoder(Facts)
_set = msgspec.msgpack.Decoder(IndexSet)
_parts = msgspec.msgpack.Decoder(list[SubmittedPart])
_encode = msgspec.msgpack.Encoder().encode


class GivenArray(NamedTuple):
    """An array that was given. `token`: no other array has it, whatever became of this file; `parts`: the
    submissions, by the ids the batch system gave, the newest last; `ended`: tasks whose end is among `told`, or was."""

    number: int
    token: str
    parts: dict[str, SubmittedPart]
    ended: IndexSet
    order: Order


class ToldEnds(NamedTuple):
    number: int
    subgroup: str
    epoch: int
    facts: Facts


class Ledger:
    """Methods block; one caller at a time. Errors: `errors.StoreFailed`, `errors.StoreNewer`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL").fetchone()
            self._db.execute("PRAGMA synchronous=FULL")
            fold_log(self._db)
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA:
                raise StoreNewer(f"{path}: {of_newer(version, SCHEMA)}; start that release instead")
            if not version:
                self._db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
            elif version < SCHEMA:
                self._db.executescript(f"BEGIN; {_SINCE_1} PRAGMA user_version = {SCHEMA}; COMMIT;")
            self._identity = _identity(path)
            self._went = ""
        except (sqlite3.Error, OSError) as fault:
            raise StoreFailed(f"{path}: {fault}") from None

    def close(self) -> None:
        self._db.close()

    def arrays(self) -> list[GivenArray]:
        rows = self._all("SELECT number, token, jobs, parts, ended, work FROM arrays ORDER BY number")
        found = []
        for number, token, jobs, parts, ended, work in rows:
            order = _order.decode(work)
            # An older release submitted arrays as a whole.
            whole = SubmittedPart(IndexSet.span(0, len(order.indices)))
            known = _parts.decode(parts)
            names = jobs.split()
            named = dict(zip(names, known + [whole] * (len(names) - len(known)), strict=True))
            found.append(GivenArray(number, token, named, _set.decode(ended), order))
        return found

    def told(self) -> list[ToldEnds]:
        rows = self._all("SELECT number, subgroup, epoch, facts FROM told ORDER BY number")
        return [ToldEnds(number, subgroup, epoch, _facts.decode(facts)) for number, subgroup, epoch, facts in rows]

    def give(self, token: str, order: Order) -> int:
        """Write down a new array; return its number."""
        row = (token, _encode(IndexSet()), _encode(order))
        return self._write([("INSERT INTO arrays (token, ended, work) VALUES (?, ?, ?)", row)])

    def take_over(self, token: str, parts: Mapping[str, SubmittedPart], ended: IndexSet, order: Order) -> None:
        """Write down an array that another machine gave."""
        row = (token, " ".join(parts), _encode(list(parts.values())), _encode(ended), _encode(order))
        self._write([("INSERT INTO arrays (token, jobs, parts, ended, work) VALUES (?, ?, ?, ?, ?)", row)])

    def clear(self) -> None:
        """Delete all rows: all they say is another machine's."""
        self._write([("DELETE FROM arrays", ()), ("DELETE FROM told", ())])

    def submitted(self, number: int, parts: Mapping[str, SubmittedPart]) -> None:
        row = (" ".join(parts), _encode(list(parts.values())), number)
        self._write([("UPDATE arrays SET jobs = ?, parts = ? WHERE number = ?", row)])

    def ended(self, number: int, ended: IndexSet, subgroup: str, epoch: int, facts: Facts) -> int:
        """Write down ends; return the number of these facts. `ended`: all of the array's tasks that ended; `facts`:
        those of the tasks new among them."""
        return self._write(
            [
                ("UPDATE arrays SET ended = ? WHERE number = ?", (_encode(ended), number)),
                ("INSERT INTO told (subgroup, epoch, facts) VALUES (?, ?, ?)", (subgroup, epoch, _encode(facts))),
            ]
        )

    def forget(self, arrays: Iterable[int], told: Iterable[int]) -> None:
        self._write(
            [
                *(("DELETE FROM arrays WHERE number = ?", (number,)) for number in arrays),
                *(("DELETE FROM told WHERE number = ?", (number,)) for number in told),
            ]
        )

    def _all(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(sql).fetchall()
        except sqlite3.Error as fault:
            raise StoreFailed(f"{self._path}: {fault}") from None

    def _write(self, statements: Sequence[tuple[str, tuple[object, ...]]]) -> int:
        """Run one transaction; return the rowid of the last insert."""
        self._want_in_place()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                last = 0
                for sql, values in statements:
                    last = self._db.execute(sql, values).lastrowid or 0
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as fault:
            raise StoreFailed(f"{self._path}: {fault}") from None
        try:
            self._want_in_place()
        except StoreFailed as gone:
            # It was written, and whoever is told that it was not does otherwise: only the next start knows both.
            self._went = str(gone)
            raise
        return last

    def _want_in_place(self) -> None:
        """Refuse what the next start would not find: the batch system would be given it a second time."""
        if self._went:
            raise StoreFailed(self._went)
        try:
            there = _identity(self._path)
        except FileNotFoundError:
            there = None
        except OSError:
            return
        if there != self._identity:
            raise StoreFailed(
                f"{self._path}: was moved, deleted or replaced while its node ran; stop the node, put it back and "
                "start again"
            )


def _identity(path: Path) -> tuple[int, int]:
    there = os.stat(path)
    return there.st_dev, there.st_ino


@contextmanager
def closing_on_fault(ledger: Ledger) -> Iterator[None]:
    try:
        yield
    except BaseException:
        ledger.close()
        raise
