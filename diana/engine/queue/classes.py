"""Priority classes as rows of arrays: one formula over all of them, whatever the number of jobs (ARCHITECTURE,
concept 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from diana.engine.journal.state import Service
from diana.engine.machines.requirements import Kind
from diana.engine.queue.entries import WHOLE, QueueEntry, exact
from diana.engine.queue.order import Closed, RowOrder
from diana.model.arrays import Bools, Floats, Ints, NDArray, nothing, noughts, np, ones, whole
from diana.model.job.resources import amount
from diana.model.settings import Settings
from diana.policy.queueing import heavy, priority

_FIRST = 64
MOST_WEIGHTS = 64
"""Resources whose weights are kept."""
_NOWHERE = (-1, -1)


class ClassKey(NamedTuple):
    user: str
    kind: Kind
    """Request of each job; of it, priorities depend on the processors alone."""
    offset: float
    """Lasting addition to the priority, from migration or VO policy."""
    steps: int
    """Age steps of `time_threshold_s`."""
    demoted: bool
    """True for jobs beyond a job threshold: they stand one level down."""
    bound: bool
    """True for jobs in the local queue."""
    heavy: bool = False
    """True for jobs of a group beyond a threshold of work or bytes: they stand half a level down."""

    @property
    def processors(self) -> int:
        return self.kind.processors

    def added(self) -> float:
        down = (priority.LEVEL_WIDTH if self.demoted else 0.0) + (heavy.STEP if self.heavy else 0.0)
        return self.offset + self.steps * priority.AGE_STEP - down


class Sizes:
    """The figures Pr depends on: one row per (user, processors) that was ever queued, and the users' own figures."""

    base = noughts(_FIRST)
    """Pr of each row when everything was last re-prioritised."""
    _processors = ones(_FIRST)
    _user = whole(_FIRST)
    _queued = noughts(_FIRST)
    _quota = ones(_FIRST)
    _served = noughts(_FIRST)

    def __init__(self) -> None:
        self.queued_thousandths = 0
        """T in thousandths."""
        self.last_totals: tuple[float, float] = (0, 0.0)
        """(T, Q) when everything was last re-prioritised."""
        self._rows: dict[tuple[str, int], int] = {}
        self._numbers: dict[str, int] = {}

    def user(self, name: str, quota: float, served: float) -> None:
        """Make the user known, or renew its quota and the service it had."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._numbers)
            if number == len(self._queued):
                self._queued, self._quota, self._served = map(doubled, (self._queued, self._quota, self._served))
        self._quota[number], self._served[number] = quota, served

    @property
    def total_processors(self) -> float:
        """T: processors of all queued jobs."""
        return exact(self.queued_thousandths)

    def set_queued(self, name: str, jobs: float) -> None:
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

    def processors(self, rows: Ints) -> Floats:
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
    ) -> tuple[Floats, float]:
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

    effective = noughts(_FIRST)
    bound = nothing(_FIRST)
    _kind = whole(_FIRST)
    """Number of each row's kind; 0: its jobs want what any machine has."""
    _size = whole(_FIRST)
    _added = noughts(_FIRST)
    _jobs = noughts(_FIRST)
    _work_s = noughts(_FIRST)
    """Queued jobs of each row (`_jobs`), and the processor-seconds expected of them (`_work_s`)."""
    _here_processors = noughts(_FIRST)
    _here_s = noughts(_FIRST)
    """The same without reservations."""

    def __init__(self) -> None:
        self.sizes = Sizes()
        self.keys: dict[int, ClassKey] = {}
        self._rows: dict[ClassKey, int] = {}
        self._kinds: dict[Kind, tuple[int, int]] = {}
        """Kinds of the rows that are not plain: kind -> (its number, how many rows)."""
        self._weights: dict[str, tuple[int, Floats]] = {}
        """Resource -> (`kind_changes` when it was made, units per processor by the kind's number)."""
        self._spare_kinds: list[int] = []
        self._last_kind = 0
        self.kind_changes = 0
        """Version counter: rises when a kind of job comes or goes."""
        self._free: list[int] = []
        self._members: list[int] = []
        self.startable = RowOrder()
        """The entries with jobs that could start now."""
        self.reserved = RowOrder()
        """The reservations: their jobs wait at their origin."""

    def prioritise(self, settings: Settings, served_jobs: float, served_processors: float) -> None:
        """Compute the effective priority of every class, from numbers as they are now."""
        self.sizes.prioritise(settings, served_jobs, served_processors)
        count = len(self._members)
        if not count:
            return
        self.effective[:count] = priority.effective(self.sizes.base[self._size[:count]], self._added[:count])

    # --- membership ----------------------------------------------------------------------------------

    def place(self, entry: QueueEntry) -> None:
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
            self.startable.offer(plain, entry, min(entry.ready, entry.plain) > 0)
        if demoted >= 0:
            self.startable.offer(demoted, entry, entry.ready > entry.plain)
        if entry.reserved:
            for row in (plain, demoted):
                if row >= 0:
                    self.reserved.offer(row, entry, True)

    def leave(self, entry: QueueEntry) -> None:
        rows, entry.rows = entry.rows, _NOWHERE
        self._weigh(entry)
        for row in rows:
            if row >= 0:
                self._forget(row, entry)

    def _weigh(self, entry: QueueEntry) -> None:
        """Take what the entry was counted with out of its rows' sums, and count it where it stands now."""
        for row, jobs, work_s in entry.counted:
            # A row that is left by all is set to zero (`_forget`): sums of floats leave a rest.
            if self._members[row]:
                self._jobs[row] -= jobs
                self._work_s[row] -= work_s
                if not entry.reserved:
                    self._here_processors[row] -= jobs * entry.processors
                    self._here_s[row] -= work_s
        each_s = entry.run_s * entry.processors
        parts = zip(entry.rows, (entry.plain, entry.jobs - entry.plain), strict=True)
        one = entry.unit / WHOLE
        entry.counted = tuple((row, jobs * one, jobs * one * each_s) for row, jobs in parts if row >= 0)
        for row, jobs, work_s in entry.counted:
            self._jobs[row] += jobs
            self._work_s[row] += work_s
            if not entry.reserved:
                self._here_processors[row] += jobs * entry.processors
                self._here_s[row] += work_s

    def ahead(self, base: Floats, least: float, without: Collection[Kind] = ()) -> tuple[int, float, int]:
        """(jobs, processor-seconds, processors) of the classes whose effective priority is not below `least`, with
        `base` as the Pr of each size. `without`: kinds that do not count."""
        count = len(self._members)
        if not count:
            return 0, 0.0, 0
        before = self._before(base, least, without)
        jobs, work_s = self._jobs[:count][before], self._work_s[:count][before]
        processors = jobs * self.sizes.processors(self._size[:count][before])
        return int(jobs.sum()), max(0.0, float(work_s.sum())), int(processors.sum())

    def here_ahead(self, base: Floats, least: float, without: Collection[Kind] = ()) -> tuple[float, float]:
        """(processors, processor-seconds), else as `ahead`, of what was handed over: reservations do not count."""
        count = len(self._members)
        if not count:
            return 0.0, 0.0
        before = self._before(base, least, without)
        processors, work_s = self._here_processors[:count][before].sum(), self._here_s[:count][before].sum()
        return max(0.0, float(processors)), max(0.0, float(work_s))

    def weighed_ahead_s(self, base: Floats, least: float, resource: str, without: Collection[Kind] = ()) -> float:
        """As `ahead`, each processor-second counted as often as its jobs ask of the resource for each processor."""
        if not self._kinds:
            return 0.0
        weight, count = self._weight(resource), len(self._members)
        before = self._before(base, least, without)
        return max(0.0, float((self._work_s[:count] * weight[self._kind[:count]])[before].sum()))

    def weighed_here_s(self, base: Floats, least: float, resource: str, without: Collection[Kind] = ()) -> float:
        """As `weighed_ahead_s`, of what was handed over: reservations do not count."""
        if not self._kinds:
            return 0.0
        weight, count = self._weight(resource), len(self._members)
        before = self._before(base, least, without)
        return max(0.0, float((self._here_s[:count] * weight[self._kind[:count]])[before].sum()))

    def _weight(self, resource: str) -> Floats:
        kept = self._weights.get(resource)
        if kept is not None and kept[0] == self.kind_changes:
            return kept[1]
        weight = np.zeros(self._last_kind + 1)
        for kind, (number, _) in self._kinds.items():
            weight[number] = amount(kind.amounts, resource) / kind.processors
        if len(self._weights) >= MOST_WEIGHTS:
            self._weights.clear()
        self._weights[resource] = (self.kind_changes, weight)
        return weight

    def _before(self, base: Floats, least: float, without: Collection[Kind]) -> Bools:
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

    def _row(self, entry: QueueEntry, demoted: bool) -> int:
        key = ClassKey(entry.user, entry.kind, entry.offset, entry.steps, demoted, entry.bound, entry.heavy)
        row = self._rows.get(key)
        if row is not None:
            return row
        row = self._free.pop() if self._free else len(self._members)
        if row == len(self._members):
            self._members.append(0)
            self.startable.grow()
            self.reserved.grow()
            if row == len(self.effective):
                self.effective, self._added = doubled(self.effective), doubled(self._added)
                self._size, self.bound = doubled(self._size), doubled(self.bound)
                self._jobs, self._work_s = doubled(self._jobs), doubled(self._work_s)
                self._here_processors, self._here_s = doubled(self._here_processors), doubled(self._here_s)
                self._kind = doubled(self._kind)
        self._rows[key], self.keys[row] = row, key
        self._kind[row] = self._count(key.kind, 1)
        size = self.sizes.row(entry.user, entry.processors)
        self._size[row], self._added[row], self.bound[row] = size, key.added(), key.bound
        # A known size has its Pr of the last re-prioritisation. A new one comes with an arrival, which re-prioritises.
        self.effective[row : row + 1] = priority.effective(self.sizes.base[size : size + 1], self._added[row : row + 1])
        return row

    def _count(self, kind: Kind, by: int) -> int:
        """Count a row of the kind in or out; return its number."""
        if kind.is_plain:
            return 0
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
        """Return the kinds that are not plain, of all that is queued."""
        return tuple(self._kinds)

    def shut(self, closed: Closed, rows: int) -> Bools:
        """Return, for each of the first rows, whether the kind of its jobs is closed."""
        kind = self._kind[:rows]
        shut = self._marked(closed.kinds)[kind]
        shut |= (kind == 0) & (self.sizes.processors(self._size[:rows]) >= closed.wide)
        return shut

    def _marked(self, kinds: Iterable[Kind]) -> Bools:
        """Return an array by kind number that is True for these kinds."""
        marks = np.zeros(self._last_kind + 1, dtype=bool)
        marks[[self._kinds[kind][0] for kind in kinds if kind in self._kinds]] = True
        return marks

    def _forget(self, row: int, entry: QueueEntry) -> None:
        self.startable.offer(row, entry, False)
        self.reserved.offer(row, entry, False)
        self._members[row] -= 1
        if not self._members[row]:
            key = self.keys.pop(row)
            del self._rows[key]
            self._count(key.kind, -1)
            self._free.append(row)
            self._jobs[row] = self._work_s[row] = self._here_processors[row] = self._here_s[row] = 0.0


def doubled(array: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate((array, np.zeros_like(array)))
