"""The entries of a site's queues: one per custody, lined up per user and per origin for the job thresholds."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from diana.engine.journal.state import CustodyKey
from diana.engine.machines.requirements import Kind
from diana.model.ids import SiteId
from diana.policy.queueing.heavy import NO_LOAD, GroupLoad

Order = tuple[float, int, CustodyKey]
"""Submission, or arrival here if a move brought it; then fewest processors (section VII: shortest first on arrival),
then the id."""


WHOLE = 1000
"""Thousandths in which queued jobs are counted, so that sums stay exact."""


class QueueEntry:
    """One custody's queued jobs. `plain` of them are within the job thresholds, the rest is demoted."""

    __slots__ = (
        "allowed",
        "bound",
        "claims",
        "counted",
        "due_s",
        "heavy",
        "jobs",
        "key",
        "kind",
        "load",
        "offset",
        "order",
        "origin",
        "plain",
        "processors",
        "ready",
        "reserved",
        "rows",
        "run_s",
        "steps",
        "submitted_s",
        "unit",
        "user",
    )

    def __init__(
        self,
        key: CustodyKey,
        *,
        user: str,
        origin: SiteId,
        kind: Kind,
        submitted_s: float,
        jobs: int,
        ready: int,
        offset: float = 0.0,
        bound: bool = False,
        run_s: float = 0.0,
        unit: int = WHOLE,
        reserved: bool = False,
        arrived_s: float = 0.0,
        load: GroupLoad = NO_LOAD,
        claims: bool = False,
    ) -> None:
        self.key = key
        self.user = user
        self.origin = origin
        self.kind = kind
        """Request of each of its jobs."""
        self.processors = kind.processors
        self.submitted_s = submitted_s
        self.order: Order = (max(submitted_s, arrived_s), kind.processors, key)
        self.offset = offset
        self.claims = claims
        """True for components of a gang: what they are given is held until the gang is let go, or taken back."""
        self.bound = bound
        self.run_s = run_s
        """Expected run time of one job."""
        self.counted: tuple[tuple[int, float, float], ...] = ()
        """(row, jobs, processor-seconds) with which it is counted in the class table's sums."""
        self.steps = 0
        """Whole time thresholds that it has waited."""
        self.due_s = 0.0
        """Site time at which the next threshold will have passed."""
        self.jobs = jobs
        """Queued jobs: neither started nor held."""
        self.ready = ready
        """Queued jobs whose inputs are here."""
        self.allowed = [jobs, jobs]
        """[jobs within the job threshold of its user, jobs within that of its origin]."""
        self.plain = jobs
        """Jobs within both thresholds; the rest is demoted."""
        self.load = load
        """Declared work and bytes of its whole group."""
        self.heavy = False
        """True if its load exceeds a threshold of this site: the queues say so when it enters."""
        self.reserved = reserved
        """True if its jobs are bound to no site: nothing of it starts, and its origin is called when its turn comes."""
        self.unit = unit
        """Thousandths of a job that each of its jobs counts: a reservation stands at several sites, and counts by its
        share at each."""
        self.rows: tuple[int, int] = (-1, -1)
        """Rows of the class table where the plain and the demoted jobs stand; -1: nowhere."""

    def counted_s(self, jobs: int) -> float:
        """Return the processor-seconds that so many of its jobs count."""
        return jobs * self.unit / WHOLE * self.processors * self.run_s


class UserLines:
    """Entries in order of submission, one line per user (or origin), with the number of jobs in each. Reservations
    come last: else those of a large group would push what the group has here beyond the limit, stand before it, and
    be called although it waits."""

    def __init__(self) -> None:
        self._lines: dict[str, list[tuple[tuple[bool, Order], QueueEntry]]] = {}
        self._jobs: dict[str, int] = {}
        self._changed: set[str] = set()
        self._above: set[str] = set()
        """Names that had more jobs than the limit when last looked at."""

    def jobs(self, name: str) -> float:
        return exact(self._jobs.get(name, 0))

    def add(self, name: str, entry: QueueEntry) -> None:
        """Add the entry to the line; its jobs are counted by `change`."""
        insort(self._lines.setdefault(name, []), ((entry.reserved, entry.order), entry))

    def remove(self, name: str, entry: QueueEntry) -> None:
        line = self._lines[name]
        # Shorter than what it is compared with, so that it stands right before its own entry.
        del line[bisect_left(line, ((entry.reserved, entry.order),))]
        if not line:
            del self._lines[name]

    def change(self, name: str, by: int) -> None:
        """Count so many thousandths of a job more."""
        self._jobs[name] = self._jobs.get(name, 0) + by
        if not self._jobs[name]:
            del self._jobs[name]
        self._changed.add(name)

    def to_limit(self, limit: int) -> Iterator[list[QueueEntry]]:
        """UserLines whose jobs changed since the last call, by name, if they are above the limit or were then."""
        names, self._changed = sorted(self._changed), set()
        for name in names:
            above = self.jobs(name) > limit
            if (above or name in self._above) and name in self._lines:
                yield [entry for _, entry in self._lines[name]]
            (self._above.add if above else self._above.discard)(name)


def exact(thousandths: int) -> float:
    """Return a count in jobs; a whole number where it is one."""
    whole, rest = divmod(thousandths, WHOLE)
    return thousandths / WHOLE if rest else whole
