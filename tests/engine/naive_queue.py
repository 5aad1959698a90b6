"""The reference the queues are held against: every job by itself, priorities by the paper's formulas as written.

No classes, no entries, no index sets: one row per job. Slow where the queues are quick, and plain enough to be read
beside section X.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from diana.model.settings import Settings


@dataclass
class Job:
    group: str
    number: int
    user: str
    processors: int
    submitted_s: float
    origin: str
    bound: bool
    offset: float
    ready: bool = True
    demoted: bool = False
    base: float = 0.0
    """Pr(n) when last re-prioritised."""


class NaiveQueue:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.jobs: list[Job] = []
        self.served: dict[str, float] = {}
        self.served_processors = 0.0
        self.moved_s: dict[tuple[str, int], float] = {}
        """Time at which a job of this user and size last started."""
        self.gave = False
        """Service was given since the last re-prioritisation."""

    # --- what happens ----------------------------------------------------------------------------------

    def arrive(self, jobs: list[Job]) -> None:
        self.jobs += jobs
        self.prioritise()

    def leave(self, group: str) -> list[Job]:
        """Held or gone; the rest keeps its priorities."""
        gone = [j for j in self.jobs if j.group == group]
        self.jobs = [j for j in self.jobs if j.group != group]
        return gone

    def start(self, count: int, now: float) -> list[str]:
        """Start so many, best first; in the default mode what was served counts from the next job on."""
        started: list[str] = []
        for _ in range(count):
            self.settle()
            able = [j for j in self.jobs if j.ready]
            if not able:
                break
            best = min(able, key=lambda j: self._place(j, now))
            self.jobs.remove(best)
            started.append(best.group)
            self._serve(best)
            self.moved_s[(best.user, best.processors)] = now
        return started

    def _serve(self, job: Job) -> None:
        """Decay by one start, exactly as the paper-like formula of SPEC D4 says."""
        self.served[job.user] = self.served.get(job.user, 0.0) + 1.0
        self.gave = True
        self.served_processors += job.processors
        decay = 2.0 ** (-1.0 / self.settings.service_half_life)
        for user in self.served:
            self.served[user] *= decay
        self.served_processors *= decay

    def settle(self) -> None:
        """Re-prioritise as the default mode does at every event after service was given."""
        if self.settings.priority_mode == "default" and self.gave:
            self.prioritise()

    # --- priorities ------------------------------------------------------------------------------------

    def prioritise(self) -> None:
        """Pr of every job, one by one, from N = q T / (Q t)."""
        self.gave = False
        total = sum(j.processors for j in self.jobs)
        jobs_of = Counter(j.user for j in self.jobs)
        total_quota = sum(self.settings.quota_of(user) for user in jobs_of)
        served = sum(self.served.values())
        k = max(1.0, min(self.settings.slots, self.settings.service_half_life / 200))
        a = served / (served + k) if self.settings.priority_mode == "default" and served else 0.0
        for job in self.jobs:
            allowed = self.settings.quota_of(job.user) * total / (total_quota * job.processors)
            n = float(jobs_of[job.user])
            if a:
                n = total * ((1 - a) * n / total + a * self.served.get(job.user, 0.0) / self.served_processors)
            job.base = (allowed - n) / allowed if n <= allowed else (allowed - n) / n
        self._demote()

    def _demote(self) -> None:
        """Whatever stands beyond a threshold, counted in order of submission, by user and by site of origin."""
        users: Counter[str] = Counter()
        sites: Counter[str] = Counter()
        by_user, by_site = self.settings.job_threshold, self.settings.site_job_threshold
        for job in sorted(self.jobs, key=lambda j: (j.submitted_s, j.processors, j.group, j.number)):
            users[job.user] += 1
            sites[job.origin] += 1
            beyond_user, beyond_site = 0 < by_user < users[job.user], 0 < by_site < sites[job.origin]
            job.demoted = beyond_user or beyond_site

    def effective(self, job: Job, now: float) -> float:
        threshold_s = self.settings.time_threshold_s
        since_s = job.submitted_s
        if self.settings.priority_mode == "default":
            since_s = max(since_s, self.moved_s.get((job.user, job.processors), 0.0))
        steps = int(max(0.0, now - since_s) // threshold_s) if threshold_s else 0
        value = job.base + 0.25 * steps + job.offset - (0.5 if job.demoted else 0.0)
        # Beyond twelve digits two ways to compute one number differ.
        return round(max(-1.0, min(1.0, value)), 11)

    def _place(self, job: Job, now: float) -> tuple[float, bool, float, int, str, int]:
        return (
            -self.effective(job, now),
            not job.bound,
            job.submitted_s,
            job.processors,
            job.group,
            job.number,
        )


class NaiveColumns:
    """The same, a column per figure and still a row per job: quick enough for a million. No thresholds, no ageing."""

    def __init__(self, settings: Settings, users: list[str], room: int) -> None:
        self.settings = settings
        self.names: list[str] = []
        self.quota = np.array([settings.quota_of(u) for u in users])
        self.served = np.zeros(len(users))
        self.served_processors = 0.0
        self.size = 0
        self.waits = np.zeros(room, dtype=bool)
        self.base = np.zeros(room)
        self.submitted_s = np.zeros(room)
        self.user, self.processors, self.group = (np.zeros(room, dtype=np.int64) for _ in range(3))

    def add(self, name: str, user: int, processors: int, jobs: int, submitted_s: float) -> None:
        rows = slice(self.size, self.size + jobs)
        self.user[rows], self.processors[rows], self.submitted_s[rows] = user, processors, submitted_s
        self.group[rows], self.waits[rows] = len(self.names), True
        self.names.append(name)
        self.size += jobs

    def prioritise(self) -> None:
        """Pr of every job."""
        here = slice(0, self.size)
        user, processors = self.user[here], self.processors[here]
        n_of = np.bincount(user[self.waits[here]], minlength=len(self.quota)).astype(float)
        total = float(processors[self.waits[here]].sum())
        total_quota = float(self.quota[n_of > 0].sum())
        served = float(self.served.sum())
        if self.settings.priority_mode == "default" and served:
            k = max(1.0, min(self.settings.slots, self.settings.service_half_life / 200))
            a = served / (served + k)
            n_of = (1 - a) * n_of + a * total * self.served / self.served_processors
        allowed = self.quota[user] * total / (total_quota * processors)
        n = n_of[user]
        self.base[here] = np.round((allowed - n) / np.maximum(allowed, n), 11)

    def start(self, count: int) -> list[str]:
        started: list[str] = []
        for _ in range(count):
            if self.settings.priority_mode == "default":
                self.prioritise()
            here = slice(0, self.size)
            value = np.where(self.waits[here], self.base[here], -2.0)
            tied = np.flatnonzero(value == value.max())
            best = tied[np.lexsort((self.group[tied], self.processors[tied], self.submitted_s[tied]))[0]]
            self.waits[best] = False
            started.append(self.names[self.group[best]])
            self.served[self.user[best]] += 1.0
            self.served_processors += float(self.processors[best])
            decay = 2.0 ** (-1.0 / self.settings.service_half_life)
            self.served *= decay
            self.served_processors *= decay
        return started
