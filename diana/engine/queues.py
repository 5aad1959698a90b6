"""The multilevel feedback queues of a site: which class of jobs starts next (SPEC D3-D5; paper sections VI, VII, X).

All queued jobs of one (user, processors, offset, age step, demoted or not, bound or not) share a priority: a *class*,
one row of `classes.py`. What waits is an *entry*, one per custody; its jobs stand in at most two classes, because only
the job thresholds part them. Arrivals and dispatches cost by the number of classes, never of jobs.

Volatile: made again from the custodies at start. Only the service users had is state.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from diana.engine.classes import ClassTable
from diana.engine.entries import Entry, Lines
from diana.engine.state import CustodyKey, Service
from diana.model.settings import Settings
from diana.policy import priority


class Queues:
    """Local and global queue of one site, four levels each.

    Only what arrives re-prioritises, in the paper's mode; between arrivals priorities stand still while jobs leave.
    The default mode also re-prioritises when service was given, because its shares depend on it.
    """

    def __init__(self, settings: Settings, service: Service) -> None:
        self.classes = ClassTable()
        self.entries: dict[CustodyKey, Entry] = {}
        self._settings = settings
        self._service = service
        self._service_weight = 0.0
        self._users = Lines()
        self._origins = Lines()
        self._aging: list[tuple[float, CustodyKey]] = []
        self._stale = False

    # --- what waits --------------------------------------------------------------------------------

    def put(self, entry: Entry, now: float) -> None:
        """Work that waits here from now on, or waits in another number than before (staged, held, queued again).

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
            old.jobs, old.ready, old.bound = entry.jobs, entry.ready, entry.bound
            old.allowed = [min(entry.jobs, allowed + grown) for allowed in old.allowed]
            old.plain = min(old.allowed)
            self.classes.place(old)
        # Nothing looks at priorities before `settle`, so a burst of arrivals is settled once.
        self._stale = self._stale or entry.jobs > before

    def took(self, key: CustodyKey, jobs: int) -> None:
        """So many of the entry's ready jobs started, those within the threshold first."""
        entry = self.entries[key]
        user = entry.user
        entry.jobs, entry.ready = entry.jobs - jobs, entry.ready - jobs
        entry.allowed = [max(0, allowed - jobs) for allowed in entry.allowed]
        entry.plain = max(0, entry.plain - jobs)
        self._count(entry, -jobs)
        self.classes.sizes.user(user, self._settings.quota_of(user), self._service.jobs.get(user, 0.0))
        self._stale = self._stale or self._settings.priority_mode != "paper"
        if entry.jobs:
            self.classes.place(entry)
        else:
            self._drop(entry)

    def remove(self, key: CustodyKey) -> None:
        entry = self.entries.get(key)
        if entry is not None:
            self._drop(entry)

    def configure(self, settings: Settings, now: float) -> None:
        """Settings changed: quotas, thresholds and mode count from now on."""
        self._settings = settings
        for entry in list(self.entries.values()):
            self._drop(entry)
            self._add(entry, now)
        self._stale = True

    def __len__(self) -> int:
        return len(self.entries)

    # --- who is next ---------------------------------------------------------------------------------

    def order(self, now: float) -> Iterator[tuple[Entry, int]]:
        """(entry, how many of its jobs stand at this place), best first: effective priority descending, local before
        global on ties, then submission, then fewest processors.

        The caller starts what it will of each entry (`took`) and may stop at any time.
        """
        self.settle(now)
        for entry, demoted in self.classes.order():
            within = min(entry.ready, entry.plain)
            jobs = entry.ready - within if demoted else within
            if jobs > 0:
                yield entry, jobs

    def settle(self, now: float) -> None:
        """What waited long enough rises; after an arrival every class gets its Pr from the numbers as they are."""
        self._age(now)
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

    def _add(self, entry: Entry, now: float) -> None:
        self.entries[entry.key] = entry
        steps = priority.age_steps(now - entry.submitted_s, self._settings.time_threshold_s)
        entry.steps = min(steps, priority.MOST_STEPS)
        entry.allowed = [entry.jobs, entry.jobs]
        entry.plain = entry.jobs
        self.classes.sizes.user(
            entry.user, self._settings.quota_of(entry.user), self._service.jobs.get(entry.user, 0.0)
        )
        self._users.add(entry.user, entry)
        self._origins.add(entry.origin, entry)
        self._count(entry, entry.jobs)
        self.classes.place(entry)
        self._age_again(entry)

    def _drop(self, entry: Entry) -> None:
        del self.entries[entry.key]
        self._users.remove(entry.user, entry)
        self._origins.remove(entry.origin, entry)
        self._count(entry, -entry.jobs)
        self.classes.leave(entry)

    def _count(self, entry: Entry, jobs: int) -> None:
        """So many jobs came (or left): n of the user and T."""
        self._users.change(entry.user, jobs)
        self._origins.change(entry.origin, jobs)
        self.classes.sizes.total_processors += jobs * entry.processors
        self.classes.sizes.set_queued(entry.user, self._users.jobs(entry.user))

    def _age_again(self, entry: Entry) -> None:
        threshold_s = self._settings.time_threshold_s
        if threshold_s > 0 and entry.steps < priority.MOST_STEPS:
            heappush(self._aging, (entry.submitted_s + (entry.steps + 1) * threshold_s, entry.key))

    def _age(self, now: float) -> None:
        """Move entries whose next threshold has passed to their next class."""
        while self._aging and self._aging[0][0] <= now:
            due_s, key = heappop(self._aging)
            entry = self.entries.get(key)
            if entry is None or due_s != entry.submitted_s + (entry.steps + 1) * self._settings.time_threshold_s:
                continue
            steps = priority.age_steps(now - entry.submitted_s, self._settings.time_threshold_s)
            entry.steps = min(max(steps, entry.steps + 1), priority.MOST_STEPS)
            self.classes.place(entry)
            self._age_again(entry)

    def _demote(self) -> None:
        """What a user, or another site, queues beyond its threshold goes one level down (section VII, Figure 3)."""
        limits = (self._settings.job_threshold, self._settings.site_job_threshold)
        for at, (lines, limit) in enumerate(zip((self._users, self._origins), limits, strict=True)):
            for _, line in lines.changed() if limit else ():
                left = limit
                for entry in line:
                    entry.allowed[at] = min(entry.jobs, left)
                    left -= entry.allowed[at]
                    plain = min(entry.allowed)
                    if plain != entry.plain:
                        entry.plain = plain
                        self.classes.place(entry)
