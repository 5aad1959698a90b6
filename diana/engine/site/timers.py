"""Named deadlines. The driver arms one timer, at the earliest of them."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import Literal, NamedTuple

from diana.model.ids import GroupId, SiteId, SubgroupId


class SiteTimer(NamedTuple):
    """Deadline of the site as a whole."""

    kind: Literal[
        "availability",
        "claims",
        "contacts",
        "gangs",
        "housekeeping",
        "links",
        "maintenance",
        "news",
        "summary",
        "turns",
        "unheard",
    ]


class PeerTimer(NamedTuple):
    """Deadline about a peer."""

    kind: Literal["disown", "lease", "lease-over", "met", "renew"]
    peer: SiteId


class GroupTimer(NamedTuple):
    """Deadline about a group."""

    kind: Literal["guard", "place"]
    group: GroupId


class GangTimer(NamedTuple):
    """Deadline about a gang, at its origin."""

    kind: Literal["claims-over", "save-over"]
    group: GroupId
    gang: int


class MachineTimer(NamedTuple):
    """Deadline about a machine of this site."""

    kind: Literal["machine"]
    machine: str


class RequestTimer(NamedTuple):
    """Deadline of something that was asked, by the number under which it was."""

    kind: Literal["query", "quotes", "room"]
    number: int


class PartTimer(NamedTuple):
    """Deadline about a placement, at its origin."""

    kind: Literal["claim", "commit", "control", "offer", "offer-over"]
    part: SubgroupId


def part_timers(part: SubgroupId) -> tuple[PartTimer, ...]:
    """Return all timers that a placement may have."""
    return (
        PartTimer("offer", part),
        PartTimer("offer-over", part),
        PartTimer("claim", part),
        PartTimer("commit", part),
        PartTimer("control", part),
    )


class CustodyTimer(NamedTuple):
    """Deadline about a custody."""

    kind: Literal["claim", "claim-waits", "closing", "flush", "make-way", "prepared", "save"]
    subgroup: SubgroupId
    epoch: int


class BatchTimer(NamedTuple):
    """Deadline about a batch of results or a unit of inputs, by its number."""

    kind: Literal["gather", "result", "stage"]
    subgroup: SubgroupId
    epoch: int
    number: int


TimerKey = (
    SiteTimer | PeerTimer | GroupTimer | GangTimer | MachineTimer | RequestTimer | PartTimer | CustodyTimer | BatchTimer
)
"""Name of a deadline: the kind of what is due, then whom it concerns."""


def _rank(key: TimerKey) -> tuple[str, ...]:
    """Return the key's rank among equal times: that of its values as text, numbers too, so that runs of the simulator
    stay those of earlier releases."""
    return tuple(map(str, key))


class Timers:
    """Deadlines, at most one per key; setting a key again moves it."""

    def __init__(self) -> None:
        self._due: dict[TimerKey, float] = {}
        self._heap: list[tuple[float, tuple[str, ...], TimerKey]] = []
        self._popped: dict[TimerKey, None] = {}
        """Keys that are due at once, and not handled yet."""

    def set(self, key: TimerKey, due_s: float) -> None:
        self._popped.pop(key, None)
        self._due[key] = due_s
        heappush(self._heap, (due_s, _rank(key), key))
        if len(self._heap) > 64 + 4 * len(self._due):
            self._heap = [(due, _rank(k), k) for k, due in self._due.items()]
            heapify(self._heap)

    def sooner(self, key: TimerKey, due_s: float) -> None:
        """Set a key that has no earlier deadline."""
        if due_s < self._due.get(key, inf):
            self.set(key, due_s)

    def cancel(self, key: TimerKey) -> None:
        self._due.pop(key, None)
        self._popped.pop(key, None)

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._due

    def earliest(self) -> float | None:
        heap = self._heap
        while heap and self._due.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now: float) -> Iterator[TimerKey]:
        """Yield the keys due by `now`, earliest first, ties by `_rank`, and drop them. A key that is cancelled or set
        again while those before it are handled is left out: many are due at once after a node stood still."""
        while (at := self.earliest()) is not None and at <= now:
            key = heappop(self._heap)[2]
            del self._due[key]
            self._popped[key] = None
        while self._popped:
            key = next(iter(self._popped))
            del self._popped[key]
            yield key
