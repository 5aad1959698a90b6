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
    """Exited non-zero, or by a signal of its own (`exit_code` = 128 + `signal`)."""
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
    CHECKPOINTED = 11
    """Saved its state and stopped when it was asked to: it has no result, and goes on from there as a new attempt."""
    MADE_WAY = 12
    """Ended by its site for a gang, as its group says it may be: it has no result, and runs again as a new attempt."""
    UNRESTORED = 13
    """Not started: a file of the checkpoint it was to go on from is not there as it was saved. It has no result, and is
    placed anew without that checkpoint."""


OUT_OF_MEMORY = "OUT_OF_MEMORY"
"""Name of a failure for too much memory, where outcomes have names. In facts it is FAILED, as every release reads it,
and its error says so."""
_TOO_MUCH = ": out of memory: it used "


def out_of_memory(job: str, used_bytes: int, limit_bytes: int, where: str = "") -> str:
    """Return the error of a job that was ended since it used more memory than it may. `used_bytes` 0: nobody knows how
    much that was; `limit_bytes` 0: its group names no memory, and had what its site gives such jobs."""
    used = _mib(used_bytes) if used_bytes else "more than it may"
    mend, of_it = "--memory 2x", "gives such jobs twice as much"
    if not limit_bytes:
        mend, of_it = "--memory 8G", "gives such jobs so much"
    limit = f"memory is {_mib(limit_bytes)}" if limit_bytes else "and its group names no memory"
    told = f"{job}{where}{_TOO_MUCH}{used} with its children, {limit}"
    return f"{told}; diana retry {mend} {job.partition('.')[0]} {of_it}"


def out_of_scratch(job: str, had_bytes: int, limit_bytes: int) -> str:
    """Return the error of a job that was ended since it took more room of the disk than it asked for."""
    told = f"{job}: out of scratch: it wrote {_mib(had_bytes)}, and its scratch is {_mib(limit_bytes)}"
    return f"{told}; submit it with a larger scratch"


def too_many_processes(job: str, had: int, most: int) -> str:
    """Return the error of a job that was ended since it had more processes than it may."""
    told = f"{job}: too many processes: it had {had:,} at once, and a job may have {most:,} here"
    return f"{told}; start fewer, or ask the site's operator for a larger max_processes"


def was_out_of_memory(outcome: int, error: str) -> bool:
    return outcome == Outcome.FAILED and _TOO_MUCH in error


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB" if size_bytes >= 10 << 20 else f"{size_bytes / (1 << 20):.1f} MiB"


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
    signals: list[int] = []
    """Signal that ended each job's process, by its wait status; 0: none, or nobody knows. Empty: of all of them."""


MOST_SECONDS = 1e11
"""Three thousand years, beyond which no honest clock counts; sums and logarithms of what is within stay finite."""


def impossible(facts: Facts) -> str:
    """Return why no machine can have measured that; empty: one can."""
    for column in (facts.started_s, facts.ended_s, facts.cpu_s):
        # No comparison holds of what is not a number.
        if not all(-MOST_SECONDS <= second <= MOST_SECONDS for second in column):
            return "times that no clock shows"
    return ""


class FactsKey(msgspec.Struct, frozen=True, order=True):
    """Names one chunk of facts. `batch` counts from 0 within (subgroup, epoch) at the executing site."""

    group: GroupId
    subgroup: SubgroupId
    epoch: int
    batch: int
