"""Entries and queues for tests: what waits, who is next, where it stands."""

from __future__ import annotations

from diana.engine.journal.state import CustodyKey, Service
from diana.engine.queue.entries import QueueEntry
from diana.engine.queue.queues import QueuePlace, Queues
from diana.model.ids import SiteId, SubgroupId
from diana.model.job.resources import ResourceRequest
from diana.model.settings import Settings


def key(name: str) -> CustodyKey:
    return (SubgroupId(name), 1)


def entry(
    name: str,
    user: str = "",
    jobs: int = 1,
    processors: int = 1,
    submitted_s: float = 0.0,
    *,
    ready: int = -1,
    origin: str = "home",
    bound: bool = False,
    offset: float = 0.0,
) -> QueueEntry:
    """`user` empty: the name's first letter."""
    return QueueEntry(
        key(name),
        user=user or name[0],
        origin=SiteId(origin),
        kind=ResourceRequest(processors),
        submitted_s=submitted_s,
        jobs=jobs,
        ready=jobs if ready < 0 else ready,
        offset=offset,
        bound=bound,
    )


class Waiting:
    """The queues of one site and what serves them. Times are plain arguments, as everywhere below the drivers."""

    def __init__(self, *entries: QueueEntry, **settings: object) -> None:
        values: dict[str, object] = {"priority_mode": "paper", "time_threshold_s": 0, "job_threshold": 0, "slots": 4}
        self.settings = Settings(**{**values, **settings})  # type: ignore[arg-type]
        self.service = Service()
        self.queues = Queues(self.settings, self.service)
        self.arrive(*entries)

    def arrive(self, *entries: QueueEntry, now: float = 0.0) -> None:
        """One after the other, each re-prioritising all."""
        for one in entries:
            self.queues.put(one, now)
            self.queues.settle(now)

    def start(self, jobs: int, now: float = 0.0) -> list[str]:
        """Start so many, best first; the name of each one's entry."""
        started: list[str] = []
        for one, offered in self.queues.order(now):
            count = min(offered, jobs - len(started))
            started += [one.key[0]] * count
            self.service.give(one.user, count, one.processors, self.settings.service_half_life)
            self.queues.took(one.key, count)
            if len(started) == jobs:
                break
        return started

    def order(self, now: float = 0.0) -> list[str]:
        """Entries in the order they would start in, by name."""
        return [one.key[0] for one, _ in self.queues.order(now)]

    def standing(self, now: float = 0.0) -> dict[str, list[QueuePlace]]:
        self.queues.settle(now)
        out: dict[str, list[QueuePlace]] = {}
        for one in self.queues.standing():
            out.setdefault(one.entry.key[0], []).append(one)
        return out

    def at(self, name: str, now: float = 0.0) -> QueuePlace:
        """Standing of the entry, which is in one place."""
        [one] = self.standing(now)[name]
        return one

    def priorities(self, now: float = 0.0) -> dict[str, float]:
        return {name: some[0].priority for name, some in self.standing(now).items()}
