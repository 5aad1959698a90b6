"""Which inputs of which custody are still on their way, and which jobs wait for them."""

from __future__ import annotations

from diana.engine.state import Custody, CustodyKey
from diana.model.data import Fetch
from diana.model.indexset import IndexSet

MAX_UNITS = 64
"""Per custody; jobs of a unit start when all its files are here."""


class Unit:
    """Files that are staged together and the jobs that read any of them."""

    __slots__ = ("files", "readers", "tries")

    def __init__(self, files: tuple[Fetch, ...], readers: IndexSet) -> None:
        self.files = files
        self.readers = readers
        self.tries = 0


class StageBook:
    """Volatile: after a restart everything is asked of the stager again, which knows what it has."""

    def __init__(self) -> None:
        self.units: dict[CustodyKey, dict[int, Unit]] = {}
        self.tickets: dict[int, tuple[CustodyKey, int]] = {}
        self._blocked: dict[CustodyKey, IndexSet] = {}

    def open(self, custody: Custody) -> dict[int, Unit]:
        units = dict(enumerate(_units(custody)))
        if units:
            self.units[custody.key] = units
            self._blocked[custody.key] = IndexSet.union(u.readers for u in units.values())
        return units

    def close_unit(self, key: CustodyKey, number: int) -> None:
        units = self.units[key]
        del units[number]
        self._blocked[key] = IndexSet.union(u.readers for u in units.values())
        if not units:
            self.drop(key)

    def drop(self, key: CustodyKey) -> list[int]:
        """Forget the custody; the tickets that still move."""
        self._blocked.pop(key, None)
        if self.units.pop(key, None) is None:
            return []
        tickets = [ticket for ticket, (k, _) in self.tickets.items() if k == key]
        for ticket in tickets:
            del self.tickets[ticket]
        return tickets

    def blocked(self, key: CustodyKey) -> IndexSet:
        """Jobs that have inputs on their way."""
        return self._blocked.get(key, _NONE)


_NONE = IndexSet()


def _units(custody: Custody) -> list[Unit]:
    """Files with the same readers together; what all jobs read first, then by lowest reader."""
    together: dict[IndexSet, list[Fetch]] = {}
    for file, sources, readers in zip(custody.files, custody.sources, custody.readers, strict=True):
        together.setdefault(readers, []).append(Fetch(file, sources))
    ordered = sorted(together.items(), key=lambda item: (-len(item[0]), item[0].bounds))
    per_unit = max(1, -(-len(ordered) // MAX_UNITS))
    return [
        Unit(
            tuple(f for _, files in ordered[at : at + per_unit] for f in files),
            IndexSet.union(readers for readers, _ in ordered[at : at + per_unit]),
        )
        for at in range(0, len(ordered), per_unit)
    ]
