"""The groups a workflow has at a node, and how their jobs end: asked by group, however many jobs they have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from diana.client.results import rows
from diana.errors import DianaError

if TYPE_CHECKING:
    from diana.client import Client
    from diana.wire.client_messages import GroupStatus

ASKED_AT_ONCE = 1_000
"""Groups per call."""
UNDECIDED = frozenset({"UNKNOWN", "INTERRUPTED", "LEASE_OVER"})
"""Outcomes after which diana tries again or holds the job: no end yet."""


class End(msgspec.Struct, frozen=True):
    """How one job ended. `outcome` is DONE, FAILED, TIMED_OUT, ...; `site` is empty where it ran nowhere."""

    job: str
    outcome: str
    site: str = ""
    exit_code: int = 0
    error: str = ""

    @property
    def done(self) -> bool:
        return self.outcome == "DONE"

    def why(self) -> str:
        """One line for a person."""
        words = {
            "FAILED": f"ended with exit code {self.exit_code}",
            "TIMED_OUT": "ran longer than its limit (resource runtime) and was ended",
            "CANCELLED": "was cancelled",
            "NOT_STARTED": "could not be started",
            "STAGING_FAILED": "got not what it reads",
            "HELD": "ended in a way nobody knows and is given up",
        }
        said = words.get(self.outcome, f"ended: {self.outcome}")
        where = f" at {self.site}" if self.site else ""
        return f"diana job {self.job}{where} {said}" + (f": {self.error}" if self.error else "")


class _Group:
    def __init__(self, name: str, jobs: int) -> None:
        self.name = name
        self.open = set(range(jobs))
        self.after = 0
        """Chunks of results that were read."""
        self.counted = 0
        """Jobs that had ended when they were read."""
        self.said = ""


class UnderWay:
    """One thread adds and cancels, another looks. `tell` gets lines for the user."""

    def __init__(self, client: Client, tell: Callable[[str], None]) -> None:
        self._client = client
        self._tell = tell
        self._groups: dict[str, _Group] = {}
        self._lock = threading.Lock()

    def add(self, group: str, jobs: int) -> None:
        with self._lock:
            self._groups[group] = _Group(group, jobs)

    def groups(self) -> list[str]:
        with self._lock:
            return list(self._groups)

    def look(self) -> list[End]:
        """What ended since the last look, each job once. One call for all groups, and one more for each in which jobs
        ended. Raises as `Client` does; what was not told yet is told by the next look."""
        ends: list[End] = []
        names = self.groups()
        for at in range(0, len(names), ASKED_AT_ONCE):
            for status in self._client.status(names[at : at + ASKED_AT_ONCE]):
                with self._lock:
                    group = self._groups.get(status.group)
                if group is not None:
                    ends += self._ended(group, status)
        return ends

    def cancel(self) -> list[str]:
        """All that is open; the groups that were. What cannot be cancelled is told, and goes on."""
        cancelled = []
        for group in self.groups():
            try:
                self._client.cancel(group)
                cancelled.append(group)
            except DianaError as error:
                self._tell(f"{group} was not cancelled and goes on: {error}")
            with self._lock:
                self._groups.pop(group, None)
        return cancelled

    def _ended(self, group: _Group, status: GroupStatus) -> list[End]:
        self._say(group, status)
        ends: list[End] = []
        counted = status.done + status.failed + status.cancelled
        if counted != group.counted or status.final:
            # Read whole before any of it counts: a stream that breaks off is read again.
            ends = list(self._results(group))
            group.counted = counted
        if status.final:
            ends += self._given_up(group, status, {end.job for end in ends})
            with self._lock:
                self._groups.pop(group.name, None)
        for end in ends:
            group.open.discard(int(end.job.rpartition(".")[2]))
        return ends

    def _results(self, group: _Group) -> Iterator[End]:
        told: set[int] = set()
        after = group.after
        for chunk in self._client.result_chunks(group.name, after=group.after):
            for row in rows(group.name, chunk):
                if row.index in group.open and row.index not in told and row.outcome not in UNDECIDED:
                    told.add(row.index)
                    yield End(row.job, row.outcome, row.site, row.exit_code, row.error)
            after = chunk.chunk + 1
        group.after = after

    def _given_up(self, group: _Group, status: GroupStatus, told: set[str]) -> list[End]:
        """Nothing more happens to the group by itself: its other jobs were cancelled, or are held."""
        left = [job for index in sorted(group.open) if (job := f"{group.name}.{index}") not in told]
        if left and status.state == "held":
            # The workflow tries them again if it wants to; nobody is to release them beside that.
            self._client.cancel(group.name)
        return [End(job, status.state.upper(), error=status.note) for job in left]

    def _say(self, group: _Group, status: GroupStatus) -> None:
        """Where somebody has to do something, once."""
        said = status.state if status.state in ("held", "unreachable") and not status.final else ""
        if said and said != group.said:
            self._tell(f"{group.name} is {said}: {status.note or f'see diana status {group.name}'}")
        group.said = said
