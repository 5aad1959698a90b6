"""Invariants of a hand-over (`handover.py`)."""

from __future__ import annotations

from tests.protocol.handover_state import State


def nothing_is_started_twice(s: State) -> str | None:
    """Promise 3, I1."""
    twice = [i for i, starts in enumerate(s.starts) if starts > 1]
    return f"{twice[0]} was started twice" if twice else None


def one_result_is_accepted(s: State) -> str | None:
    """Promise 5, I2."""
    twice = [i for i, times in enumerate(s.accepted) if times > 1]
    return f"two results of {twice[0]} were accepted" if twice else None


def one_site_may_run_it(s: State) -> str | None:
    """I4: at most one site holds a job runnable or running."""
    for i, job in enumerate(s.jobs):
        holders = [row.site for row in s.rows if row.phase == "runnable" and row.runs[i].phase in ("waiting", "given")]
        if len(holders) + (job.state in ("local", "started here")) > 1:
            return f"{i} is {job.state} and runnable at {holders}"
    return None


HARMS = (nothing_is_started_twice, one_result_is_accepted, one_site_may_run_it)


def all_ended_or_held(s: State) -> bool:
    """Promise 4: done, or visibly held because nobody knows whether it ran."""
    return all(job.state in ("done", "held") for job in s.jobs)
