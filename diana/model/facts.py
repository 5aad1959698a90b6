"""Facts of finished attempts, in columns: one value per batch of jobs, never one per job."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from diana.model.ids import GroupId, SiteId, SubgroupId

MOST_ATTEMPTS = 1_000_000
"""Most attempts of one job; a peer that claims more is not believed."""


class Outcome(IntEnum):
    """Outcome of an attempt. Values are wire format: never renumbered."""

    DONE = 1
    """Exited 0 and every collected output was there."""
    FAILED = 2
    """Exited non-zero, or by a signal of its own (`exit_code` = 128 + signal)."""
    TIMED_OUT = 3
    CANCELLED = 4
    NOT_STARTED = 5
    """The command could not be started (not found, not executable)."""
    STAGING_FAILED = 6
    """An input could not be brought, or an output is missing or could not be kept."""
    UNKNOWN = 7
    """Same machine identity, process gone, no exit recorded (PROMISES 1.6)."""
    INTERRUPTED = 8
    """The machine's identity changed while it ran (PROMISES 1.6)."""
    LEASE_OVER = 9
    """Ended, or never started, because the lease it was to run under was over; its site tries again under another."""
    UNBEGUN = 10
    """Called back before it began, and it never will: it waits again at its site and is told to nobody else."""


class OutputFile(msgspec.Struct, frozen=True, array_like=True):
    index: int
    name: str
    """Path relative to the group's output folder, as rendered from `Outputs.collect`."""
    size_bytes: int
    sha256: str


class JobError(msgspec.Struct, frozen=True, array_like=True):
    index: int
    text: str
    """One line: the error, its place, the mend."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of equal length; entry k of each belongs to job `indices[k]`.

    Times are site-time seconds of `site`, log positions are within that site's segments.
    """

    site: SiteId
    indices: list[int]
    attempts: list[int]
    outcomes: list[int]
    exit_codes: list[int]
    started_s: list[float]
    ended_s: list[float]
    cpu_s: list[float]
    max_rss_bytes: list[int]
    log_segments: list[str]
    """Empty text: no log kept here (own files, or never started)."""
    log_offsets: list[int]
    log_lengths: list[int]
    log_truncated: list[bool]
    outputs: list[OutputFile] = []
    errors: list[JobError] = []


class FactsKey(msgspec.Struct, frozen=True, order=True):
    """Names one chunk of facts. `batch` counts from 0 within (subgroup, epoch) at the executing site."""

    group: GroupId
    subgroup: SubgroupId
    epoch: int
    batch: int
