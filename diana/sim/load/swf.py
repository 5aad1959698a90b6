"""Traces in the Standard Workload Format (Parallel Workloads Archive, version 2.2), plain or gzip, as typed columns.

A line per job of 18 numbers, -1 where one is not known; what follows the eighteenth is some archives' own and not read.
Lines that begin with `;` are comments, and `; Key: value` among them the header. Nothing is dropped here:
`usable.choose` says which jobs can be run, and why others are left out."""

from __future__ import annotations

import gzip
import io
from array import array
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from diana.bounds import MOST_LINE_BYTES, MOST_TRACE_BYTES, BoundedStream, Damaged
from diana.errors import UsageError, one_line

Whole = NDArray[np.int64]
Real = NDArray[np.float64]

FIELDS = 18
CANCELLED = 5
PARTIAL = (2, 3, 4)
"""Values of field 11. A job that was stopped and went on has a line of its own and, after it, one of each partial
execution, which go by its number: to be continued, the last of a job that completed, and of one that failed."""
CHUNK_JOBS = 1 << 16
_READ = (1, 2, 3, 4, 5, 8, 9, 11, 12, 13, 14, 15, 16, FIELDS)
"""Fields as the format numbers them, from 1, in the order of `_columns`; the last one only has to be there."""
_pick = itemgetter(*(field - 1 for field in _READ))
_LARGEST = 2.0**53
"""Beyond it a float is no longer every whole number."""
_MOST_DIGITS = 15
"""Digits of a number in the header, at most: Python refuses to read thousands of them."""
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class SwfColumns:
    """One entry per job line, in the order of the file; -1: not known. Times in seconds after the start of the log."""

    line: Whole
    """Line in the file, from 1."""
    number: Whole
    submit_s: Real
    wait_s: Real
    run_s: Real
    processors: Whole
    """Processors asked for (field 8), or else allotted (field 5)."""
    requested_s: Real
    status: Whole
    user: Whole
    group: Whole
    executable: Whole
    queue: Whole
    partition: Whole

    def __len__(self) -> int:
        return len(self.line)

    def partial(self) -> NDArray[np.bool_]:
        """True where a line is of a partial execution, and no job."""
        return np.isin(self.status, PARTIAL)


def header_number(text: str) -> int | None:
    """A whole number as the header writes it; None for anything else."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


@dataclass(frozen=True, slots=True)
class SwfLog:
    name: str
    """Name of the file, for messages."""
    header: dict[str, tuple[str, ...]]
    """Keys as written, in the order of the file; a key that stands several times (Note, Queue) has several values."""
    jobs: SwfColumns
    blank_lines: int

    def max_processors(self) -> int:
        """Processors of the machine by the header (MaxProcs, or else MaxNodes); 0: nothing usable."""
        for key in ("MaxProcs", "MaxNodes"):
            for value in self.header.get(key, ()):
                if number := header_number(value):
                    return number
        return 0

    def noticed(self) -> dict[str, int]:
        """Oddities of the file that did not hinder reading it; only counts that are not 0."""
        jobs = self.jobs
        whole = jobs.number[~jobs.partial()]
        numbers = np.unique(whole)
        found = {
            "missing_header": int(not self.header),
            "blank_lines": self.blank_lines,
            "unsorted_lines": int((np.diff(jobs.submit_s) < 0).sum()),
            "missing_job_numbers": int(numbers[-1] - numbers[0]) + 1 - len(numbers) if len(numbers) else 0,
            "repeated_job_numbers": len(whole) - len(numbers),
            "cancelled_that_ran": int(((jobs.status == CANCELLED) & (jobs.run_s > 0)).sum()),
            "ran_over_request": int(((jobs.requested_s > 0) & (jobs.run_s > jobs.requested_s)).sum()),
        }
        return {what: count for what, count in found.items() if count}


def read(path: Path, *, may_be_empty: bool = False) -> SwfLog:
    """Read a trace. UsageError names file and line for whatever is no such trace; a file without a single job is none,
    unless it may be empty."""
    reader = _Reader(str(path))
    number = 0
    try:
        with _opened(path) as stream:
            for number, line in enumerate(iter(partial(stream.readline, MOST_LINE_BYTES), b""), 1):
                reader.take(number, line)
    except Damaged as error:
        raise UsageError(
            f"trace {path}: damaged gzip data after line {number} ({one_line(str(error))}); fetch it again"
        ) from None
    except ValueError as error:
        raise UsageError(f"trace {path}: {error}; cut it") from None
    except OSError as error:
        raise UsageError(f"trace {path}: {error.strerror or error}; name a readable SWF file") from None
    return reader.log(may_be_empty=may_be_empty)


def _opened(path: Path) -> BinaryIO:
    """Open a file as gzip if it begins so, whatever its name."""
    stream = path.open("rb")
    if stream.peek(2)[:2] == _GZIP:
        return io.BufferedReader(BoundedStream(_Unzipped(stream), MOST_TRACE_BYTES), 1 << 18)
    return stream


class _Unzipped(gzip.GzipFile):
    """Closes the file beneath it too."""

    def __init__(self, beneath: BinaryIO) -> None:
        super().__init__(fileobj=beneath, mode="rb")
        self._beneath = beneath

    def close(self) -> None:
        super().close()
        self._beneath.close()


class _Reader:
    """Lines in, columns out. Numbers gather in one flat array and are checked and typed a chunk at a time, so that a
    job costs no Python object that stays."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._header: dict[str, list[str]] = {}
        self._blank = 0
        self._values = array("d")
        self._lines = array("q")
        self._chunks: list[SwfColumns] = []

    def take(self, number: int, line: bytes) -> None:
        try:
            values = list(map(float, _pick(line.split(None, FIELDS))))
            if b"_" in line:
                self._grouped(number, line)
        except (ValueError, IndexError):
            self._other(number, line)
            return
        self._values.fromlist(values)
        self._lines.append(number)
        if len(self._lines) >= CHUNK_JOBS:
            self._flush()

    def log(self, *, may_be_empty: bool) -> SwfLog:
        self._flush()
        if not self._chunks and may_be_empty:
            self._chunks.append(_columns(np.zeros(0, np.int64), np.zeros((0, len(_READ)))))
        if not self._chunks:
            raise UsageError(f"trace {self._name}: no job in it; an SWF file has a line of {FIELDS} numbers per job")
        names = [field.name for field in fields(SwfColumns)]
        whole = SwfColumns(*(np.concatenate([getattr(chunk, name) for chunk in self._chunks]) for name in names))
        return SwfLog(self._name, {key: tuple(values) for key, values in self._header.items()}, whole, self._blank)

    def _other(self, number: int, line: bytes) -> None:
        """A line that is not a job: a comment, an empty one, or a mistake."""
        if number == 1 and line.startswith(BOM_UTF8):
            # As some editors begin a file.
            self.take(number, line.removeprefix(BOM_UTF8))
            return
        text = line.strip()
        if not text:
            self._blank += 1
        elif text.startswith(b";"):
            key, colon, value = _decoded(text.lstrip(b"; \t")).partition(":")
            if colon and key.strip().isalnum():
                self._header.setdefault(key.strip(), []).append(value.strip())
        else:
            raise self._wrong(number, _complaint(text))

    def _grouped(self, number: int, line: bytes) -> None:
        """Python takes 1_000 for a number; the format does not. Beyond the eighteenth field anything goes."""
        for word in _pick(line.split(None, FIELDS)):
            if b"_" in word:
                raise self._wrong(number, f"{_decoded(word)!r} is no number")

    def _flush(self) -> None:
        if not self._lines:
            return
        lines = np.array(self._lines, dtype=np.int64)
        table = np.array(self._values, dtype=np.float64).reshape(len(lines), len(_READ))
        self._values, self._lines = array("d"), array("q")
        # Not "beyond": nothing compares with nan.
        self._refuse(lines, table, ~(np.abs(table) <= _LARGEST), "is no number a trace can hold")
        fractions = table != np.floor(table)
        fractions[:, [_READ.index(field) for field in (2, 3, 4, 9, 14, 15)]] = False
        self._refuse(lines, table, fractions, "is not whole")
        self._chunks.append(_columns(lines, table))

    def _refuse(self, lines: Whole, table: Real, wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            row, column = np.argwhere(wrong)[0].tolist()
            raise self._wrong(int(lines[row]), f"field {_READ[column]}: {table[row, column]:g} {why}")

    def _wrong(self, number: int, what: str) -> UsageError:
        return UsageError(
            f"trace {self._name}, line {number}: {one_line(what)}; mend the line, or make it a comment with ; before it"
        )


def _columns(lines: Whole, table: Real) -> SwfColumns:
    number, submit, wait, run, allotted, asked, requested, *whole, _ = table.T
    processors = np.where(asked > 0, asked, allotted)
    return SwfColumns(
        lines,
        number.astype(np.int64),
        submit.copy(),
        wait.copy(),
        run.copy(),
        processors.astype(np.int64),
        requested.copy(),
        *(column.astype(np.int64) for column in whole),
    )


def _complaint(text: bytes) -> str:
    words = text.split(None, FIELDS)
    for at, word in enumerate(words[:FIELDS], 1):
        try:
            float(word)
        except ValueError:
            return f"field {at}: {_decoded(word[:40])!r} is no number"
    return f"{len(words)} fields where a job has {FIELDS}"


def _decoded(text: bytes) -> str:
    """Headers of old logs are in whatever the site wrote."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def chunks(count: int, size: int = CHUNK_JOBS) -> Iterator[slice]:
    """Slices over `count` entries, for callers that need Python's own numbers of a column and not of all jobs at
    once."""
    for begin in range(0, count, size):
        yield slice(begin, min(begin + size, count))
