"""What the local resource manager has been given, in that order: which jobs stand on slots, which wait there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from diana.engine.state import CustodyKey

_Name = tuple[CustodyKey, int]
"""(custody, index)."""


class Run(NamedTuple):
    key: CustodyKey
    given_s: float
    """Site time at which it was given; unknown after a restart of the node: the restart."""
    processors: int


class GivenRuns:
    """Volatile; kept in step run by run, so that nothing is counted anew at a question.

    The LRM starts jobs in the order it is given them: on slots are as many of the first as fit. A run whose end was
    told holds no slot, but counts as running until its end is durable.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._used = 0
        self._on: OrderedDict[_Name, Run] = OrderedDict()
        self._ahead: OrderedDict[_Name, Run] = OrderedDict()
        self._told: dict[CustodyKey, set[int]] = {}
        self._running: dict[CustodyKey, int] = {}
        self.running = 0
        """Jobs on slots, and those whose end was told."""

    def running_of(self, key: CustodyKey) -> int:
        """Of `running`, the custody's."""
        return self._running.get(key, 0)

    def on_slots(self) -> dict[CustodyKey, int]:
        """`running_of` of every custody that has any."""
        return dict(self._running)

    def configure(self, slots: int) -> None:
        """The site has another number of slots."""
        if slots == self._slots:
            return
        every = OrderedDict([*self._on.items(), *self._ahead.items()])
        for run in self._on.values():
            self._count(run.key, -1)
        self._slots, self._used, self._on, self._ahead = slots, 0, OrderedDict(), every
        self._advance()

    # --- what happens to runs ------------------------------------------------------------------------

    def give(self, key: CustodyKey, indices: Iterable[int], processors: int, now: float) -> None:
        for index in indices:
            self._ahead[(key, index)] = Run(key, now, processors)
        self._advance()

    def told(self, key: CustodyKey, indices: Iterable[int]) -> None:
        """Their end is known, and not durable yet."""
        mine = self._told.setdefault(key, set())
        for index in indices:
            if self._leave((key, index)):
                mine.add(index)
                self._count(key, 1)
        self._advance()

    def forget(self, key: CustodyKey, indices: Iterable[int]) -> None:
        """Their end is durable, or they never started."""
        mine = self._told.get(key, set())
        for index in indices:
            if index in mine:
                mine.discard(index)
                self._count(key, -1)
            else:
                self._leave((key, index))
        if not mine:
            self._told.pop(key, None)
        self._advance()

    # --- questions -----------------------------------------------------------------------------------

    def all(self) -> Iterator[Run]:
        """What the LRM holds and has not told the end of, in the order it was given."""
        yield from self._on.values()
        yield from self._ahead.values()

    def sample(self, most: int) -> tuple[list[Run], int, list[Run], int]:
        """(some on slots, each standing for so many, some given ahead, each standing for so many): all of them, or at
        most `most` of each, evenly taken."""
        every, other = -(-len(self._on) // most) or 1, -(-len(self._ahead) // most) or 1
        on = list(islice(self._on.values(), every // 2, None, every))
        return on, every, list(islice(self._ahead.values(), other // 2, None, other)), other

    # --- inside --------------------------------------------------------------------------------------

    def _leave(self, name: _Name) -> bool:
        run = self._on.pop(name, None)
        if run is not None:
            self._used -= run.processors
            self._count(run.key, -1)
            return True
        return self._ahead.pop(name, None) is not None

    def _advance(self) -> None:
        while self._ahead:
            name = next(iter(self._ahead))
            run = self._ahead[name]
            if self._used + run.processors > self._slots:
                return
            del self._ahead[name]
            self._on[name] = run
            self._used += run.processors
            self._count(run.key, 1)

    def _count(self, key: CustodyKey, by: int) -> None:
        self.running += by
        count = self._running.get(key, 0) + by
        if count:
            self._running[key] = count
        else:
            del self._running[key]
