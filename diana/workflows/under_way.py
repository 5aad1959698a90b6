"""The groups a workflow has at a node, and the ends of their jobs: asked by group, however many jobs they have."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from diana.client.results import rows
from diana.errors import DianaError
from diana.model.signals import signal_name

if TYPE_CHECKING:
    from diana.client import Client
    from diana.model.views.group import GroupStatus

ASKED_AT_ONCE = 1_000
"""Groups per call."""
UNDECIDED = frozenset({"unknown", "interrupted", "lease_over"})
"""Outcomes after which diana tries again or holds the job: no end yet."""


class JobEnd(msgspec.Struct, frozen=True):
    """The end of one job. `outcome` is done, failed, timed_out, ...; `site` is empty where it ran nowhere."""

    job: str
    outcome: str
    site: str = ""
    exit_code: int = 0
    error: str = ""
    signal: int = 0

    @property
    def done(self) -> bool:
        return self.outcome == "done"

    def why(self) -> str:
        """The end's reason in one line for a person."""
        by = f"was ended by {signal_name(self.signal)}" if self.signal else ""
        words = {
            "failed": by or f"ended with exit code {self.exit_code}",
            "timed_out": "ran longer than its limit (resource runtime) and was ended",
            "cancelled": "was cancelled",
            "not_started": "could not be started",
            "staging_failed": "got not what it reads",
            "held": "ended in a way nobody knows and is given up",
        }
        said = words.get(self.outcome, f"ended: {self.outcome}")
        where = f" at {self.site}" if self.site else ""
        return f"diana job {self.job}{where} {said}" + (f": {self.error}" if self.error else "")


class _Group:
    def __init__(self, name: str, jobs: int) -> None:
        self.name = name
        self.jobs = jobs
        self.open = set(range(jobs))
        self.after = 0
        """Chunks of results that need not be read again."""
        self.doubts: dict[int, str] = {}
        """Why nobody knows how a job ended, as long as that is so."""
        self.said = ""


class UnderWay:
    """One thread adds and cancels, another looks. `tell` gets lines for the user."""

    def __init__(self, client: Client, tell: Callable[[str], None]) -> None:
        self._client = client
        self._tell = tell
        self._groups: dict[str, _Group] = {}
        self._ends: dict[str, JobEnd] = {}
        self._lock = threading.Lock()

    def add(self, group: str, jobs: int) -> None:
        with self._lock:
            self._groups[group] = _Group(group, jobs)

    def groups(self) -> list[str]:
        with self._lock:
            return list(self._groups)

    def look(self) -> int:
        """Count the jobs that ended since the last look; `take` hands out each. One call for all groups, and one more
        for each in which jobs ended. Raises as `Client` does; ends read until then count, the next look reads the rest.
        """
        before = len(self._ends)
        names = self.groups()
        for at in range(0, len(names), ASKED_AT_ONCE):
            for status in self._client.status(names[at : at + ASKED_AT_ONCE]):
                with self._lock:
                    group = self._groups.get(status.group)
                if group is not None:
                    self._read(group, status)
        return len(self._ends) - before

    def take(self, job: str) -> JobEnd | None:
        """The end of the job, handed out once; None: it goes on, or its end was handed out already."""
        return self._ends.pop(job, None)

    def cancel(self) -> list[str]:
        """Cancel all that is open; returns the groups cancelled. One that cannot be cancelled is told, and goes on."""
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

    def _read(self, group: _Group, status: GroupStatus) -> None:
        self._say(group, status)
        if status.final or status.done + status.failed + status.cancelled > group.jobs - len(group.open):
            for chunk in self._client.result_chunks(group.name, after=group.after):
                for row in rows(group.name, chunk):
                    if row.outcome in UNDECIDED:
                        group.doubts[row.index] = row.error
                    else:
                        end = JobEnd(row.job, row.outcome, row.site, row.exit_code, row.error, row.signal)
                        self._end(group, row.index, end)
                # The last one comes again, since a chunk may be told in several parts.
                group.after = chunk.chunk
        if status.final:
            self._give_up(group, status)
            with self._lock:
                self._groups.pop(group.name, None)

    def _end(self, group: _Group, index: int, end: JobEnd) -> None:
        if index in group.open:
            group.open.remove(index)
            self._ends[end.job] = end

    def _give_up(self, group: _Group, status: GroupStatus) -> None:
        """End the open jobs of a group to which nothing more happens by itself: they were cancelled before they began,
        or are held since nobody knows how they ended, and start again only if somebody orders it."""
        for index in sorted(group.open):
            error = group.doubts.get(index, status.note)
            self._end(group, index, JobEnd(f"{group.name}.{index}", status.state, error=error))

    def _say(self, group: _Group, status: GroupStatus) -> None:
        """Tell once that somebody has to do something about the group."""
        said = status.state if status.state in ("held", "unreachable") and not status.final else ""
        if said and said != group.said:
            self._tell(f"{group.name} is {said}: {status.note or f'see diana status {group.name}'}")
        group.said = said
