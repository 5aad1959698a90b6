"""Inputs of custodies that are still on their way, and the jobs that wait for them."""

from __future__ import annotations

from collections.abc import Sequence

from diana.engine.journal.state import Custody, CustodyKey
from diana.model.data import Fetch
from diana.model.indexset import IndexSet

MAX_UNITS = 64
"""Units per custody; jobs of a unit start when all its files are here."""
MOST_AFTER_FAULTS = 4 * MAX_UNITS
"""Units per custody when some were halved because some of their files cannot be had."""


class Unit:
    """Files that are staged together and the jobs that read any of them."""

    __slots__ = ("error", "files", "readers", "tries")

    def __init__(self, files: tuple[Fetch, ...], readers: IndexSet) -> None:
        self.files = files
        self.readers = readers
        self.tries = 0
        self.error = ""
        """Error of the last try; empty: none failed yet."""


class StageBook:
    """The units on their way. Volatile: after a restart everything is asked of the stager again, which knows what it
    has."""

    def __init__(self) -> None:
        self.units: dict[CustodyKey, dict[int, Unit]] = {}
        self.tickets: dict[int, tuple[CustodyKey, int]] = {}
        self._blocked: dict[CustodyKey, IndexSet] = {}
        self.moved_bytes: dict[CustodyKey, int] = {}
        """Bytes brought here and not told yet."""
        self.left_out: dict[CustodyKey, frozenset[str]] = {}
        """Refs that no machine here can use, of custodies that have any."""

    def open(self, custody: Custody, left_out: frozenset[str] = frozenset()) -> dict[int, Unit]:
        """Make the units of all that the custody reads, but for these refs."""
        if left_out:
            self.left_out[custody.key] = left_out
        else:
            self.left_out.pop(custody.key, None)
        units = dict(enumerate(_units(custody, left_out)))
        if units:
            self.units[custody.key] = units
            self._blocked[custody.key] = IndexSet.union(u.readers for u in units.values())
        return units

    def halve(self, custody: Custody, number: int) -> list[int]:
        """Halve a unit of which some files cannot be had, so that only jobs that read them go without; return the
        numbers of both halves. Empty, with nothing changed: all its jobs read the same, or there are too many units."""
        units = self.units[custody.key]
        wanted = {fetch.file.ref for fetch in units[number].files}
        parts = [
            unit
            for unit in _alike(custody, self.left_out.get(custody.key, frozenset()))
            if unit.files[0].file.ref in wanted
        ]
        if len(parts) < 2 or len(units) >= MOST_AFTER_FAULTS:
            return []
        del units[number]
        first = max([number, *units]) + 1
        for at, some in enumerate((parts[: len(parts) // 2], parts[len(parts) // 2 :])):
            units[first + at] = _one_of(some)
        return [first, first + 1]

    def without(self, custody: Custody, number: int, ref: str) -> IndexSet:
        """Take a file that cannot be had out of a unit; return the jobs that read it. The unit is left with what others
        read, as often tried as before, and is closed if nothing is left."""
        unit, left_out = self.units[custody.key][number], self.left_out.get(custody.key, frozenset())
        wanted = {fetch.file.ref for fetch in unit.files}
        both = zip(custody.files, custody.readers, strict=True)
        lost = IndexSet.union(readers for file, readers in both if file.ref == ref) & unit.readers
        parts = [one for one in _alike(custody, left_out) if one.files[0].file.ref in wanted]
        rest = [one for one in parts if not one.readers.issubset(lost)]
        if not rest:
            self.close_unit(custody.key, number)
            return lost
        unit.files, unit.readers = (merged := _one_of(rest)).files, merged.readers
        return lost

    def close_unit(self, key: CustodyKey, number: int) -> None:
        units = self.units[key]
        del units[number]
        self._blocked[key] = IndexSet.union(u.readers for u in units.values())
        if not units:
            del self.units[key], self._blocked[key]

    def drop(self, key: CustodyKey) -> list[int]:
        """Forget the custody; return the tickets that still move."""
        self._blocked.pop(key, None)
        self.left_out.pop(key, None)
        if self.units.pop(key, None) is None:
            return []
        tickets = [ticket for ticket, (k, _) in self.tickets.items() if k == key]
        for ticket in tickets:
            del self.tickets[ticket]
        return tickets

    def troubled(self, key: CustodyKey) -> Unit | None:
        """Return the unit that failed most often and is tried again; None: all goes well."""
        failing = (unit for _, unit in sorted(self.units.get(key, {}).items()) if unit.error)
        return max(failing, key=lambda unit: unit.tries, default=None)

    def blocked(self, key: CustodyKey) -> IndexSet:
        """Return the jobs that have inputs on their way."""
        return self._blocked.get(key, _NONE)


_NONE = IndexSet()


def _alike(custody: Custody, left_out: frozenset[str]) -> list[Unit]:
    """Put files with the same readers together; those with most readers first, then by lowest reader."""
    together: dict[IndexSet, list[Fetch]] = {}
    for file, sources, readers in zip(custody.files, custody.sources, custody.readers, strict=True):
        if file.ref not in left_out:
            together.setdefault(readers, []).append(Fetch(file, sources))
    ordered = sorted(together.items(), key=lambda item: (-len(item[0]), item[0].bounds))
    return [Unit(tuple(files), readers) for readers, files in ordered]


def _one_of(some: Sequence[Unit]) -> Unit:
    return Unit(tuple(f for unit in some for f in unit.files), IndexSet.union(unit.readers for unit in some))


def _units(custody: Custody, left_out: frozenset[str]) -> list[Unit]:
    ordered = _alike(custody, left_out)
    per_unit = max(1, -(-len(ordered) // MAX_UNITS))
    return [_one_of(ordered[at : at + per_unit]) for at in range(0, len(ordered), per_unit)]
