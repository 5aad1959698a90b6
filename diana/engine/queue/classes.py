"""Priority classes as rows of arrays: one formula over all of them, whatever the number of jobs (ARCHITECTURE,
concept 4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diana.engine.journal.state import Service
from diana.engine.machines.requirements import PLAIN, Kind, Needs
from diana.engine.queue.entries import Entry, Order
from diana.model.settings import Settings
from diana.policy.queueing import priority

_FIRST = 64
_NOWHERE = (-1, -1)


class ClassKey(NamedTuple):
    user: str
    processors: int
    offset: float
    """Lasting addition to the priority, from migration or VO policy."""
    steps: int
    """Age steps of `time_threshold_s`."""
    demoted: bool
    """True for jobs beyond a job threshold: they stand one level down."""
    bound: bool
    """True for jobs in the local queue."""
    needs: Needs = PLAIN
    """Needs that not every machine meets; priorities do not depend on them."""

    def kind(self) -> Kind:
        return self.processors, self.needs

    def added(self) -> float:
        return self.offset + self.steps * priority.AGE_STEP - (priority.LEVEL_WIDTH if self.demoted else 0.0)


class Closed:
    """Kinds of jobs of which none can start any more, however many wait; it grows."""

    def __init__(self) -> None:
        self.kinds: set[Kind] = set()
        self.wide = inf
        """Processors from which on jobs without needs are closed; inf: none are."""
        self.changes = 0

    def add(self, *kinds: Kind) -> None:
        self.kinds.update(kinds)
        self.changes += 1

    def from_width(self, processors: int) -> None:
        if processors < self.wide:
            self.wide = processors
            self.changes += 1

    def has(self, kind: Kind) -> bool:
        return kind in self.kinds or (kind[0] >= self.wide and kind[1] == PLAIN)


class Sizes:
    """The figures Pr depends on: one row per (user, processors) that was ever queued, and the users' own figures."""

    def __init__(self) -> None:
        self.total_processors = 0
        """T: processors of all queued jobs."""
        self.base = np.zeros(_FIRST)
        """Pr of each row when everything was last re-prioritised."""
        self.last_totals = (0, 0.0)
        """(T, Q) when everything was last re-prioritised."""
        self._rows: dict[tuple[str, int], int] = {}
        self._processors = np.ones(_FIRST)
        self._user = np.zeros(_FIRST, dtype=np.int64)
        self._numbers: dict[str, int] = {}
        self._queued = np.zeros(_FIRST)
        self._quota = np.ones(_FIRST)
        self._served = np.zeros(_FIRST)

    def user(self, name: str, quota: float, served: float) -> None:
        """Make the user known, or renew its quota and the service it had."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._numbers)
            if number == len(self._queued):
                self._queued, self._quota, self._served = map(doubled, (self._queued, self._quota, self._served))
        self._quota[number], self._served[number] = quota, served

    def set_queued(self, name: str, jobs: int) -> None:
        """Set n of the user: its queued jobs."""
        self._queued[self._numbers[name]] = jobs

    def total_quota(self) -> float:
        """Return Q: the sum of the quotas of the distinct users that have queued jobs."""
        return float(self._quota[self._queued > 0].sum())

    def row(self, user: str, processors: int) -> int:
        row = self._rows.get((user, processors))
        if row is None:
            row = self._rows[(user, processors)] = len(self._rows)
            if row == len(self.base):
                self.base, self._processors, self._user = map(doubled, (self.base, self._processors, self._user))
            self._processors[row], self._user[row] = processors, self._numbers[user]
        return row

    def processors(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the processors of one job of each of these rows."""
        return self._processors[rows]

    def prioritise(self, settings: Settings, served_jobs: float, served_processors: float) -> None:
        """Compute Pr of every row, from n, t, q, T and Q as they are now."""
        count = len(self._rows)
        if not count or self.total_processors <= 0:
            return
        some = len(self._numbers)
        total, total_quota = self.total_processors, self.total_quota()
        self.last_totals = (total, total_quota)
        jobs = self._queued[:some]
        mixed = settings.priority_mode != "paper" and served_jobs > 0
        if mixed:
            weight = priority.served_weight(served_jobs, settings.slots, settings.service_half_life)
            jobs = priority.demand(jobs, total, self._served[:some], served_processors, weight)
        user = self._user[:count]
        ratio = priority.burden(jobs[user], self._processors[:count], self._quota[user], total, total_quota)
        base = priority.priority(ratio)
        # Decayed service is never a whole number; a user alone stands at 0 all the same.
        self.base[:count] = np.round(base, priority.DIGITS) if mixed else base

    def if_arrived(
        self, settings: Settings, service: Service, user: str, processors: int, jobs: int
    ) -> tuple[NDArray[np.float64], float]:
        """(Pr of every row, Pr of the new ones) if the user queued so many jobs more; nothing changes."""
        number = self._numbers.get(user, len(self._numbers))
        some = len(self._numbers) + (number == len(self._numbers))
        queued, quota, served = np.zeros(some), np.ones(some), np.zeros(some)
        known = len(self._numbers)
        queued[:known], quota[:known], served[:known] = self._queued[:known], self._quota[:known], self._served[:known]
        queued[number] += jobs
        quota[number], served[number] = settings.quota_of(user), service.jobs.get(user, 0.0)
        total, total_quota = self.total_processors + jobs * processors, float(quota[queued > 0].sum())
        mixed = settings.priority_mode != "paper" and service.total_jobs() > 0
        if mixed:
            weight = priority.served_weight(service.total_jobs(), settings.slots, settings.service_half_life)
            queued = priority.demand(queued, total, served, service.processors, weight)
        count = len(self._rows)
        users = np.append(self._user[:count], number)
        sizes = np.append(self._processors[:count], processors)
        base = priority.priority(priority.burden(queued[users], sizes, quota[users], total, total_quota))
        base = np.round(base, priority.DIGITS) if mixed else base
        return base[:-1], float(base[-1])

    def last(self, user: str, processors: int) -> tuple[float, float]:
        """(N, Pr) of jobs of this size when everything was last re-prioritised."""
        total, total_quota = self.last_totals
        quota = float(self._quota[self._numbers[user]])
        return (
            priority.allowance(processors, quota, total, total_quota),
            float(self.base[self._rows[(user, processors)]]),
        )


class ClassTable:
    """Rows are classes that have queued jobs."""

    def __init__(self) -> None:
        self.sizes = Sizes()
        self.keys: dict[int, ClassKey] = {}
        self.effective = np.zeros(_FIRST)
        self._rows: dict[ClassKey, int] = {}
        self._kinds: dict[Kind, tuple[int, int]] = {}
        """Kinds of the rows with needs beyond the plain: kind -> (its number, how many rows)."""
        self._kind = np.zeros(_FIRST, dtype=np.int64)
        """Number of each row's kind; 0: its jobs want what any machine has."""
        self._spare_kinds: list[int] = []
        self._gpus = np.zeros(_FIRST)
        """GPUs per processor of each row's jobs."""
        self._last_kind = 0
        self.kind_changes = 0
        """Version counter: rises when a kind of job comes or goes."""
        self._free: list[int] = []
        self._members: list[int] = []
        self._ready: list[list[tuple[Order, Entry]]] = []
        """Per row, entries with jobs that could start now."""
        self._size = np.zeros(_FIRST, dtype=np.int64)
        self._added = np.zeros(_FIRST)
        self._startable = np.zeros(_FIRST, dtype=bool)
        self._bound = np.zeros(_FIRST, dtype=bool)
        self._head_s = np.zeros(_FIRST)
        """Submission time of each row's first startable entry."""
        self._jobs = np.zeros(_FIRST)
        self._work_s = np.zeros(_FIRST)
        """Queued jobs of each row (`_jobs`), and the processor-seconds expected of them (`_work_s`)."""

    def prioritise(self, settings: Settings, served_jobs: float, served_processors: float) -> None:
        """Compute the effective priority of every class, from numbers as they are now."""
        self.sizes.prioritise(settings, served_jobs, served_processors)
        count = len(self._members)
        self.effective[:count] = priority.effective(self.sizes.base[self._size[:count]], self._added[:count])

    # --- membership ----------------------------------------------------------------------------------

    def place(self, entry: Entry) -> None:
        """Put the entry where its jobs belong now."""
        plain = self._row(entry, False) if entry.plain else -1
        demoted = self._row(entry, True) if entry.jobs > entry.plain else -1
        old, entry.rows = entry.rows, (plain, demoted)
        for row in entry.rows:
            if row >= 0 and row not in old:
                self._members[row] += 1
        for row in old:
            if row >= 0 and row not in entry.rows:
                self._forget(row, entry)
        self._weigh(entry)
        if plain >= 0:
            self._offer(plain, entry, min(entry.ready, entry.plain) > 0)
        if demoted >= 0:
            self._offer(demoted, entry, entry.ready > entry.plain)

    def leave(self, entry: Entry) -> None:
        rows, entry.rows = entry.rows, _NOWHERE
        self._weigh(entry)
        for row in rows:
            if row >= 0:
                self._forget(row, entry)

    def _weigh(self, entry: Entry) -> None:
        """Take what the entry was counted with out of its rows' sums, and count it where it stands now."""
        for row, jobs, work_s in entry.counted:
            # A row that is left by all is set to zero (`_forget`): sums of floats leave a rest.
            if self._members[row]:
                self._jobs[row] -= jobs
                self._work_s[row] -= work_s
        each_s = entry.run_s * entry.processors
        parts = zip(entry.rows, (entry.plain, entry.jobs - entry.plain), strict=True)
        entry.counted = tuple((row, jobs, jobs * each_s) for row, jobs in parts if row >= 0)
        for row, jobs, work_s in entry.counted:
            self._jobs[row] += jobs
            self._work_s[row] += work_s

    def ahead(self, base: NDArray[np.float64], least: float, without: Collection[Kind] = ()) -> tuple[int, float]:
        """(jobs, processor-seconds) of the classes whose effective priority is not below `least`, with `base` as the
        Pr of each size. `without`: kinds that do not count."""
        count = len(self._members)
        if not count:
            return 0, 0.0
        before = self._before(base, least, without)
        return int(self._jobs[:count][before].sum()), max(0.0, float(self._work_s[:count][before].sum()))

    def gpus_ahead_s(self, base: NDArray[np.float64], least: float, without: Collection[Kind] = ()) -> float:
        """As `ahead`, in GPU-seconds of the classes that want GPUs."""
        if not self._kinds:
            return 0.0
        count, before = len(self._members), self._before(base, least, without)
        return max(0.0, float((self._work_s[:count] * self._gpus[:count])[before].sum()))

    def weighed_ahead_s(
        self, base: NDArray[np.float64], least: float, weights: Mapping[Kind, float], without: Collection[Kind] = ()
    ) -> float:
        """As `ahead`, each processor-second counted as often as its kind weighs."""
        if not weights:
            return 0.0
        count, before = len(self._members), self._before(base, least, without)
        weight = np.zeros(self._last_kind + 1)
        for kind, each in weights.items():
            weight[self._kinds[kind][0]] = each
        return max(0.0, float((self._work_s[:count] * weight[self._kind[:count]])[before].sum()))

    def _before(self, base: NDArray[np.float64], least: float, without: Collection[Kind]) -> NDArray[np.bool_]:
        count = len(self._members)
        before = priority.effective(base[self._size[:count]], self._added[:count]) >= least
        if without:
            before &= ~self._marked(without)[self._kind[:count]]
        return before

    def by_level(self) -> dict[tuple[str, str], int]:
        """(local or global, level) -> queued jobs. Costs by the number of classes."""
        out = {(queue, level.name): 0 for queue in ("local", "global") for level in priority.Level}
        for row, key in self.keys.items():
            level = priority.level(float(self.effective[row]))
            out["local" if key.bound else "global", level.name] += round(float(self._jobs[row]))
        return out

    def _row(self, entry: Entry, demoted: bool) -> int:
        key = ClassKey(entry.user, entry.processors, entry.offset, entry.steps, demoted, entry.bound, entry.needs)
        row = self._rows.get(key)
        if row is not None:
            return row
        row = self._free.pop() if self._free else len(self._members)
        if row == len(self._members):
            self._members.append(0)
            self._ready.append([])
            if row == len(self.effective):
                self.effective, self._added = doubled(self.effective), doubled(self._added)
                self._size, self._startable = doubled(self._size), doubled(self._startable)
                self._bound, self._head_s = doubled(self._bound), doubled(self._head_s)
                self._jobs, self._work_s = doubled(self._jobs), doubled(self._work_s)
                self._kind, self._gpus = doubled(self._kind), doubled(self._gpus)
        self._rows[key], self.keys[row] = row, key
        self._kind[row], self._gpus[row] = self._count(key, 1), key.needs.gpus / key.processors
        size = self.sizes.row(entry.user, entry.processors)
        self._size[row], self._added[row], self._bound[row] = size, key.added(), key.bound
        # A known size has its Pr of the last re-prioritisation. A new one comes with an arrival, which re-prioritises.
        self.effective[row : row + 1] = priority.effective(self.sizes.base[size : size + 1], self._added[row : row + 1])
        return row

    def _count(self, key: ClassKey, by: int) -> int:
        """Count a row of the key in or out; return the number of its kind."""
        if key.needs == PLAIN:
            return 0
        kind = key.kind()
        number, rows = self._kinds.get(kind, (0, 0))
        if not number:
            self.kind_changes += 1
            if not self._spare_kinds:
                self._last_kind += 1
                self._spare_kinds.append(self._last_kind)
            number = self._spare_kinds.pop()
        self._kinds[kind] = (number, rows + by)
        if not rows + by:
            self.kind_changes += 1
            del self._kinds[kind]
            self._spare_kinds.append(number)
        return number

    def special(self) -> tuple[Kind, ...]:
        """Return the kinds with needs beyond the plain, of all that is queued."""
        return tuple(self._kinds)

    def _marked(self, kinds: Iterable[Kind]) -> NDArray[np.bool_]:
        """Return an array by kind number that is True for these kinds."""
        marks = np.zeros(self._last_kind + 1, dtype=bool)
        marks[[self._kinds[kind][0] for kind in kinds if kind in self._kinds]] = True
        return marks

    def _forget(self, row: int, entry: Entry) -> None:
        self._offer(row, entry, False)
        self._members[row] -= 1
        if not self._members[row]:
            key = self.keys.pop(row)
            del self._rows[key]
            self._count(key, -1)
            self._free.append(row)
            self._jobs[row] = self._work_s[row] = 0.0

    def _offer(self, row: int, entry: Entry, startable: bool) -> None:
        line = self._ready[row]
        at = bisect_left(line, (entry.order,))
        there = at < len(line) and line[at][1] is entry
        if startable and not there:
            line.insert(at, (entry.order, entry))
        elif there and not startable:
            del line[at]
        self._startable[row] = bool(line)
        self._head_s[row] = line[0][0][0] if line else np.inf

    # --- order ---------------------------------------------------------------------------------------

    def order(self, closed: Closed | None = None) -> Iterator[tuple[Entry, bool]]:
        """Yield (entry, demoted) with startable jobs, best first. During the iteration entries may start, and so leave,
        and kinds of jobs may be closed: no more of those come."""
        count, closed = len(self._members), closed or Closed()
        if not count:
            return
        left, known = np.where(self._startable[:count], self.effective[:count], -np.inf), 0
        while True:
            if closed.changes != known:
                left[self._shut(closed, count)] = -np.inf
                known = closed.changes
            if (best := left.max()) == -np.inf:
                return
            tied = np.flatnonzero(left == best)
            left[tied] = -np.inf
            # Local before global.
            bound = self._bound[tied]
            yield from self._merge(tied[bound], closed)
            yield from self._merge(tied[~bound], closed)

    def _shut(self, closed: Closed, count: int) -> NDArray[np.bool_]:
        kind = self._kind[:count]
        shut = self._marked(closed.kinds)[kind]
        shut |= (kind == 0) & (self.sizes.processors(self._size[:count]) >= closed.wide)
        return shut

    def _merge(self, rows: NDArray[np.int64], closed: Closed) -> Iterator[tuple[Entry, bool]]:
        """Yield the entries of rows of one priority in their order. A row is looked into when its head may be next.

        A start may move other entries of its user to other rows: so a head is looked at again before it is chosen.
        """
        heads = self._head_s[rows]
        unseen = _rising(heads)
        at = next(unseen, None)
        seen: dict[int, Order] = {}
        found: list[tuple[Order, bool, int, Entry]] = []
        while found or at is not None:
            while at is not None and (not found or heads[at] <= found[0][0][0]):
                self._find(int(rows[at]), None, found)
                at = next(unseen, None)
            if not found:
                continue
            # An entry's jobs within the thresholds go before its demoted ones.
            order, demoted, row, entry = heappop(found)
            head = self._next(row, seen.get(row))
            if head is None or closed.has(self.keys[row].kind()):
                continue
            if head[1] is not entry:
                heappush(found, (head[0], self.keys[row].demoted, row, head[1]))
                continue
            seen[row] = order
            yield entry, demoted
            self._find(row, order, found)

    def _find(self, row: int, seen: Order | None, found: list[tuple[Order, bool, int, Entry]]) -> None:
        head = self._next(row, seen)
        if head is not None:
            heappush(found, (head[0], self.keys[row].demoted, row, head[1]))

    def _next(self, row: int, seen: Order | None) -> tuple[Order, Entry] | None:
        """Return the first entry of the row's line behind `seen`, whatever left or joined the line meanwhile."""
        line, at = self._ready[row], 0
        if seen is not None:
            # Shorter than what it is compared with, so that it stands right before its own entry.
            at = bisect_left(line, (seen,))
            at += at < len(line) and line[at][0] == seen
        return line[at] if at < len(line) else None


def _rising(values: NDArray[np.float64]) -> Iterator[int]:
    """Indices by rising value; the first few are found without sorting all."""
    first = np.empty(0, dtype=np.int64)
    if len(values) > 4 * _FIRST:
        first = np.argpartition(values, _FIRST)[:_FIRST]
        first = first[np.argsort(values[first], kind="stable")]
        yield from first.tolist()
    rest = np.argsort(values, kind="stable")
    yield from (rest[~np.isin(rest, first)] if len(first) else rest).tolist()


def doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((array, np.zeros_like(array)))
