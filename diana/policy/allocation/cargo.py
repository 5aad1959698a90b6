"""Data of a group's blocks, worked out once per split, however many deals of it are looked at.

Needs of one kind that the same blocks read always travel together and form one lot.
"""

from __future__ import annotations

from collections.abc import Sequence

from diana.model.arrays import Floats, np
from diana.policy.pricing.demand import Block
from diana.policy.pricing.grid import Grid, sums_by

NOTHING = 1e-9
"""Bytes in place of 0, so that even an empty file takes for ever where it cannot be brought, and else no time."""


class Cargo:
    """B blocks, L lots of data that come undivided, K kinds."""

    def __init__(self, grid: Grid, blocks: Sequence[Block]) -> None:
        self.blocks = blocks
        self.divisible = [bool(b.divisible and len(b.needs) > len(b.shared)) for b in blocks]
        """(B,) True if each job reads its own share of some bytes, so that it is a load of its own."""
        self.lots: list[list[int]] = [[] for _ in blocks]
        """(B,) lots that must be there before any of the block's jobs starts."""
        self.kind: list[int] = []
        """(L,) kind of each lot."""
        self.size: list[float] = []
        """(L,) bytes of each lot."""
        self.everyones: list[bool] = []
        """(L,) True if every job of the group reads the lot."""
        self.all_read = [True for _ in blocks]
        """(B,) True if its jobs need only data that every job of the group reads."""
        self.per_job: list[list[tuple[int, float]]] = [[] for _ in blocks]
        """(B,) (kind, bytes per job) of the data that are divided among the jobs."""
        self.moved: list[float] = [0.0 for _ in blocks]
        """(B,) bytes of all its needs."""
        if grid.data is not None:
            self._load(grid)

    def _load(self, grid: Grid) -> None:
        data = grid.data
        assert data is not None
        readers: dict[int, list[int]] = {}
        for number, block in enumerate(self.blocks):
            whole, divided = block.parted()
            for n in whole:
                readers.setdefault(n, []).append(number)
            needs = list(block.needs)
            self.all_read[number] = bool(data.everyones[needs].all())
            self.moved[number] = float(data.size[needs].sum())
            if divided:
                self.per_job[number] = _shares(grid, list(divided), len(block.indices))
        lots: dict[tuple[int, bool, tuple[int, ...]], int] = {}
        kinds, sizes, everyones = data.kind.tolist(), data.size.tolist(), data.everyones.tolist()
        for n, numbers in readers.items():
            lot = lots.setdefault((kinds[n], everyones[n], tuple(numbers)), len(lots))
            if lot == len(self.size):
                self.kind.append(kinds[n])
                self.size.append(0.0)
                self.everyones.append(everyones[n])
                for number in numbers:
                    self.lots[number].append(lot)
            self.size[lot] += sizes[n]


def _shares(grid: Grid, divided: list[int], jobs: int) -> list[tuple[int, float]]:
    data = grid.data
    assert data is not None
    sizes: Floats = sums_by(data.kind[divided], np.maximum(data.size[divided], NOTHING), len(data.kinds))
    return [(k, float(sizes[k]) / jobs) for k in np.flatnonzero(sizes).tolist()]
