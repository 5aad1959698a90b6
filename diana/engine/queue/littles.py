"""The site's queue as Little's law sees it: the times jobs came, so that each wait is measured and not inferred."""

from __future__ import annotations

from collections import deque

from diana.engine.journal.state import CustodyKey
from diana.model.views.queue import LittlesCheck
from diana.policy.migration.congestion import ArrivalWindow
from diana.policy.queueing.littles import LittlesFigures, QueueFlow


class Line:
    """The jobs in the queue, by when they came. Volatile: jobs that wait already when the node starts count as arriving
    then."""

    def __init__(self, now: float, window_s: float) -> None:
        """`window_s`: length of the window in which arrivals and starts are counted for congestion."""
        self.flow = QueueFlow(now)
        self.rates = ArrivalWindow(now, window_s)
        self._window_s = window_s
        self._lots: dict[CustodyKey, deque[tuple[float, int]]] = {}
        """Per custody (since, jobs), first come first: jobs arrive many at a time, so lots are few."""
        self._jobs: dict[CustodyKey, int] = {}

    def configure(self, window_s: float, now: float) -> None:
        if window_s != self._window_s:
            self._window_s = window_s
            self.rates = ArrivalWindow(now, window_s)

    def note(self, key: CustodyKey, jobs: int, now: float) -> int:
        """Note how many of the custody's jobs are queued now; return how many more than before."""
        had = self._jobs.get(key, 0)
        if jobs > had:
            self._lots.setdefault(key, deque()).append((now, jobs - had))
            self.flow.arrive(jobs - had, now)
        elif jobs < had:
            self.flow.leave(had - jobs, self._take(key, had - jobs, now), now)
        if jobs:
            self._jobs[key] = jobs
        elif had:
            del self._jobs[key], self._lots[key]
        return jobs - had

    def _take(self, key: CustodyKey, jobs: int, now: float) -> float:
        """Take out the first `jobs` of the custody; return their waits, together."""
        lots, waited_s = self._lots[key], 0.0
        while jobs:
            since_s, size = lots.popleft()
            taken = min(size, jobs)
            if taken < size:
                lots.appendleft((since_s, size - taken))
            waited_s += taken * (now - since_s)
            jobs -= taken
        return waited_s


def check(figures: LittlesFigures) -> LittlesCheck:
    return LittlesCheck(
        window_s=figures.window_s,
        mean_queued=figures.mean_queued,
        arrivals_per_s=figures.arrivals_per_s,
        mean_wait_s=figures.mean_wait_s,
        deviation=figures.deviation,
        arrived=figures.arrived,
        left=figures.left,
    )


def counters(figures: LittlesFigures) -> dict[str, int]:
    """Return the figures as counters, in thousandths."""
    return {
        "queue_mean_jobs_milli": round(1000 * figures.mean_queued),
        "queue_arrivals_per_s_milli": round(1000 * figures.arrivals_per_s),
        "queue_mean_wait_ms": round(1000 * figures.mean_wait_s),
        "queue_littles_deviation_milli": round(1000 * figures.deviation),
    }
