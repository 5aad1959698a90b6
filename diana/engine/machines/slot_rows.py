"""The runs on slots as columns, so that a look at all of them is a few array operations: what changed since the last
look is looked up, nothing else is."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from math import isnan, nan
from typing import NamedTuple

from diana.engine.journal.state import Custody, CustodyKey
from diana.model.arrays import NDArray, np
from diana.model.job.resources import Amounts

LEAST_GONE = 64
"""Rows of runs that left, at least, before the columns are packed."""
MOST_KINDS = 4096
"""Kinds of runs remembered; beyond, all are looked up anew."""


class RunColumns(NamedTuple):
    """Some runs on slots, each worker's in the order they got their slots."""

    expected_s: NDArray[np.float64]
    on_s: NDArray[np.float64]
    processors: NDArray[np.int64]
    devices: NDArray[np.int64]
    """Number of what each has in whole pieces beside processors; 0: nothing."""
    lane: NDArray[np.int64]


class SlotRows:
    """Volatile. A run is expected to take the mean that its custody's runs took here, else what is known of its kind:
    (template, owner, declared seconds)."""

    def __init__(self) -> None:
        self._at: dict[tuple[CustodyKey, int], int] = {}
        """Run -> its row."""
        self._on_s, self._processors, self._devices = array("d"), array("q"), array("q")
        self.devices: list[Amounts] = [()]
        """Number -> devices of a run."""
        self._number_of: dict[Amounts, int] = {(): 0}
        self._lane = array("q")
        """The lane's number; -1: the run is gone."""
        self._whose = array("q")
        """The custody's number."""
        self._numbers: dict[CustodyKey, int] = {}
        self._counts: list[int] = []
        """Custody's number -> its rows."""
        self._free: list[int] = []
        """Numbers that no custody has."""
        self._own_s, self._kind = array("d"), array("q")
        """Custody's number -> the mean of its own runs (nan: none yet), and its kind."""
        self._fresh: dict[int, CustodyKey] = {}
        """Custodies of which something is to be looked up."""
        self._kinds: dict[tuple[str, str], dict[float, int]] = {}
        """(template, owner) -> declared seconds -> kind."""
        self._kind_s = array("d")
        self._stale: dict[int, tuple[str, str, float]] = {}
        """Kinds to be looked up."""

    def __len__(self) -> int:
        return len(self._at)

    def put(self, key: CustodyKey, index: int, lane: int, on_s: float, processors: int, devices: Amounts = ()) -> None:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbered(key)
        self._counts[number] += 1
        self._at[key, index] = len(self._on_s)
        self._on_s.append(on_s)
        self._processors.append(processors)
        self._devices.append(self._number_of[devices] if devices in self._number_of else self._new(devices))
        self._lane.append(lane)
        self._whose.append(number)

    def drop(self, key: CustodyKey, index: int) -> None:
        self._lane[self._at.pop((key, index))] = -1
        number = self._numbers[key]
        self._counts[number] -= 1
        if not self._counts[number]:
            del self._numbers[key]
            self._fresh.pop(number, None)
            self._free.append(number)
        if len(self._on_s) > 2 * len(self._at) + LEAST_GONE:
            self._pack()

    def moved(self, key: CustodyKey) -> None:
        """Look the mean of the custody's own runs up again."""
        number = self._numbers.get(key)
        if number is not None:
            self._fresh[number] = key

    def learned(self, template: str, owner: str) -> None:
        """Look up again how long jobs of a template and user take."""
        for work_s, kind in self._kinds.get((template, owner), {}).items():
            self._stale[kind] = (template, owner, work_s)

    def all_anew(self) -> None:
        """Look everything up again: what all runs are expected by changed."""
        self._fresh = {number: key for key, number in self._numbers.items()}
        self._kinds.clear()
        self._kind_s = array("d")
        self._stale.clear()

    def columns(
        self,
        most: int,
        custodies: dict[CustodyKey, Custody],
        own_s: dict[CustodyKey, float],
        kind_s: Callable[[str, str, float], float],
        away: list[int],
    ) -> tuple[RunColumns, int]:
        """(runs on slots, each standing for so many): all, or at most `most`, evenly taken; without those of the lanes
        `away`. `own_s` and `kind_s` tell the means of custodies, and of a template, user and declared time."""
        self._look_up(custodies, own_s, kind_s)
        lane = np.frombuffer(self._lane, np.int64)
        rows = np.flatnonzero(lane >= 0) if not away else np.flatnonzero((lane >= 0) & ~np.isin(lane, away))
        if len(rows) and lane[rows].any():
            rows = rows[np.argsort(lane[rows], kind="stable")]
        every = -(-len(rows) // most) or 1
        if every > 1:
            rows = rows[every // 2 :: every]
        whose = np.frombuffer(self._whose, np.int64)[rows]
        expected_s = np.frombuffer(self._own_s, np.float64)[whose]
        unknown = np.isnan(expected_s)
        if unknown.any():
            kinds = np.frombuffer(self._kind, np.int64)[whose[unknown]]
            expected_s[unknown] = np.frombuffer(self._kind_s, np.float64)[kinds]
        return (
            RunColumns(
                expected_s,
                np.frombuffer(self._on_s, np.float64)[rows],
                np.frombuffer(self._processors, np.int64)[rows],
                np.frombuffer(self._devices, np.int64)[rows],
                lane[rows],
            ),
            every,
        )

    # --- inside --------------------------------------------------------------------------------------

    def _new(self, devices: Amounts) -> int:
        number = self._number_of[devices] = len(self.devices)
        self.devices.append(devices)
        return number

    def _numbered(self, key: CustodyKey) -> int:
        if self._free:
            number = self._free.pop()
            self._own_s[number], self._kind[number] = nan, -1
        else:
            number = len(self._counts)
            self._counts.append(0)
            self._own_s.append(nan)
            self._kind.append(-1)
        self._numbers[key] = number
        self._fresh[number] = key
        return number

    def _look_up(
        self,
        custodies: dict[CustodyKey, Custody],
        own_s: dict[CustodyKey, float],
        kind_s: Callable[[str, str, float], float],
    ) -> None:
        if len(self._kind_s) > MOST_KINDS:
            self.all_anew()
        for number, key in self._fresh.items():
            self._own_s[number] = mean_s = own_s.get(key, nan)
            if isnan(mean_s):
                self._kind[number] = self._kind_of(custodies[key])
        self._fresh.clear()
        for kind, (template, owner, work_s) in self._stale.items():
            self._kind_s[kind] = kind_s(template, owner, work_s)
        self._stale.clear()

    def _kind_of(self, custody: Custody) -> int:
        some = self._kinds.setdefault((custody.template, custody.owner), {})
        work_s = custody.spec.resources.work_s
        kind = some.get(work_s)
        if kind is None:
            kind = some[work_s] = len(self._kind_s)
            self._kind_s.append(nan)
            self._stale[kind] = (custody.template, custody.owner, work_s)
        return kind

    def _pack(self) -> None:
        """Drop the rows of runs that left, who pay for it; the others stay in order."""
        kept = [row for row, lane in enumerate(self._lane) if lane >= 0]
        for name in ("_on_s", "_processors", "_devices", "_lane", "_whose"):
            column: array[float] = getattr(self, name)
            setattr(self, name, array(column.typecode, [column[row] for row in kept]))
        if len(self.devices) > MOST_KINDS:
            # Users choose the counts: numbers of what nobody holds any more go.
            old, self.devices, self._number_of = self.devices, [()], {(): 0}
            held = (old[number] for number in self._devices)
            numbers = [self._number_of[one] if one in self._number_of else self._new(one) for one in held]
            self._devices = array("q", numbers)
        # Runs are named in the order of their rows: a new one goes to the end of both.
        self._at = dict(zip(self._at, range(len(kept)), strict=True))
