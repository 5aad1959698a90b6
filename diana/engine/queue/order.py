"""The order in which entries come up: by the priority of their rows, and within a row by submission."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from math import inf
from typing import Protocol

from diana.engine.machines.requirements import Kind
from diana.engine.queue.entries import Order, QueueEntry
from diana.model.arrays import Bools, Floats, Ints, nothing, noughts, np

_FIRST = 64


class Closed:
    """Kinds of jobs of which none can start any more, however many wait; it grows."""

    def __init__(self) -> None:
        self.kinds: set[Kind] = set()
        self.wide = inf
        """Processors from which on plain jobs are closed; inf: none are."""
        self.changes = 0

    def add(self, *kinds: Kind) -> None:
        self.kinds.update(kinds)
        self.changes += 1

    def from_width(self, processors: int) -> None:
        if processors < self.wide:
            self.wide = processors
            self.changes += 1

    def has(self, kind: Kind) -> bool:
        return kind in self.kinds or (kind.processors >= self.wide and kind.is_plain)


class Key(Protocol):
    """The class of a row."""

    @property
    def demoted(self) -> bool: ...

    @property
    def kind(self) -> Kind: ...


class ClassRows(Protocol):
    """The rows that the entries stand in."""

    effective: Floats
    """Priority of each row."""
    bound: Bools
    """True for rows of the local queue."""

    @property
    def keys(self) -> Mapping[int, Key]: ...

    def shut(self, closed: Closed, rows: int) -> Bools: ...


_Found = tuple[Order, bool, int, QueueEntry]
"""(order, demoted, row, the entry at its head)."""


class RowOrder:
    """Some of a table's entries, in the order of their turns."""

    _any = nothing(_FIRST)
    _head_s = noughts(_FIRST)
    """Submission time of each row's first entry."""

    def __init__(self) -> None:
        self._lines: list[list[tuple[Order, QueueEntry]]] = []
        """Per row, its entries in order."""

    def grow(self) -> None:
        """Add an empty row."""
        self._lines.append([])
        if len(self._lines) > len(self._any):
            self._any = np.concatenate((self._any, np.zeros_like(self._any)))
            self._head_s = np.concatenate((self._head_s, np.zeros_like(self._head_s)))

    def offer(self, row: int, entry: QueueEntry, belongs: bool) -> None:
        """Put the entry into the row's line, or take it out."""
        line = self._lines[row]
        at = bisect_left(line, (entry.order,))
        there = at < len(line) and line[at][1] is entry
        if belongs and not there:
            line.insert(at, (entry.order, entry))
        elif there and not belongs:
            del line[at]
        self._any[row] = bool(line)
        self._head_s[row] = line[0][0][0] if line else np.inf

    def order(self, table: ClassRows, closed: Closed | None = None) -> Iterator[tuple[QueueEntry, bool]]:
        """Yield (entry, demoted), best first. During the iteration entries may start, and so leave, and kinds of jobs
        may be closed: no more of those come."""
        count, closed = len(self._lines), closed or Closed()
        if not count:
            return
        left, known = np.where(self._any[:count], table.effective[:count], -np.inf), 0
        while True:
            if closed.changes != known:
                left[table.shut(closed, count)] = -np.inf
                known = closed.changes
            if (best := left.max()) == -np.inf:
                return
            tied = np.flatnonzero(left == best)
            left[tied] = -np.inf
            # Local before global.
            bound = table.bound[tied]
            yield from self._merge(table, tied[bound], closed)
            yield from self._merge(table, tied[~bound], closed)

    def _merge(self, table: ClassRows, rows: Ints, closed: Closed) -> Iterator[tuple[QueueEntry, bool]]:
        """Yield the entries of rows of one priority in their order. A row is looked into when its head may be next.

        A start may move other entries of its user to other rows: so a head is looked at again before it is chosen.
        """
        heads, keys = self._head_s[rows], table.keys
        unseen = _rising(heads)
        at = next(unseen, None)
        seen: dict[int, Order] = {}
        found: list[_Found] = []
        while found or at is not None:
            while at is not None and (not found or heads[at] <= found[0][0][0]):
                self._find(table, int(rows[at]), None, found)
                at = next(unseen, None)
            if not found:
                continue
            # An entry's jobs within the thresholds go before its demoted ones.
            order, demoted, row, entry = heappop(found)
            head = self._next(row, seen.get(row))
            if head is None or closed.has(keys[row].kind):
                continue
            if head[1] is not entry:
                heappush(found, (head[0], keys[row].demoted, row, head[1]))
                continue
            seen[row] = order
            yield entry, demoted
            self._find(table, row, order, found)

    def _find(
        self, table: ClassRows, row: int, seen: Order | None, found: list[tuple[Order, bool, int, QueueEntry]]
    ) -> None:
        head = self._next(row, seen)
        if head is not None:
            heappush(found, (head[0], table.keys[row].demoted, row, head[1]))

    def _next(self, row: int, seen: Order | None) -> tuple[Order, QueueEntry] | None:
        """Return the first entry of the row's line behind `seen`, whatever left or joined the line meanwhile."""
        line, at = self._lines[row], 0
        if seen is not None:
            # Shorter than what it is compared with, so that it stands right before its own entry.
            at = bisect_left(line, (seen,))
            at += at < len(line) and line[at][0] == seen
        return line[at] if at < len(line) else None


def _rising(values: Floats) -> Iterator[int]:
    """Indices by rising value; the first few are found without sorting all."""
    first = np.empty(0, dtype=np.int64)
    if len(values) > 4 * _FIRST:
        first = np.argpartition(values, _FIRST)[:_FIRST]
        first = first[np.argsort(values[first], kind="stable")]
        yield from first.tolist()
    rest = np.argsort(values, kind="stable")
    yield from (rest[~np.isin(rest, first)] if len(first) else rest).tolist()
