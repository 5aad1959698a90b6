"""The multilevel feedback queues of a site: which class of jobs starts next (SPEC D3-D5; paper sections VI, VII, X).

All queued jobs of one (user, processors, offset, age step, demoted or not, heavy or not, bound or not) share a
priority: a *class*, one row of `classes.py`. The waiting jobs of one custody are an *entry*; they stand in at most two
classes, because only the job thresholds part them. Arrivals and dispatches cost by the number of classes, never of
jobs.

Volatile: made again from the custodies at start. Only the service users had is state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from diana.engine.journal.state import CustodyKey, Service
from diana.engine.machines.requirements import Kind
from diana.engine.queue.ageing import Ageing
from diana.engine.queue.classes import ClassKey, ClassTable
from diana.engine.queue.entries import QueueEntry, UserLines
from diana.engine.queue.order import Closed
from diana.model.arrays import Floats
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.policy.queueing import heavy, priority
from diana.policy.queueing.heavy import NO_LOAD, GroupLoad

PORTION = 1 / 100
"""Jobs that start between two looks at the shares, as a part of the half-life of service."""
ALL = 1 << 62
_ROUNDING = 1e-10
MOST_WATCHED = 1000
"""Entries whose priority is followed for the sites they came from."""


class QueuePlace(NamedTuple):
    """The place of some of an entry's jobs, and why they stand there."""

    entry: QueueEntry
    key: ClassKey
    jobs: int
    allowance: float
    """N when everything was last re-prioritised."""
    base: float
    """Pr at that time."""
    priority: float
    """Pr with ageing, offset and demotion."""
    level: priority.Level


class Prospect(NamedTuple):
    """The place that jobs would have which are not here yet."""

    priority: float
    least: float
    """Lowest priority of the jobs that count as ahead."""
    jobs_ahead: int
    work_ahead_s: float
    """Processor-seconds expected of the jobs ahead."""
    processors_ahead: int
    """Processors that the jobs ahead want, all at once."""
    base: Floats
    """Pr of each size with the jobs among the queued."""


class Queues:
    """Local and global queue of one site, four levels each.

    Only what arrives re-prioritises, in the paper's mode; between arrivals priorities stand still while jobs leave.
    The default mode also re-prioritises when service was given, because its shares depend on it.
    """

    def __init__(self, settings: Settings, service: Service) -> None:
        self.classes = ClassTable()
        self.entries: dict[CustodyKey, QueueEntry] = {}
        self._settings = settings
        self._service = service
        self._service_weight = 0.0
        self._users = UserLines()
        self._origins = UserLines()
        self._ageing = Ageing()
        self._ageing.configure(settings)
        self._stale = False
        self.lifts = 0
        """Version counter: rises when jobs that waited long enough rise."""
        self._watched: dict[CustodyKey, float] = {}
        self.merges: set[CustodyKey] = set()
        """Waiting merge commands, which run on this very machine."""

    # --- what waits --------------------------------------------------------------------------------

    def put(self, entry: QueueEntry, now: float) -> None:
        """Enter work that waits here from now on, or waits in another number than before (staged, held, queued again).

        More jobs than before are an arrival: everything is re-prioritised (section X). No jobs: it leaves.
        """
        old = self.entries.get(entry.key)
        before = old.jobs if old else 0
        if old is None:
            if entry.jobs:
                self._add(entry, now)
        elif not entry.jobs:
            self._drop(old)
        else:
            self._count(old, entry.jobs - before)
            grown = max(0, entry.jobs - before)
            old.jobs, old.ready, old.bound, old.run_s = entry.jobs, entry.ready, entry.bound, entry.run_s
            old.allowed = [min(entry.jobs, allowed + grown) for allowed in old.allowed]
            old.plain = min(old.allowed)
            self.classes.place(old)
        # Nothing looks at priorities before `settle`, so a burst of arrivals is settled once.
        self._stale = self._stale or entry.jobs > before

    def took(self, key: CustodyKey, jobs: int) -> None:
        """Count so many of the entry's ready jobs as started, those within the threshold first."""
        entry = self.entries[key]
        user = entry.user
        entry.jobs, entry.ready = entry.jobs - jobs, entry.ready - jobs
        entry.allowed = [max(0, allowed - jobs) for allowed in entry.allowed]
        entry.plain = max(0, entry.plain - jobs)
        self._count(entry, -jobs)
        self.classes.sizes.user(user, self._settings.quota_of(user), self._service.jobs.get(user, 0.0))
        self._stale = self._stale or self._settings.priority_mode != "paper"
        for one in self._ageing.moved(entry) if not entry.claims else ():
            if one is not entry:
                self.classes.place(one)
        if entry.jobs:
            self.classes.place(entry)
        else:
            self._drop(entry)

    def let_go(self, user: str) -> None:
        """Count a component of one of the user's gangs as started."""
        for one in self._ageing.let_go(user):
            self.classes.place(one)
        self._stale = self._stale or self._settings.priority_mode != "paper"

    def remove(self, key: CustodyKey) -> None:
        entry = self.entries.get(key)
        if entry is not None:
            self._drop(entry)

    def configure(self, settings: Settings, now: float) -> None:
        """Take over changed settings: quotas, thresholds and mode count from now on."""
        self._settings = settings
        entries = list(self.entries.values())
        for entry in entries:
            self._drop(entry)
        self._ageing.configure(settings)
        for entry in entries:
            self._add(entry, now)
        self._stale = True

    def jobs_of(self, user: str) -> int:
        """Return n, the user's queued jobs, in whole jobs."""
        return round(self._users.jobs(user))

    def prospect(
        self,
        user: str,
        processors: int,
        jobs: int,
        offset: float = 0.0,
        without: Collection[Kind] = (),
        *,
        behind: bool = False,
        load: GroupLoad = NO_LOAD,
    ) -> Prospect:
        """Return the place of jobs if the user queued so many now, with a lasting offset. All queued jobs are
        re-prioritised as at any arrival; those that have no lower priority then are ahead, and with `behind` all.
        `without`: kinds that do not count; `load`: of their whole group."""
        settings = self._settings
        base, new = self.classes.sizes.if_arrived(settings, self._service, user, processors, jobs)
        demoted = settings.job_threshold and self.jobs_of(user) >= settings.job_threshold
        down = (priority.LEVEL_WIDTH if demoted else 0.0) + (heavy.STEP if heavy.is_heavy(settings, load) else 0.0)
        mine = min(max(new + offset - down, -1.0), priority.BELOW_ONE)
        least = priority.LOWEST if behind else mine - _ROUNDING
        return Prospect(mine, least, *self.classes.ahead(base, least, without), base)

    def weighed_ahead_s(self, place: Prospect, resource: str, without: Collection[Kind]) -> float:
        """Return the seconds expected of the jobs before a prospect, times what they ask of the resource."""
        return self.classes.weighed_ahead_s(place.base, place.least, resource, without)

    def work_before_s(self, entry: QueueEntry, without: Collection[Kind] = ()) -> float:
        """Return the processor-seconds expected of all that has no lower priority than the entry's jobs, theirs
        included."""
        return self.classes.ahead(self.classes.sizes.base, self.least_of(entry), without)[1]

    def reservations(self) -> Iterator[QueueEntry]:
        """Yield the reservations, those first whose turn comes first."""
        seen: set[CustodyKey] = set()
        for entry, _ in self.classes.reserved.order(self.classes):
            if entry.key not in seen:
                seen.add(entry.key)
                yield entry

    def here_before(self, entry: QueueEntry, without: Collection[Kind] = ()) -> tuple[float, float]:
        """(processors, processor-seconds) of all that was handed over and has no lower priority than the entry's
        jobs."""
        return self.classes.here_ahead(self.classes.sizes.base, self.least_of(entry), without)

    def weighed_before_s(self, entry: QueueEntry, resource: str, without: Collection[Kind] = ()) -> float:
        """Return `work_before_s` in seconds times what the jobs ask of the resource."""
        return self.classes.weighed_ahead_s(self.classes.sizes.base, self.least_of(entry), resource, without)

    def weighed_here_s(self, entry: QueueEntry, resource: str, without: Collection[Kind] = ()) -> float:
        """Return the seconds expected of what `here_before` counts, times what its jobs ask of the resource."""
        return self.classes.weighed_here_s(self.classes.sizes.base, self.least_of(entry), resource, without)

    def least_of(self, entry: QueueEntry) -> float:
        """Return the lowest priority of jobs that stand before the entry's, or beside them."""
        rows = [row for row in entry.rows if row >= 0]
        return max((float(self.classes.effective[row]) for row in rows), default=0.0) - _ROUNDING

    def waits_since_s(self, entry: QueueEntry) -> float:
        """Return the site time from which the entry's ageing counts."""
        return self._ageing.since_s(entry)

    def best(self, key: CustodyKey) -> tuple[str, float]:
        """Return (level, priority) of the best of the entry's jobs; an empty level: none is queued."""
        entry = self.entries.get(key)
        rows = [row for row in entry.rows if row >= 0] if entry else []
        if not rows:
            return "", 0.0
        now = max(float(self.classes.effective[row]) for row in rows)
        return priority.level(now).name, now

    def moved_priorities(self, home: SiteId) -> list[CustodyKey]:
        """Return the entries of other sites whose priority moved visibly since last asked; none when very many wait."""
        if len(self.entries) > MOST_WATCHED:
            return []
        now = {key: round(self.best(key)[1], 2) for key, entry in self.entries.items() if entry.origin != home}
        was, self._watched = self._watched, now
        return [key for key, value in now.items() if was.get(key) != value]

    def __len__(self) -> int:
        return len(self.entries)

    # --- who is next ---------------------------------------------------------------------------------

    def order(self, now: float, closed: Closed | None = None) -> Iterator[tuple[QueueEntry, int]]:
        """Yield (entry, how many of its jobs stand at this place), best first: effective priority descending, local
        before global on ties, then submission, then fewest processors.

        The caller starts as many of each entry as it will (`took`) and may stop at any time. If it does not start all
        of an entry, the rest is passed over this time. In the default mode service counts as it is given, in small
        portions: else a site with many slots would fill them for one user. `closed`: kinds that are to come no more;
        the caller may add to it.
        """
        passed: set[tuple[CustodyKey, bool]] = set()
        portion = self._portion()
        again = True
        while again:
            again, left = False, portion
            self.settle(now)
            for entry, demoted in self.classes.startable.order(self.classes, closed):
                within = min(entry.ready, entry.plain)
                jobs = min(left, entry.ready - within if demoted else within)
                if jobs <= 0 or (entry.key, demoted) in passed:
                    continue
                before = entry.jobs
                yield entry, jobs
                taken = before - entry.jobs
                left -= taken
                if taken < jobs:
                    passed.add((entry.key, demoted))
                if left <= 0:
                    again = True
                    break

    def _portion(self) -> int:
        """Return how many jobs start between two looks at the shares."""
        settings = self._settings
        if settings.priority_mode == "paper":
            return ALL
        return max(1, int(settings.service_half_life * PORTION))

    def standing(self) -> list[QueuePlace]:
        """Return every entry's classes, in order of submission; priorities as `settle` left them."""
        out: list[QueuePlace] = []
        for entry in sorted(self.entries.values(), key=lambda e: e.order):
            allowance, base = self.classes.sizes.last(entry.user, entry.processors)
            for row, jobs in zip(entry.rows, (entry.plain, entry.jobs - entry.plain), strict=True):
                if row >= 0:
                    key, level = self.classes.keys[row], priority.level(float(self.classes.effective[row]))
                    exact = min(max(base + key.added(), -1.0), priority.BELOW_ONE)
                    out.append(QueuePlace(entry, key, jobs, allowance, base, exact, level))
        return out

    def settle(self, now: float) -> None:
        """Let entries rise that waited long enough; after an arrival give every class its Pr from the numbers as they
        are."""
        for entry in self._ageing.lifted(now):
            self.lifts += 1
            self.classes.place(entry)
        if not self._stale:
            return
        self._demote()
        self._stale = False
        service = self._service
        if service.weight < self._service_weight:
            # Its unit was scaled down since: every user's figure with it.
            for user in {entry.user for entry in self.entries.values()}:
                self.classes.sizes.user(user, self._settings.quota_of(user), service.jobs.get(user, 0.0))
        self._service_weight = service.weight
        self.classes.prioritise(self._settings, service.total_jobs(), service.processors)

    # --- inside --------------------------------------------------------------------------------------

    def _add(self, entry: QueueEntry, now: float) -> None:
        self.entries[entry.key] = entry
        entry.heavy = heavy.is_heavy(self._settings, entry.load)
        self._ageing.enter(entry, now)
        entry.allowed = [entry.jobs, entry.jobs]
        entry.plain = entry.jobs
        self.classes.sizes.user(
            entry.user, self._settings.quota_of(entry.user), self._service.jobs.get(entry.user, 0.0)
        )
        self._users.add(entry.user, entry)
        self._origins.add(entry.origin, entry)
        self._count(entry, entry.jobs)
        self.classes.place(entry)

    def _drop(self, entry: QueueEntry) -> None:
        del self.entries[entry.key]
        self._ageing.leave(entry)
        self._users.remove(entry.user, entry)
        self._origins.remove(entry.origin, entry)
        self._count(entry, -entry.jobs)
        self.classes.leave(entry)

    def _count(self, entry: QueueEntry, jobs: int) -> None:
        """Count `jobs` that came (negative: left) in n of the user and in T."""
        counted = jobs * entry.unit
        self._users.change(entry.user, counted)
        self._origins.change(entry.origin, counted)
        self.classes.sizes.queued_thousandths += counted * entry.processors
        self.classes.sizes.set_queued(entry.user, self._users.jobs(entry.user))

    def _demote(self) -> None:
        """Put jobs that a user, or another site, queues beyond its threshold one level down (section VII, Figure 3)."""
        limits = (self._settings.job_threshold, self._settings.site_job_threshold)
        for at, (lines, limit) in enumerate(zip((self._users, self._origins), limits, strict=True)):
            for line in lines.to_limit(limit) if limit else ():
                left = limit
                for entry in line:
                    entry.allowed[at] = min(entry.jobs, left)
                    left -= entry.allowed[at]
                    plain = min(entry.allowed)
                    if plain != entry.plain:
                        entry.plain = plain
                        self.classes.place(entry)
