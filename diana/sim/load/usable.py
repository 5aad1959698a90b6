"""The usable jobs of a log: which of them, and as what work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diana.sim.load import swf


@dataclass(frozen=True, slots=True)
class Work:
    """Usable jobs in order of submission; at the same time, in that of the file."""

    submit_s: swf.Real
    run_s: swf.Real
    processors: swf.Whole
    estimate_s: swf.Real
    """Requested time, or where none was given the run time."""

    def __len__(self) -> int:
        return len(self.submit_s)


def usable(log: swf.SwfLog, processors: int, partition: int | None = None) -> tuple[swf.Whole, dict[str, int]]:
    """SPEC section 7: usable is run > 0 and 0 < processors <= P. Rows of the log, by submission, and how many others
    were left out for which reason (the first that holds): together they are all of its jobs."""
    jobs = log.jobs
    open_ = np.ones(len(jobs), np.bool_)
    left_out: dict[str, int] = {}

    def leave_out(reason: str, which: NDArray[np.bool_]) -> None:
        nonlocal open_
        count = int((open_ & which).sum())
        if count:
            left_out[reason] = count
            open_ &= ~which

    if partition is not None:
        leave_out("other_partition", jobs.partition != partition)
    leave_out("partial_execution", jobs.partial())
    leave_out("cancelled", (jobs.status == swf.CANCELLED) & (jobs.run_s <= 0))
    leave_out("zero_run", jobs.run_s == 0)
    leave_out("unknown_run", jobs.run_s < 0)
    leave_out("no_processors", jobs.processors <= 0)
    leave_out("too_wide", jobs.processors > processors)
    leave_out("unknown_submit", jobs.submit_s < 0)
    chosen = np.flatnonzero(open_)
    return chosen[np.argsort(jobs.submit_s[chosen], kind="stable")], left_out


def choose(
    log: swf.SwfLog, processors: int, first: int | None = None, partition: int | None = None
) -> tuple[Work, dict[str, int]]:
    """The usable jobs, or the first of them by submission, and how many of the log's other jobs were left out and
    why."""
    jobs = log.jobs
    chosen, left_out = usable(log, processors, partition)
    if first is not None and len(chosen) > first:
        left_out["after_first"] = len(chosen) - first
        chosen = chosen[:first]
    run_s, requested_s = jobs.run_s[chosen], jobs.requested_s[chosen]
    work = Work(jobs.submit_s[chosen], run_s, jobs.processors[chosen], np.where(requested_s > 0, requested_s, run_s))
    return work, left_out
